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
    /// A lock word is waited for.
    Lock,
    /// It is given back.
    Unlock,
    UnlockUnchanged,
    /// What was read under no lock is used.
    Validate,
    /// It is in L1.
    HitL1,
    HitL2,
    HitL3,
    /// Another core has modified it, or others have it that a store takes it from.
    HitOther,
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
    /// A load that waits for nothing and that nobody has asked the time of, as most are.
    #[inline]
    pub(crate) fn is_plain_load(&self) -> bool {
        const FLAGS: u8 = flags::SEEN_AHEAD | flags::FILL_BUFFER;
        self.action == Action::Load && self.flags == FLAGS
    }

    /// Whether a line is accessed.
    #[inline]
    pub(crate) fn is_access(&self) -> bool {
        !self.is_mark()
            && !matches!(
                self.action,
                Action::Compute | Action::Refill | Action::CriticalSection
            )
    }

    /// Whether it stands for what happens to a lock word.
    #[inline]
    fn is_mark(&self) -> bool {
        matches!(
            self.action,
            Action::Lock | Action::Unlock | Action::UnlockUnchanged | Action::Validate
        )
    }

    /// Its core time, as long as instructions take it.
    #[inline]
    pub(crate) fn instructions(&self) -> Ps {
        match self.action {
            Action::Refill => 0,
            _ => Ps::from(self.compute),
        }
    }

    /// The first line of an operation whose accesses take `first_line` with it, and how many come behind it.
    /// `last` is the last line of the thread's operation before, and then of this one; none where caches are simulated.
    #[inline]
    fn begin(operation: &Operation, first_line: u32, last: &mut Option<u64>) -> (Self, u64) {
        let kind = &KINDS[operation.access as usize];
        let line = operation.address >> LINE_BYTES_LOG2;
        let mut slot = Self {
            line,
            compute: operation.compute_ps + first_line * u32::from(kind.takes_time),
            bytes: operation.bytes as u16 & kind.bytes,
            action: kind.action,
            flags: kind.flags
                | Self::demands(operation)
                | (u8::from(operation.depends) * flags::DEPENDS),
        };
        let mut more = 0;
        if kind.has_lines {
            let in_line = operation.address & ((1 << LINE_BYTES_LOG2) - 1);
            let end = in_line + u64::from(operation.bytes);
            if end > 1 << LINE_BYTES_LOG2 {
                more = (end - 1) >> LINE_BYTES_LOG2;
                slot.bytes = (u64::from(slot.bytes) / (more + 1)) as u16;
            }
            if let Some(last) = last
                && std::mem::replace(last, line + more) == line
            {
                slot.repeat();
            }
        }
        if kind.then.is_some() {
            more = 1;
        }
        (slot, more)
    }

    /// The line behind this first one of an operation: of the others, none waits for what was before.
    #[inline]
    fn behind(self, operation: &Operation, line_ps: u32) -> Self {
        let kind = &KINDS[operation.access as usize];
        if let Some((action, flags)) = kind.then {
            return Self {
                compute: 0,
                bytes: operation.bytes as u16,
                action,
                flags,
                ..self
            };
        }
        Self {
            line: self.line + 1,
            compute: line_ps,
            action: kind.action,
            flags: kind.flags | Self::demands(operation),
            ..self
        }
    }

    #[inline]
    fn demands(operation: &Operation) -> u8 {
        (u8::from(operation.fenced) * flags::FENCED)
            | (u8::from(operation.sampled) * flags::SAMPLED)
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
            Level::Other => Action::HitOther,
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
    /// What comes behind it on the same line.
    then: Option<(Action, u8)>,
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
    use flags::{DEPENDS, FENCED, FILL_BUFFER, PREFETCH, SEEN_AHEAD, STORED};
    let (action, flags) = match access {
        Access::Load => (Action::Load, FILL_BUFFER | SEEN_AHEAD),
        Access::Prefetch | Access::WrongPath => (Action::Load, FILL_BUFFER | PREFETCH),
        Access::Store | Access::Unlock | Access::UnlockUnchanged => {
            (Action::Store, FILL_BUFFER | STORED)
        }
        Access::NonTemporalStore => (Action::Write, FILL_BUFFER | STORED),
        Access::Flush => (Action::Write, FILL_BUFFER),
        Access::Compute => (Action::Compute, 0),
        Access::Refill => (Action::Refill, DEPENDS),
        Access::CriticalSection => (Action::CriticalSection, 0),
        Access::Lock => (Action::Lock, FENCED),
        Access::Validate => (Action::Validate, 0),
    };
    Kind {
        action,
        flags,
        bytes: if matches!(access, Access::Flush) {
            0
        } else {
            u16::MAX
        },
        takes_time: !matches!(
            access,
            Access::WrongPath | Access::Refill | Access::Validate
        ),
        has_lines: !matches!(
            access,
            Access::Refill | Access::CriticalSection | Access::Lock | Access::Validate
        ),
        then: match access {
            Access::Lock => Some((Action::Store, FILL_BUFFER | STORED | FENCED)),
            Access::Unlock => Some((Action::Unlock, 0)),
            Access::UnlockUnchanged => Some((Action::UnlockUnchanged, 0)),
            _ => None,
        },
    }
}

