//! Access benchmarks from specification to results, on small memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::access::spec::fields;
use nearfar_measure::access::{
    Document, Flag, Observer, Operation, Outcome, Plan, PlanTarget, PlannedPlacement, PlannedRun,
    Preset, execute, report,
};
use nearfar_measure::results::{Header, Metric};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::capture::Capture;
use nearfar_topology::{Profile, Topology};
use proptest::prelude::*;

/// Keeps all outcomes.
#[derive(Default)]
struct Collector {
    metrics: Vec<Metric>,
    outcomes: Vec<(String, Outcome)>,
}

impl Observer for Collector {
    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()> {
        self.metrics.extend(outcome.metrics(run));
        self.outcomes.push((run.id(), outcome.clone()));
        Ok(())
    }
}

fn plan_with(text: &str, profile: Option<&str>) -> Result<Plan, String> {
    let document = Document::parse("test.toml", text).map_err(|error| error.to_string())?;
    let mut topology = Topology::this_machine().unwrap();
    let mut models = Vec::new();
    if let Some(name) = profile {
        let profile = Profile::builtin(name).unwrap();
        topology = topology.with_profile(&profile);
        for (tier, modelled) in topology.modelled(&profile) {
            let share = BandwidthShare::Threads(1);
            let model = EmulatedTier::of_tier(&profile, modelled, share).unwrap();
            models.push((tier.name.clone(), model));
        }
    }
    Plan::new(&document, &topology, models).map_err(|error| error.to_string())
}

fn plan(text: &str) -> Plan {
    plan_with(text, None).unwrap()
}

fn refused(text: &str) -> String {
    plan_with(text, None).unwrap_err()
}

fn run(plan: &Plan) -> Collector {
    let mut collector = Collector::default();
    execute(plan, &AtomicBool::new(false), &mut collector).unwrap();
    collector
}

const SMALL: &str = "time = \"3ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n[region.data]\nsize = \"1MiB\"\npages = \"base\"\n";

/// A machine with near memory and four equal devices, which are one tier.
fn four_devices() -> Topology {
    let node = |number: u32| {
        let folder = format!("devices/system/node/node{number}");
        let distances = (0..5).map(|other| if other == number { "10" } else { "20" });
        let distances = distances.collect::<Vec<_>>().join(" ");
        let cpus = if number == 0 {
            format!("{folder}/cpulist = 0-3\n")
        } else {
            String::new()
        };
        format!(
            "{cpus}{folder}/distance = {distances}\n{folder}/meminfo =\n\
             \tNode {number} MemTotal: 33554432 kB\n\tNode {number} MemFree: 33554432 kB\n"
        )
    };
    let sysfs = tempfile::tempdir().unwrap();
    let text: String = (0..5).map(node).collect();
    Capture::parse(&text).unwrap().unpack(sysfs.path()).unwrap();
    Topology::discover(sysfs.path()).unwrap()
}

#[test]
fn devices_that_are_one_tier_are_named_singly() {
    let topology = four_devices();
    assert_eq!(topology.tiers.len(), 2, "the devices are one tier");
    let nodes = |placement: &str| {
        let text =
            format!("[region.a]\nsize = \"16MiB\"\nplacement = \"{placement}\"\n[task.one]\n");
        let document = Document::parse("test.toml", &text).unwrap();
        let plan =
            Plan::new(&document, &topology, Vec::new()).map_err(|error| error.to_string())?;
        let (PlannedPlacement::Memory(placed), PlanTarget::Memory { system, .. }) =
            (&plan.runs[0].regions[0].placement, &plan.target)
        else {
            unreachable!("not simulated")
        };
        let nodes = placed.tiers().map(|tier| system.nodes(tier).to_vec());
        Ok::<_, String>(nodes.collect::<Vec<_>>())
    };
    assert_eq!(nodes("cpuless2"), Ok(vec![vec![3]]));
    assert_eq!(nodes("far1-3"), Ok(vec![vec![2, 3, 4]]));
    assert_eq!(nodes("interleave:far0,node4"), Ok(vec![vec![1], vec![4]]));
    assert_eq!(
        nodes("split:near=50%,far"),
        Ok(vec![vec![0], vec![1, 2, 3, 4]])
    );
    let refused = nodes("far4").unwrap_err();
    assert!(
        refused.contains("cpuless (cpuless0 to cpuless3)"),
        "{refused}"
    );

    let preset = Preset::named("devices").unwrap();
    let document = Document::parse(preset.name, preset.text).unwrap();
    let plan = Plan::new(&document, &topology, Vec::new()).unwrap();
    assert!(plan.runs.len() > 4);
}

