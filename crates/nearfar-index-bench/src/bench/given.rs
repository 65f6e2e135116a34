//! Options as they were given, some of which belong to some runs only.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use nearfar_topology::Profile;

use super::options::{BenchOptions, KeyForm, KeySource, OptionError};
use crate::map::{Contestant, WORD_BYTES};
use crate::modelled::Sampling;
use crate::placed::{Mode, Policy, ScaleRule, Tuning};

/// The profile that is modelled where none is given.
const USUAL_PROFILE: &str = "cxl-card";

/// Options as a user gives them: what is empty or `None` is what is usual, and what belongs to other runs
/// than those asked for is refused, as it would be ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenOptions {
    /// How.
    pub mode: Mode,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// What is asked, by name.
    pub workloads: Vec<String>,
    /// A block trace to be replayed instead.
    pub trace: Option<PathBuf>,
    /// The exponents of Zipfian distributions.
    pub zipf: Vec<f64>,
    /// How many keys are loaded, or of which file.
    pub keys: Option<KeySource>,
    /// What keys are.
    pub form: KeyForm,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Numbers of threads, or of virtual cores.
    pub threads: Vec<NonZeroUsize>,
    /// Native runs of each.
    pub runs: Option<NonZeroUsize>,
    /// Operations of each thread in a native run.
    pub operations: Option<NonZeroUsize>,
    /// Keys looked up together.
    pub batch: NonZeroUsize,
    /// Placement policies.
    pub policies: Vec<Policy>,
    /// Percent of the tree's bytes that may be near.
    pub near_percent: Option<u8>,
    /// The modelled machine.
    pub profile: Option<Profile>,
    /// By what the modelled machine is made smaller.
    pub scale: Option<ScaleRule>,
    /// [`Sampling::error_share_max`] in percent.
    pub error_percent: Option<f64>,
    /// Time before figures are taken.
    pub warm_up: Option<Duration>,
    /// Time over which they are taken.
    pub measured: Option<Duration>,
    /// How often the hot region moves.
    pub shift: Option<Duration>,
    /// What of the framework is other than policies have it.
    pub tuning: Tuning,
}

