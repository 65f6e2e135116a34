//! Specifications in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_measure::Kind;
use nearfar_measure::access::{Document, Observer, Outcome, Plan, PlannedRun, Preset, execute};
use nearfar_measure::results::Metric;
use nearfar_topology::{Known, Profile};
use proptest::prelude::*;

#[derive(Default)]
struct Collector {
    outcomes: Vec<(String, Outcome)>,
    metrics: Vec<Metric>,
}

impl Observer for Collector {
    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()> {
        self.metrics.extend(outcome.metrics(run));
        self.outcomes.push((run.id(), outcome.clone()));
        Ok(())
    }
}

fn plan_of(text: &str, lines: Option<u64>) -> Result<Plan, String> {
    let document = Document::parse("test.toml", text).map_err(|error| error.to_string())?;
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    Plan::simulated(&document, &profile, lines).map_err(|error| error.to_string())
}

fn run(text: &str) -> Collector {
    run_lines(text, 10_000)
}

fn run_lines(text: &str, lines: u64) -> Collector {
    let plan = plan_of(text, Some(lines)).unwrap();
    let mut collector = Collector::default();
    execute(&plan, &AtomicBool::new(false), &mut collector).unwrap();
    collector
}

/// Bytes per second of a task of the only run, first repetition.
fn rate(text: &str, task: usize) -> f64 {
    run(text).outcomes[0].1.tasks[task].bandwidth_bytes_per_s[0]
}

fn refused(text: &str) -> String {
    plan_of(text, None).map(|_| ()).unwrap_err()
}

#[test]
fn every_operation_runs_whatever_this_machine_has() {
    let collector = run(
        "repetitions = 2\n[region.data]\nsize = \"7GiB\"\n[task.one]\naccess = 64\nthreads = 3\n\
         [matrix]\noperation = [\"read\", \"write\", \"write-nt\", \"write-movdir64b\", \"write-flush\"]\n\
         pattern = [\"sequential\", \"random\"]\nplacement = [\"near\", \"far\", \"remote\", \"far3\"]\n",
    );
    assert_eq!(collector.outcomes.len(), 40);
    for (id, outcome) in &collector.outcomes {
        let rates = &outcome.tasks[0].bandwidth_bytes_per_s;
        assert_eq!(rates.len(), 2, "{id}");
        assert!(
            rates.iter().all(|rate| *rate > 1e8 && *rate < 4e11),
            "{id}: {rates:?}"
        );
        assert!(!outcome.is_noisy() && outcome.simulated.len() == 2, "{id}");
    }
    let of_runs = collector
        .metrics
        .iter()
        .filter(|metric| metric.metric != "run_seconds");
    assert!(
        of_runs
            .into_iter()
            .all(|metric| metric.kind == Kind::Modelled)
    );
}

#[test]
fn a_copy_takes_from_the_link_of_both_its_regions() {
    let copy = |from: &str, to: &str, operation: &str| {
        rate(
            &format!(
                "repetitions = 1\n[region.from]\nsize = \"7GiB\"\nplacement = \"{from}\"\n\
                 [region.to]\nsize = \"7GiB\"\nplacement = \"{to}\"\n\
                 [task.one]\noperation = \"{operation}\"\nsource = \"from\"\nthreads = 8\n"
            ),
            0,
        )
    };
    for operation in ["copy", "copy-nt", "copy-movdir64b"] {
        let near = copy("near", "near", operation);
        for (from, to) in [("near", "far"), ("far", "near")] {
            let far = copy(from, to, operation);
            assert!(
                far > 1e8 && far < near,
                "{operation} {from} to {to}: {far} of {near}"
            );
        }
    }
}