#[test]
fn every_place_of_a_placement_gets_a_page() {
    let topology = four_devices();
    let planned = |size: &str, placement: &str, more: &str| {
        let text = format!("[region.a]\nsize = \"{size}\"\nplacement = \"{placement}\"\n{more}\n");
        let document = Document::parse("test.toml", &text).unwrap();
        let plan = Plan::new(&document, &topology, Vec::new());
        plan.map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = planned("2MiB", "interleave:near,far", "").unwrap_err();
    let expected = "line 3: region.a.placement: the region has one page of 2 MiB, and none of it \
                    would lie on far: make it larger, or write pages = \"base\"";
    assert!(refused.ends_with(expected), "{refused}");
    for (size, placement, place) in [
        ("4MiB", "interleave:near,far0,far1", "far1"),
        ("6MiB", "interleave:3:1", "far"),
        ("6MiB", "split:near=10%,far", "near"),
        ("6MiB", "split:near=90%,far", "far"),
    ] {
        let refused = planned(size, placement, "").unwrap_err();
        let expected = format!("none of it would lie on {place}: ");
        assert!(refused.contains(&expected), "{placement}: {refused}");
        assert_eq!(planned(size, placement, "pages = \"base\""), Ok(()));
        assert_eq!(planned("40MiB", placement, ""), Ok(()), "{placement}");
    }
    let small = planned("8KiB", "interleave:near,far0,far1", "pages = \"base\"").unwrap_err();
    let expected =
        "the region has 2 pages of 4 KiB, and none of it would lie on far1: make it larger";
    assert!(small.ends_with(expected), "{small}");
    for placement in [
        "split:near=0%,far",
        "split:near=100%,far",
        "interleave:near,near",
        "far",
    ] {
        assert_eq!(planned("2MiB", placement, ""), Ok(()), "{placement}");
    }
}

#[test]
fn every_operation_pattern_and_size_runs() {
    for operation in Operation::ALL {
        let sizes = if operation == Operation::Chase {
            "[8]"
        } else {
            "[64, 4096]"
        };
        let source = match operation.copies() {
            true => "source = \"from\"\n[region.from]\nsize = \"1MiB\"\npages = \"base\"\n",
            false => "",
        };
        let text = format!(
            "{SMALL}[task.one]\noperation = \"{operation}\"\n{source}[matrix]\naccess = {sizes}\n\
             pattern = [\"sequential\", \"random\"]\n"
        );
        let plan = match plan_with(&text, None) {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(refusal.contains("this machine has no"), "{refusal}");
                continue;
            }
        };
        for (id, outcome) in run(&plan).outcomes {
            let task = &outcome.tasks[0];
            assert_eq!(task.bandwidth_bytes_per_s.len(), 2, "{id}");
            assert!(
                task.bandwidth_bytes_per_s.iter().all(|rate| *rate > 1e5),
                "{operation} {id}"
            );
            assert!(
                outcome.regions[0].verification.starts_with("verified"),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn all_access_sizes_of_figure_3() {
    let plan = plan(&format!(
        "{SMALL}[task.one]\n[matrix]\naccess = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]\n\
         pattern = [\"sequential\", \"random\"]\noperation = [\"read\", \"write\", \"write-nt\"]\n"
    ));
    assert_eq!(plan.runs.len(), 66);
    let collector = run(&plan);
    assert_eq!(collector.outcomes.len(), 66);
    let page = report::page(
        &Header::new("1", vec![], serde_json::json!({})),
        &collector.metrics,
    );
    assert_eq!(page.to_html().matches("class=\"heat\"").count(), 6);
}

#[test]
fn a_volume_is_accessed_once_and_whole() {
    let plan = plan(
        "volume = \"3MiB\"\nrepetitions = 1\nbatch = \"64KiB\"\n[region.data]\nsize = \"1MiB\"\n\
         [task.one]\nthreads = 2\npin = \"none\"\n",
    );
    let (_, outcome) = &run(&plan).outcomes[0];
    let task = &outcome.tasks[0];
    let ratio = task.bandwidth_bytes_per_s[0] / task.accesses_per_s[0];
    assert!((ratio - 64.0).abs() < 1.0, "accesses of 64 bytes: {ratio}");
}

#[test]
fn chains_of_operations_and_tasks_side_by_side() {
    let plan = plan(
        "time = \"5ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n\
         [region.a]\nsize = \"1MiB\"\n[region.b]\nsize = \"2MiB\"\n[region.c]\nsize = \"1MiB\"\n\
         [task.copy]\npin = \"none\"\nregion = \"a\"\n\
         [[task.copy.steps]]\noperation = \"read\"\naccess = 256\nregion = \"a\"\n\
         [[task.copy.steps]]\noperation = \"write-nt\"\naccess = 128\nregion = \"b\"\ncount = 2\n\
         [task.mix]\npin = \"none\"\nregion = [\"a\", \"b\"]\nwrites = \"25%\"\nlimit = \"100MB/s\"\n\
         background = true\n\
         [task.wait]\noperation = \"chase\"\nregion = \"c\"\npin = \"none\"\nsample = 100\n",
    );
    let (_, outcome) = &run(&plan).outcomes[0];
    let copy = &outcome.tasks[0];
    let ratio = copy.bandwidth_bytes_per_s[0] / copy.accesses_per_s[0];
    assert!(
        (ratio - 512.0 / 3.0).abs() < 1.0,
        "{ratio} bytes per access"
    );
    let mix = &outcome.tasks[1].bandwidth_bytes_per_s;
    assert!(mix.iter().all(|rate| *rate <= 2e8), "{mix:?}");
    let wait = outcome.tasks[2].latencies.unwrap();
    assert!(wait.samples > 0 && wait.mean_ns > 0.0, "{wait:?}");
}

#[test]
fn passes_through_dependent_steps_are_timed() {
    let steps = "[region.a]\nsize = \"1MiB\"\n[region.b]\nsize = \"1MiB\"\n[task.walk]\npin = \"none\"\nsample = 40\n\
                 [[task.walk.steps]]\nregion = \"a\"\ndepends = true\ncount = 3\n\
                 [[task.walk.steps]]\nregion = \"b\"\ndepends = true\naccess = 256\n";
    let text = format!("time = \"5ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n{steps}");
    let (_, outcome) = &run(&plan(&text)).outcomes[0];
    let latencies = outcome.tasks[0].latencies.expect("passes were timed");
    assert!(
        latencies.samples > 0 && latencies.mean_ns > 0.0,
        "{latencies:?}"
    );
    // The access that waits is near, and what it waits for is not.
    let far = text.replace("[region.a]\n", "[region.a]\nplacement = \"far\"\n");
    let far = far.replacen("depends = true\n", "", 1);
    let untimed = far.replace("sample = 40\n", "");
    let error = plan_with(&untimed, Some("cxl-blades-1"))
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.contains("task.walk.steps.1.depends") && error.contains("--virtual"),
        "{error}"
    );
    let mix = "[task.one]\nsample = 3\nwrites = \"5%\"\n";
    assert!(refused(&format!("[region.a]\nsize = \"1MiB\"\n{mix}")).contains("not of a mix"));
}

#[test]
fn sampled_latencies_have_percentiles() {
    for operation in ["read", "chase", "write-flush"] {
        let text =
            format!("{SMALL}[task.one]\naccess = 8\nsample = 50\noperation = \"{operation}\"\n");
        let Ok(plan) = plan_with(&text, None) else {
            continue;
        };
        let collector = run(&plan);
        let named = |name: &str| {
            collector
                .metrics
                .iter()
                .filter(|one| one.metric == name)
                .count()
        };
        assert_eq!(
            (
                named("sampled_latency_ns"),
                named("sampled_latency_mean_ns")
            ),
            (8, 1)
        );
        assert!(
            collector
                .metrics
                .iter()
                .all(|metric| metric.value.is_known())
        );
    }
}

#[test]
fn results_say_what_they_belong_to() {
    let plan = plan(&format!(
        "{SMALL}[task.one]\n[matrix]\naccess = [64, 128]\n"
    ));
    let collector = run(&plan);
    let last = collector.metrics.last().unwrap();
    assert_eq!(last.metric, "run_seconds");
    assert!(
        last.dimensions["disturbances"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
    );
    for metric in collector
        .metrics
        .iter()
        .filter(|metric| metric.metric == "bandwidth_bytes_per_s")
    {
        assert_eq!(metric.kind, Kind::Measured);
        assert_eq!(metric.dimensions["placement"], "near");
        assert_eq!(metric.spread.unwrap().runs, 2);
        let low = metric.dimensions["ci95_low"].as_f64().unwrap();
        let high = metric.dimensions["ci95_high"].as_f64().unwrap();
        assert!(low <= high && metric.dimensions["noisy"].is_boolean());
        let access = &metric.dimensions["parameters"]["access"];
        assert_eq!(
            metric.dimensions["access_bytes"].to_string(),
            access.as_str().unwrap()
        );
    }
}

#[test]
fn a_stopped_plan_keeps_what_is_done() {
    struct Stopper<'a>(&'a AtomicBool, usize);
    impl Observer for Stopper<'_> {
        fn done(&mut self, _run: &PlannedRun, _outcome: &Outcome) -> std::io::Result<()> {
            self.1 += 1;
            self.0.store(true, Ordering::Relaxed);
            Ok(())
        }
    }
    let plan = plan(&format!(
        "{SMALL}[task.one]\n[matrix]\naccess = [64, 128, 256]\n"
    ));
    let stop = AtomicBool::new(false);
    let mut stopper = Stopper(&stop, 0);
    let error = execute(&plan, &stop, &mut stopper).unwrap_err();
    assert_eq!(
        (stopper.1, error.to_string().as_str()),
        (1, "interrupted after 1 of 3 runs")
    );
}

#[test]
fn regions_are_not_filled_to_their_end_once_stopped() {
    for operation in ["read", "chase"] {
        let plan = plan(&format!(
            "[region.data]\nsize = \"512MiB\"\n[task.one]\noperation = \"{operation}\"\n"
        ));
        let mut collector = Collector::default();
        let began = std::time::Instant::now();
        let error = execute(&plan, &AtomicBool::new(true), &mut collector).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(2), "{operation}");
        assert_eq!(error.to_string(), "interrupted after 0 of 1 runs");
        assert!(collector.outcomes.is_empty());
    }
}

#[test]
fn every_access_can_be_waited_for() {
    for pattern in ["sequential", "random"] {
        let text = |fence| {
            format!("{SMALL}[task.one]\naccess = 8\npattern = \"{pattern}\"\nfence = {fence}\n")
        };
        let rate = |fence| run(&plan(&text(fence))).outcomes[0].1.tasks[0].accesses_per_s[0];
        // A thread that is held up in one of the two runs says nothing.
        let is_slower = || rate(true) < 0.7 * rate(false);
        assert!(
            (0..20).any(|_| is_slower()),
            "a fence after each access takes time"
        );
    }
}

#[test]
fn an_emulated_tier_delays_and_is_labelled() {
    let text = "time = \"20ms\"\nrepetitions = 1\nbatch = \"64KiB\"\n[region.data]\nsize = \"2MiB\"\n\
                [task.one]\noperation = \"chase\"\n[matrix]\nplacement = [\"near\", \"far\"]\n";
    let plan = plan_with(text, Some("cxl-fpga")).unwrap();
    let collector = run(&plan);
    let latency: Vec<&Metric> = collector
        .metrics
        .iter()
        .filter(|metric| metric.metric == "latency_ns")
        .collect();
    assert_eq!(
        [latency[0].kind, latency[1].kind],
        [Kind::Measured, Kind::Modelled]
    );
    assert!(latency[1].value.get().unwrap() >= 570.0, "{latency:?}");
    let text = text.replace("chase", "write-flush");
    let refusal = plan_with(&text, Some("cxl-fpga")).map(|_| ()).unwrap_err();
    assert!(
        refusal.contains("not modelled in wall-clock time"),
        "{refusal}"
    );
}

#[test]
fn each_emulated_tier_delays_by_its_own_figures() {
    let text = "time = \"20ms\"\nrepetitions = 1\nbatch = \"64KiB\"\n[region.data]\nsize = \"2MiB\"\n\
                pages = \"base\"\n\
                [task.one]\noperation = \"chase\"\n\
                [matrix]\nplacement = [\"socket\", \"far\", \"interleave:socket,far\"]\n";
    let collector = run(&plan_with(text, Some("cxl-blades-4-socket")).unwrap());
    let latencies: Vec<f64> = collector
        .metrics
        .iter()
        .filter(|metric| metric.metric == "latency_ns")
        .map(|metric| metric.value.get().unwrap())
        .collect();
    let [socket, far, both] = latencies[..] else {
        panic!("{latencies:?}");
    };
    assert!(socket >= 216.0 && far >= 507.0, "{latencies:?}");
    assert!(both >= (216.0 + 507.0) / 2.0 - 1.0, "{latencies:?}");
}

/// Specifications, and what their refusals say.
const IMPOSSIBLE: [(&str, &str); 23] = [
    (
        "[task.one]\nthreads = 3\npin = \"0\"",
        "line 2: task.one.threads: 3 threads on 1",
    ),
    (
        "[task.one]\nthreads = 4000",
        "line 2: task.one.threads: 4000 threads",
    ),
    (
        "[task.one]\n\naccess = 24",
        "line 3: task.one.access: no instruction accesses 24",
    ),
    ("[task.one]\naccess = 16384", "line 2: task.one.access: "),
    (
        "[region.a]\nsize = \"900TiB\"",
        "line 2: region.a.size: tier near has ",
    ),
    (
        "[region.a]\nplacement = \"node7\"",
        "line 2: region.a.placement: this machine has no",
    ),
    (
        "[region.a]\nplacement = \"split:near=200%,far\"",
        "line 2: region.a.placement: ",
    ),
    (
        "[region.a]\nplacement = \"interleave:near,\"",
        "line 2: region.a.placement: ",
    ),
    (
        "[task.one]\npin = \"0-9999\"",
        "line 2: task.one.pin: processor ",
    ),
    (
        "[task.one]\noperation = \"chase\"\naccess = 64",
        "line 3: task.one.access: chase of 64",
    ),
    (
        "[task.one]\nregion = \"nowhere\"",
        "line 2: task.one.region: there is no region",
    ),
    ("time = \"1 fortnight\"", "line 1: time: "),
    ("time = \"0s\"", "line 1: time: "),
    ("time = \"1s\"\nvolume = \"1GiB\"", "line 2: volume: "),
    ("repetitions = 0", "line 1: repetitions: "),
    ("batch = 8", "line 1: batch: "),
    ("speed = 3", "line 1: speed: there is no field"),
    (
        "[task.one]\nspeed = 3",
        "line 2: task.one.speed: there is no field",
    ),
    (
        "[task.one]\nbackground = true",
        "line 2: task.one.background: ",
    ),
    ("[task.one]\nthreads = [1, 2]", "line 2: task.one.threads: "),
    (
        "[matrix]\nnothing = [1]",
        "line 2: nothing: leads to no field",
    ),
    ("[matrix]\naccess = []", "line 2: matrix.access: "),
    ("[task.one\n", "line 1: "),
];

#[test]
fn impossible_specifications_name_field_and_line() {
    for (text, expected) in IMPOSSIBLE {
        let found = refused(text);
        assert!(
            found.starts_with("test.toml, ") && found.contains(expected),
            "{text}: {found}"
        );
    }
}

#[test]
fn yaml_says_the_same_as_toml() {
    let toml = "repetitions = 2\n[region.a]\nsize = \"64MiB\"\n[region.b]\n[task.copy]\n\
                region = [\"a\", \"b\"]\nbackground = false\n[[task.copy.steps]]\naccess = 256\n\
                [[task.copy.steps]]\noperation = \"write-nt\"\ncount = 2\n\
                [matrix]\n\"task.copy.threads\" = [1, 2]\nbatch = \"64MiB\"\n";
    let yaml = "repetitions: 2\nregion:\n  a: {size: 64MiB}\n  b:\ntask:\n  copy:\n    region: [a, b]\n    \
                background: false\n    steps:\n    - access: 256\n    - operation: write-nt\n      count: 2\n\
                matrix:\n  task.copy.threads: [1, 2]\n  batch: 64MiB\n";
    let settings = |name, text| Document::parse(name, text).unwrap().settings();
    assert_eq!(settings("x.toml", toml), settings("x.yml", yaml));
    let wrong = yaml.replace("access: 256", "access: 24");
    let document = Document::parse("x.yml", &wrong).unwrap();
    let error = Plan::new(&document, &Topology::this_machine().unwrap(), Vec::new()).unwrap_err();
    let expected = "x.yml, line 10: task.copy.steps.0.access: no instruction accesses 24 bytes";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_million_runs_are_refused_immediately() {
    let list = |count: u32| format!("{:?}", (1..=count).collect::<Vec<_>>());
    let text = format!(
        "[matrix]\nseed = {}\nrepetitions = {}\n",
        list(1_000),
        list(1_000)
    );
    let began = std::time::Instant::now();
    let found = refused(&text);
    assert!(
        found.contains("a matrix of 1000000 points: at most 10000"),
        "{found}"
    );
    assert!(found.contains("line 3: matrix.repetitions"), "{found}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_chain_that_others_write_is_refused() {
    let text = "[region.a]\n[task.wait]\noperation = \"chase\"\npin = \"none\"\n\
                [task.load]\noperation = \"write\"\npin = \"none\"\n";
    let found = refused(text);
    assert!(
        found.contains("line 3: task.wait.operation: region \"a\" is written too"),
        "{found}"
    );
}

#[test]
fn threads_can_be_the_rest_and_pins_do_not_meet() {
    let cpus = nearfar_memory::sys::allowed_cpus().unwrap();
    let text = format!(
        "[region.a]\nsize = \"1MiB\"\n[task.one]\npin = \"{}\"\n[task.two]\nthreads = \"rest\"\n",
        cpus[0]
    );
    match plan_with(&text, None) {
        Ok(plan) => {
            let pins: Vec<u32> = plan.runs[0]
                .pins
                .iter()
                .flatten()
                .copied()
                .flatten()
                .collect();
            assert_eq!(pins, cpus);
        }
        Err(refusal) => assert!(
            cpus.len() == 1 && refusal.contains("task.two.threads"),
            "{refusal}"
        ),
    }
}

#[test]
fn flags_replace_what_files_say() {
    let mut document =
        Document::parse("x", "[task.a]\naccess = 64\n[matrix]\nthreads = [1, 2]").unwrap();
    let flag = |path: &str, values: &[&str]| Flag {
        flag: format!("--{path}"),
        path: path.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let flags = [
        flag("access", &["128", "256"]),
        flag("threads", &["1"]),
        flag("time", &["1ms"]),
        flag("size", &["1MiB"]),
        flag("task.a.pattern", &["random"]),
    ];
    document.apply(&flags).unwrap();
    let plan = Plan::new(&document, &Topology::this_machine().unwrap(), Vec::new()).unwrap();
    let ids: Vec<String> = plan.runs.iter().map(PlannedRun::id).collect();
    assert_eq!(ids, ["access=128", "access=256"]);
    assert_eq!(plan.memory_bytes(), 1 << 20);
    let error = document
        .apply(&[flag("nothing", &["1"])])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("--nothing: nothing: leads to no field"),
        "{error}"
    );
    document.apply(&[flag("access", &["3"])]).unwrap();
    let error = Plan::new(&document, &Topology::this_machine().unwrap(), Vec::new()).unwrap_err();
    assert!(
        error.to_string().starts_with("--access: task.a.access: "),
        "{error}"
    );
}

#[test]
fn every_field_has_a_help_and_presets_are_plans_where_tiers_exist() {
    let all = fields::RUN
        .iter()
        .chain(&fields::REGION)
        .chain(&fields::TASK)
        .chain(&fields::STEP);
    assert!(all.into_iter().all(|field| !field.help.is_empty()));
    for preset in Preset::ALL {
        match plan_with(preset.text, Some("cxl-blades-1")) {
            Ok(plan) => assert!(!plan.time().is_zero() && plan.memory_bytes() > 0),
            Err(refusal) => {
                let is_expected = refusal.contains("this machine has no")
                    || refusal.contains("not modelled in wall-clock time")
                    || refusal.contains("processors are left");
                assert!(is_expected, "{}: {refusal}", preset.name);
            }
        }
    }
}

const COPY: &str = "[region.from]\nsize = \"1MiB\"\npages = \"base\"\n[region.to]\nsize = \"512KiB\"\n\
                    pages = \"base\"\n[task.one]\nsource = \"from\"\n";

#[test]
fn copies_run_from_one_region_to_another() {
    let head = "time = \"3ms\"\nrepetitions = 2\nbatch = \"64KiB\"\n";
    let matrix = "[matrix]\noperation = [\"copy\", \"copy-nt\"]\naccess = [8, 64, 4096]\n\
                  pattern = [\"sequential\", \"random\"]\n";
    let collector = run(&plan(&format!("{head}{COPY}{matrix}")));
    assert_eq!(collector.outcomes.len(), 12);
    for (id, outcome) in &collector.outcomes {
        let rates = &outcome.tasks[0].bandwidth_bytes_per_s;
        assert!(rates.iter().all(|rate| *rate > 0.0), "{id}: {rates:?}");
    }
    let sources = collector.metrics.iter();
    let mut sources = sources.filter(|metric| metric.metric == "bandwidth_bytes_per_s");
    assert!(sources.all(|metric| metric.dimensions["source"] == "near"));
}

#[test]
fn a_copy_without_two_regions_is_refused() {
    let cases = [
        (
            "operation = \"copy\"\nregion = \"from\"",
            "a copy writes to other regions",
        ),
        ("operation = \"read\"", "only a copy has a source"),
        ("operation = \"copy\"\nfence = true", "not of copies"),
        ("operation = \"copy\"\nsample = 3", "not of copies"),
        (
            "operation = \"copy-movdir64b\"\naccess = 8",
            "stores 64 bytes",
        ),
    ];
    for (field, told) in cases {
        let error = refused(&format!("{COPY}{field}\n"));
        assert!(error.contains(told), "{field}: {error}");
    }
    let error = refused(&format!("{SMALL}[task.one]\noperation = \"copy\"\n"));
    assert!(error.contains("a copy reads a region: name it"), "{error}");
    let steps = format!("{COPY}[[task.one.steps]]\noperation = \"copy\"\n");
    assert!(refused(&steps.replace("source = \"from\"\n", "")).contains("a copy"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No text makes the reader panic, and errors name the file.
    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]a-z0-9.=\"\n ,%:-]{0,200}") {
        if let Err(error) = plan_with(&text, None) {
            prop_assert!(!error.is_empty());
        }
    }

    /// Nor does any value of any field.
    #[test]
    fn any_value_is_read_or_refused(
        field in prop::sample::select(
            fields::RUN.iter().chain(&fields::REGION).chain(&fields::TASK)
                .map(|field| field.name).collect::<Vec<_>>()),
        value in prop_oneof![
            "[a-zA-Z0-9.,:=%/ -]{0,20}".prop_map(|text| text),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| number.to_string()),
        ],
    ) {
        let mut document = Document::default();
        let flag = Flag { flag: "--x".to_owned(), path: field.to_owned(), values: vec![value] };
        document.apply(&[flag]).unwrap();
        if let Err(error) = Plan::new(&document, &Topology::this_machine().unwrap(), Vec::new()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