impl GivenOptions {
    /// Nothing but a mode.
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            contestants: Vec::new(),
            workloads: Vec::new(),
            trace: None,
            zipf: Vec::new(),
            keys: None,
            form: KeyForm::Integers,
            value_bytes: WORD_BYTES,
            threads: Vec::new(),
            runs: None,
            operations: None,
            batch: NonZeroUsize::MIN,
            policies: Vec::new(),
            near_percent: None,
            profile: None,
            scale: None,
            error_percent: None,
            warm_up: None,
            measured: None,
            shift: None,
            tuning: Tuning {
                watermarks: None,
                trigger: None,
                cooler: None,
                maintainer: None,
            },
        }
    }

    /// All options, with what is usual for the mode where nothing was given.
    ///
    /// # Errors
    /// [`OptionError`] for the first option that the mode would ignore.
    pub fn resolve(self) -> Result<BenchOptions, OptionError> {
        self.refuse_ignored()?;
        let usual = match (self.mode, self.scale) {
            (Mode::Virtual, Some(ScaleRule::None)) => BenchOptions::unscaled(),
            (Mode::Native, _) if !self.policies.is_empty() => BenchOptions::on_own_tiers(),
            _ => BenchOptions::new(self.mode),
        };
        let (keys, key_file) = match self.keys {
            None => (usual.keys, None),
            Some(KeySource::Count(keys)) => (keys, None),
            Some(KeySource::File(path)) => (usual.keys, Some(path)),
        };
        let share = self.error_percent.map(|percent| percent / 100.0);
        Ok(BenchOptions {
            contestants: or_usual(self.contestants, usual.contestants),
            workloads: or_usual(self.workloads, usual.workloads),
            trace: self.trace,
            zipf: self.zipf,
            keys,
            key_file,
            form: self.form,
            value_bytes: self.value_bytes,
            threads: or_usual(self.threads, usual.threads),
            runs: self.runs.unwrap_or(usual.runs),
            operations: self.operations.unwrap_or(usual.operations),
            batch: self.batch,
            policies: or_usual(self.policies, usual.policies),
            near_percent: self.near_percent.unwrap_or(usual.near_percent),
            profile: match self.mode {
                Mode::Native => None,
                Mode::Emulated | Mode::Virtual => self
                    .profile
                    .or_else(|| Profile::builtin(USUAL_PROFILE).ok()),
            },
            scale: self.scale.unwrap_or(usual.scale),
            sampling: Sampling {
                error_share_max: share.unwrap_or(usual.sampling.error_share_max),
                ..usual.sampling
            },
            warm_up: self.warm_up.unwrap_or(usual.warm_up),
            measured: self.measured.unwrap_or(usual.measured),
            shift: self.shift,
            tuning: self.tuning,
            ..usual
        })
    }

    /// As [`Self::resolve`] for runs on this machine's own tiers, and the same runs in virtual time on the profile, with
    /// nothing made smaller.
    ///
    /// # Errors
    /// [`OptionError`]: as there, no policies, no profile, or a policy that only one of them has.
    pub fn resolve_with_model(mut self) -> Result<[BenchOptions; 2], OptionError> {
        let wrong = |field, reason: &str| {
            let reason = reason.to_owned();
            Err(OptionError { field, reason })
        };
        if self.mode != Mode::Native || self.policies.is_empty() {
            let reason =
                "runs on this machine's own tiers are compared: give policies, and mode native";
            return wrong("compare-model", reason);
        }
        let Some(profile) = self.profile.take() else {
            return wrong("compare-model", "give the profile that is the model");
        };
        let mut refusals = self.policies.iter();
        if let Some(reason) = refusals.find_map(|policy| Mode::Virtual.refusal(*policy)) {
            return wrong("policy", &reason);
        }
        let error_share = self.error_percent.take().map(|percent| percent / 100.0);
        let own = self.resolve()?;
        let sampling = BenchOptions::unscaled().sampling;
        let modelled = BenchOptions {
            mode: Mode::Virtual,
            profile: Some(profile),
            scale: ScaleRule::None,
            sampling: Sampling {
                error_share_max: error_share.unwrap_or(sampling.error_share_max),
                ..sampling
            },
            ..own.clone()
        };
        Ok([own, modelled])
    }

    /// Refuses the first option that belongs to other runs.
    fn refuse_ignored(&self) -> Result<(), OptionError> {
        let is_modelled = self.mode != Mode::Native;
        let is_placed = is_modelled || !self.policies.is_empty();
        let is_virtual = self.mode == Mode::Virtual;
        let is_sampled = is_virtual && self.scale == Some(ScaleRule::None);
        let compares = (
            !is_placed,
            "maps side by side, which mode native has without policies",
        );
        let places = (
            is_placed,
            "placement, which mode native has with policies only",
        );
        let models = (
            is_modelled,
            "a modelled machine, which modes emulated and virtual have",
        );
        let scales = (is_virtual, "a smaller machine, which mode virtual has");
        let samples = (
            is_sampled,
            "windows, which mode virtual with scale none has",
        );
        let given = [
            ("runs", self.runs.is_some(), compares),
            ("operations", self.operations.is_some(), compares),
            ("near-share", self.near_percent.is_some(), places),
            ("warm-up", self.warm_up.is_some(), places),
            ("measured", self.measured.is_some(), places),
            ("shift", self.shift.is_some(), places),
            ("watermarks", self.tuning.watermarks.is_some(), places),
            ("trigger-ms", self.tuning.trigger.is_some(), places),
            ("cooler-ms", self.tuning.cooler.is_some(), places),
            ("maintainer-ms", self.tuning.maintainer.is_some(), places),
            ("profile", self.profile.is_some(), models),
            ("scale", self.scale.is_some(), scales),
            ("error", self.error_percent.is_some(), samples),
        ];
        let ignored = given
            .into_iter()
            .find(|(_, is_given, (belongs, _))| *is_given && !belongs);
        if let Some((field, _, (_, of))) = ignored {
            let reason = format!("it is of {of}: leave it out");
            return Err(OptionError { field, reason });
        }
        self.refuse_idle()
    }

    /// Refuses what none of the policies has: a share, watermarks, or workers.
    fn refuse_idle(&self) -> Result<(), OptionError> {
        let mut needed = vec![(
            "near-share",
            self.near_percent.is_some(),
            Policy::has_share as fn(Policy) -> bool,
            "keeps to a share",
        )];
        let watermarks = self.tuning.watermarks.is_some();
        needed.push(("watermarks", watermarks, Policy::has_watermarks, "has some"));
        for (name, every) in self.tuning.intervals() {
            needed.push((name, every.is_some(), Policy::has_workers, "has workers"));
        }
        let is_of_none = |has: fn(Policy) -> bool| {
            !self.policies.is_empty() && !self.policies.iter().any(|policy| has(*policy))
        };
        let idle = needed
            .into_iter()
            .find(|(_, is_given, has, _)| *is_given && is_of_none(*has));
        let Some((field, _, _, what)) = idle else {
            return Ok(());
        };
        let reason = format!("none of the policies {what}: leave it out");
        Err(OptionError { field, reason })
    }
}

