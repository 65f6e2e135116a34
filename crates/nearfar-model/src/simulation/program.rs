//! What a virtual thread does: a sequence of operations.

/// How an operation touches memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Load,
    /// A cached store: the line is fetched for ownership first and written back later.
    Store,
    /// A non-temporal store of whole lines.
    NonTemporalStore,
    /// A write-back of a cached line (`clwb`).
    Flush,
    /// A software prefetch, which nothing waits for.
    Prefetch,
    /// A load on the wrong path, behind a branch mispredict: it fetches its line, nothing waits for it, and
    /// it takes neither core time nor room in the instruction window, as it is never completed.
    WrongPath,
    /// No access at all: time of the core only. What follows waits for no load before it: so begins
    /// what does not depend on what was done before. Lock words from here on to the next are those of the line of
    /// the address, if it has one: only who has the same meets at them.
    Compute,
    /// A critical section under the lock at the address, with [`Operation::bytes`] of lines that come from
    /// the core that was in it before. It is one core's at a time, and who waits begins nothing.
    CriticalSection,
    /// The lock word at the address is taken, once nobody else has it and all operations before are done; later
    /// ones wait until its line is this core's.
    Lock,
    /// The lock word at the address is written, and given back once all stores before are done: what others
    /// have read since they loaded the line is out of date.
    Unlock,
    /// As [`Access::Unlock`], where nothing has changed that others could have read.
    UnlockUnchanged,
    /// Nobody else has the lock word at the address, or it is waited for. What the core has read since it loaded
    /// its line is read again if another core has changed something since.
    Validate,
    /// No access either: time in which the core begins nothing, from when the loads are there that
    /// [`Operation::depends`] tells of. So the pipeline is filled again after a branch
    /// mispredict. It takes no room in the instruction window.
    Refill,
}

impl Access {
    /// All, in their order.
    pub(super) const ALL: [Self; 13] = [
        Self::Load,
        Self::Store,
        Self::NonTemporalStore,
        Self::Flush,
        Self::Prefetch,
        Self::WrongPath,
        Self::Compute,
        Self::CriticalSection,
        Self::Lock,
        Self::Unlock,
        Self::UnlockUnchanged,
        Self::Validate,
        Self::Refill,
    ];
}

/// One operation of a virtual thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Address of the first byte.
    pub address: u64,
    /// Length.
    pub bytes: u32,
    /// What is done.
    pub access: Access,
    /// Core time before the operation, in picoseconds.
    pub compute_ps: u32,
    /// Waits for the loads before, back to the last operation that waited for its own, or to
    /// [`Access::Compute`]; [`Access::Refill`] always does.
    pub depends: bool,
    /// Waits for all operations before, and later ones wait for it.
    pub fenced: bool,
    /// Its latency is recorded. Of [`Access::Compute`], which takes none, that of all operations between one that is
    /// sampled and the next, which have to be fenced.
    pub sampled: bool,
}

impl Operation {
    /// A plain operation.
    pub fn new(access: Access, address: u64, bytes: u32) -> Self {
        Self {
            address,
            bytes,
            access,
            compute_ps: 0,
            depends: false,
            fenced: false,
            sampled: false,
        }
    }
}

/// A virtual thread's operations in program order.
pub trait Program {
    /// The next operation; `None` at the end.
    fn next_operation(&mut self) -> Option<Operation>;

    /// Appends operations that come next to the list, which is empty, and at least one unless the program has
    /// ended. A program for which it makes no difference when it is asked appends many: one whose
    /// operations follow from nothing that others do or what time it is.
    fn next_operations(&mut self, operations: &mut Vec<Operation>) {
        operations.extend(self.next_operation());
    }
}
