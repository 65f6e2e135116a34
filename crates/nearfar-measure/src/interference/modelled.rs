//! The matrix in virtual time: groups of threads beside each other on the machine of a profile.
//!
//! All groups share the request table of the machine (mao-2025, section III-C); there is no number
//! for a pair.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nearfar_model::simulation::{
    Access, Group, Machine, MachineError, Span, TierName, explain_beside, run_beside,
};
use nearfar_topology::Profile;

use super::causes::of_model;
use super::error::InterferenceError;
use super::execute::InterferenceObserver;
use super::matrix::{Ground, Matrix, Point};
use super::outcome::PointOutcome;
use super::traffic::{CopyOperation, MemoryOperation, StoragePattern, Traffic};
use crate::results::Kind;

/// Long enough for the shares of the request table to be those that stay. It fills within 20 µs, but who has
/// which entries moves on for 100 to 150 µs where two devices fill it together; measured before, posted stores
/// count that only fill the table, which a run of seconds does not notice.
pub(crate) const SPAN: Span = Span {
    warm_ns: 200_000.0,
    measured_ns: 50_000.0,
};

/// Tiers of a modelled machine, near to far.
const TIERS: [(&str, TierName); 3] = [
    ("near", TierName::Near),
    ("far", TierName::Far),
    ("remote", TierName::Remote),
];

/// Bytes of a line.
const LINE_BYTES: f64 = 64.0;

/// Wall-clock time of a point, for estimates before the first one is done.
const POINT_TIME: Duration = Duration::from_millis(100);

/// Points under way for each processor, so that finished ones wait for few others.
const WAITING_POINTS: usize = 4;

/// Bandwidth of each group beside the others, in GB/s.
pub(crate) fn bandwidths(machine: &Machine, groups: &[Group]) -> Result<Vec<f64>, MachineError> {
    run_beside(machine, groups, SPAN)
}

/// Storage at the most that the link of a profile's machine carries: the device's DMA, and the copy
/// between the page cache and the task. `None` for a profile whose storage is not known.
pub(crate) fn storage(profile: &str) -> Option<[Group; 2]> {
    let pause_ns = LINE_BYTES / storage_gb_per_s(profile)?;
    let group = |access| Group::new(TierName::Near, access, 1).pausing(pause_ns);
    Some([group(Access::NonTemporalStore), group(Access::Load)])
}

/// What a SAS link of 12 Gb/s carries, in GB/s.
const SAS_GB_PER_S: f64 = 1.2;

/// What the link of the storage of mao-2025, table II carries at most: 12 Gb/s of SAS, four lanes of
/// PCIe 4. The paper gives no bandwidth of the SSDs.
fn storage_gb_per_s(profile: &str) -> Option<f64> {
    match profile {
        "cxl-asic" => Some(SAS_GB_PER_S),
        "cxl-agilex" => Some(7.9),
        _ => None,
    }
}

/// What a drive takes and gives, in GB/s, in the model; none for a profile whose storage is not known. The paper does not
/// tell: 12 Gb/s of SAS in order, and 150,000 requests of 4 KiB in a second at random; for four lanes of PCIe 4, the
/// middle of what drives of that kind have, of which figure 3a has the range.
pub(crate) fn drive_gb_per_s(profile: &str, pattern: StoragePattern) -> Option<f64> {
    let [read, random_read, write, random_write] = match profile {
        "cxl-asic" => [SAS_GB_PER_S, 0.6, SAS_GB_PER_S, 0.6],
        "cxl-agilex" => [7.0, 4.0, 4.0, 1.0],
        _ => return None,
    };
    Some(match pattern {
        StoragePattern::Read => read,
        StoragePattern::RandomRead => random_read,
        StoragePattern::Write => write,
        StoragePattern::RandomWrite => random_write,
    })
}

