//! How many accesses to lines the simulator follows per second on one core: the benchmarks of
//! weisgut-2025, figure 4, on four devices, and real code through the probe.
//!
//! ```console
//! $ cargo run --release -p nearfar-model --example simulation-speed
//! ```
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::Instant;

use nearfar_model::Probe;
use nearfar_model::simulation::pattern::{Order, Pattern};
use nearfar_model::simulation::{
    Access, AddressMap, Caches, Machine, Outcome, PlacedBuffer, Program, Simulation, TierName,
    VirtualProbe,
};
use nearfar_topology::Profile;

const REGION_BYTES: u64 = 7 << 30;
const DEVICES: u32 = 4;
const LINES: u64 = 1_000_000;
const DATA_BYTES: usize = 32 << 20;
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::new(&Profile::builtin("cxl-blades-4")?)?;
    println!(
        "{:<28} {:>7} {:>9} {:>17}",
        "workload", "threads", "million/s", "requests per line"
    );
    let operations = [
        ("sequential reads", Order::Sequential, Access::Load),
        ("random reads", Order::Random, Access::Load),
        ("sequential writes", Order::Sequential, Access::Store),
        ("random writes", Order::Random, Access::Store),
    ];
    for (name, order, access) in operations {
        for bytes in [64, 4096] {
            for threads in [1, 24, 48] {
                report(&format!("{name} of {bytes} B"), threads, || {
                    pattern(&machine, order, access, bytes, threads)
                })?;
            }
        }
    }
    let data = vec![0_u8; DATA_BYTES];
    for bytes in [8, 4096] {
        for threads in [1, 24] {
            report(&format!("real code, reads of {bytes} B"), threads, || {
                real_code(&machine, &data, bytes, threads as usize)
            })?;
        }
    }
    Ok(())
}

/// Prints the median of some runs.
fn report(
    workload: &str,
    threads: u64,
    run: impl Fn() -> Result<Outcome, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut rates = Vec::new();
    let mut requests_per_line = 0.0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let outcome = run()?;
        rates.push(outcome.lines as f64 / start.elapsed().as_secs_f64() / 1e6);
        requests_per_line = outcome.requests() as f64 / outcome.lines as f64;
    }
    rates.sort_by(f64::total_cmp);
    let median = rates[RUNS / 2];
    println!("{workload:<28} {threads:>7} {median:>9.1} {requests_per_line:>17.2}");
    Ok(())
}

fn pattern(
    machine: &Machine,
    order: Order,
    access: Access,
    bytes: u32,
    threads: u64,
) -> Result<Outcome, Box<dyn Error>> {
    let programs = (0..threads).map(|thread| {
        let pattern = Pattern::new(access, order, bytes, REGION_BYTES, thread, threads, 1);
        Box::new(pattern) as Box<dyn Program>
    });
    let devices = machine.devices(TierName::Far, DEVICES)?;
    let mut map = AddressMap::new();
    map.add(0, REGION_BYTES >> 12, devices);
    let simulation = Simulation::new(machine, map, programs.collect(), Caches::Streaming)?;
    Ok(simulation.measure(0, LINES))
}

/// Every thread reports one pass over its part of `data`.
fn real_code(
    machine: &Machine,
    data: &[u8],
    bytes: usize,
    threads: usize,
) -> Result<Outcome, Box<dyn Error>> {
    let range = data.as_ptr_range();
    let buffer = PlacedBuffer {
        addresses: range.start.addr()..range.end.addr(),
        cycle: machine.devices(TierName::Far, DEVICES)?,
    };
    let part = data.len() / threads / 4096 * 4096;
    let closures = (0..threads).map(|thread| {
        let first = range.start.addr() + thread * part;
        move |probe: &VirtualProbe| {
            for at in (0..part).step_by(bytes) {
                probe.read(first + at, bytes);
            }
        }
    });
    Ok(machine.run(&[buffer], closures.collect())?)
}
