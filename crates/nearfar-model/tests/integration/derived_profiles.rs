//! Profiles whose simulator parameters were derived from a few published numbers give these numbers back.

use nearfar_model::simulation::{Access, Group, Machine, MachineError, Span, TierName, run_beside};
use nearfar_topology::Profile;

const SPAN: Span = Span {
    warm_ns: 100_000.0,
    measured_ns: 100_000.0,
};

fn machine(profile: &str) -> Machine {
    Machine::new(&Profile::builtin(profile).unwrap()).unwrap()
}

/// GB/s of each group.
fn rates(profile: &str, groups: &[Group]) -> Vec<f64> {
    run_beside(&machine(profile), groups, SPAN).unwrap()
}

/// GB/s of threads that each do the same.
fn rate(profile: &str, tier: TierName, access: Access, threads: usize) -> f64 {
    rates(profile, &[Group::new(tier, access, threads)])[0]
}

/// Nanoseconds of a random read that waits for the one before it, as a benchmark with a timer sees it.
fn latency_ns(profile: &str, tier: TierName) -> f64 {
    let timer_ns = machine(profile).core.timer_ns;
    8.0 / rates(profile, &[Group::chase(tier)])[0] + timer_ns
}

fn assert_within(found: f64, published: f64, percent: f64) {
    let error = (found / published - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{found} instead of {published}");
}

#[test]
fn the_memory_module_has_its_published_traffic() {
    let profile = "cxl-commercial";
    let far = |access, threads| Group::new(TierName::Far, access, threads);
    // ahn-2024, section 5.1.2: reads alone, from a few threads on.
    for threads in [8, 32, 56] {
        let loads = rate(profile, TierName::Far, Access::Load, threads);
        assert_within(loads, 19.0, 3.0);
    }
    // And mixed traffic. A stored line is read and written, so that these threads write two in five.
    let mixed = rates(profile, &[far(Access::Load, 4), far(Access::Store, 12)]);
    let traffic = mixed[0] + 2.0 * mixed[1];
    assert_within(mixed[1] / traffic, 0.4, 3.0);
    assert_within(traffic, 27.0, 4.0);
    let near_ns = latency_ns(profile, TierName::Near);
    assert_within(latency_ns(profile, TierName::Far) / near_ns, 2.3, 8.0);
}

#[test]
fn the_fpga_card_is_so_much_slower_than_the_module() {
    // ahn-2024, section 5.3: 1.3 times the bandwidth per device, and section 5.1.2: 1.7 times lower latency.
    let loads = |profile| rate(profile, TierName::Far, Access::Load, 32);
    assert_within(loads("cxl-commercial") / loads("cxl-fpga"), 1.3, 3.0);
    let far_ns = |profile| latency_ns(profile, TierName::Far);
    assert_within(far_ns("cxl-fpga") / far_ns("cxl-commercial"), 1.7, 4.0);
    let near_ns = latency_ns("cxl-fpga", TierName::Near);
    assert_within(far_ns("cxl-fpga") / near_ns, 4.0, 10.0);
}

#[test]
fn the_other_socket_is_that_of_the_server_with_the_blades() {
    // weisgut-2025, figure 5: medians of 216 and 145 ns.
    let more = |profile, tier| latency_ns(profile, tier) - latency_ns(profile, TierName::Near);
    assert_within(more("remote-socket", TierName::Far), 71.0, 3.0);
    for access in [Access::Load, Access::Store] {
        let far = rate("remote-socket", TierName::Far, access, 24);
        let remote = rate("cxl-blades-4", TierName::Remote, access, 24);
        assert_within(far, remote, 1.0);
        let [far, remote] = [("geyer-upi", TierName::Far), ("cxl-fpga", TierName::Remote)]
            .map(|(profile, tier)| rate(profile, tier, access, 32));
        assert_within(far, remote, 1.0);
    }
    // The links' rate is an upper bound.
    let loads = rate("remote-socket", TierName::Far, Access::Load, 24);
    assert!((90.0..120.0).contains(&loads), "{loads}");
}

#[test]
fn machines_that_sources_do_not_determine_say_why() {
    for (profile, word) in [("geyer-upi2", "Skylake"), ("geyer-rdma", "network")] {
        let error = Machine::new(&Profile::builtin(profile).unwrap()).unwrap_err();
        assert!(
            matches!(&error, MachineError::Unavailable { what: "simulation", reason, .. } if reason.contains(word)),
            "{error}"
        );
    }
}
