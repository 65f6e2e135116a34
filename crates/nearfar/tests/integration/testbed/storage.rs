//! The NVMe disk of a guest beside its memory.

use std::process::Command;

use nearfar_measure::results;

use crate::support::run;

/// Runs `nearfar measure interference` with these names under test, and these beside them, and checks that each moved
/// something.
pub fn measured_beside_each_other(under_test: &[&str], beside: &[&str]) {
    let script = "modprobe nvme; until [ -b /dev/nvme0n1 ]; do sleep 0.1; done";
    let done = Command::new("sh").args(["-c", script]).status();
    assert!(done.expect("started").success());
    let text = run([
        "measure",
        "interference",
        "--time=3",
        "--settle=0.2",
        "--repetitions=1",
        "--region-size=4MiB",
        "--threads=1",
        "--background-threads=1",
        "--storage=/dev/nvme0n1",
        "--storage-overwrite",
        &format!("--under-test={}", under_test.join(",")),
        &format!("--beside={}", beside.join(",")),
        "--format=json",
    ])
    .succeeded();
    let (_, found) = results::read(text.as_bytes()).expect("the documented schema");
    let moved = |role: &str, key: &str, name: &str| {
        let rate = found.iter().find_map(|metric| {
            let is = |key: &str, value: &str| {
                let found = metric.dimensions.get(key);
                found.and_then(|found| found.as_str()) == Some(value)
            };
            let is_it = is("role", role) && is(key, name);
            is_it.then(|| metric.value.get()).flatten()
        });
        assert!(rate.is_some_and(|rate| rate > 0.0), "{name}: {text}");
    };
    for name in under_test {
        moved("tested", "tested", name);
    }
    for name in beside {
        moved("background", "beside", name);
    }
}
