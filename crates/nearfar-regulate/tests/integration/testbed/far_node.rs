//! A node without processors: who computes in its memory, and what a victim feels.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_regulate::attribution::Attribution;
use nearfar_regulate::control::{Goal, TierAware};
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::Quota;
use nearfar_regulate::machine::MachineFiles;
use nearfar_regulate::observe::{NearProbe, Observer, Pressure, Sureness};
use nearfar_regulate::regulator::{Candidate, Regulator};

use super::Constant;

const ROOT: &str = "/sys/fs/cgroup";
/// The group whose memory is on the node without processors, and one beside it.
const FAR: &str = "nearfar-far";
const NEAR: &str = "nearfar-near";
const UNLIMITED: &str = "max 100000\n";
/// What a worker has to have in its node's memory before anybody looks.
const WORKER_BYTES: u64 = 2 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn content(group: &str, name: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{group}/{name}")).unwrap()
}

/// A group with a process that keeps a processor busy and has its memory on one node, until it is dropped.
struct Worker(Child);

impl Worker {
    fn start(group: &str, node: u32) -> Self {
        fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu +memory").unwrap();
        fs::create_dir_all(Path::new(ROOT).join(group)).unwrap();
        let work = "text=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do :; done";
        let script = format!(
            "echo $$ > {ROOT}/{group}/cgroup.procs; exec numactl --membind={node} sh -c \"$0\""
        );
        let child = Command::new("sh").args(["-c", &script, work]).spawn();
        let worker = Self(child.unwrap());
        let began = Instant::now();
        while bytes_on(group, node) < WORKER_BYTES {
            assert!(
                began.elapsed() < PATIENCE,
                "{}",
                content(group, "memory.numa_stat")
            );
            thread::sleep(Duration::from_millis(50));
        }
        worker
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Bytes of programs that a group has on a node.
fn bytes_on(group: &str, node: u32) -> u64 {
    let text = content(group, "memory.numa_stat");
    let line = text.lines().find_map(|line| line.strip_prefix("anon "));
    let of_node = format!("N{node}=");
    let mut words = line.unwrap_or_default().split(' ');
    let bytes = words.find_map(|word| word.strip_prefix(&*of_node));
    bytes.map_or(0, |bytes| bytes.parse().unwrap())
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn of_two_groups_the_one_that_computes_in_far_memory_is_slowed() {
    let _workers = [Worker::start(FAR, 1), Worker::start(NEAR, 0)];
    let machine = MachineFiles::below(Path::new("/"));
    let groups = [FAR, NEAR];
    let names = groups.map(str::to_owned);
    let (attribution, missing) = Attribution::find(&machine, &names, &[]).unwrap();
    let attribution = attribution.expect("the kernel tells where memory is");
    assert_eq!(attribution.sureness(), Sureness::Inferred, "{missing:?}");
    let candidate =
        |group| Candidate::new(group, Box::new(Quota::find(&machine, group, 1).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    let mut regulator = Regulator::new(
        machine.clone(),
        Box::new(Constant(0.1)),
        Box::new(TierAware::new(Goal::default())),
        groups.map(candidate).into(),
        Some(journal),
    )
    .attributed_by(attribution);
    let began = Instant::now();
    let mut last = None;
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(200));
        last = Some(regulator.step(began.elapsed().as_secs_f64() * 1e3).unwrap());
    }
    let [far, near] = &last.unwrap().groups[..] else {
        panic!("two groups");
    };
    assert!(far.is_cause && far.granted < 1.0, "{far:?}");
    assert!(!near.is_cause && near.granted == 1.0, "{near:?}");
    assert_ne!(content(FAR, "cpu.max"), UNLIMITED);
    assert_eq!(content(NEAR, "cpu.max"), UNLIMITED);
    regulator.end().unwrap();
    assert_eq!(content(FAR, "cpu.max"), UNLIMITED);
}

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn a_victim_is_seen_by_its_pressure_and_by_latency() {
    let _worker = Worker::start(NEAR, 0);
    let machine = MachineFiles::below(Path::new("/"));
    let mut pressure = Pressure::find(&machine, NEAR).unwrap();
    let mut latency = NearProbe::new();
    let began = Instant::now();
    let mut seen = [f64::NAN; 2];
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(200));
        let now_ms = began.elapsed().as_secs_f64() * 1e3;
        seen = [
            pressure.victim(now_ms).unwrap(),
            latency.victim(now_ms).unwrap(),
        ];
    }
    for victim in seen {
        assert!((0.0..=1.0).contains(&victim) && victim > 0.0, "{seen:?}");
    }
}
