//! What a run under a placement policy is asked to do.

use std::time::Duration;

use nearfar_index::placement::PlacementOptions;

use super::error::PlacedError;
use super::mode::Mode;
use super::policy::Policy;
use super::tuning::Tuning;
use crate::map::Contestant;
use crate::workload::{KeySpace, Requests, Workload};

/// What is run, in virtual time or emulated.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedOptions {
    /// Which of our trees.
    pub contestant: Contestant,
    /// Who decides where nodes lie.
    pub policy: Policy,
    /// What is asked.
    pub workload: Workload,
    /// Percent of the loaded tree's bytes that may be near, from 1 to 100.
    pub near_percent: u8,
    /// Threads that answer requests: virtual cores, or threads of this machine, which have so many
    /// cores' share of far memory's bandwidth.
    pub threads: usize,
    /// Keys looked up together; 1 looks them up singly.
    pub batch: usize,
    /// Time before figures are taken. Of virtual time, the beginning and the end are simulated; in
    /// between operations are carried out at the pace of the beginning, and placement follows them.
    /// Where the hot region moves, all of it is simulated.
    pub warm_up: Duration,
    /// Time over which they are taken.
    pub measured: Duration,
    /// Time between two moments of the series; in virtual time, also between looks of placement at the
    /// clock.
    pub slice: Duration,
    /// The hot region moves so often, by this share of the keys.
    pub shift: Option<(Duration, f64)>,
    /// Bytes of each value, from 8 on.
    pub value_bytes: usize,
    /// What of the framework is other than the policy has it.
    pub tuning: Tuning,
    /// Begins the random numbers.
    pub seed: u64,
}

impl PlacedOptions {
    /// Refuses what means nothing in this mode.
    pub(crate) fn check(&self, mode: Mode) -> Result<(), PlacedError> {
        if let Some(reason) = mode.refusal(self.policy) {
            let field = "policy";
            return Err(PlacedError::Options { field, reason });
        }
        let wrong = |field, reason: &str| {
            let reason = reason.to_owned();
            Err(PlacedError::Options { field, reason })
        };
        if !(1..=100).contains(&self.near_percent) {
            return wrong("near-share", "give a percentage from 1 to 100");
        }
        if self.batch == 0 || self.threads == 0 {
            return wrong("threads and batch", "give at least 1");
        }
        if self.slice.is_zero() || self.measured < self.slice {
            let reason = "give a time that is not longer than the measured time";
            return wrong("slice", reason);
        }
        if let Some((every, share)) = self.shift
            && (every < self.slice || !(0.0..1.0).contains(&share))
        {
            let reason = "give a time of at least a slice, and a share below 1";
            return wrong("shift", reason);
        }
        match self.tuning.wrong() {
            Some((field, reason)) => Err(PlacedError::Options { field, reason }),
            None => Ok(()),
        }
    }

    /// What the framework is to do, if it takes part. Watermarks are not those of policies that have none.
    pub(crate) fn framework(&self) -> Option<PlacementOptions> {
        let framework = self.policy.framework()?;
        let watermarks = self.tuning.watermarks;
        let tuning = Tuning {
            watermarks: watermarks.filter(|_| self.policy.has_watermarks()),
            ..self.tuning
        };
        Some(tuning.apply(framework))
    }

    /// Bytes that may be near, of a tree that has so many.
    pub(crate) fn near_bytes(&self, tree_bytes: u64) -> u64 {
        tree_bytes * u64::from(self.near_percent) / 100
    }

    /// What one of the threads asks.
    pub(crate) fn requests<S: KeySpace>(&self, keys: &S, thread: usize) -> Requests {
        let threads = (thread as u64, self.threads as u64);
        let counts = (keys.count(), keys.count());
        Requests::new(&self.workload, counts, threads, self.seed)
    }
}

#[cfg(test)]
impl PlacedOptions {
    /// Reads of an adaptive radix tree by one thread, for tests.
    pub(crate) fn of_reads(policy: Policy) -> Self {
        Self {
            contestant: Contestant::Art,
            policy,
            workload: Workload::named("ycsb-c").unwrap(),
            near_percent: 20,
            threads: 1,
            batch: 1,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs(1),
            slice: Duration::from_secs(1),
            shift: None,
            value_bytes: crate::map::WORD_BYTES,
            tuning: Tuning::default(),
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::watermarks;

    #[test]
    fn watermarks_are_chosen_for_policies_only_that_have_some() {
        let of = |policy, tuning| PlacedOptions {
            tuning,
            ..PlacedOptions::of_reads(policy)
        };
        let tuning = Tuning {
            watermarks: watermarks("50:60").ok(),
            ..Tuning::default()
        };
        let changes = |policy: Policy| {
            of(policy, tuning).framework() != of(policy, Tuning::default()).framework()
        };
        for policy in [Policy::Sidle, Policy::Fitted, Policy::Random] {
            assert!(changes(policy), "{policy}");
        }
        for policy in [Policy::Migrating, Policy::Histogram, Policy::Oracle] {
            assert!(!changes(policy), "{policy}");
        }
        let triggered = Tuning {
            trigger: Some(Duration::from_millis(7)),
            ..tuning
        };
        let framework = of(Policy::Histogram, triggered).framework().unwrap();
        assert_eq!(framework.intervals.trigger, Duration::from_millis(7));
    }
}
