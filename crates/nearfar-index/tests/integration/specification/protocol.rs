//! The protocol by which nodes are read, written, split, removed and migrated, step by step: each
//! step is one access to shared memory, and any thread may take the next one.
//!
//! A root holder (slot 0) points to one inner node, which points to leaves. Each node has the
//! version, the lock and the mark *obsolete* of `OptimisticLock`.

use super::{KEYS, LEAF_KEYS, Mutation, Op, SLOTS};

/// Nobody holds a lock.
const NOBODY: u8 = u8::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Free,
    Live,
    /// Out of the tree; freed when none of these threads is in its operation any more.
    Retired {
        seen_by: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// The slot of the child for each key.
    Inner([u8; KEYS]),
    /// The value of each key; zero for none.
    Leaf([u8; KEYS]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    pub version: u8,
    holder: u8,
    is_obsolete: bool,
    pub tier: u8,
    pub phase: Phase,
    pub content: Content,
}

/// Where a thread is in its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    Begin,
    LoadInner,
    ReadInner,
    LoadLeaf,
    ReadLeaf,
    LoadValue,
    ValidateValue,
    Decide,
    LockLeaf,
    StoreLeaf,
    UnlockLeaf,
    LockUpper,
    LockLower,
    Copy,
    StoreUpper,
    StoreLower,
    EndLower,
    UnlockUpper,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The operation of its list.
    op: u8,
    next: Next,
    /// Root holder, inner node and leaf on the way, and their versions.
    slots: [u8; 3],
    versions: [u8; 3],
    value: u8,
    /// The node that it has made and not yet published.
    made: u8,
    /// For a reader, the values that its key has had since it began.
    possible: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub nodes: [Node; SLOTS],
    pub threads: Vec<Thread>,
    /// What the map holds, as of the operations that have taken effect.
    pub truth: [u8; KEYS],
    /// A reader returned what its key had not been.
    pub has_misread: bool,
    /// Somebody touched a node that was free.
    pub has_touched_freed: bool,
}

impl State {
    /// An inner node (slot 1, near) over two leaves: one far with keys 0 and 1, one near with key 3.
    pub fn new(threads: usize) -> Self {
        let node = |tier, phase, content| Node {
            version: 0,
            holder: NOBODY,
            is_obsolete: false,
            tier,
            phase,
            content,
        };
        let leaf = Content::Leaf;
        let mut nodes = [node(0, Phase::Free, leaf([0; KEYS])); SLOTS];
        nodes[0] = node(0, Phase::Live, Content::Inner([1; KEYS]));
        nodes[1] = node(0, Phase::Live, Content::Inner([2, 2, 2, 3, 3]));
        nodes[2] = node(1, Phase::Live, leaf([1, 1, 0, 0, 0]));
        nodes[3] = node(0, Phase::Live, leaf([0, 0, 0, 1, 0]));
        let thread = Thread {
            op: 0,
            next: Next::Begin,
            slots: [0; 3],
            versions: [0; 3],
            value: 0,
            made: 0,
            possible: 0,
        };
        Self {
            nodes,
            threads: vec![thread; threads],
            truth: [1, 1, 0, 1, 0],
            has_misread: false,
            has_touched_freed: false,
        }
    }

    pub fn is_done(&self, ops: &[Vec<Op>]) -> bool {
        let mut threads = self.threads.iter().zip(ops);
        threads.all(|(thread, ops)| usize::from(thread.op) == ops.len())
    }

    /// Children of an inner node, each at least once.
    pub fn children(&self, slot: u8) -> Vec<u8> {
        match self.nodes[usize::from(slot)].content {
            Content::Inner(children) => children.to_vec(),
            Content::Leaf(_) => Vec::new(),
        }
    }

    /// What a walk from the root finds.
    pub fn walk(&self) -> [u8; KEYS] {
        std::array::from_fn(|key| {
            let inner = self.child(0, key);
            self.value_in(self.child(inner, key), key)
        })
    }

    fn child(&self, slot: u8, key: usize) -> u8 {
        match self.nodes[usize::from(slot)].content {
            Content::Inner(children) => children[key],
            Content::Leaf(_) => 0,
        }
    }

    fn value_in(&self, slot: u8, key: usize) -> u8 {
        match self.nodes[usize::from(slot)].content {
            Content::Leaf(values) => values[key],
            Content::Inner(_) => 0,
        }
    }
}

