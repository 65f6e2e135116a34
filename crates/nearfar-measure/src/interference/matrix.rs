//! Which pairs there are, and the points to be run for them.

use std::fmt;

use super::error::InterferenceError;
use super::traffic::Traffic;
use crate::results::Gap;

/// What a machine offers to a matrix.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// Its tiers, near to far.
    pub tiers: Vec<String>,
    /// Processors that threads can have to themselves.
    pub cpus: usize,
    /// Why it has no storage to run on, if it has none.
    pub storage_gap: Option<String>,
    /// What lacks on it, whichever pairs are asked for.
    pub gaps: Vec<Gap>,
    /// Whether it is a model.
    pub is_virtual: bool,
}

/// Which part of the matrix is run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// What is under test, in words of its text such as `near ld` or `far`; all if empty.
    pub under_test: Vec<String>,
    /// What runs beside it, likewise.
    pub beside: Vec<String>,
    /// Threads of what is under test, each number for itself; if empty, half of the processors, or in
    /// the model the numbers of table III.
    pub threads: Vec<usize>,
    /// Threads of the background; if empty, 1, 2, 4 and so on.
    pub background_threads: Vec<usize>,
    /// Whether an application is under test instead of memory and storage.
    pub is_application: bool,
}

/// Something to be run: what is under test, alone or beside a background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// What is under test.
    pub subject: Traffic,
    /// Its threads.
    pub threads: usize,
    /// What runs beside it, and its threads.
    pub background: Option<(Traffic, usize)>,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject, threads, ..
        } = self;
        write!(formatter, "{subject}, {threads} threads")?;
        match &self.background {
            Some((traffic, threads)) => {
                write!(formatter, ", beside {traffic}, {threads} threads")
            }
            None => formatter.write_str(", alone"),
        }
    }
}

/// A pair that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCell {
    /// What would be under test.
    pub subject: Traffic,
    /// What would run beside it.
    pub background: Traffic,
    /// Why it is not.
    pub reason: String,
}

/// The points of all pairs that can be run, and the pairs that cannot.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What is run, in order: of each subject, alone and then beside everything.
    pub points: Vec<Point>,
    /// What is not.
    pub missing: Vec<MissingCell>,
}

impl Matrix {
    /// The matrix of a machine, or the selected part of it.
    ///
    /// # Errors
    /// [`InterferenceError::Selection`] for words that select nothing,
    /// [`InterferenceError::Processors`] where there are not two processors.
    pub fn new(selection: &Selection, ground: &Ground) -> Result<Self, InterferenceError> {
        if ground.cpus < 2 {
            return Err(InterferenceError::Processors { cpus: ground.cpus });
        }
        let subjects = match selection.is_application {
            true => vec![Traffic::Application],
            false => select(Traffic::subjects(&ground.tiers), &selection.under_test)?,
        };
        let backgrounds = select(Traffic::backgrounds(&ground.tiers), &selection.beside)?;
        let mut matrix = Self {
            points: Vec::new(),
            missing: Vec::new(),
        };
        for subject in subjects {
            matrix.add_subject(subject, &backgrounds, selection, ground);
        }
        Ok(matrix)
    }

    fn add_subject(
        &mut self,
        subject: Traffic,
        backgrounds: &[Traffic],
        selection: &Selection,
        ground: &Ground,
    ) {
        let mut beside = Vec::new();
        let threads = subject_threads(&subject, selection, ground);
        for background in backgrounds {
            if subject.is_process() && !selection.is_application && background.is_process() {
                // Storage beside itself is a matter of the device, which the paper leaves out too.
                continue;
            }
            let gap = gap(&subject, ground).or_else(|| gap(background, ground));
            let points = match &gap {
                Some(_) => Vec::new(),
                None => pair(&subject, background, &threads, selection, ground),
            };
            if points.is_empty() {
                let reason = gap.unwrap_or_else(|| {
                    let cpus = ground.cpus;
                    format!("no pair of the thread numbers fits on {cpus} processors")
                });
                self.missing.push(MissingCell {
                    subject: subject.clone(),
                    background: background.clone(),
                    reason,
                });
            }
            beside.extend(points);
        }
        for threads in threads {
            if beside.iter().any(|point: &Point| point.threads == threads) {
                self.points.push(Point {
                    subject: subject.clone(),
                    threads,
                    background: None,
                });
            }
        }
        self.points.extend(beside);
    }
}

fn select(all: Vec<Traffic>, words: &[String]) -> Result<Vec<Traffic>, InterferenceError> {
    if words.is_empty() {
        return Ok(all);
    }
    for selection in words {
        if !all.iter().any(|one| one.is_selected_by(selection)) {
            return Err(InterferenceError::Selection {
                words: selection.clone(),
                known: all.iter().map(ToString::to_string).collect(),
            });
        }
    }
    let is_selected = |one: &Traffic| words.iter().any(|selection| one.is_selected_by(selection));
    Ok(all.into_iter().filter(is_selected).collect())
}

