//! The probe on small memory. What other processes on the machine can disturb is asserted in one
//! direction only: they make everything slower, never faster.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::probe::{ProbeError, ProbeOptions, Verdict, probe_memory, probe_tier};
use nearfar_memory::{Budgets, MemorySystem, TierId, TierKind, TierSpec};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::Profile;

fn options(threads: u32) -> ProbeOptions {
    ProbeOptions {
        region_bytes: 8 << 20,
        threads: NonZeroU32::new(threads).unwrap(),
        runs: NonZeroU32::new(3).unwrap(),
        // A core may be two chunks ahead, which must be little of a run.
        run_time: Duration::from_millis(40),
        seed: 1,
    }
}

fn emulated(profile: &str, threads: u32) -> Arc<EmulatedTier> {
    let profile = Profile::builtin(profile).unwrap();
    EmulatedTier::new(&profile, BandwidthShare::Threads(threads)).unwrap()
}

#[test]
fn memory_is_measured() {
    let mut memory = vec![0_u8; 8 << 20];
    let result = probe_memory(&mut memory, None, &options(2)).unwrap();
    assert_eq!(
        (result.kind, result.threads, result.region_bytes),
        (Kind::Measured, 2, 8 << 20)
    );
    assert!(result.checks.is_none());
    assert!(
        (0.5..1e6).contains(&result.idle_latency_ns.median),
        "{result:?}"
    );
    assert!(result.read_bandwidth_bytes_per_s.median > 1e6, "{result:?}");
    assert!(
        result.write_bandwidth_bytes_per_s.median > 1e6,
        "{result:?}"
    );
    assert_eq!(result.idle_latency_ns.runs, 3);
}

#[test]
fn an_emulated_tier_is_never_faster_than_its_profile() {
    let mut memory = vec![0_u8; 8 << 20];
    let tier = emulated("cxl-fpga", 2);
    let result = probe_memory(&mut memory, Some(&tier), &options(2)).unwrap();
    assert_eq!(result.kind, Kind::Modelled);
    let checks = result.checks.unwrap();
    assert_eq!(checks.idle_latency_ns.profile, 580.0);
    assert!(
        checks.idle_latency_ns.found.median >= 580.0 * 0.95,
        "{checks:?}"
    );
    for check in [
        checks.read_bandwidth_bytes_per_s,
        checks.write_bandwidth_bytes_per_s,
    ] {
        assert!(check.found.median <= check.profile * 1.05, "{check:?}");
    }
    let share = 14.6e9 * 2.0 / 56.0;
    assert!((checks.read_bandwidth_bytes_per_s.profile / share - 1.0).abs() < 1e-9);
}

#[test]
fn a_profile_beyond_the_machine_is_said_to_be() {
    let mut memory = vec![0_u8; 4 << 20];
    let mut profile = Profile::builtin("remote-socket").unwrap();
    profile.far.read_bandwidth_bytes_per_s = nearfar_topology::Known::Value(9e13);
    profile.far.core_outstanding_sequential = 1e6;
    let tier = EmulatedTier::new(&profile, BandwidthShare::WholeDevice).unwrap();
    let result = probe_memory(&mut memory, Some(&tier), &options(1)).unwrap();
    let verdict = result.checks.unwrap().read_bandwidth_bytes_per_s.verdict;
    assert!(
        matches!(verdict, Verdict::MachineSlower { machine, profile }
        if machine < profile && profile == 9e13),
        "{verdict:?}"
    );
}

#[test]
fn a_tier_is_probed_over_a_region() {
    let specs = vec![TierSpec::new("near", TierKind::LocalDram, [0], 64 << 20)];
    let system = MemorySystem::from_specs(specs, &Budgets::new()).unwrap();
    let result = probe_tier(&system, TierId::NEAR, None, &options(1)).unwrap();
    assert_eq!(result.region_bytes, 8 << 20);
    assert_eq!(system.usage(TierId::NEAR).used_bytes(), 0);
    let names: Vec<_> = result
        .metrics("near")
        .into_iter()
        .map(|metric| metric.metric)
        .collect();
    assert_eq!(
        names,
        [
            "idle_latency_ns",
            "read_bandwidth_bytes_per_s",
            "write_bandwidth_bytes_per_s"
        ]
    );
}

#[test]
fn too_little_memory_is_refused() {
    let error = probe_memory(&mut [0_u8; 1_000], None, &options(2)).unwrap_err();
    assert!(matches!(
        error,
        ProbeError::TooSmall {
            bytes: 1_000,
            threads: 2,
            ..
        }
    ));
    let specs = vec![TierSpec::new("near", TierKind::LocalDram, [0], 64 << 10)];
    let system = MemorySystem::from_specs(specs, &Budgets::new()).unwrap();
    let error = probe_tier(&system, TierId::NEAR, None, &options(1)).unwrap_err();
    assert!(matches!(error, ProbeError::TooSmall { .. }), "{error}");
}

#[test]
fn only_what_the_profile_says_is_published_of_an_emulated_tier() {
    let mut memory = vec![0_u8; 1 << 20];
    let tier = emulated("cxl-fpga", 1);
    let metrics = probe_memory(&mut memory, Some(&tier), &options(1))
        .unwrap()
        .metrics("far");
    assert_eq!(metrics.len(), 9);
    let of_kind = |kind: Kind| {
        let found = metrics.iter().filter(move |metric| metric.kind == kind);
        found
            .map(|metric| metric.metric.as_str())
            .collect::<Vec<_>>()
    };
    let figures = [
        "idle_latency_ns",
        "read_bandwidth_bytes_per_s",
        "write_bandwidth_bytes_per_s",
    ];
    assert_eq!(of_kind(Kind::Measured), figures);
    assert_eq!(of_kind(Kind::Published), figures[..1]);
    let modelled = of_kind(Kind::Modelled);
    let targets = [
        "read_bandwidth_target_bytes_per_s",
        "write_bandwidth_target_bytes_per_s",
    ];
    for name in figures.iter().chain(&targets) {
        assert!(modelled.contains(name), "{name} is missing: {modelled:?}");
    }
    let runs = metrics
        .iter()
        .filter(|metric| metric.kind == Kind::Modelled && metric.spread.is_some());
    assert!(
        runs.into_iter()
            .all(|metric| metric.dimensions.contains_key("verdict"))
    );
}