/// What was given, or what is usual.
fn or_usual<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::watermarks;

    /// Sets an option that was not given before.
    type Give = fn(&mut GivenOptions);

    const RUNS: (&str, Give) = ("runs", |given| given.runs = Some(NonZeroUsize::MIN));
    const OPERATIONS: (&str, Give) = ("operations", |given| {
        given.operations = Some(NonZeroUsize::MIN)
    });
    const POLICY: (&str, Give) = ("policy", |given| given.policies = vec![Policy::Sidle]);
    const NEAR_SHARE: (&str, Give) = ("near-share", |given| given.near_percent = Some(20));
    const PROFILE: (&str, Give) = ("profile", |given| given.profile = usual_profile());
    const SCALE: (&str, Give) = ("scale", |given| given.scale = Some(ScaleRule::Keys));
    const ERROR: (&str, Give) = ("error", |given| given.error_percent = Some(1.0));
    const WARM_UP: (&str, Give) = ("warm-up", |given| given.warm_up = SECOND);
    const MEASURED: (&str, Give) = ("measured", |given| given.measured = SECOND);
    const WATERMARKS: (&str, Give) = ("watermarks", |given| {
        given.tuning.watermarks = watermarks("50:60").ok()
    });
    const TRIGGER: (&str, Give) = ("trigger-ms", |given| given.tuning.trigger = SECOND);
    const SHIFT: (&str, Give) = ("shift", |given| given.shift = SECOND);

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    fn usual_profile() -> Option<Profile> {
        Profile::builtin(USUAL_PROFILE).ok()
    }

    #[test]
    fn what_a_mode_would_ignore_is_refused_by_its_name_even_where_it_is_what_is_usual() {
        let timed = [NEAR_SHARE, WARM_UP, MEASURED, SHIFT, WATERMARKS, TRIGGER];
        for (mode, ignored) in [
            (
                Mode::Native,
                [&timed[..], &[PROFILE, SCALE, ERROR]].concat(),
            ),
            (Mode::Emulated, vec![RUNS, OPERATIONS, SCALE, ERROR]),
            (Mode::Virtual, vec![RUNS, OPERATIONS, ERROR]),
        ] {
            for (name, give) in ignored {
                let mut given = GivenOptions::new(mode);
                give(&mut given);
                let error = given.resolve().expect_err(name);
                assert_eq!(error.field, name, "{}", mode.name());
                assert!(error.reason.ends_with("leave it out"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_compared_with_the_model_is_the_same_but_for_the_machine() {
        let given = || GivenOptions {
            policies: vec![Policy::Interleave],
            profile: usual_profile(),
            error_percent: Some(2.0),
            ..GivenOptions::new(Mode::Native)
        };
        let [own, modelled] = given().resolve_with_model().expect("both");
        own.check().expect("natively");
        modelled.check().expect("in virtual time");
        assert_eq!((own.mode, &own.profile), (Mode::Native, &None));
        assert_eq!(
            modelled.sampled().map(|one| one.error_share_max),
            Some(0.02)
        );
        assert_eq!((own.keys, own.measured), (modelled.keys, modelled.measured));
        type Refused = (&'static str, fn(&mut GivenOptions));
        let refused: [Refused; 5] = [
            ("compare-model", |given| given.mode = Mode::Emulated),
            ("compare-model", |given| given.policies.clear()),
            ("compare-model", |given| given.profile = None),
            ("policy", |given| given.policies.push(Policy::Damon)),
            ("runs", |given| given.runs = Some(NonZeroUsize::MIN)),
        ];
        for (field, change) in refused {
            let mut given = given();
            change(&mut given);
            let error = given.resolve_with_model().expect_err(field);
            assert_eq!(error.field, field, "{error}");
        }
    }

    #[test]
    fn what_belongs_to_a_mode_is_taken_and_the_rest_is_usual() {
        for (mode, taken) in [
            (Mode::Native, vec![RUNS, OPERATIONS]),
            (
                Mode::Emulated,
                vec![POLICY, NEAR_SHARE, PROFILE, WARM_UP, MEASURED],
            ),
            (
                Mode::Virtual,
                vec![POLICY, NEAR_SHARE, PROFILE, SCALE, WARM_UP, MEASURED],
            ),
        ] {
            let mut usual = BenchOptions::new(mode);
            usual.profile = usual_profile().filter(|_| mode != Mode::Native);
            assert_eq!(GivenOptions::new(mode).resolve(), Ok(usual));
            let mut given = GivenOptions::new(mode);
            for (_, give) in taken {
                give(&mut given);
            }
            given
                .resolve()
                .expect("all of them belong")
                .check()
                .expect("and are right");
        }
        for (name, give) in [RUNS, OPERATIONS, PROFILE, SCALE, ERROR] {
            let mut given = GivenOptions::new(Mode::Native);
            (POLICY.1)(&mut given);
            give(&mut given);
            let error = given.resolve().expect_err(name);
            assert_eq!(error.field, name, "on own tiers");
        }
        let mut own_tiers = GivenOptions::new(Mode::Native);
        for (_, give) in [POLICY, NEAR_SHARE, WARM_UP, MEASURED] {
            give(&mut own_tiers);
        }
        let options = own_tiers.resolve().expect("natively with a policy");
        assert!(options.is_placed() && options.profile.is_none());
        options.check().expect("nothing is modelled");
        let everything_far = GivenOptions {
            policies: vec![Policy::AllFar],
            near_percent: Some(20),
            ..GivenOptions::new(Mode::Virtual)
        };
        let error = everything_far.resolve().expect_err("nothing is shared");
        assert_eq!(error.field, "near-share");
        for policy in [Policy::Interleave, Policy::Oracle] {
            for (name, give) in [WATERMARKS, TRIGGER] {
                let mut given = GivenOptions::new(Mode::Virtual);
                given.policies = vec![policy];
                give(&mut given);
                assert_eq!(given.clone().resolve().expect_err(name).field, name);
                given.policies.push(Policy::Fitted);
                given.resolve().expect("one of them has workers");
            }
        }
        let unscaled = GivenOptions {
            scale: Some(ScaleRule::None),
            error_percent: Some(2.0),
            ..GivenOptions::new(Mode::Virtual)
        };
        let options = unscaled.resolve().expect("windows have an error");
        assert_eq!(options.sampling.error_share_max, 0.02);
        assert_eq!(options.keys, BenchOptions::unscaled().keys);
    }
}