#[test]
fn every_tier_says_what_it_moved() {
    let of = |operation: &str, placement: &str| {
        let collector = run_lines(
            &format!(
                "repetitions = 1\n[region.data]\nsize = \"7GiB\"\nplacement = \"{placement}\"\n\
                 [task.one]\noperation = \"{operation}\"\nthreads = 4\n"
            ),
            100_000,
        );
        let rate = collector.outcomes[0].1.tasks[0].bandwidth_bytes_per_s[0];
        let share = |name: &str, tier: &str| {
            let metric = collector.metrics.iter().find(|metric| {
                metric.metric == name && metric.dimensions.get("tier") == Some(&tier.into())
            });
            metric.unwrap().value.get().unwrap() / rate
        };
        ["near", "far"].map(|tier| {
            let written = share("tier_write_bytes_per_s", tier);
            (share("tier_read_bytes_per_s", tier), written)
        })
    };
    let one = 0.9..1.1;
    let [(near, near_written), far] = of("read", "near");
    assert!(one.contains(&near) && near_written == 0.0, "{near}");
    assert_eq!(far, (0.0, 0.0));
    let [near, (fetched, written)] = of("write", "far");
    assert_eq!(near, (0.0, 0.0));
    assert!(one.contains(&fetched), "lines are fetched first: {fetched}");
    assert!(one.contains(&written), "{written}");
    let [_, (fetched, written)] = of("write-nt", "far");
    assert!(fetched == 0.0 && one.contains(&written), "{written}");
}

#[test]
fn the_same_specification_gives_the_same_figures() {
    let text = "[region.data]\n[task.one]\npattern = \"random\"\nthreads = 7\nsample = 50\n";
    let figures = |collector: &Collector| -> Vec<_> {
        let figures = collector
            .metrics
            .iter()
            .filter(|one| one.metric != "run_seconds");
        figures
            .map(|one| (one.metric.clone(), one.value.clone()))
            .collect()
    };
    assert_eq!(figures(&run(text)), figures(&run(text)));
    let other = text.replacen("[region", "seed = 2\n[region", 1);
    assert_ne!(figures(&run(text)), figures(&run(&other)));
}

#[test]
fn a_volume_is_accessed_to_the_byte() {
    let text = "volume = \"1MB\"\nrepetitions = 1\nbatch = \"8KiB\"\n[region.data]\nsize = \"7GiB\"\n\
                [task.one]\naccess = 64\nthreads = 4\n";
    let plan = plan_of(text, None).unwrap();
    let mut collector = Collector::default();
    execute(&plan, &AtomicBool::new(false), &mut collector).unwrap();
    let outcome = &collector.outcomes[0].1;
    assert_eq!(outcome.simulated[0].lines, 1_000_000 / 64);
    let bytes = outcome.tasks[0].bandwidth_bytes_per_s[0] * outcome.simulated[0].elapsed_ns * 1e-9;
    // Threads that end early have a shorter time, so a higher rate.
    assert!((1e6..1.1e6).contains(&bytes), "{bytes}");
}

#[test]
fn a_run_ends_with_its_time() {
    let plan = plan_of(
        "time = \"20us\"\nrepetitions = 1\n[task.one]\nthreads = 2\n",
        None,
    )
    .unwrap();
    let mut collector = Collector::default();
    execute(&plan, &AtomicBool::new(false), &mut collector).unwrap();
    let elapsed_ns = collector.outcomes[0].1.simulated[0].elapsed_ns;
    assert!((19_900.0..20_500.0).contains(&elapsed_ns), "{elapsed_ns}");
}

#[test]
fn pages_lie_where_the_specification_says() {
    let text = |placement: &str, threads: u32| {
        format!(
            "repetitions = 1\n[region.data]\nsize = \"7GiB\"\npages = \"base\"\n\
             placement = \"{placement}\"\n[task.one]\naccess = 4096\nthreads = {threads}\n"
        )
    };
    // Threads meet at devices in waves, which a short run does not even out.
    let rate = |placement| {
        let collector = run_lines(&text(placement, 24), 200_000);
        collector.outcomes[0].1.tasks[0].bandwidth_bytes_per_s[0]
    };
    // One device serves 40 GB/s, each further one as much again (weisgut-2025, section 4.3).
    let (one, two) = (rate("far1"), rate("interleave:far1,far3"));
    assert!((35e9..41e9).contains(&one), "{one}");
    assert!((1.7..2.1).contains(&(two / one)), "{two}");
    assert!((rate("far0-1") / two - 1.0).abs() < 0.05);
    assert!((rate("weighted:far0=1,far1=1") / two - 1.0).abs() < 0.05);
    // One page in four far: the far device is no bottleneck yet.
    let (near, mixed) = (rate("near"), rate("weighted:near=3,far0=1"));
    assert!(mixed < near && mixed > 3.0 * one, "{near} {mixed}");
    assert!((rate("split:near=0%,far1") / one - 1.0).abs() < 0.05);
    assert!((rate("split:near=100%,far1") / near - 1.0).abs() < 0.05);
}