/// A thread that copies to the page cache, and DMA that reads there, none faster than the drive.
pub(crate) fn written_storage(drive_gb_per_s: f64) -> [Group; 2] {
    let copy = Group::copy(TierName::Near, TierName::Near, Access::Store, 1);
    let dma = Group::new(TierName::Near, Access::Load, 1);
    [copy, dma].map(|group| group.pausing(LINE_BYTES / drive_gb_per_s))
}

/// DMA that writes to the page cache, and a thread that copies from there.
fn read_storage(drive_gb_per_s: f64) -> [Group; 2] {
    let copy = Group::copy(TierName::Near, TierName::Near, Access::Store, 1);
    let dma = Group::new(TierName::Near, Access::NonTemporalStore, 1);
    [copy, dma].map(|group| group.pausing(LINE_BYTES / drive_gb_per_s))
}

/// Storage of a profile's machine, whose speed is that of the slower of both.
fn drive(profile: &str, pattern: StoragePattern) -> Option<[Group; 2]> {
    let gb_per_s = drive_gb_per_s(profile, pattern)?;
    Some(match pattern.writes() {
        true => written_storage(gb_per_s),
        false => read_storage(gb_per_s),
    })
}

/// The access of the model that a thread of the paper's benchmark makes.
pub(crate) fn access(operation: MemoryOperation) -> Access {
    match operation {
        MemoryOperation::Load => Access::Load,
        MemoryOperation::Store => Access::Store,
        MemoryOperation::NonTemporalStore => Access::NonTemporalStore,
    }
}

/// The machine of a profile, and what it offers to a matrix.
#[derive(Debug)]
pub struct Modelled {
    machine: Machine,
    ground: Ground,
    causes: bool,
}

impl Modelled {
    /// The machine of `profile`.
    ///
    /// # Errors
    /// [`InterferenceError::Machine`] where it cannot be simulated.
    pub fn new(profile: &Profile) -> Result<Self, InterferenceError> {
        let machine = Machine::new(profile)?;
        let tiers: Vec<String> = TIERS
            .into_iter()
            .filter(|(_, tier)| machine.devices(*tier, 1).is_ok())
            .map(|(name, _)| name.to_owned())
            .collect();
        let storage_gap = drive_gb_per_s(&machine.profile, StoragePattern::Read)
            .is_none()
            .then(|| format!("profile {} tells nothing of storage", machine.profile));
        Ok(Self {
            ground: Ground {
                tiers,
                cpus: machine.cores as usize,
                storage_gap,
                gaps: Vec::new(),
                is_virtual: true,
            },
            machine,
            causes: false,
        })
    }

