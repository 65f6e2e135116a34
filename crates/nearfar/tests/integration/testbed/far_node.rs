//! DRAM on node 0, and node 1 without CPUs, which is the tier `far`.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use nearfar_measure::{Kind, results};

use super::groups::{Group, Task, UNLIMITED, Victim, until};
use super::storage::measured_beside_each_other;
use crate::support::{program, run, temp};

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn both_tiers_are_shown_as_declared_and_probed() {
    let table = run(["tiers"]).succeeded();
    for part in ["near", "cpuless", "local-dram", "250 ns"] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
    let json = run(["tiers", "--probe", "--format", "json"]).succeeded();
    let (_, metrics) = results::read(json.as_bytes()).expect("the documented schema");
    for (tier, declared_ns) in [("near", 100.0), ("cpuless", 250.0)] {
        let value = |kind: Kind, name: &str| {
            let found = metrics.iter().find(|metric| {
                metric.metric == name && metric.kind == kind && metric.dimensions["tier"] == tier
            });
            found.and_then(|metric| metric.value.get())
        };
        assert_eq!(value(Kind::Published, "idle_latency_ns"), Some(declared_ns));
        let measured = value(Kind::Measured, "idle_latency_ns");
        assert!(
            measured.is_some_and(|latency| latency > 0.0),
            "{tier}: {json}"
        );
    }
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn tpch_is_measured_with_its_data_on_the_second_node() {
    let arguments = ["tpch", "--sf", "0.01", "--runs", "1", "--queries", "1,6"];
    let placements = ["near", "far", "interleave:1:1", "columns:25%"];
    let placements = placements.iter().flat_map(|name| ["--placement", name]);
    let more = ["--format", "json", "--no-report"];
    let all: Vec<&str> = arguments
        .into_iter()
        .chain(placements)
        .chain(more)
        .collect();
    let text = run(all).succeeded();
    let (_, metrics) = results::read(text.as_bytes()).expect("the documented schema");
    let modelled = metrics.iter().find(|metric| metric.kind == Kind::Modelled);
    assert!(modelled.is_none(), "on real far memory: {modelled:?}");
    let stored = |placement: &str, tier: &str| {
        let found = metrics.iter().find(|metric| {
            let is = |key: &str, value: &str| {
                metric
                    .dimensions
                    .get(key)
                    .is_some_and(|found| found == value)
            };
            metric.metric == "tpch_stored_bytes" && is("placement", placement) && is("tier", tier)
        });
        found.and_then(|metric| metric.value.get()).unwrap_or(0.0)
    };
    let all = stored("near", "near");
    assert!(all > 1e6, "{text}");
    assert_eq!(stored("near", "cpuless"), 0.0, "{text}");
    assert_eq!(stored("far", "cpuless"), all, "{text}");
    let half = stored("interleave:1:1", "cpuless") / all;
    assert!((0.4..=0.6).contains(&half), "{half}");
    let checked = metrics
        .iter()
        .find(|metric| metric.metric == "tpch_checked_queries");
    assert_eq!(
        checked.and_then(|metric| metric.value.get()),
        Some(2.0),
        "{text}"
    );
}

/// The ratios of the bytes that the placement `far` has on the far tier.
fn far_bytes_ratios(metrics: &[results::Metric]) -> Vec<f64> {
    let ratios = metrics.iter().filter(|one| {
        one.metric == "ratio"
            && one.dimensions["of"] == "tpch_stored_bytes"
            && one.dimensions["figure"] == "far, far"
    });
    ratios.filter_map(|one| one.value.get()).collect()
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn benchmarks_on_the_second_node_are_compared_with_the_model() {
    let scan = [
        "bench",
        "scan",
        "--threads",
        "1",
        "--column",
        "160MiB",
        "--rounds",
        "1",
    ];
    let scan = [&scan[..], &["--placement", "far"]].concat();
    let tpch = [
        "tpch",
        "--sf",
        "0.01",
        "--runs",
        "1",
        "--queries",
        "6",
        "--no-check",
    ];
    let tpch = [&tpch[..], &["--placement", "far"]].concat();
    let heap = ["bench", "heap", "--sf", "0.002", "--runs", "1"];
    let benchmarks = [
        (
            scan,
            "bandwidth_bytes_per_s",
            "scan, selectivity_percent 100.0",
        ),
        (tpch, "tpch_query_seconds", "far, query 6"),
        (heap.to_vec(), "heap_relative_throughput", "main-far, scan"),
    ];
    for (benchmark, metric, of) in benchmarks {
        let with_model = [
            "--profile",
            "cxl-blades-1",
            "--compare-model",
            "--format",
            "json",
        ];
        let text = run([&benchmark[..], &with_model].concat()).succeeded();
        let (_, metrics) = results::read(text.as_bytes()).expect("the documented schema");
        let ratio = metrics.iter().find(|one| {
            let said = |name: &str| one.dimensions.get(name).and_then(|value| value.as_str());
            one.metric == "ratio" && said("of") == Some(metric) && said("figure") == Some(of)
        });
        let ratio = ratio.unwrap_or_else(|| panic!("{metric} of {of} is missing in\n{text}"));
        assert_eq!(ratio.dimensions["first_kind"], "measured");
        assert_eq!(ratio.dimensions["second_kind"], "modelled");
        assert!(ratio.value.get().is_some_and(|ratio| ratio > 0.0));
        if metric == "tpch_query_seconds" {
            assert_eq!(far_bytes_ratios(&metrics), [1.0]);
        }
    }
    let own_name = [
        "tpch",
        "--placement",
        "cpuless",
        "--profile",
        "cxl-blades-1",
        "--compare-model",
    ];
    run(own_name).failed(3, &["cpuless"]);
}

/// A session of `nearfar sql` that answers in CSV.
struct Session {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn start() -> Self {
        let mut command = program();
        command.args(["sql", "--tpch", "0.003", "--format", "csv"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self {
            child,
            input,
            output,
        }
    }

    /// Runs statements, the last of which gives one row of numbers.
    fn numbers(&mut self, statements: &str) -> Vec<u64> {
        self.input
            .write_all(statements.as_bytes())
            .expect("written");
        self.input.flush().expect("written");
        let mut line = || self.output.next().expect("an answer").expect("text");
        let (header, row) = (line(), line());
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{header}\n{row}"));
        row.split(',').map(number).collect()
    }

    /// Bytes of the process that lie on node 1, as the kernel counts them.
    fn bytes_on_node_1(&self) -> u64 {
        let file = format!("/proc/{}/numa_maps", self.child.id());
        let text = fs::read_to_string(file).expect("read");
        let on_node = |line: &str| -> Option<u64> {
            let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
            let kib: u64 = field("kernelpagesize_kB=")?.parse().ok()?;
            Some(field("N1=")?.parse::<u64>().ok()? * kib * 1024)
        };
        text.lines().filter_map(on_node).sum()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const WHERE_IT_LIES: &str =
    "SELECT near_bytes, far_bytes FROM nearfar.tables WHERE table_name = 'lineitem';\n";
const SUM: &str = "SELECT sum(l_orderkey) FROM lineitem;\n";

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn tablespaces_are_nodes() {
    let mut session = Session::start();
    let sum = session.numbers(SUM);
    let near = session.numbers(WHERE_IT_LIES);
    assert!(near[0] > 1 << 18 && near[1] == 0, "{near:?}");
    let before = session.bytes_on_node_1();

    let moved = format!("ALTER TABLE lineitem SET TABLESPACE far;\n{WHERE_IT_LIES}");
    assert_eq!(session.numbers(&moved), [0, near[0]]);
    let grown = session.bytes_on_node_1() - before;
    assert!(grown >= near[0], "{grown} of {} bytes", near[0]);
    assert_eq!(session.numbers(SUM), sum);

    let column = format!(
        "ALTER TABLE lineitem ALTER COLUMN l_comment SET TABLESPACE near;\n{WHERE_IT_LIES}"
    );
    let split = session.numbers(&column);
    assert!(
        split[0] > 0 && split[1] > 0 && split[0] + split[1] == near[0],
        "{split:?}"
    );
    let kept = session.bytes_on_node_1() - before;
    assert!(
        kept >= split[1] && kept < grown,
        "{kept} bytes on node 1, {split:?}"
    );

    let back = format!("ALTER TABLE lineitem SET TABLESPACE near;\n{WHERE_IT_LIES}");
    assert_eq!(session.numbers(&back), [near[0], 0]);
    let left = session.bytes_on_node_1().saturating_sub(before);
    assert!(left < near[0] / 10, "{left} bytes are still on node 1");
    assert_eq!(session.numbers(SUM), sum);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn operator_memory_can_lie_on_the_second_node() {
    let mut session = Session::start();
    let used = "SELECT peak_bytes FROM nearfar.tiers WHERE name = 'cpuless';\n";
    let before = session.numbers(used)[0];
    let grouped = "SET heap_tablespace = far;\n\
        SELECT count(*) FROM (SELECT l_orderkey, count(*) FROM lineitem GROUP BY 1);\n";
    assert_eq!(session.numbers(grouped), [4_500]);
    let after = session.numbers(used)[0];
    assert!(after > before + (64 << 10), "{before} then {after} bytes");
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn storage_and_both_tiers_are_measured_beside_each_other() {
    measured_beside_each_other(
        &["cpuless ld", "ssd randread"],
        &["near ntst", "cpuless ntst", "ssd randwrite"],
    );
}

/// The far group shares its processor with the victim, the near one does not: what a quota takes from the former, the
/// victim has again.
#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_victim_has_its_speed_back_and_a_killed_regulator_is_undone() {
    const FAR: &str = "nearfar-loop-far";
    const NEAR: &str = "nearfar-loop-near";
    let folder = temp();
    let victim = Victim::start(folder.path());
    Group::make(&[FAR, NEAR]);
    let journal = folder.path().join("journal");
    let mut command = program();
    command.args(["regulate", "--group", FAR, "--group", NEAR, "--goal", "80"]);
    command.args(["--watch", "metric", "--lower-is-better", "--metric-file"]);
    command.arg(&victim.file).arg("--journal").arg(&journal);
    command.args(["--metric-alone", &Victim::ALONE.to_string()]);
    let told = folder.path().join("told");
    command.stdout(fs::File::create(&told).expect("made"));
    let mut regulator = Task(command.spawn().expect("started"));

    let (near, far) = (Group::start(NEAR, 1, 0), Group::start(FAR, 0, 1));
    until("the far group is slowed", || far.quota() != UNLIMITED);
    let slowed = victim.time();
    let wanted = Victim::ALONE * 10 / 7;
    until("the victim has its speed back", || {
        victim.time() <= wanted && far.quota() != UNLIMITED
    });
    assert_eq!(near.quota(), UNLIMITED, "{slowed} slowed");
    regulator.0.kill().expect("killed");
    regulator.0.wait().expect("ended");
    assert_ne!(far.quota(), UNLIMITED);
    let told = fs::read_to_string(told).expect("read");
    assert!(told.contains(&format!("the cause is {FAR} ")), "{told}");

    let restored = run([
        "regulate".as_ref(),
        "restore".as_ref(),
        "--journal".as_ref(),
        journal.as_os_str(),
    ]);
    assert_eq!(restored.succeeded_telling(FAR), "");
    assert_eq!(far.quota(), UNLIMITED);
}
