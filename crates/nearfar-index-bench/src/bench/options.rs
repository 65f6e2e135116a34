//! What is compared, and what of it makes no sense.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nearfar_index::BlockValue;
use nearfar_topology::Profile;

use crate::map::{Contestant, OpenError, WORD_BYTES};
use crate::modelled::{PAGES_REFUSED, SHIFT_REFUSED, Sampling, too_short};
use crate::placed::{Mode, Policy, ScaleRule, Tuning};
use crate::workload::{Bytes, Distribution, Workload};

/// What keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyForm {
    /// Random integers of 8 bytes.
    #[default]
    Integers,
    /// Random byte strings of so many bytes.
    Bytes(usize),
    /// Strings shaped as addresses of web pages.
    Urls,
}

impl FromStr for KeyForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "integers" => Ok(Self::Integers),
            "urls" => Ok(Self::Urls),
            length => length.parse().map(Self::Bytes).map_err(|_| {
                format!(
                    "there are: integers, urls, and a number of bytes from 8 to {}",
                    Bytes::LENGTH_MAX
                )
            }),
        }
    }
}

impl std::fmt::Display for KeyForm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integers => formatter.write_str("integers"),
            Self::Bytes(length) => write!(formatter, "{length}"),
            Self::Urls => formatter.write_str("urls"),
        }
    }
}

/// Where keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// So many are made.
    Count(u64),
    /// Lines of a file.
    File(PathBuf),
}

impl FromStr for KeySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("file:") {
            Some("") => Err("give the path of a file: file:PATH".to_owned()),
            Some(path) => Ok(Self::File(path.into())),
            None => text
                .parse()
                .map(Self::Count)
                .map_err(|_| "give a number of keys, or file:PATH for those of a file".to_owned()),
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// How.
    pub mode: Mode,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// What is asked, by name.
    pub workloads: Vec<String>,
    /// A block trace to be replayed too.
    pub trace: Option<PathBuf>,
    /// The exponents of Zipfian distributions; those of the workloads by default.
    pub zipf: Vec<f64>,
    /// Loaded keys, where they are made.
    pub keys: u64,
    /// A file of keys instead.
    pub key_file: Option<PathBuf>,
    /// What keys are that are made.
    pub form: KeyForm,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Numbers of threads, or of virtual cores.
    pub threads: Vec<NonZeroUsize>,
    /// Native runs of each.
    pub runs: NonZeroUsize,
    /// Operations of each thread in a native run.
    pub operations: NonZeroUsize,
    /// Keys looked up together.
    pub batch: NonZeroUsize,
    /// Placement policies; natively none for a comparison of maps.
    pub policies: Vec<Policy>,
    /// Percent of the tree's bytes that may be near under a policy.
    pub near_percent: u8,
    /// The modelled machine; natively none.
    pub profile: Option<Profile>,
    /// By what the modelled machine is made smaller in virtual time.
    pub scale: ScaleRule,
    /// How windows are chosen that are simulated, where nothing is made smaller.
    pub sampling: Sampling,
    /// Time before figures are taken.
    pub warm_up: Duration,
    /// Time over which they are taken.
    pub measured: Duration,
    /// Time between two moments of the series.
    pub slice: Duration,
    /// How often the hot region moves, by its own width; where maps are compared, it does not.
    pub shift: Option<Duration>,
    /// What of the framework is other than policies have it.
    pub tuning: Tuning,
    /// Begins the random numbers.
    pub seed: u64,
}

const fn count(number: usize) -> NonZeroUsize {
    match NonZeroUsize::new(number) {
        Some(number) => number,
        None => NonZeroUsize::MIN,
    }
}

