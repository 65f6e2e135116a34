//! What memory runs have.

use std::str::FromStr;

use super::policy::Policy;

/// How a comparison runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// On this machine as it is, side by side with other crates' maps; or, where there are policies, our trees on its
    /// own near and far memory.
    #[default]
    Native,
    /// Our trees on this machine under placement policies, with far memory that is emulated.
    Emulated,
    /// Our trees in virtual time, under placement policies.
    Virtual,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Native, Self::Emulated, Self::Virtual];

    /// The word in arguments and results. Emulated runs have an older one, and are known by both.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "paced",
            Self::Virtual => "virtual",
        }
    }

    /// Whether trees can be placed by this policy.
    #[must_use]
    pub const fn has(self, policy: Policy) -> bool {
        match policy {
            Policy::Pages { .. } => matches!(self, Self::Virtual),
            Policy::NumaBalancing { .. } | Policy::Damon => matches!(self, Self::Native),
            _ => true,
        }
    }

    /// Why trees cannot be placed by this policy, if so.
    pub(crate) fn refusal(self, policy: Policy) -> Option<String> {
        if self.has(policy) {
            return None;
        }
        let has = match policy.kernel() {
            Some(_) => {
                "has the kernel move pages between this machine's nodes, which only mode native does"
            }
            None => "moves pages of the model, which only mode virtual has",
        };
        let (mode, names) = (self.name(), Policy::names_of(|policy| self.has(policy)));
        Some(format!("{policy} {has}; in mode {mode} there are: {names}"))
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = match text {
            "emulated" => Self::Emulated.name(),
            text => text,
        };
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("there are: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_says_what_it_cannot_place_by_and_what_it_can() {
        for policy in Policy::ALL {
            let has = Mode::ALL.map(|mode| mode.has(policy));
            assert!(has.contains(&true), "{policy}");
            assert_eq!(
                has.iter().all(|has| *has),
                !policy.moves_pages(),
                "{policy}"
            );
        }
        let refusal = |mode: Mode, policy: &str| mode.refusal(policy.parse().unwrap());
        let native = refusal(Mode::Native, "tpp-4k").unwrap();
        assert!(
            native.contains("only mode virtual") && native.contains("damon-4k"),
            "{native}"
        );
        let modelled = refusal(Mode::Virtual, "numa-balancing-4k").unwrap();
        assert!(modelled.contains("only mode native"), "{modelled}");
        assert!(
            !modelled.contains("damon") && modelled.contains("memtis-4k"),
            "{modelled}"
        );
        assert_eq!(refusal(Mode::Emulated, "sidle"), None);
    }
}