/// One thread's view of the state while it takes a step.
pub struct Step<'s> {
    pub state: &'s mut State,
    pub mutation: Mutation,
    pub index: usize,
    pub ops: &'s [Vec<Op>],
}

impl Step<'_> {
    /// Takes the thread's next step; `None` where it has to wait.
    pub fn take(mut self) -> Option<()> {
        let op = self.op_of(self.index)?;
        let key = op.key();
        let next = match self.me().next {
            Next::Begin => {
                let possible = 1 << self.state.truth[key];
                self.me().possible = possible;
                let read = self.read(0)?;
                self.goes_on(read, Next::LoadInner)
            }
            Next::LoadInner => {
                self.me().slots[1] = self.state.child(0, key);
                match self.op() {
                    Op::MoveInner { .. } => Next::LockUpper,
                    _ => Next::ReadInner,
                }
            }
            Next::ReadInner => {
                let read = self.read(1)? && self.is_valid(0);
                self.goes_on(read, Next::LoadLeaf)
            }
            Next::LoadLeaf => {
                let inner = self.touch(1);
                self.me().slots[2] = self.state.child(inner, key);
                Next::ReadLeaf
            }
            Next::ReadLeaf => {
                // Validated before the leaf is looked at: what was loaded may be anything.
                let read = self.is_valid(1) && self.read(2)?;
                let then = match self.op() {
                    Op::Get { .. } => Next::LoadValue,
                    Op::Put { .. } | Op::Remove { .. } => Next::Decide,
                    Op::MoveLeaf { .. } | Op::MoveInner { .. } => Next::LockUpper,
                };
                self.goes_on(read, then)
            }
            Next::LoadValue | Next::ValidateValue => self.get(key),
            Next::Decide => self.decide(key),
            Next::LockLeaf => {
                let locked = self.try_lock(2);
                self.goes_on(locked, Next::StoreLeaf)
            }
            Next::StoreLeaf => {
                self.store_value(2, key);
                Next::UnlockLeaf
            }
            Next::UnlockLeaf => {
                self.takes_effect(key);
                self.unlock(2, true);
                Next::Done
            }
            next => self.change_structure(next, key)?,
        };
        self.set_next(next);
        Some(())
    }

    fn op_of(&self, thread: usize) -> Option<Op> {
        let at = self.state.threads[thread].op;
        self.ops[thread].get(usize::from(at)).copied()
    }

    fn op(&self) -> Op {
        self.op_of(self.index)
            .expect("checked when the step was begun")
    }

    fn me(&mut self) -> &mut Thread {
        &mut self.state.threads[self.index]
    }

    fn set_next(&mut self, next: Next) {
        if next == Next::Done {
            let thread = self.me();
            *thread = Thread {
                op: thread.op + 1,
                next: Next::Begin,
                slots: [0; 3],
                versions: [0; 3],
                value: 0,
                made: 0,
                possible: 0,
            };
        } else {
            self.me().next = next;
        }
        if matches!(next, Next::Done | Next::Begin) {
            self.leave();
        }
    }

    /// Lets go of the guard: what only this thread may have seen is freed.
    fn leave(&mut self) {
        let me = 1 << self.index;
        for node in &mut self.state.nodes {
            if let Phase::Retired { seen_by } = &mut node.phase {
                *seen_by &= !me;
                if *seen_by == 0 {
                    node.phase = Phase::Free;
                }
            }
        }
    }

    fn goes_on(&self, succeeded: bool, next: Next) -> Next {
        if succeeded { next } else { Next::Begin }
    }

    /// The slot of a node on the way, which must not be free.
    fn touch(&mut self, on_way: usize) -> u8 {
        let slot = self.me().slots[on_way];
        let is_free = self.state.nodes[usize::from(slot)].phase == Phase::Free;
        self.state.has_touched_freed |= is_free;
        slot
    }

    fn node(&mut self, on_way: usize) -> &mut Node {
        let slot = self.touch(on_way);
        &mut self.state.nodes[usize::from(slot)]
    }

    /// `OptimisticLock::read`: waits for a writer; false where the node is obsolete.
    fn read(&mut self, on_way: usize) -> Option<bool> {
        let node = *self.node(on_way);
        if node.is_obsolete {
            return Some(false);
        }
        if node.holder != NOBODY {
            return None;
        }
        self.me().versions[on_way] = node.version;
        Some(true)
    }

    /// `OptimisticLock::validate`.
    fn is_valid(&mut self, on_way: usize) -> bool {
        let version = self.me().versions[on_way];
        let node = self.node(on_way);
        !node.is_obsolete && node.holder == NOBODY && node.version == version
    }

    /// `OptimisticLock::try_lock`.
    fn try_lock(&mut self, on_way: usize) -> bool {
        let is_valid = self.is_valid(on_way);
        if is_valid {
            self.node(on_way).holder = self.index as u8;
        }
        is_valid
    }

    /// `OptimisticLock::lock`.
    fn lock(&mut self, on_way: usize) -> Option<bool> {
        let read = self.read(on_way)?;
        Some(read && self.try_lock(on_way))
    }

    fn unlock(&mut self, on_way: usize, has_changed: bool) {
        let node = self.node(on_way);
        node.holder = NOBODY;
        node.version += u8::from(has_changed);
    }

    /// Marks a node as replaced and retires it.
    fn end(&mut self, on_way: usize) {
        let users = self.state.threads.iter().enumerate();
        let inside = users.filter(|(_, thread)| thread.next != Next::Begin);
        let seen_by = inside.fold(0, |seen_by, (index, _)| seen_by | 1 << index);
        let mutation = self.mutation;
        let node = self.node(on_way);
        node.holder = NOBODY;
        if mutation != Mutation::OldNodeStaysUsable {
            node.version += 1;
            node.is_obsolete = true;
        }
        node.phase = match mutation {
            Mutation::FreesAtOnce => Phase::Free,
            _ => Phase::Retired { seen_by },
        };
    }

    /// A copy of a node, or a part of it, that nobody else knows of yet.
    fn make(&mut self, tier: u8, content: Content) {
        let free = |node: &Node| node.phase == Phase::Free;
        let slot = self
            .state
            .nodes
            .iter()
            .position(free)
            .expect("slots for all");
        self.state.nodes[slot] = Node {
            version: 0,
            holder: NOBODY,
            is_obsolete: false,
            tier,
            phase: Phase::Live,
            content,
        };
        self.me().made = slot as u8;
    }

    fn get(&mut self, key: usize) -> Next {
        if self.me().next == Next::LoadValue {
            let leaf = self.touch(2);
            self.me().value = self.state.value_in(leaf, key);
            return Next::ValidateValue;
        }
        if self.mutation != Mutation::ReaderTrusts && !self.is_valid(2) {
            return Next::Begin;
        }
        let thread = *self.me();
        self.state.has_misread |= thread.possible & (1 << thread.value) == 0;
        Next::Done
    }

    /// A writer looks whether the leaf is enough, or the inner node changes too.
    fn decide(&mut self, key: usize) -> Next {
        let leaf = self.touch(2);
        let Content::Leaf(values) = self.state.nodes[usize::from(leaf)].content else {
            return Next::Begin;
        };
        let kept = values.iter().filter(|value| **value != 0).count();
        let has_key = values[key] != 0;
        let inner = self.touch(1);
        let has_siblings = self
            .state
            .children(inner)
            .iter()
            .any(|child| *child != leaf);
        match self.op() {
            Op::Put { .. } if !has_key && kept == LEAF_KEYS => Next::LockUpper,
            Op::Remove { .. } if has_key && kept == 1 && has_siblings => Next::LockUpper,
            _ => Next::LockLeaf,
        }
    }

    /// Stores the value of the operation in a leaf.
    fn store_value(&mut self, on_way: usize, key: usize) {
        let value = self.op().value();
        if let Content::Leaf(values) = &mut self.node(on_way).content {
            values[key] = value;
        }
    }

    /// The moment from which on everybody sees what the operation did.
    fn takes_effect(&mut self, key: usize) {
        let value = self.op().value();
        self.state.truth[key] = value;
        for index in 0..self.state.threads.len() {
            if self.op_of(index).is_some_and(|op| op.key() == key) {
                self.state.threads[index].possible |= 1 << value;
            }
        }
    }

    /// Split, removal of a leaf and migration: locks a node and the one above, from the top down.
    fn change_structure(&mut self, next: Next, key: usize) -> Option<Next> {
        let upper = if matches!(self.op(), Op::MoveInner { .. }) {
            0
        } else {
            1
        };
        let lower = upper + 1;
        Some(match next {
            Next::LockUpper
                if self.mutation == Mutation::SplitLocksUpwards && self.op().is_write() =>
            {
                let locked = self.lock(lower)?;
                self.goes_on(locked, Next::LockLower)
            }
            Next::LockUpper => {
                if self.mutation == Mutation::CopiesBeforeLocking && !self.op().is_write() {
                    self.copy(lower);
                }
                let locked = self.try_lock(upper);
                self.goes_on(locked, Next::LockLower)
            }
            Next::LockLower
                if self.mutation == Mutation::SplitLocksUpwards && self.op().is_write() =>
            {
                if self.lock(upper)? {
                    return Some(Next::Copy);
                }
                self.unlock(lower, false);
                Next::Begin
            }
            Next::LockLower => {
                let locked = if self.op().is_write() {
                    self.try_lock(lower)
                } else {
                    self.lock(lower)?
                };
                if locked {
                    return Some(Next::Copy);
                }
                self.unlock(upper, false);
                Next::Begin
            }
            Next::Copy => self.copy_or_leave(upper, lower),
            Next::StoreUpper => {
                self.store_upper(upper, lower);
                if self.op().is_write() {
                    Next::StoreLower
                } else {
                    Next::EndLower
                }
            }
            Next::StoreLower => {
                self.store_lower(lower, key);
                Next::EndLower
            }
            Next::EndLower => {
                if matches!(self.op(), Op::Put { .. }) {
                    self.unlock(lower, true);
                } else {
                    self.end(lower);
                }
                Next::UnlockUpper
            }
            _ => {
                if self.op().is_write() {
                    self.takes_effect(key);
                }
                self.unlock(upper, true);
                Next::Done
            }
        })
    }

    fn copy(&mut self, lower: usize) {
        let content = self.node(lower).content;
        if let Op::MoveLeaf { to, .. } | Op::MoveInner { to } = self.op()
            && self.me().made == 0
        {
            self.make(to, content);
        }
    }

    /// Makes what is to be published, or gives up where the boundary would be crossed.
    fn copy_or_leave(&mut self, upper: usize, lower: usize) -> Next {
        let slot = self.touch(lower);
        let (tier, above) = (self.node(lower).tier, self.node(upper).tier);
        let tiers = |child: u8, state: &State| state.nodes[usize::from(child)].tier;
        match self.op() {
            Op::MoveLeaf { to, .. } | Op::MoveInner { to } => {
                let children = self.state.children(slot);
                let crosses =
                    to < above || children.iter().any(|child| tiers(*child, self.state) < to);
                let is_kept = self.mutation != Mutation::IgnoresBoundary;
                if tier == to || (crosses && is_kept) {
                    self.unlock(lower, false);
                    self.unlock(upper, false);
                    return Next::Done;
                }
                self.copy(lower);
            }
            // The upper of the two keys moves to a new leaf beside this one, with the new key.
            Op::Put { key, value } => {
                let Content::Leaf(mut values) = self.node(lower).content else {
                    return Next::Begin;
                };
                let first = values
                    .iter()
                    .position(|value| *value != 0)
                    .expect("it is full");
                values[first] = 0;
                values[key] = value;
                self.make(tier, Content::Leaf(values));
            }
            Op::Get { .. } | Op::Remove { .. } => {}
        }
        Next::StoreUpper
    }

    fn store_upper(&mut self, upper: usize, lower: usize) {
        let (old, made, op) = (self.me().slots[lower], self.me().made, self.op());
        let made_content = self.state.nodes[usize::from(made)].content;
        let Content::Inner(children) = &mut self.node(upper).content else {
            return;
        };
        match (op, made_content) {
            (Op::Put { .. }, Content::Leaf(values)) => {
                let first = values
                    .iter()
                    .position(|value| *value != 0)
                    .expect("it has keys");
                for child in children[first..].iter_mut().filter(|child| **child == old) {
                    *child = made;
                }
            }
            (Op::Remove { .. }, _) => {
                let sibling = *children
                    .iter()
                    .find(|child| **child != old)
                    .expect("checked");
                children
                    .iter_mut()
                    .filter(|child| **child == old)
                    .for_each(|child| {
                        *child = sibling;
                    });
            }
            _ => children
                .iter_mut()
                .filter(|child| **child == old)
                .for_each(|child| {
                    *child = made;
                }),
        }
    }

    fn store_lower(&mut self, lower: usize, key: usize) {
        let made = self.me().made;
        if let (Op::Put { .. }, Content::Leaf(moved)) =
            (self.op(), self.state.nodes[usize::from(made)].content)
        {
            if let Content::Leaf(values) = &mut self.node(lower).content {
                for (value, moved) in values.iter_mut().zip(moved) {
                    *value = if moved == 0 { *value } else { 0 };
                }
            }
        } else {
            self.store_value(lower, key);
        }
    }
}