impl BenchOptions {
    /// What is usual for a mode: natively ten million keys, five runs, one and two threads, all
    /// contestants of this build; emulated, our trees with five million keys and one thread for eight seconds; in
    /// virtual time our trees with 200,000 keys on 28 cores under the baseline and
    /// the framework, with a fifth of the tree near (zhao-2026, section 6.1).
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let milliseconds = Duration::from_millis;
        let (warm_up, measured, slice) = match mode {
            Mode::Emulated => (milliseconds(5000), milliseconds(3000), milliseconds(100)),
            // Where maps are compared, they are not used.
            Mode::Native | Mode::Virtual => (
                milliseconds(20),
                milliseconds(10),
                Duration::from_micros(100),
            ),
        };
        let ours = Contestant::ALL.into_iter().filter(|one| one.is_ours());
        Self {
            mode,
            contestants: match mode {
                Mode::Native => Contestant::built().collect(),
                Mode::Emulated | Mode::Virtual => ours.collect(),
            },
            workloads: vec![String::from("ycsb-c")],
            trace: None,
            zipf: Vec::new(),
            keys: match mode {
                Mode::Native => 10_000_000,
                Mode::Emulated => 5_000_000,
                Mode::Virtual => 200_000,
            },
            key_file: None,
            form: KeyForm::Integers,
            value_bytes: WORD_BYTES,
            threads: match mode {
                Mode::Native => vec![count(1), count(2)],
                Mode::Emulated => vec![count(1)],
                Mode::Virtual => vec![count(28)],
            },
            runs: count(5),
            operations: count(2_000_000),
            batch: count(1),
            policies: match mode {
                Mode::Native => Vec::new(),
                Mode::Emulated | Mode::Virtual => {
                    vec![Policy::AllNear, Policy::Interleave, Policy::Sidle]
                }
            },
            near_percent: 20,
            profile: None,
            scale: ScaleRule::default(),
            sampling: Sampling::default(),
            warm_up,
            measured,
            slice,
            shift: None,
            tuning: Tuning::default(),
            seed: 1,
        }
    }

    /// What is usual where our trees are placed on this machine's own tiers: what is usual where they are emulated.
    #[must_use]
    pub fn on_own_tiers() -> Self {
        Self {
            mode: Mode::Native,
            ..Self::new(Mode::Emulated)
        }
    }

    /// What keys are, in a word for results.
    #[must_use]
    pub fn key_form_name(&self) -> String {
        match self.key_file {
            Some(_) => "file".to_owned(),
            None => self.form.to_string(),
        }
    }

    /// Whether our trees run under policies, and not all maps side by side.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.mode != Mode::Native || !self.policies.is_empty()
    }

    /// What is usual in virtual time where nothing is made smaller: as many keys as are about 5 GB of our trees,
    /// and seconds in which placement does what it does on the modelled machine.
    #[must_use]
    pub fn unscaled() -> Self {
        Self {
            keys: 180_000_000,
            policies: vec![Policy::Interleave, Policy::Sidle, Policy::Oracle],
            scale: ScaleRule::None,
            warm_up: Duration::from_secs(20),
            measured: Duration::from_secs(2),
            slice: Duration::from_millis(100),
            ..Self::new(Mode::Virtual)
        }
    }

    /// How windows are chosen that are simulated; none where all of the measured time is.
    #[must_use]
    pub fn sampled(&self) -> Option<Sampling> {
        let is_sampled = self.mode == Mode::Virtual && self.scale == ScaleRule::None;
        is_sampled.then_some(self.sampling)
    }

    /// Checks what does not depend on a machine.
    ///
    /// # Errors
    /// [`OptionError`] for the first option that means nothing.
    pub fn check(&self) -> Result<(), OptionError> {
        let wrong = |field, reason: String| Err(OptionError { field, reason });
        if self.contestants.is_empty() {
            return wrong("tree", "give at least one".to_owned());
        }
        if self.workloads.is_empty() && self.trace.is_none() {
            return wrong("workload", "give at least one, or a trace".to_owned());
        }
        for name in &self.workloads {
            if let Err(error) = Workload::named(name) {
                return wrong("workload", error.to_string());
            }
        }
        if !(100..=1 << 32).contains(&self.keys) {
            return wrong(
                "keys",
                format!("{}: give 100 to {}", self.keys, 1_u64 << 32),
            );
        }
        if let KeyForm::Bytes(length) = self.form
            && !(8..=Bytes::LENGTH_MAX).contains(&length)
        {
            let max = Bytes::LENGTH_MAX;
            return wrong("key-form", format!("{length} bytes: give 8 to {max}"));
        }
        let value_bytes_max = BlockValue::BYTES_MAX;
        if !(WORD_BYTES..=value_bytes_max).contains(&self.value_bytes) {
            let given = self.value_bytes;
            let reason = format!("{given}: give {WORD_BYTES} to {value_bytes_max}");
            return wrong("value-bytes", reason);
        }
        if let Some(zipf) = self.zipf.iter().find(|zipf| !(0.0..=4.0).contains(*zipf)) {
            return wrong("zipf", format!("{zipf}: give 0 to 4"));
        }
        self.check_distributions()?;
        if self.threads.is_empty() {
            return wrong("threads", "give at least one number".to_owned());
        }
        if self.sampled().is_none() && self.sampling != Sampling::default() {
            let reason = "figures have one in mode virtual with scale none only: leave it out";
            return wrong("error", reason.to_owned());
        }
        if self.trace.is_some() && self.form != KeyForm::Integers {
            return wrong(
                "trace",
                "its keys are integers: leave key-form out".to_owned(),
            );
        }
        if self.key_file.is_some() && (self.trace.is_some() || self.form != KeyForm::Integers) {
            let reason = "keys are those of the file: leave trace and key-form out";
            return wrong("keys", reason.to_owned());
        }
        match self.mode {
            Mode::Native if self.scale == ScaleRule::None => {
                let reason = "mode native makes no machine smaller: leave it out";
                wrong("scale", reason.to_owned())
            }
            _ if self.is_placed() => self.check_placed(),
            _ => self.check_built(),
        }
    }

    /// Refuses what is of distributions that none of the workloads has.
    fn check_distributions(&self) -> Result<(), OptionError> {
        let workloads = self.workloads.iter().filter(|_| self.trace.is_none());
        let workloads = workloads.filter_map(|name| Workload::named(name).ok());
        let has = |is: fn(Distribution) -> bool| workloads.clone().any(|one| is(one.distribution));
        let wrong = |field, reason: &str| {
            let reason = format!("none of the workloads has {reason}: leave it out");
            Err(OptionError { field, reason })
        };
        let has_zipf =
            has(|one| matches!(one, Distribution::Zipf { .. } | Distribution::Latest { .. }));
        if !self.zipf.is_empty() && !has_zipf {
            return wrong("zipf", "such a distribution");
        }
        let has_region = has(|one| matches!(one, Distribution::HotRegion(_)));
        if self.shift.is_some() && !has_region {
            return wrong("shift", "a hot region");
        }
        Ok(())
    }

    /// Names the first contestant that this build leaves out.
    fn check_built(&self) -> Result<(), OptionError> {
        let left_out = self.contestants.iter().find(|one| !one.is_built());
        left_out.map_or(Ok(()), |contestant| {
            let contestant = *contestant;
            Err(OptionError {
                field: "tree",
                reason: OpenError::NotBuilt { contestant }.to_string(),
            })
        })
    }

    fn check_placed(&self) -> Result<(), OptionError> {
        let wrong = |field, reason: String| Err(OptionError { field, reason });
        if let Some(other) = self.contestants.iter().find(|one| !one.is_ours()) {
            let reason = format!(
                "{other} is another crate's, whose nodes cannot be moved and which tells no model of its accesses: \
                 compare it natively, without policies"
            );
            return wrong("tree", reason);
        }
        if self.policies.is_empty() {
            return wrong("policy", "give at least one".to_owned());
        }
        let refused = self
            .policies
            .iter()
            .find_map(|policy| self.mode.refusal(*policy));
        if let Some(reason) = refused {
            return wrong("policy", reason);
        }
        if !(1..=100).contains(&self.near_percent) {
            let given = self.near_percent;
            return wrong("near-share", format!("{given} %: give 1 to 100"));
        }
        if self.profile.is_none() && self.mode != Mode::Native {
            let mode = self.mode.name();
            return wrong("profile", format!("mode {mode} needs a machine: give one"));
        }
        if self.slice.is_zero() || self.measured < self.slice {
            let slice_ms = self.slice.as_secs_f64() * 1e3;
            return wrong("measured", format!("give at least {slice_ms} ms"));
        }
        if self.scale == ScaleRule::None && self.mode != Mode::Virtual {
            let mode = self.mode.name();
            let reason = format!("mode {mode} makes no machine smaller: leave it out");
            return wrong("scale", reason);
        }
        if let Some((field, reason)) = self.tuning.wrong() {
            return wrong(field, reason);
        }
        if self.sampled().is_some() {
            self.check_sampled()?;
        }
        if self.shift.is_some_and(|every| every < self.slice) {
            let slice_ms = self.slice.as_secs_f64() * 1e3;
            return wrong("shift", format!("give at least {slice_ms} ms"));
        }
        Ok(())
    }
}