    /// Also tells where requests spend their time.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.causes = true;
        self
    }

    /// What the machine offers.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// About how long a matrix takes.
    pub fn time(&self, matrix: &Matrix) -> Duration {
        POINT_TIME.mul_f64(matrix.points.len() as f64) / workers() as u32
    }

    /// Runs every point that was not done before, several of them concurrently, and tells of them in
    /// order.
    ///
    /// # Errors
    /// [`InterferenceError`]; outcomes that the observer has got before are valid.
    pub fn execute(
        &self,
        matrix: &Matrix,
        stop: &AtomicBool,
        observer: &mut dyn InterferenceObserver,
    ) -> Result<(), InterferenceError> {
        let open = matrix.points.iter().enumerate();
        let open: Vec<(usize, &Point)> =
            open.filter(|(_, point)| !observer.is_done(point)).collect();
        let workers = workers().min(open.len().max(1));
        let next = AtomicUsize::new(0);
        let told = AtomicUsize::new(0);
        let began = Instant::now();
        let is_failed = AtomicBool::new(false);
        let is_over = || stop.load(Ordering::Relaxed) || is_failed.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let (sender, receiver) = channel();
            for _ in 0..workers {
                let sender = sender.clone();
                let (open, next, told) = (&open, &next, &told);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((_, point)) = open.get(at) else {
                            break;
                        };
                        let is_ahead =
                            || at >= told.load(Ordering::Relaxed) + workers * WAITING_POINTS;
                        while is_ahead() && !is_over() {
                            thread::sleep(Duration::from_millis(1));
                        }
                        if is_over() || sender.send((at, self.point(point))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut waiting = BTreeMap::new();
            for (at, outcome) in receiver {
                waiting.insert(at, outcome);
                while let Some(outcome) = waiting.remove(&told.load(Ordering::Relaxed)) {
                    let at = told.load(Ordering::Relaxed);
                    let (index, point) = open[at];
                    let pace = match at {
                        0 => POINT_TIME / workers as u32,
                        done => began.elapsed() / done as u32,
                    };
                    observer.begins(point, index, pace.mul_f64((open.len() - at) as f64));
                    let kept = outcome
                        .map_err(InterferenceError::Machine)
                        .and_then(|outcome| {
                            observer
                                .done(point, &outcome)
                                .map_err(InterferenceError::Keep)
                        });
                    if kept.is_err() {
                        is_failed.store(true, Ordering::Relaxed);
                        return kept;
                    }
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
            let done = told.load(Ordering::Relaxed);
            match done < open.len() {
                true => Err(InterferenceError::Stopped {
                    done: matrix.points.len() - open.len() + done,
                    points: matrix.points.len(),
                }),
                false => Ok(()),
            }
        })
    }

    fn point(&self, point: &Point) -> Result<PointOutcome, MachineError> {
        let began = Instant::now();
        let mut groups = self.groups(&point.subject, point.threads);
        let own = groups.len();
        if let Some((traffic, threads)) = &point.background {
            groups.extend(self.groups(traffic, *threads));
        }
        let (found, causes) = match self.causes {
            true => {
                let found = explain_beside(&self.machine, &groups, SPAN)?;
                let (tested, beside) = found.split_at(own);
                // Of storage, the thread that copies tells where requests wait.
                let told = [(tested, "tested"), (beside, "background")].into_iter();
                let told = told.filter_map(|(groups, role)| Some((groups.first()?, role)));
                let causes = told
                    .flat_map(|(found, role)| of_model(found, role))
                    .collect();
                (found.iter().map(|group| group.gb_per_s).collect(), causes)
            }
            false => (bandwidths(&self.machine, &groups)?, Vec::new()),
        };
        let (tested, background) = found.split_at(own);
        let slowest = |found: &[f64]| found.iter().copied().reduce(f64::min);
        let bytes_per_s = |found: &[f64]| slowest(found).map(|rate| rate * 1e9);
        Ok(PointOutcome {
            tested: bytes_per_s(tested).into_iter().collect(),
            background: bytes_per_s(background).into_iter().collect(),
            application: None,
            kind: Kind::Modelled,
            causes,
            noise_reasons: Vec::new(),
            elapsed: began.elapsed(),
        })
    }

    fn groups(&self, traffic: &Traffic, threads: usize) -> Vec<Group> {
        match traffic {
            Traffic::Memory { tier, operation } => {
                vec![Group::new(tier_of(tier), access(*operation), threads)]
            }
            Traffic::Copy {
                from,
                to,
                operation,
            } => {
                let store = match operation {
                    CopyOperation::Cached => Access::Store,
                    CopyOperation::NonTemporal | CopyOperation::Direct => Access::NonTemporalStore,
                };
                vec![Group::copy(tier_of(from), tier_of(to), store, threads)]
            }
            Traffic::Storage(pattern) => {
                drive(&self.machine.profile, *pattern).map_or(Vec::new(), Vec::from)
            }
            Traffic::Application => Vec::new(),
        }
    }
}

/// A tier of [`Ground::tiers`], which come from [`TIERS`].
fn tier_of(tier: &str) -> TierName {
    let known = TIERS.into_iter().find(|(name, _)| *name == tier);
    known.map_or(TierName::Near, |(_, tier)| tier)
}

fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
