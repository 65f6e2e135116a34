//! How many accesses to lines the simulator follows per second on one core: the benchmarks of
//! weisgut-2025, figure 4, on four devices, and real code through the probe.
//!
//! ```console
//! $ cargo run --release -p nearfar-model --example simulation-speed
//! $ cargo run --release -p nearfar-model --example simulation-speed -- --format json
//! $ cargo run --release -p nearfar-model --example simulation-speed -- --only 'random reads' --runs 1
//! ```
//!
//! All workloads together are `simulated_lines_per_s`: as many lines of each, over the sum of their
//! median times.
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

/// What is run.
struct Workload {
    name: String,
    threads: u64,
    kind: Kind,
    bytes: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Pattern(Order, Access),
    RealCode,
}

/// What is asked for on the command line.
struct Arguments {
    json: bool,
    /// A part of the names of the workloads to run.
    only: String,
    runs: usize,
}

/// A workload's median.
struct Rate {
    lines_per_s: f64,
    requests_per_line: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    let machine = Machine::new(&Profile::builtin("cxl-blades-4")?)?;
    let data = vec![0_u8; DATA_BYTES];
    if !arguments.json {
        println!(
            "{:<28} {:>7} {:>9} {:>17}",
            "workload", "threads", "million/s", "requests per line"
        );
    }
    let mut rates = Vec::new();
    for workload in workloads() {
        if !workload.name.contains(&arguments.only) {
            continue;
        }
        let rate = rate(arguments.runs, || workload.run(&machine, &data))?;
        if !arguments.json {
            let Workload { name, threads, .. } = &workload;
            let (million, requests) = (rate.lines_per_s / 1e6, rate.requests_per_line);
            println!("{name:<28} {threads:>7} {million:>9.1} {requests:>17.2}");
        }
        rates.push((workload, rate));
    }
    print_all(&arguments, &rates);
    Ok(())
}

/// Prints what all workloads give together and, as JSON, each of them.
fn print_all(arguments: &Arguments, rates: &[(Workload, Rate)]) {
    let seconds_per_line: f64 = rates.iter().map(|(_, rate)| 1.0 / rate.lines_per_s).sum();
    let together = rates.len() as f64 / seconds_per_line;
    let of = |rate: &Rate| rate.lines_per_s;
    let slowest = rates
        .iter()
        .map(|(_, rate)| of(rate))
        .fold(f64::MAX, f64::min);
    if !arguments.json {
        println!("{:<28} {:>7} {:>9.1}", "all", "", together / 1e6);
        return;
    }
    let workloads = rates.iter().map(|(workload, rate)| {
        format!(
            "    {{\"workload\": \"{}\", \"threads\": {}, \"simulated_lines_per_s\": {:.0}, \
             \"requests_per_line\": {:.3}}}",
            workload.name, workload.threads, rate.lines_per_s, rate.requests_per_line
        )
    });
    let workloads: Vec<_> = workloads.collect();
    println!(
        "{{\n  \"simulated_lines_per_s\": {together:.0},\n  \
         \"simulated_lines_per_s_slowest\": {slowest:.0},\n  \"workloads\": [\n{}\n  ]\n}}",
        workloads.join(",\n")
    );
}

impl Arguments {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self {
            json: false,
            only: String::new(),
            runs: RUNS,
        };
        let mut words = std::env::args().skip(1);
        while let Some(option) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{option} needs a value"))?;
            match (option.as_str(), value.as_str()) {
                ("--format", "json") => arguments.json = true,
                ("--format", "text") => arguments.json = false,
                ("--only", part) => part.clone_into(&mut arguments.only),
                ("--runs", count) => arguments.runs = count.parse::<usize>()?.max(1),
                _ => {
                    let usage = "--format json|text, --only PART-OF-A-NAME, --runs COUNT";
                    return Err(format!("unknown: {option} {value}; there are {usage}").into());
                }
            }
        }
        Ok(arguments)
    }
}

fn workloads() -> Vec<Workload> {
    let operations = [
        ("sequential reads", Order::Sequential, Access::Load),
        ("random reads", Order::Random, Access::Load),
        ("sequential writes", Order::Sequential, Access::Store),
        ("random writes", Order::Random, Access::Store),
    ];
    let mut workloads = Vec::new();
    for (name, order, access) in operations {
        for bytes in [64, 4096] {
            workloads.extend([1, 24, 48].map(|threads| Workload {
                name: format!("{name} of {bytes} B"),
                threads,
                kind: Kind::Pattern(order, access),
                bytes,
            }));
        }
    }
    for bytes in [8, 4096] {
        workloads.extend([1, 24].map(|threads| Workload {
            name: format!("real code, reads of {bytes} B"),
            threads,
            kind: Kind::RealCode,
            bytes,
        }));
    }
    workloads
}

impl Workload {
    fn run(&self, machine: &Machine, data: &[u8]) -> Result<Outcome, Box<dyn Error>> {
        match self.kind {
            Kind::Pattern(order, access) => {
                pattern(machine, order, access, self.bytes, self.threads)
            }
            Kind::RealCode => real_code(machine, data, self.bytes as usize, self.threads as usize),
        }
    }
}

/// The median of some runs.
fn rate(
    runs: usize,
    run: impl Fn() -> Result<Outcome, Box<dyn Error>>,
) -> Result<Rate, Box<dyn Error>> {
    let mut rates = Vec::new();
    let mut requests_per_line = 0.0;
    for _ in 0..runs {
        let start = Instant::now();
        let outcome = run()?;
        rates.push(outcome.lines as f64 / start.elapsed().as_secs_f64());
        requests_per_line = outcome.requests() as f64 / outcome.lines as f64;
    }
    rates.sort_by(f64::total_cmp);
    Ok(Rate {
        lines_per_s: rates[runs / 2],
        requests_per_line,
    })
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