#[test]
fn small_regions_are_found_in_caches() {
    let text = |size: &str| {
        format!(
            "repetitions = 1\n[region.data]\nsize = \"{size}\"\n[task.one]\noperation = \"chase\"\n"
        )
    };
    let latency = |size| 8.0 / rate(&text(size), 0) * 1e9;
    let (l1, l2, l3, memory) = (
        latency("16KiB"),
        latency("1MiB"),
        latency("32MiB"),
        latency("8GiB"),
    );
    assert!(
        l1 < 5.0 && l2 > l1 && l2 < 10.0 && l3 > 20.0 && l3 < 50.0,
        "{l1} {l2} {l3}"
    );
    assert!(memory > 100.0, "{memory}");
}

#[test]
fn tasks_run_side_by_side_and_keep_their_limits() {
    let text = "repetitions = 1\n[region.chain]\nsize = \"1GiB\"\nplacement = \"far0\"\n\
                [region.load]\nsize = \"7GiB\"\nplacement = \"far0\"\n\
                [task.wait]\noperation = \"chase\"\nregion = \"chain\"\n\
                [task.load]\naccess = 4096\nthreads = \"rest\"\nregion = \"load\"\nbackground = true\n\
                [matrix]\n\"task.load.limit\" = [\"1GB/s\", \"20GB/s\", \"100GB/s\"]\n";
    let collector = run(text);
    let tasks = |run: usize| &collector.outcomes[run].1.tasks;
    let load = |run: usize| tasks(run)[1].bandwidth_bytes_per_s[0];
    assert!((load(0) / 1e9 - 1.0).abs() < 0.1, "{}", load(0));
    assert!((load(1) / 20e9 - 1.0).abs() < 0.1, "{}", load(1));
    assert!(load(2) < 41e9, "no more than the device gives: {}", load(2));
    let wait = |run: usize| tasks(run)[0].accesses_per_s[0];
    assert!(wait(2) < 0.8 * wait(0), "latency rises under load");
}

#[test]
fn chains_mixes_and_several_regions() {
    let text = "repetitions = 1\n[region.a]\nsize = \"7GiB\"\n[region.b]\nsize = \"7GiB\"\nplacement = \"far\"\n\
                [task.copy]\nthreads = 2\n\
                [[task.copy.steps]]\noperation = \"read\"\naccess = 256\nregion = \"a\"\n\
                [[task.copy.steps]]\noperation = \"write-nt\"\naccess = 128\nregion = \"b\"\ncount = 2\n\
                [task.mix]\nthreads = 2\nwrites = \"25%\"\n";
    let collector = run(text);
    let tasks = &collector.outcomes[0].1.tasks;
    let per_access = tasks[0].bandwidth_bytes_per_s[0] / tasks[0].accesses_per_s[0];
    assert!((per_access - 512.0 / 3.0).abs() < 1.0, "{per_access}");
    assert!(tasks[1].bandwidth_bytes_per_s[0] > 1e9);
}

#[test]
fn dependent_steps_take_the_latency_of_each_and_independent_ones_overlap() {
    let steps = |depends: bool, tiers: [&str; 2]| {
        let [a, b] = tiers;
        let step = |region| {
            format!(
                "[[task.walk.steps]]\naccess = 64\nregion = \"{region}\"\ndepends = {depends}\n"
            )
        };
        let text = format!(
            "repetitions = 1\n[region.a]\nsize = \"7GiB\"\nplacement = \"{a}\"\n\
             [region.b]\nsize = \"7GiB\"\nplacement = \"{b}\"\n[task.walk]\n{}{}",
            step("a"),
            step("b")
        );
        1e9 / run(&text).outcomes[0].1.tasks[0].accesses_per_s[0]
    };
    let near_ns = steps(true, ["near", "near"]);
    let far_ns = steps(true, ["far", "far"]);
    let mixed_ns = steps(true, ["near", "far"]);
    assert!(
        near_ns > 100.0 && far_ns > 1.8 * near_ns,
        "{near_ns} {far_ns}"
    );
    let middle_ns = (near_ns + far_ns) / 2.0;
    assert!(
        (mixed_ns / middle_ns - 1.0).abs() < 0.03,
        "{mixed_ns} {middle_ns}"
    );
    assert!(steps(false, ["near", "far"]) < mixed_ns / 4.0);
}

