//! The window of a core: what its programs do next, line by line and in program order.

use super::cache::Level;
use super::program::{Access, Operation, Program};
use super::time::Ps;

pub(crate) const LINE_BYTES_LOG2: u32 = 6;
/// Slots of a window: a profile's is at most half as long.
const SLOTS: usize = 256;

/// What becomes of a line at the head of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Time passes.
    Compute,
    /// The pipeline is filled again.
    Refill,
    /// A lock is taken and released.
    CriticalSection,
    /// It is in L1.
    HitL1,
    HitL2,
    HitL3,
    /// It is brought from memory.
    Load,
    /// It is brought from memory and modified.
    Store,
    /// It is sent to memory.
    Write,
}

/// Properties of a line in the window, in one byte.
pub(crate) mod flags {
    pub const DEPENDS: u8 = 1;
    pub const FENCED: u8 = 1 << 1;
    pub const SAMPLED: u8 = 1 << 2;
    /// Its bytes count as stored.
    pub const STORED: u8 = 1 << 3;
    /// Prefetchers see it before it is at the head.
    pub const SEEN_AHEAD: u8 = 1 << 4;
    pub const FILL_BUFFER: u8 = 1 << 5;
    /// Nothing waits for it.
    pub const PREFETCH: u8 = 1 << 6;
    /// Its fill buffer is free when the request table has it.
    pub const POSTED: u8 = 1 << 7;
}

/// Where a line is in its way through the core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub line: u64,
    pub compute: u32,
    pub bytes: u16,
    pub action: Action,
    pub flags: u8,
}

impl Slot {
    /// Its core time, as long as instructions take it.
    #[inline]
    pub(crate) fn instructions(&self) -> Ps {
        match self.action {
            Action::Refill => 0,
            _ => Ps::from(self.compute),
        }
    }

    /// The line is that of the operation before: they are parts of one, where caches are not simulated.
    #[cold]
    fn repeat(&mut self) {
        if matches!(self.action, Action::Load | Action::Store) {
            self.find(Level::L1);
        }
    }

    /// Notes where the caches have found the line.
    #[inline]
    pub(crate) fn find(&mut self, level: Level) {
        self.action = match level {
            Level::L1 => Action::HitL1,
            Level::L2 => Action::HitL2,
            Level::L3 => Action::HitL3,
            Level::Memory => return,
        };
        self.flags &= !flags::SEEN_AHEAD;
        if level == Level::L1 {
            self.flags &= !flags::FILL_BUFFER;
        }
    }
}

/// What becomes of an operation whose lines no cache has.
struct Kind {
    action: Action,
    flags: u8,
    /// Which bits of its length count as bytes.
    bytes: u16,
    /// It takes core time of its own.
    takes_time: bool,
    /// It goes over the lines of its bytes.
    has_lines: bool,
}

/// By [`Access`], in its order.
static KINDS: [Kind; Access::ALL.len()] = {
    let mut kinds = [const { kind(Access::Load) }; Access::ALL.len()];
    let mut place = 0;
    while place < kinds.len() {
        kinds[place] = kind(Access::ALL[place]);
        place += 1;
    }
    kinds
};

const fn kind(access: Access) -> Kind {
    use flags::{DEPENDS, FILL_BUFFER, PREFETCH, SEEN_AHEAD, STORED};
    let (action, flags) = match access {
        Access::Load => (Action::Load, FILL_BUFFER | SEEN_AHEAD),
        Access::Prefetch | Access::WrongPath => (Action::Load, FILL_BUFFER | PREFETCH),
        Access::Store => (Action::Store, FILL_BUFFER | STORED),
        Access::NonTemporalStore => (Action::Write, FILL_BUFFER | STORED),
        Access::Flush => (Action::Write, FILL_BUFFER),
        Access::Compute => (Action::Compute, 0),
        Access::Refill => (Action::Refill, DEPENDS),
        Access::CriticalSection => (Action::CriticalSection, 0),
    };
    Kind {
        action,
        flags,
        bytes: if matches!(access, Access::Flush) {
            0
        } else {
            u16::MAX
        },
        takes_time: !matches!(access, Access::WrongPath | Access::Refill),
        has_lines: !matches!(access, Access::Refill | Access::CriticalSection),
    }
}

/// A thread of the core.
struct Thread {
    program: Box<dyn Program>,
    /// What the program has told of, from `next` on.
    operations: Vec<Operation>,
    next: usize,
    last_line: u64,
    done: bool,
}

impl Thread {
    /// Asks the program for more, whose last list was taken.
    #[inline(never)]
    fn list_operations(&mut self) {
        self.operations.clear();
        self.next = 0;
        if !self.done {
            self.program.next_operations(&mut self.operations);
            self.done = self.operations.is_empty();
        }
    }
}

/// A ring of slots: the next to issue, the next that prefetchers see, the next to fill.
pub(crate) struct Window {
    threads: Vec<Thread>,
    turn: usize,
    /// Core time of an access with its first line, and of each further line.
    first_line: u32,
    line: u32,
    /// Lines that are seen ahead of the head.
    ahead: u8,
    /// Lines of the last operation that have no slot yet, and the first of them.
    entering: u64,
    rest: Slot,
    slots: Box<[Slot; SLOTS]>,
    head: u8,
    seen: u8,
    tail: u8,
}

