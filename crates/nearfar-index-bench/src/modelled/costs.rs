//! Core time of operations beside their accesses.

use nearfar_model::simulation::{Machine, OperationCost};

use crate::map::{Contestant, OpenError};
use crate::workload::Action;

/// What a core does concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// One operation.
    One(Action),
    /// So many lookups concurrently.
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
pub(crate) struct Counted {
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

impl Counted {
    /// Core time of the instructions that belong to an access of a lookup, in nanoseconds.
    pub(crate) fn access_instructions_ns(&self) -> f64 {
        self.get.access / INSTRUCTIONS_PER_NS
    }

    /// Those of one of our trees.
    ///
    /// # Errors
    /// [`OpenError::NotOurs`]: nobody counted those of others.
    pub(crate) fn of(contestant: Contestant) -> Result<Self, OpenError> {
        Ok(match contestant {
            Contestant::Art => ART,
            Contestant::Masstree => MASSTREE,
            Contestant::BPlusTree { node_bytes } => {
                let found = BPLUS_TREE.iter().find(|(bytes, _)| *bytes >= node_bytes);
                found.unwrap_or(&BPLUS_TREE[BPLUS_TREE.len() - 1]).1
            }
            Contestant::StdMap | Contestant::Rival(_) => {
                return Err(OpenError::NotOurs { contestant });
            }
        })
    }

    /// Estimates for a tree whose nodes are searched by bisection with branches: eight instructions
    /// for each step, which makes one access. The recorder adds the time of branch mispredicts.
    pub(crate) const fn bisected() -> Self {
        const ACCESS: f64 = 8.0;
        Self {
            get: Instructions::new(60.0, ACCESS),
            batch: Instructions::new(60.0, ACCESS),
            update: Instructions::new(90.0, ACCESS),
            insert: Instructions::new(90.0, ACCESS),
            scan: Instructions::new(60.0, ACCESS),
        }
    }
}

// Columns: get, batch (per key), update, insert, scan.
const ART: Counted = counted(
    (78., 28.),
    (214., 15.),
    (120., 29.),
    (1171., 15.),
    (0., 134.),
);
const MASSTREE: Counted = counted(
    (129., 25.),
    (51., 51.),
    (139., 24.),
    (716., 19.),
    (0., 210.),
);
const BPLUS_TREE: [(usize, Counted); 5] = [
    (
        256,
        counted((36., 40.), (76., 46.), (0., 39.), (336., 42.), (0., 54.)),
    ),
    (
        512,
        counted((30., 43.), (87., 47.), (0., 41.), (318., 47.), (0., 65.)),
    ),
    (
        1024,
        counted((20., 48.), (72., 52.), (0., 44.), (661., 41.), (0., 76.)),
    ),
    (
        2048,
        counted((10., 53.), (79., 55.), (0., 47.), (1138., 41.), (0., 84.)),
    ),
    (
        4096,
        counted((0., 66.), (80., 66.), (0., 57.), (1701., 72.), (0., 94.)),
    ),
];

/// Instructions that a core completes in a nanosecond while its data are in its own caches: four per
/// cycle at 2.9 GHz, the base frequency of the processor of weisgut-2025. Our trees complete 9 to 13
/// where they were counted (`operation-costs` prints the time too), hits of caches included.
pub const INSTRUCTIONS_PER_NS: f64 = 11.6;

/// Core time of a tree's operations on a machine, beside what the simulator charges for each access.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ComputeCosts {
    counted: Counted,
    access_ns: f64,
}

impl ComputeCosts {
    /// Those of a tree on a machine.
    pub(super) fn new(counted: Counted, machine: &Machine) -> Self {
        Self {
            counted,
            access_ns: machine.core.access_ns + machine.core.line_ns,
        }
    }

    /// Of what is done next.
    pub(super) fn of(&self, work: Work) -> OperationCost {
        let counted = &self.counted;
        let (times, instructions) = match work {
            Work::Batch(keys) => (keys as f64, counted.batch),
            Work::One(Action::Read) => (1.0, counted.get),
            Work::One(Action::Update) => (1.0, counted.update),
            Work::One(Action::Insert) => (1.0, counted.insert),
            Work::One(Action::Scan(_)) => (1.0, counted.scan),
            Work::One(Action::ReadModifyWrite) => (1.0, counted.get.and(counted.update)),
        };
        let beside = |instructions: f64| {
            let ns = instructions / INSTRUCTIONS_PER_NS - self.access_ns;
            ns.max(0.0)
        };
        OperationCost {
            operation_ns: beside(times * instructions.operation),
            access_ns: beside(instructions.access),
        }
    }
}