#[test]
fn passes_through_a_chain_are_timed_as_a_whole() {
    let median_ns = |depends: bool, sample: u64| {
        let step =
            format!("[[task.walk.steps]]\nregion = \"a\"\naccess = 256\ndepends = {depends}\n");
        let text = format!(
            "repetitions = 1\n[region.a]\nsize = \"7GiB\"\nplacement = \"far\"\n[task.walk]\nsample = {sample}\n\
             {step}count = 3\n{step}"
        );
        let found = run(&text)
            .metrics
            .into_iter()
            .find(|one| one.metric == "sampled_latency_ns" && one.dimensions["percentile"] == 50.0);
        found.and_then(|one| one.value.get()).expect("a latency")
    };
    let one_ns = {
        let text = "repetitions = 1\n[region.a]\nsize = \"7GiB\"\nplacement = \"far\"\n[task.one]\n\
                    pattern = \"random\"\nsample = 4\n";
        let metrics = run(text).metrics;
        let found = metrics
            .iter()
            .find(|one| one.metric == "sampled_latency_ns" && one.dimensions["percentile"] == 50.0);
        found.and_then(|one| one.value.get()).expect("a latency")
    };
    // Four accesses one after the other, and four lines of each together.
    for sample in [1, 7, 40] {
        let pass_ns = median_ns(true, sample);
        assert!(
            (3.9..=5.0).contains(&(pass_ns / one_ns)),
            "{sample}: {pass_ns} {one_ns}"
        );
    }
    let together_ns = median_ns(false, 40);
    assert!(
        (1.0..=2.0).contains(&(together_ns / one_ns)),
        "{together_ns} {one_ns}"
    );
}

#[test]
fn without_prefetchers_sequences_are_slower_and_random_lines_are_not() {
    let rate = |pattern: &str, prefetchers: &str| {
        let text = format!(
            "repetitions = 1\nprefetchers = \"{prefetchers}\"\n[region.a]\nsize = \"7GiB\"\n\
             [task.one]\naccess = 64\npattern = \"{pattern}\"\n"
        );
        rate(&text, 0)
    };
    let (on, off) = (rate("sequential", "on"), rate("sequential", "off"));
    assert!(off < on * 0.9, "{on} {off}");
    let (on, off) = (rate("random", "on"), rate("random", "off"));
    assert!((off / on - 1.0).abs() < 0.05, "{on} {off}");
    let message = refused("prefetchers = \"no\"\n[region.a]\n[task.one]\n");
    assert!(
        message.contains("prefetchers") && message.contains("on or off"),
        "{message}"
    );
}

#[test]
fn every_preset_runs_on_the_profiles_tiers() {
    for preset in Preset::ALL {
        let text = preset.text.replace("cxl", "far");
        let plan = plan_of(&text, None).unwrap();
        assert!(
            plan.runs.len() > 4 && plan.memory_bytes() == 0,
            "{}",
            preset.name
        );
        assert!(
            plan.time().as_secs() < 600,
            "{}: {:?}",
            preset.name,
            plan.time()
        );
    }
}

#[test]
fn a_stopped_simulation_ends_immediately() {
    let plan = plan_of(
        "volume = \"1TB\"\nrepetitions = 1\n[task.one]\n",
        Some(1 << 40),
    )
    .unwrap();
    let stop = AtomicBool::new(false);
    let began = std::time::Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        execute(&plan, &stop, &mut Collector::default()).unwrap_err()
    });
    assert_eq!(error.to_string(), "interrupted after 0 of 1 runs");
    assert!(began.elapsed().as_secs() < 5);
}