impl Window {
    /// A window that shows `ahead` lines of programs to the prefetchers.
    pub(crate) fn new(programs: Vec<Box<dyn Program>>, ahead: u32, access: Ps, line: Ps) -> Self {
        let empty = Slot {
            line: 0,
            compute: 0,
            bytes: 0,
            action: Action::Compute,
            flags: 0,
        };
        let thread = |program| Thread {
            program,
            operations: Vec::new(),
            next: 0,
            last_line: u64::MAX,
            done: false,
        };
        Self {
            threads: programs.into_iter().map(thread).collect(),
            turn: 0,
            first_line: (access + line) as u32,
            line: line as u32,
            ahead: ahead.min(SLOTS as u32 / 2) as u8,
            entering: 0,
            rest: empty,
            slots: Box::new([empty; SLOTS]),
            head: 0,
            seen: 0,
            tail: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline]
    pub(crate) fn head(&self) -> &Slot {
        &self.slots[usize::from(self.head)]
    }

    #[inline]
    pub(crate) fn drop_head(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Whether a line behind the head is to be brought from memory.
    #[inline]
    pub(crate) fn awaits(&self, line: u64) -> bool {
        let behind = 1..self.tail.wrapping_sub(self.head);
        behind
            .map(|place| &self.slots[usize::from(self.head.wrapping_add(place))])
            .any(|slot| slot.line == line && matches!(slot.action, Action::Load | Action::Store))
    }

    /// The next slot that prefetchers see, and whether it is ahead of the head.
    #[inline]
    pub(crate) fn unseen(&self) -> Option<(&Slot, bool)> {
        let filled = self.tail.wrapping_sub(self.head);
        let end = self.head.wrapping_add(filled.min(self.ahead));
        (self.seen != end).then(|| {
            let slot = &self.slots[usize::from(self.seen)];
            (slot, self.seen != self.head)
        })
    }

    #[inline]
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.seen.wrapping_add(1);
    }

    /// Fills all slots; `look_up` tells where the caches have a line.
    #[inline]
    pub(crate) fn fill(&mut self, mut look_up: impl FnMut(&mut Slot)) {
        while self.filled() <= self.ahead {
            let Some(mut slot) = self.enter_line(true) else {
                return;
            };
            look_up(&mut slot);
            self.push(slot);
        }
    }

    /// As [`Self::fill`], where no cache is looked up: what programs have listed already enters early, since
    /// that makes no difference.
    #[inline]
    pub(crate) fn fill_early(&mut self) {
        if self.filled() <= self.ahead {
            self.fill_all();
        }
    }

    #[inline(never)]
    fn fill_all(&mut self) {
        while usize::from(self.filled()) < SLOTS - 1 {
            let is_needed = self.filled() <= self.ahead;
            let Some(slot) = self.enter_line(is_needed) else {
                return;
            };
            self.push(slot);
        }
    }

    #[inline]
    fn filled(&self) -> u8 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    fn push(&mut self, slot: Slot) {
        self.slots[usize::from(self.tail)] = slot;
        self.tail = self.tail.wrapping_add(1);
    }

    /// The next line of the last operation, or the first of the next one. `None` if there is none, or if a
    /// program would have to be asked and it is not `needed`.
    #[inline]
    fn enter_line(&mut self, needed: bool) -> Option<Slot> {
        if self.entering == 0 {
            return self.enter(needed);
        }
        self.entering -= 1;
        let slot = self.rest;
        self.rest.line += 1;
        Some(slot)
    }

    /// Begins with the next operation: its first line.
    #[inline]
    fn enter(&mut self, needed: bool) -> Option<Slot> {
        let (operation, turn) = self.next_operation(needed)?;
        let kind = &KINDS[operation.access as usize];
        let line = operation.address >> LINE_BYTES_LOG2;
        let mut slot = Slot {
            line,
            compute: operation.compute_ps + self.first_line * u32::from(kind.takes_time),
            bytes: operation.bytes as u16 & kind.bytes,
            action: kind.action,
            flags: kind.flags
                | (u8::from(operation.depends) * flags::DEPENDS)
                | (u8::from(operation.fenced) * flags::FENCED)
                | (u8::from(operation.sampled) * flags::SAMPLED),
        };
        if !kind.has_lines {
            return Some(slot);
        }
        let in_line = operation.address & ((1 << LINE_BYTES_LOG2) - 1);
        let end = in_line + u64::from(operation.bytes);
        let mut last = line;
        if end > 1 << LINE_BYTES_LOG2 {
            last = self.enter_lines(&mut slot, end);
        }
        if std::mem::replace(&mut self.threads[turn].last_line, last) == line {
            slot.repeat();
        }
        Some(slot)
    }

    /// Notes the lines behind the first, of which it returns the last.
    #[inline]
    fn enter_lines(&mut self, first: &mut Slot, end: u64) -> u64 {
        self.entering = (end - 1) >> LINE_BYTES_LOG2;
        first.bytes = (u64::from(first.bytes) / (self.entering + 1)) as u16;
        self.rest = Slot {
            line: first.line + 1,
            compute: self.line,
            flags: first.flags & !flags::DEPENDS,
            ..*first
        };
        first.line + self.entering
    }

    /// The next operation of all threads in turn, and the thread.
    #[inline]
    fn next_operation(&mut self, needed: bool) -> Option<(Operation, usize)> {
        let mut turn = self.turn;
        for _ in 0..self.threads.len() {
            turn += 1;
            if turn >= self.threads.len() {
                turn = 0;
            }
            let thread = &mut self.threads[turn];
            if thread.next == thread.operations.len() {
                if !needed && !thread.done {
                    return None;
                }
                thread.list_operations();
            }
            if let Some(operation) = thread.operations.get(thread.next) {
                thread.next += 1;
                self.turn = turn;
                return Some((*operation, turn));
            }
        }
        None
    }
}