/// A thread of the core.
struct Thread {
    program: Box<dyn Program>,
    /// What the program has told of, from `next` on.
    operations: Vec<Operation>,
    next: usize,
    last_line: Option<u64>,
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
    ahead: usize,
    /// Lines of the last operation that have no slot yet, and the first of them.
    entering: u64,
    rest: Slot,
    slots: Box<[Slot; SLOTS]>,
    /// Counts of slots, which are places in the ring modulo its length.
    head: usize,
    seen: usize,
    tail: usize,
    /// Slots from the head on that stand for what happens to a lock word, and not for a line.
    marks: usize,
}

impl Window {
    /// A window that shows `ahead` lines of programs to the prefetchers. An access takes so much core time, and a line
    /// of it; where no caches are simulated, an operation on the line of the one before finds it in L1.
    pub(crate) fn new(
        programs: Vec<Box<dyn Program>>,
        ahead: u32,
        (access, line): (Ps, Ps),
        has_caches: bool,
    ) -> Self {
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
            last_line: (!has_caches).then_some(u64::MAX),
            done: false,
        };
        Self {
            threads: programs.into_iter().map(thread).collect(),
            turn: 0,
            first_line: (access + line) as u32,
            line: line as u32,
            ahead: (ahead as usize).min(SLOTS / 2),
            entering: 0,
            rest: empty,
            slots: Box::new([empty; SLOTS]),
            head: 0,
            seen: 0,
            tail: 0,
            marks: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline]
    pub(crate) fn head(&self) -> &Slot {
        &self.slots[self.head % SLOTS]
    }

    #[inline]
    pub(crate) fn drop_head(&mut self) {
        self.marks -= usize::from(self.head().is_mark());
        self.head += 1;
    }

    /// Whether a line behind the head is to be brought from memory.
    #[inline]
    pub(crate) fn awaits(&self, line: u64) -> bool {
        (self.head + 1..self.tail)
            .map(|place| &self.slots[place % SLOTS])
            .any(|slot| slot.line == line && matches!(slot.action, Action::Load | Action::Store))
    }

    /// The next slot that prefetchers see, and whether it is ahead of the head.
    #[inline]
    pub(crate) fn unseen(&self) -> Option<(&Slot, bool)> {
        let end = self.tail.min(self.head + self.ahead + self.marks);
        (self.seen < end).then(|| {
            let slot = &self.slots[self.seen % SLOTS];
            (slot, self.seen != self.head)
        })
    }

    #[inline]
    pub(crate) fn mark_seen(&mut self) {
        self.seen += 1;
    }

    /// Fills all slots; `look_up` tells where the caches have a line.
    #[inline]
    pub(crate) fn fill(&mut self, mut look_up: impl FnMut(&mut Slot)) {
        while self.filled() - self.marks <= self.ahead && self.filled() < SLOTS {
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
        while self.filled() < SLOTS {
            let is_needed = self.filled() <= self.ahead;
            if self.entering > 0 {
                self.fill_with_rest();
            } else if let [thread] = &self.threads[..]
                && thread.next < thread.operations.len()
            {
                self.fill_from_only_thread();
            } else if let Some(slot) = self.enter(is_needed) {
                self.push(slot);
            } else {
                return;
            }
        }
    }

    /// Lets all lines of the last operation enter that have room.
    fn fill_with_rest(&mut self) {
        let count = self.entering.min((SLOTS - self.filled()) as u64);
        let mut slot = self.rest;
        for _ in 0..count {
            self.push(slot);
            slot.line += 1;
        }
        self.rest.line = slot.line;
        self.entering -= count;
    }

    /// Lets operations enter, up to one of several lines, until no more have room.
    fn fill_from_only_thread(&mut self) {
        let room = SLOTS - self.filled();
        let thread = &mut self.threads[0];
        let mut tail = self.tail;
        for operation in thread.operations[thread.next..].iter().take(room) {
            thread.next += 1;
            let (slot, more) = Slot::begin(operation, self.first_line, &mut thread.last_line);
            self.slots[tail % SLOTS] = slot;
            tail += 1;
            self.marks += usize::from(slot.is_mark());
            if more > 0 {
                self.entering = more;
                self.rest = slot.behind(operation, self.line);
                break;
            }
        }
        self.tail = tail;
    }

    #[inline]
    fn filled(&self) -> usize {
        self.tail - self.head
    }

    #[inline]
    fn push(&mut self, slot: Slot) {
        self.slots[self.tail % SLOTS] = slot;
        self.tail += 1;
        self.marks += usize::from(slot.is_mark());
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

    /// Begins with the next operation of all threads in turn: its first line.
    #[inline]
    fn enter(&mut self, needed: bool) -> Option<Slot> {
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
            let Some(operation) = thread.operations.get(thread.next) else {
                continue;
            };
            thread.next += 1;
            self.turn = turn;
            let (slot, more) = Slot::begin(operation, self.first_line, &mut thread.last_line);
            if more > 0 {
                self.entering = more;
                self.rest = slot.behind(operation, self.line);
            }
            return Some(slot);
        }
        None
    }
}