impl BenchOptions {
    /// Refuses what cannot be run without a scale.
    fn check_sampled(&self) -> Result<(), OptionError> {
        let wrong = |field, reason: String| Err(OptionError { field, reason });
        if let Some(policy) = self.policies.iter().find(|policy| policy.moves_pages()) {
            return wrong(
                "policy",
                format!("{policy} with scale none: {PAGES_REFUSED}"),
            );
        }
        if self.shift.is_some() {
            return wrong("shift", format!("with scale none: {SHIFT_REFUSED}"));
        }
        if let Some(reason) = too_short(self.measured, self.slice) {
            return wrong("measured", format!("with scale none: {reason}"));
        }
        let percent = self.sampling.error_share_max * 100.0;
        if !(percent > 0.0 && percent < 100.0) {
            return wrong(
                "error",
                format!("{percent} %: give more than 0 and less than 100"),
            );
        }
        Ok(())
    }
}

/// An option that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct OptionError {
    /// The option.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Rival;

    #[test]
    fn what_is_usual_is_right_and_what_is_not_is_named() {
        assert_eq!("emulated".parse(), Ok(Mode::Emulated));
        let native = BenchOptions::new(Mode::Native);
        assert_eq!(native.check(), Ok(()));
        let mut virtual_time = BenchOptions::new(Mode::Virtual);
        assert_eq!(virtual_time.check().unwrap_err().field, "profile");
        virtual_time.profile = Some(Profile::builtin("cxl-card").unwrap());
        assert_eq!(virtual_time.check(), Ok(()));
        virtual_time
            .contestants
            .push(Contestant::Rival(Rival::Congee));
        assert_eq!(virtual_time.check().unwrap_err().field, "tree");
        let mut emulated = BenchOptions {
            profile: Some(Profile::builtin("cxl-card").unwrap()),
            ..BenchOptions::new(Mode::Emulated)
        };
        assert_eq!(emulated.check(), Ok(()));
        emulated.policies.push("memtis-2m".parse().unwrap());
        let error = emulated.check().unwrap_err();
        assert!(
            error.field == "policy" && error.reason.contains("oracle"),
            "{error}"
        );
        emulated.policies.pop();
        emulated.contestants.push(Contestant::Rival(Rival::Scc));
        assert_eq!(emulated.check().unwrap_err().field, "tree");
        let bad = |change: fn(&mut BenchOptions)| {
            let mut options = BenchOptions::new(Mode::Native);
            change(&mut options);
            options.check().unwrap_err().field
        };
        assert_eq!(bad(|options| options.keys = 0), "keys");
        assert_eq!(bad(|options| options.zipf = vec![f64::NAN]), "zipf");
        assert_eq!(bad(|options| options.form = KeyForm::Bytes(3)), "key-form");
        assert_eq!(
            bad(|options| options.workloads = vec!["x".into()]),
            "workload"
        );
        assert_eq!(bad(|options| options.threads.clear()), "threads");
        let second = Some(Duration::from_secs(1));
        assert_eq!(
            BenchOptions {
                shift: second,
                ..emulated
            }
            .check()
            .unwrap_err()
            .field,
            "shift"
        );
        let hot = |options: &mut BenchOptions| {
            options.workloads = vec!["hotspot-insert".into()];
            options.zipf = vec![0.5];
        };
        assert_eq!(bad(hot), "zipf");
        assert_eq!(bad(|options| options.value_bytes = 7), "value-bytes");
        assert_eq!(bad(|options| options.value_bytes = 1 << 30), "value-bytes");
    }

    #[test]
    fn keys_are_a_number_or_a_file() {
        assert_eq!("200".parse(), Ok(KeySource::Count(200)));
        let file = "file:/tmp/my keys.txt".parse();
        assert_eq!(file, Ok(KeySource::File("/tmp/my keys.txt".into())));
        for text in ["file:", "keys.txt", "-1", ""] {
            let error = text.parse::<KeySource>().unwrap_err();
            assert!(error.contains("file:PATH"), "{error}");
        }
        let of_urls = BenchOptions {
            key_file: Some("/tmp/keys".into()),
            form: KeyForm::Urls,
            ..BenchOptions::new(Mode::Native)
        };
        assert_eq!(of_urls.check().unwrap_err().field, "keys");
    }

    #[test]
    fn runs_without_a_scale_are_in_virtual_time_and_of_what_can_be_followed() {
        let scale = ScaleRule::None;
        let measured = BenchOptions {
            scale,
            ..BenchOptions::new(Mode::Native)
        };
        assert_eq!(measured.check().unwrap_err().field, "scale");
        let emulated = BenchOptions {
            scale,
            profile: Some(Profile::builtin("cxl-card").unwrap()),
            ..BenchOptions::new(Mode::Emulated)
        };
        assert_eq!(emulated.check().unwrap_err().field, "scale");
        let unscaled = BenchOptions {
            profile: Some(Profile::builtin("cxl-card").unwrap()),
            ..BenchOptions::unscaled()
        };
        assert_eq!(unscaled.check(), Ok(()));
        let pages = BenchOptions {
            policies: vec!["tpp-4k".parse().unwrap()],
            ..unscaled.clone()
        };
        let error = pages.check().unwrap_err().to_string();
        assert!(
            error.starts_with("policy: tpp-4k with scale none"),
            "{error}"
        );
        let sampling = Sampling {
            error_share_max: 0.02,
            ..Sampling::default()
        };
        let scaled = BenchOptions {
            scale: ScaleRule::Keys,
            sampling,
            ..unscaled.clone()
        };
        assert_eq!(scaled.check().unwrap_err().field, "error");
        let shifted = BenchOptions {
            shift: Some(Duration::from_secs(2)),
            workloads: vec!["hotspot-read-only".to_owned()],
            ..unscaled
        };
        let error = shifted.check().unwrap_err().to_string();
        assert!(error.starts_with("shift: with scale none"), "{error}");
    }
}
