//! Core time of operations beside their accesses.

use nearfar_model::simulation::Machine;

use crate::map::Contestant;
use crate::workload::Action;

/// What a core does at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// One operation.
    One(Action),
    /// So many lookups at once.
    Batch(usize),
}

/// Instructions of an operation: so many, and so many more for each access that it makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Instructions {
    /// Of the operation.
    pub operation: f64,
    /// Of each of its accesses.
    pub access: f64,
}

impl Instructions {
    const fn new(operation: f64, access: f64) -> Self {
        Self { operation, access }
    }

    fn and(self, other: Self) -> Self {
        Self {
            operation: self.operation + other.operation,
            access: f64::midpoint(self.access, other.access),
        }
    }
}

/// Instructions of a tree's operations, as `examples/operation-costs` counts them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    get: Instructions,
    batch: Instructions,
    update: Instructions,
    insert: Instructions,
    scan: Instructions,
}

const fn counted(
    get: (f64, f64),
    batch: (f64, f64),
    update: (f64, f64),
    insert: (f64, f64),
    scan: (f64, f64),
) -> Counted {
    Counted {
        get: Instructions::new(get.0, get.1),
        batch: Instructions::new(batch.0, batch.1),
        update: Instructions::new(update.0, update.1),
        insert: Instructions::new(insert.0, insert.1),
        scan: Instructions::new(scan.0, scan.1),
    }
}

const ART: Counted = counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.));
const MASSTREE: Counted = counted((60., 20.), (60., 20.), (90., 20.), (400., 20.), (60., 20.));
const BPLUS_TREE: [(usize, Counted); 5] = [
    (
        256,
        counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.)),
    ),
    (
        512,
        counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.)),
    ),
    (
        1024,
        counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.)),
    ),
    (
        2048,
        counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.)),
    ),
    (
        4096,
        counted((60., 15.), (60., 15.), (90., 15.), (400., 15.), (60., 20.)),
    ),
];

/// Instructions that a core completes in a nanosecond while its data are in the first-level cache:
/// two per cycle at 2.9 GHz, the base frequency of the processor of weisgut-2025.
pub const INSTRUCTIONS_PER_NS: f64 = 5.8;

/// Core time of a tree's operations on a machine, beside what the simulator charges for each access.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ComputeCosts {
    counted: Counted,
    access_ns: f64,
}

/// Core time of one operation, and of each of its accesses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cost {
    pub(super) operation_ns: f64,
    pub(super) access_ns: f64,
}

impl ComputeCosts {
    /// Those of a tree on a machine.
    pub(super) fn new(contestant: Contestant, machine: &Machine) -> Self {
        let counted = match contestant {
            Contestant::Masstree => MASSTREE,
            Contestant::BPlusTree { node_bytes } => {
                let found = BPLUS_TREE.iter().find(|(bytes, _)| *bytes >= node_bytes);
                found.unwrap_or(&BPLUS_TREE[4]).1
            }
            _ => ART,
        };
        Self {
            counted,
            access_ns: machine.core.access_ns + machine.core.line_ns,
        }
    }

    /// Of what is done next.
    pub(super) fn of(&self, work: Work) -> Cost {
        let counted = &self.counted;
        let (times, instructions) = match work {
            Work::Batch(keys) => (keys as f64, counted.batch),
            Work::One(Action::Read) => (1.0, counted.get),
            Work::One(Action::Update) => (1.0, counted.update),
            Work::One(Action::Insert) => (1.0, counted.insert),
            Work::One(Action::Scan(_)) => (1.0, counted.scan),
            Work::One(Action::ReadModifyWrite) => (1.0, counted.get.and(counted.update)),
        };
        let access_ns = instructions.access / INSTRUCTIONS_PER_NS - self.access_ns;
        Cost {
            operation_ns: times * instructions.operation / INSTRUCTIONS_PER_NS,
            access_ns: access_ns.max(0.0),
        }
    }
}
