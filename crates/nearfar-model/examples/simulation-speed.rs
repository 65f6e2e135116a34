//! How many lines of memory the simulator follows per second of one core.
//!
//! ```console
//! $ cargo run --release -p nearfar-model --example simulation-speed
//! ```
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::time::Instant;

use nearfar_model::Probe;
use nearfar_model::simulation::pattern::{Order, Pattern};
use nearfar_model::simulation::{
    Access, AddressMap, Caches, Machine, Outcome, PlacedBuffer, Program, Simulation, TierName,
    VirtualProbe,
};
use nearfar_topology::Profile;

/// Region and devices of weisgut-2025, figure 4.
const REGION_BYTES: u64 = 7 << 30;
const DEVICES: u32 = 4;
const LINES: u64 = 2_000_000;
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new(&Profile::builtin("cxl-blades-4")?)?;
    println!(
        "{:<34} {:>7} {:>14} {:>17}",
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
    let data = vec![0_u8; 64 << 20];
    for threads in [1_usize, 24] {
        report("real code, reads of 8 B", threads as u64, || {
            real_code(&machine, &data, threads, 8, |probe, at| probe.read(at, 8))
        })?;
        report("real code, streams of 4 KiB", threads as u64, || {
            real_code(&machine, &data, threads, 4096, |probe, at| {
                probe.stream(at, 4096);
            })
        })?;
    }
    Ok(())
}

type Result2 = Result<Outcome, Box<dyn std::error::Error>>;

fn report(
    name: &str,
    threads: u64,
    run: impl Fn() -> Result2,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut rates = Vec::new();
    let mut requests_per_line = 0.0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let outcome = run()?;
        rates.push(outcome.lines as f64 / start.elapsed().as_secs_f64() / 1e6);
        requests_per_line = outcome.requests() as f64 / outcome.lines as f64;
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<34} {threads:>7} {:>14.1} {requests_per_line:>17.2}",
        rates[RUNS / 2]
    );
    Ok(())
}

fn pattern(machine: &Machine, order: Order, access: Access, bytes: u32, threads: u64) -> Result2 {
    let programs = (0..threads).map(|thread| {
        let pattern = Pattern::new(access, order, bytes, REGION_BYTES, thread, threads, 1);
        Box::new(pattern) as Box<dyn Program>
    });
    let mut map = AddressMap::new();
    map.add(
        0,
        REGION_BYTES >> 12,
        machine.devices(TierName::Far, DEVICES)?,
    );
    let simulation = Simulation::new(machine, map, programs.collect(), Caches::Streaming)?;
    Ok(simulation.measure(0, LINES))
}

/// Every thread reports one pass over its part of `data`.
fn real_code(
    machine: &Machine,
    data: &[u8],
    threads: usize,
    step: usize,
    touch: impl Fn(&VirtualProbe, usize) + Copy + Send,
) -> Result2 {
    let range = data.as_ptr_range();
    let buffer = PlacedBuffer {
        addresses: range.start.addr()..range.end.addr(),
        cycle: machine.devices(TierName::Far, DEVICES)?,
    };
    let part = data.len() / threads / 4096 * 4096;
    let closures = (0..threads).map(|thread| {
        let base = range.start.addr() + thread * part;
        move |probe: &VirtualProbe| {
            (0..part)
                .step_by(step)
                .for_each(|at| touch(probe, base + at))
        }
    });
    Ok(machine.run(&[buffer], closures.collect())?)
}
