//! Loading and dropping tables again and again leaves no memory behind, by Nearfar's account and by
//! the kernel's.

use super::support::{region_bytes, run, two_tiers};
use std::fs;
use std::process::Command;

/// Set in the process in which the test is alone.
const ALONE: &str = "NEARFAR_TEST_ALONE";

/// Bytes of anonymous memory that the kernel says this process has.
fn resident_bytes() -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").expect("the kernel's list of mappings");
    let anonymous = maps
        .lines()
        .filter_map(|line| line.strip_prefix("Anonymous:"));
    let kib =
        anonymous.filter_map(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.sum::<u64>() << 10
}

/// Other tests of this process would disturb the kernel's numbers, so the test runs itself alone in
/// another one.
#[test]
fn tables_that_are_dropped_give_all_memory_back() {
    if std::env::var_os(ALONE).is_some() {
        return load_and_drop();
    }
    let program = std::env::current_exe().expect("this program");
    let name = "leaks::tables_that_are_dropped_give_all_memory_back";
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

fn load_and_drop() {
    const TABLE_BYTES: u64 = 64 << 20;
    /// What the heap of a process may grow by over the rounds.
    const SLACK_BYTES: u64 = 24 << 20;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let engine = two_tiers();
    let session = engine.session();
    // Scrambled, so that values stay eight bytes wide; one partition, so few rows are held.
    let load = "CREATE TABLE t WITH (placement = 'interleave:1:1') AS
                SELECT (value * 2654435761) % 9007199254740993 * 1023 AS a FROM generate_series(1, 8388608)";
    let mut rounds = Vec::new();
    for _ in 0..4 {
        runtime.block_on(run(&session, load));
        let (loaded, accounted) = (resident_bytes(), region_bytes(&engine));
        assert!(accounted >= TABLE_BYTES, "{accounted} bytes");
        runtime.block_on(run(
            &session,
            "ALTER TABLE t SET TABLESPACE far; DROP TABLE t",
        ));
        assert_eq!(region_bytes(&engine), 0);
        rounds.push((loaded, resident_bytes(), accounted));
    }
    let (_, first, _) = rounds[0];
    for (loaded, dropped, accounted) in &rounds[1..] {
        let told = format!("{rounds:?}");
        assert!(
            loaded - dropped + SLACK_BYTES > *accounted,
            "less was given back: {told}"
        );
        assert!(*dropped < first + SLACK_BYTES, "more is kept: {told}");
    }
}