/// Why traffic cannot be had on a machine.
fn gap(traffic: &Traffic, ground: &Ground) -> Option<String> {
    match traffic {
        Traffic::Storage(_) => ground.storage_gap.clone(),
        Traffic::Copy { operation, .. } if !ground.is_virtual => operation.operation().missing(),
        Traffic::Memory { operation, .. } if !ground.is_virtual => operation.operation().missing(),
        _ => None,
    }
}

/// Threads of mao-2025's device under test, and of its background, in the model.
const MODELLED_THREADS: [usize; 5] = [2, 4, 8, 16, 24];
const MODELLED_BACKGROUND_THREADS: [usize; 5] = [8, 16, 24, 32, 40];
/// Cores that storage has in the model: for its DMA, and for the thread that copies.
const STORAGE_CORES: usize = 2;

fn subject_threads(subject: &Traffic, selection: &Selection, ground: &Ground) -> Vec<usize> {
    match (&*selection.threads, ground.is_virtual) {
        (_, true) if matches!(subject, Traffic::Storage(_)) => vec![STORAGE_CORES],
        ([], true) => MODELLED_THREADS.into(),
        ([], false) => vec![(ground.cpus / 2).max(1)],
        (threads, _) => sorted(threads),
    }
}

fn background_threads(selection: &Selection, ground: &Ground) -> Vec<usize> {
    match (&*selection.background_threads, ground.is_virtual) {
        ([], true) => MODELLED_BACKGROUND_THREADS.into(),
        ([], false) => {
            let powers = (0..).map(|power| 1 << power);
            let mut threads: Vec<usize> = powers.take_while(|count| *count < ground.cpus).collect();
            threads.push(ground.cpus - (ground.cpus / 2).max(1));
            sorted(&threads)
        }
        (threads, _) => sorted(threads),
    }
}

fn sorted(threads: &[usize]) -> Vec<usize> {
    let mut threads = threads.to_vec();
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// All points of a pair that fit on disjoint processors.
fn pair(
    subject: &Traffic,
    background: &Traffic,
    threads: &[usize],
    selection: &Selection,
    ground: &Ground,
) -> Vec<Point> {
    let others = match background {
        Traffic::Storage(_) if ground.is_virtual => vec![STORAGE_CORES],
        _ => background_threads(selection, ground),
    };
    let mut points = Vec::new();
    for &threads in threads {
        let fits = others
            .iter()
            .filter(|others| threads + **others <= ground.cpus);
        points.extend(fits.map(|others| Point {
            subject: subject.clone(),
            threads,
            background: Some((background.clone(), *others)),
        }));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(tiers: &[&str], cpus: usize) -> Ground {
        Ground {
            tiers: tiers.iter().map(|name| (*name).to_owned()).collect(),
            cpus,
            storage_gap: Some("no file was named".to_owned()),
            ..Ground::default()
        }
    }

    #[test]
    fn every_pair_is_run_or_has_a_reason() {
        let matrix = Matrix::new(&Selection::default(), &ground(&["near", "far"], 8)).unwrap();
        let mut pairs: Vec<String> = Vec::new();
        for point in &matrix.points {
            if let Some((background, _)) = &point.background {
                pairs.push(format!("{} / {background}", point.subject));
            }
        }
        pairs.sort();
        pairs.dedup();
        // Six subjects beside everything, and storage beside memory and copies.
        assert_eq!(pairs.len() + matrix.missing.len(), 6 * 22 + 4 * 18);
        assert!(matrix.missing.iter().all(|cell| !cell.reason.is_empty()));
        let threads = |point: &Point| {
            let others = point.background.as_ref().map_or(0, |(_, others)| *others);
            point.threads + others
        };
        assert!(matrix.points.iter().all(|point| threads(point) <= 8));
    }

    #[test]
    fn each_beside_has_its_alone() {
        let selection = Selection {
            threads: vec![1, 3, 100],
            background_threads: vec![2, 1, 2],
            under_test: vec!["near ld".to_owned()],
            beside: vec!["near ntst".to_owned()],
            ..Selection::default()
        };
        let matrix = Matrix::new(&selection, &ground(&["near"], 4)).unwrap();
        let points: Vec<(usize, Option<usize>)> = matrix
            .points
            .iter()
            .map(|point| (point.threads, point.background.as_ref().map(|one| one.1)))
            .collect();
        let expected = [
            (1, None),
            (3, None),
            (1, Some(1)),
            (1, Some(2)),
            (3, Some(1)),
        ];
        assert_eq!(points, expected);
    }

    #[test]
    fn too_little_is_told() {
        let one = Matrix::new(&Selection::default(), &ground(&["near"], 1));
        assert!(matches!(
            one,
            Err(InterferenceError::Processors { cpus: 1 })
        ));
        let selection = Selection {
            beside: vec!["cxl".to_owned()],
            ..Selection::default()
        };
        let error = Matrix::new(&selection, &ground(&["near"], 4)).unwrap_err();
        assert!(error.to_string().contains("\"cxl\""), "{error}");
        let selection = Selection {
            threads: vec![4],
            ..Selection::default()
        };
        let matrix = Matrix::new(&selection, &ground(&["near"], 4)).unwrap();
        assert!(matrix.points.is_empty());
        assert!(
            matrix
                .missing
                .iter()
                .any(|cell| cell.reason.contains("4 processors"))
        );
    }
}
