//! Operators on near memory without rivals: what `nearfar bench operators` times of ours, as medians.
//!
//! `operators-native [ROUNDS] [BUILD_BYTES …]`

#![allow(clippy::print_stdout)]

use std::time::Instant;

use nearfar_measure::operators::native::{JOIN_ROW_BYTES, JoinColumns, ReadColumn, join};
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;

const COLUMN_BYTES: usize = 128 << 20;
const PROBE_ROWS: usize = 4 << 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let numbers = numbers?;
    let rounds = numbers.first().copied().unwrap_or(15).max(1);
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let column = ReadColumn::new(&system, COLUMN_BYTES)?;
    column.round()?;
    let taken: Result<Vec<_>, _> = (0..rounds).map(|_| column.round()).collect();
    let taken = taken?;
    let gb_per_s = |seconds: f64| COLUMN_BYTES as f64 / seconds / 1e9;
    let of = |which: fn(&nearfar_measure::operators::native::ReadRound) -> f64| {
        let seconds = median(taken.iter().map(which).collect());
        let ratio = median(
            taken
                .iter()
                .map(|round| round.read_s / which(round))
                .collect(),
        );
        format!("{:6.2} GB/s  ratio to read {ratio:.3}", gb_per_s(seconds))
    };
    println!("read     {}", of(|round| round.read_s));
    println!("sum      {}", of(|round| round.sum_s));
    println!("summary  {}", of(|round| round.summary_s));
    println!("filter   {}", of(|round| round.filter_s));
    for build_bytes in numbers.iter().skip(1) {
        let sides = JoinColumns::new(*build_bytes, PROBE_ROWS);
        let mut times = Vec::new();
        for _ in 0..=rounds {
            let began = Instant::now();
            join(
                [&sides.build_keys, &sides.build_values],
                [&sides.probe_keys, &sides.probe_values],
            )?;
            times.push(began.elapsed().as_secs_f64());
        }
        let seconds = median(times.split_off(1));
        println!(
            "join     build rows {:9}  {:7.2} ms  {:5.2} ns for each probe row",
            build_bytes / JOIN_ROW_BYTES,
            seconds * 1e3,
            seconds * 1e9 / PROBE_ROWS as f64
        );
    }
    Ok(())
}
