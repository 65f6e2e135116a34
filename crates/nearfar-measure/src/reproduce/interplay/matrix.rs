//! Table III: every operation on one device beside every operation on another.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use nearfar_model::simulation::{Access, Group, Machine, MachineError, TierName};

use super::system::{System, first_two};
use crate::interference::{self, Effect, MemoryOperation};

/// Threads of the device under test.
const TESTED_THREADS: [usize; 5] = [2, 4, 8, 16, 24];
/// Threads of the background.
const BACKGROUND_THREADS: [usize; 5] = [8, 16, 24, 32, 40];

const TABLE: &str = include_str!("../data/mao_table3.csv");

/// One cell: published and modelled.
#[derive(Debug, Clone, PartialEq)]
pub struct InterplayCell {
    /// The machine.
    pub system: System,
    /// Device under test: `MMEM` or `CXL`.
    pub device: String,
    /// What is done to it: `ld`, `st` or `ntst`.
    pub operation: String,
    /// Device of the background: `MMEM`, `CXL` or `SSD`.
    pub background: String,
    /// What is done to that: an operation, or a column of the SSD.
    pub background_operation: String,
    /// Largest change of the bandwidth against running alone, in per cent.
    pub published_percent: f64,
    /// The same in the model.
    pub modelled_percent: f64,
    /// Threads of the device under test, with which the change is largest.
    pub threads: usize,
    /// Threads of the background, likewise.
    pub background_threads: usize,
    /// Modelled bandwidth alone, with that many threads.
    pub alone_gb_per_s: f64,
    /// Change in per cent by threads of the background.
    pub curve: Vec<(usize, f64)>,
}

impl InterplayCell {
    /// Class of the published change.
    pub fn published(&self) -> Effect {
        Effect::of_percent(self.published_percent)
    }

    /// Class of the modelled change.
    pub fn modelled(&self) -> Effect {
        Effect::of_percent(self.modelled_percent)
    }

    /// Whether sign and class are those published.
    pub fn is_right(&self) -> bool {
        self.published() == self.modelled()
    }

    /// A cell of the file, of which nothing was modelled yet.
    fn parse(line: &str) -> Option<Self> {
        let [
            system,
            device,
            operation,
            background,
            background_operation,
            percent,
        ] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            system: System::ALL.into_iter().find(|one| one.name() == system)?,
            device: device.to_owned(),
            operation: operation.to_owned(),
            background: background.to_owned(),
            background_operation: background_operation.to_owned(),
            published_percent: percent.parse().ok()?,
            modelled_percent: 0.0,
            threads: 0,
            background_threads: 0,
            alone_gb_per_s: 0.0,
            curve: Vec::new(),
        })
    }
}

/// All cells.
#[derive(Debug, Clone, PartialEq)]
pub struct InterplayTable {
    /// In the paper's order.
    pub cells: Vec<InterplayCell>,
}

impl InterplayTable {
    /// Its word in commands and results.
    pub const fn name() -> &'static str {
        "mao-table3"
    }

    /// Share of the cells with the right sign and class, of one system or of both.
    pub fn right_percent(&self, system: Option<System>) -> f64 {
        let cells = self.cells.iter();
        let of_system = cells.filter(|cell| system.is_none_or(|system| system == cell.system));
        let (right, all) = of_system.fold((0, 0), |(right, all), cell| {
            (right + usize::from(cell.is_right()), all + 1)
        });
        100.0 * right as f64 / all.max(1) as f64
    }
}

/// Runs table III in virtual time; `progress` is told of every cell done, and of how many there are.
///
/// # Errors
/// None for the built-in profiles.
pub fn reproduce_interplay(
    progress: impl FnMut(usize, usize),
) -> Result<InterplayTable, MachineError> {
    run_cells(published_cells(), progress)
}

/// The cells of the table, of which nothing was modelled yet.
pub(in crate::reproduce) fn published_cells() -> Vec<InterplayCell> {
    let lines = TABLE.lines().skip_while(|line| line.starts_with('#'));
    lines.skip(1).filter_map(InterplayCell::parse).collect()
}

/// Runs some cells of table III, as [`reproduce_interplay`] does all.
///
/// # Errors
/// None for the built-in profiles.
pub(in crate::reproduce) fn run_cells(
    cells: Vec<InterplayCell>,
    mut progress: impl FnMut(usize, usize),
) -> Result<InterplayTable, MachineError> {
    let [a, b] = System::ALL.map(System::machine);
    let (a, b) = (a?, b?);
    let all = cells.len();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(cells.into_iter().enumerate());
    let next = || waiting.lock().expect("no worker panics").next();
    let (done, outcomes) = channel();
    let mut found = BTreeMap::new();
    thread::scope(|scope| {
        for _ in 0..workers.min(all) {
            let done = done.clone();
            scope.spawn(|| {
                let done = done;
                while let Some((at, cell)) = next() {
                    let machine = match cell.system {
                        System::A => &a,
                        System::B => &b,
                    };
                    // Nobody waits only if the other thread has panicked.
                    let _ = done.send((at, run(cell, machine)));
                }
            });
        }
        drop(done);
        for (at, outcome) in outcomes {
            found.insert(at, outcome);
            progress(found.len(), all);
        }
    });
    let cells: Result<_, _> = found.into_values().collect();
    Ok(InterplayTable { cells: cells? })
}

/// Runs one cell over all numbers of threads.
fn run(mut cell: InterplayCell, machine: &Machine) -> Result<InterplayCell, MachineError> {
    let (tested, others) = match cell.device.as_str() {
        "MMEM" => (TierName::Near, TierName::Far),
        _ => (TierName::Far, TierName::Near),
    };
    let backgrounds: Vec<(usize, Vec<Group>)> = match access(&cell.background_operation) {
        Some(access) => BACKGROUND_THREADS
            .map(|threads| (threads, vec![Group::new(others, access, threads)]))
            .into(),
        None => vec![(1, cell.system.storage().to_vec())],
    };
    let operation = access(&cell.operation).unwrap_or(Access::Load);
    for threads in TESTED_THREADS {
        let group = Group::new(tested, operation, threads);
        let (alone, _) = first_two(machine, &[group])?;
        let mut curve = Vec::new();
        for (count, background) in &backgrounds {
            if threads + count > machine.cores as usize {
                continue;
            }
            let mut groups = vec![group];
            groups.extend(background);
            let (beside, _) = first_two(machine, &groups)?;
            curve.push((*count, (beside / alone - 1.0) * 100.0));
        }
        let largest = curve.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        let Some(&(count, change)) = largest else {
            continue;
        };
        if cell.curve.is_empty() || change.abs() > cell.modelled_percent.abs() {
            cell.modelled_percent = change;
            cell.threads = threads;
            cell.background_threads = count;
            cell.alone_gb_per_s = alone;
            cell.curve = curve;
        }
    }
    Ok(cell)
}

fn access(word: &str) -> Option<Access> {
    let known = MemoryOperation::ALL
        .into_iter()
        .find(|one| one.name() == word);
    known.map(interference::access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_its_cells() {
        let lines = TABLE.lines().skip_while(|line| line.starts_with('#'));
        let cells: Vec<_> = lines.skip(1).map(InterplayCell::parse).collect();
        assert_eq!(cells.iter().flatten().count(), 48);
        assert_eq!(cells.len(), 48);
    }
}
