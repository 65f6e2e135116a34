//! `cargo xtask capture-sysfs`.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::arguments::CaptureArguments;
use crate::build;
use crate::guest::{Job, Step};
use crate::testbed::{launcher, place};
use crate::topology::{ALL, Topology, find};

const PACKAGE: &str = "nearfar-topology";
const PROGRAM: &str = "capture-sysfs";

/// Records the sysfs of each topology as a fixture named after it, `testbed-NAME`.
pub fn run(arguments: &CaptureArguments) -> Result<ExitCode> {
    let named = arguments.topologies.iter().map(|name| find(name));
    let mut topologies: Vec<&Topology> = named.collect::<Result<_>>()?;
    if topologies.is_empty() {
        // Each of two hosts is one that another topology has alone.
        topologies = ALL.iter().filter(|topology| topology.hosts == 1).collect();
    }
    let launcher = launcher(&arguments.machine)?;
    let kernel = launcher.image().versions()?.kernel;
    let qemu = launcher
        .image()
        .versions()?
        .of("qemu-system-x86")
        .to_owned();
    let program = build::example(PACKAGE, PROGRAM)?;
    let fixtures = build::workspace()?.join("crates/nearfar-topology/tests/fixtures");
    for topology in topologies {
        let job = Job {
            programs: vec![(PROGRAM.to_owned(), program.clone())],
            steps: vec![Step {
                command: vec![format!("/programs/{PROGRAM}")],
                environment: Vec::new(),
                limit: Duration::from_secs(60),
            }],
            shell: false,
        };
        let place = place(&arguments.machine, topology.name)?;
        let mut machine = launcher.start(topology, &job, place)?;
        machine.wait(job.limit(), |_| {})?;
        let exchange = machine.exchange();
        ensure!(
            exchange.exit_code(0) == Some(0),
            "{} was not recorded\n{}{}",
            topology.name,
            exchange.output(0, "stderr"),
            exchange.last_words()
        );
        let folder = fixtures.join(format!("testbed-{}", topology.name));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("sysfs.txt"), exchange.output(0, "stdout"))?;
        let about = about(topology, &kernel, &qemu);
        fs::write(folder.join("about.toml"), about)?;
        println!("recorded {}", folder.display());
    }
    println!("now run: NEARFAR_UPDATE_EXPECTED=1 cargo test -p {PACKAGE}; and read the difference");
    Ok(ExitCode::SUCCESS)
}

/// `about.toml` of a fixture.
fn about(topology: &Topology, kernel: &str, qemu: &str) -> String {
    let series: Vec<&str> = kernel.split('.').take(2).collect();
    let version = qemu.rsplit(':').next().unwrap_or(qemu);
    let version: Vec<&str> = version.split('.').take(2).collect();
    format!(
        "origin = \"recorded\"\nkernel = \"Linux {}\"\n\
         description = \"the testbed's {} (qemu {}): {}\"\n",
        series.join("."),
        topology.name,
        version.join("."),
        topology.summary
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_says_what_it_is() {
        let topology = find("one-node").unwrap();
        let about = about(topology, "6.12.107+deb13-amd64", "1:11.1.3+ds-1");
        assert!(about.contains("kernel = \"Linux 6.12\"\n"), "{about}");
        assert!(about.contains("one-node (qemu 11.1)"), "{about}");
    }
}
