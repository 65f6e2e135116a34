//! A victim that tells a number of itself, regulated until it has its goal.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nearfar_regulate::control::{Goal, TierAware};
use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::Quota;
use nearfar_regulate::observe::{Metric, of_file};
use nearfar_regulate::regulator::{Candidate, Regulator};
use proptest::prelude::*;

use crate::machines::captured;

const PERIOD_MS: u64 = 50;
/// A quota of 16 processors.
const ALL_US: f64 = 1_600_000.0;

/// A service that has all as long as less than `knee` is granted, and falls to `bottom` beyond it. What it did since the
/// last time it writes to a file now and then.
struct Service<'a> {
    file: &'a Path,
    alone: f64,
    knee: f64,
    bottom: f64,
    /// In periods.
    every: u64,
    since: Vec<f64>,
}

impl Service<'_> {
    fn share(&self, granted: f64) -> f64 {
        1.0 - ((granted - self.knee) / 0.05).clamp(0.0, 1.0) * (1.0 - self.bottom)
    }

    fn run(&mut self, period: u64, granted: f64, noise: f64) {
        self.since.push(self.alone * (self.share(granted) + noise));
        if period.is_multiple_of(self.every) {
            let mean = self.since.iter().sum::<f64>() / self.since.len() as f64;
            self.since.clear();
            fs::write(self.file, format!("requests_per_second {mean:e}\n")).unwrap();
            let written = SystemTime::UNIX_EPOCH + Duration::from_millis(period * PERIOD_MS);
            let file = fs::OpenOptions::new().write(true).open(self.file).unwrap();
            file.set_modified(written).unwrap();
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.strip_prefix("requests_per_second ")?
        .trim()
        .parse()
        .ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn this_service_has_at_least_nine_tenths_whatever_its_unit_and_pace(
        knee in 0.1_f64..1.2,
        bottom in 0.0_f64..0.7,
        exponent in -3..10,
        every in 1_u64..8,
        is_alone_known in any::<bool>(),
        noise in proptest::collection::vec(-0.006_f64..0.006, 1_200),
    ) {
        let (folder, machine) = captured();
        let file = folder.path().join("rate");
        let mut service = Service {
            file: &file,
            alone: 10_f64.powi(exponent),
            knee,
            bottom,
            every,
            since: Vec::new(),
        };
        let mut metric = Metric::new(of_file(file.clone(), number));
        if is_alone_known {
            metric = metric.alone(service.alone).unwrap();
        }
        let goal = Goal { victim: 0.9, ..Goal::default() };
        let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
        let quota = Quota::find(&machine, "batch", 16).unwrap();
        let mut regulator = Regulator::new(
            machine.clone(),
            Box::new(metric),
            Box::new(TierAware::new(goal)),
            vec![Candidate::new("batch", Box::new(quota))],
            Some(journal),
        );
        let mut all = Vec::new();
        let mut granted = 0.0;
        for (period, noise) in (0..).zip(&noise) {
            service.run(period, granted, *noise);
            regulator.step((period * PERIOD_MS) as f64).unwrap();
            let text = machine.read("sys/fs/cgroup/batch/cpu.max").unwrap();
            let quota_us = text.split(' ').next().unwrap().parse().unwrap_or(ALL_US);
            // The aggressor comes when the service has told what it has alone.
            granted = if period < 50 { 0.0 } else { quota_us / ALL_US };
            all.push(granted);
        }
        // The last 40 of 60 seconds.
        let missed = all[400..].iter().filter(|granted| service.share(**granted) < 0.87).count();
        prop_assert!(missed <= 40, "{missed} missed, {all:?}");
        // And the aggressor keeps a good part of what the service can spare.
        let spared = (knee + 0.05 * 0.1 / (1.0 - bottom)).min(1.0);
        prop_assert!(granted >= 0.4 * spared - 0.05, "{granted} of {spared}, {all:?}");
        regulator.end().unwrap();
        prop_assert_eq!(machine.read("sys/fs/cgroup/batch/cpu.max").unwrap(), "max 100000\n");
    }
}

#[test]
fn a_service_that_ends_leaves_nothing_throttled() {
    let (folder, machine) = captured();
    let file = folder.path().join("rate");
    fs::write(&file, "requests_per_second 1\n").unwrap();
    let metric = Metric::new(of_file(file.clone(), number))
        .alone(10.0)
        .unwrap();
    let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    let quota = Quota::find(&machine, "batch", 16).unwrap();
    let mut regulator = Regulator::new(
        machine.clone(),
        Box::new(metric),
        Box::new(TierAware::new(Goal::default())),
        vec![Candidate::new("batch", Box::new(quota))],
        Some(journal),
    );
    assert!(regulator.step(0.0).unwrap().granted < 1.0);
    // It is the same number as before, which says nothing of what was changed since.
    assert_eq!(regulator.step(50.0).unwrap().changes, []);
    fs::remove_file(&file).unwrap();
    assert!(regulator.step(5_000.0).is_ok());
    let ended = regulator.step(10_500.0).unwrap_err();
    assert!(matches!(ended, RegulateError::Metric { .. }), "{ended}");
    drop(regulator);
    assert_eq!(
        machine.read("sys/fs/cgroup/batch/cpu.max").unwrap(),
        "max 100000\n"
    );
}