/// Specifications, and what their refusals say.
const IMPOSSIBLE: [(&str, &str); 14] = [
    (
        "[region.a]\nsize = \"300GB\"",
        "line 2: region.a.size: tier near of profile cxl-blades-4 has 274877906944 bytes",
    ),
    (
        "[region.a]\nsize = \"1000TiB\"\nplacement = \"far\"",
        "line 2: region.a.size: the model has",
    ),
    (
        "[region.a]\nplacement = \"far4\"",
        "line 2: region.a.placement: the modelled machine has no tier \"far4\"",
    ),
    (
        "[region.a]\nplacement = \"far2-1\"",
        "line 2: region.a.placement: the modelled",
    ),
    (
        "[region.a]\nplacement = \"node1\"",
        "line 2: region.a.placement: the modelled",
    ),
    (
        "[region.a]\nsize = \"2MiB\"\nplacement = \"interleave:near,far\"",
        "line 3: region.a.placement: the region has one page of 2 MiB, and none",
    ),
    (
        "[region.a]\npages = \"base\"\nsize = \"200GB\"\nplacement = \"weighted:near=4000000000,far=4000000000\"",
        "line 4: region.a.placement: begins again after",
    ),
    (
        "[task.one]\nthreads = 49",
        "line 2: task.one.threads: 49 threads, but 48 of the 48",
    ),
    (
        "[task.one]\npin = \"48\"",
        "line 2: task.one.pin: processor 48 is not among those of profile",
    ),
    (
        "[task.one]\npin = \"3\"\n[task.two]\npin = \"3\"",
        "line 4: task.two.pin: task \"one\" runs on processor 3 too",
    ),
    (
        "[task.one]\noperation = \"chase\"\nthreads = 25",
        "line 3: task.one.threads: a thread that waits",
    ),
    (
        "[task.one]\naccess = 128\nsample = 10",
        "line 3: task.one.sample: the model waits for single",
    ),
    (
        "[task.one]\naccess = 128\nfence = true",
        "line 3: task.one.fence: the model waits for single",
    ),
    (
        "[task.one]\nthreads = 20\nlimit = \"1KB/s\"",
        "line 3: task.one.limit: each thread would",
    ),
];

#[test]
fn what_the_machine_has_not_is_refused_by_field_and_line() {
    for (text, expected) in IMPOSSIBLE {
        let found = refused(text);
        assert!(
            found.starts_with("test.toml, ") && found.contains(expected),
            "{text}: {found}"
        );
    }
}

#[test]
fn devices_hold_what_the_profile_says() {
    let mut profile = Profile::builtin("cxl-blades-4").unwrap();
    profile.far.capacity_bytes = Known::Value(4 << 30);
    let refused = |placement: &str, size: &str| {
        let text = format!("[region.a]\nplacement = \"{placement}\"\nsize = \"{size}\"\n");
        let document = Document::parse("x.toml", &text).unwrap();
        let plan = Plan::simulated(&document, &profile, None);
        plan.err().map(|error| error.to_string())
    };
    assert_eq!(refused("far", "4GiB"), None);
    assert_eq!(refused("far2", "1GiB"), None);
    let told = "x.toml, line 3: region.a.size: a device of tier far of profile cxl-blades-4 has 1073741824 bytes";
    for (placement, size) in [
        ("far2", "2GiB"),
        ("far", "5GiB"),
        ("split:near=10%,far1", "2GiB"),
    ] {
        let found = refused(placement, size).unwrap_or_default();
        assert!(found.starts_with(told), "{placement}: {found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No device gives more than it serves, whatever the specification.
    #[test]
    fn bandwidth_stays_below_every_service_rate(
        operation in prop::sample::select(vec!["read", "write", "write-nt"]),
        pattern in prop::sample::select(vec!["sequential", "random"]),
        access_log in 6_u32..14,
        threads in 1_u32..49,
        devices in 1_u32..5,
    ) {
        let text = format!(
            "repetitions = 1\n[region.data]\nsize = \"7GiB\"\nplacement = \"far0-{}\"\n[task.one]\n\
             operation = \"{operation}\"\npattern = \"{pattern}\"\naccess = {}\nthreads = {threads}\n",
            devices - 1, 1 << access_log
        );
        let collector = run(&text);
        let rate = collector.outcomes[0].1.tasks[0].bandwidth_bytes_per_s[0];
        // 64 bytes in 1.5 ns per device, and what the finite window leaves open.
        prop_assert!(rate < 1.1 * f64::from(devices) * 64.0 / 1.5e-9, "{rate}");
    }
}
