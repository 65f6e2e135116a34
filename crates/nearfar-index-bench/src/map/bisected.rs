//! The B+tree of weisgut-2025, figure 11, as far as a model sees it.
//!
//! BTreeOLC (Leis et al., Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019; the version of
//! github.com/jmuehlig/btree-benchmarks) keeps keys in one sorted array per node and looks for them by
//! bisection, with a branch per step. Our B+tree searches in another way, so that its lookups touch
//! fewer lines of large nodes. This tree has the published layout, search and splits, and one user at
//! a time: the model runs operations one by one.
//!
//! Half of the branches of a bisection are mispredicted. What a step reads after a right prediction does
//! not wait for the key before it. After a wrong one it does, and meanwhile the processor has gone on in
//! the other half as far as addresses follow without keys: to the end of that bisection.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use nearfar_model::Probe;

use super::{MapError, OrderedMap, Session};
use crate::random::mix;

/// Words before the arrays: the pointer to the class, the lock, kind and count.
const HEADER_WORDS: usize = 3;
const LOCK: usize = 1;
const COUNT: usize = 2;
const IS_LEAF: u64 = 1 << 32;
const WORD_BYTES: usize = 8;
const LINE_WORDS: usize = 8;
/// Where the first node lies in the model. Nodes have no addresses of this process that are told.
const FIRST_ADDRESS: usize = 1 << 46;
/// Addresses that are nodes'.
const ADDRESSES: usize = 1 << 38;

/// The allocator that all threads share: its lock, behind all nodes, and the lines that an allocation
/// touches under it. Assumed: that of the lock, the list or the top that memory is taken from, the header
/// of what is taken, and that of what is left.
const ALLOCATOR: usize = FIRST_ADDRESS + ADDRESSES - 4096;
const ALLOCATOR_LINES: usize = 4;

/// A B+tree of sorted arrays that are searched by bisection.
pub struct Bisected(Mutex<Nodes>);

#[derive(Clone)]
struct Nodes {
    words: Vec<u64>,
    node_words: usize,
    capacity: usize,
    root: usize,
}

impl Bisected {
    /// An empty one with nodes of this size.
    pub fn new(node_bytes: usize) -> Self {
        let node_words = node_bytes / WORD_BYTES;
        let mut nodes = Nodes {
            words: Vec::new(),
            node_words,
            capacity: (node_words - HEADER_WORDS) / 2,
            root: 0,
        };
        nodes.root = nodes.add(IS_LEAF);
        Self(Mutex::new(nodes))
    }

    /// The modelled addresses of nodes.
    pub const fn addresses() -> Range<usize> {
        FIRST_ADDRESS..FIRST_ADDRESS + ADDRESSES
    }
}

impl Clone for Bisected {
    fn clone(&self) -> Self {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Mutex::new(nodes.clone()))
    }
}

impl OrderedMap<u64> for Bisected {
    fn session<'s, P: Probe>(&'s self, probe: &'s P) -> impl Session<u64> + 's {
        BisectedSession { tree: self, probe }
    }
}

struct BisectedSession<'s, P> {
    tree: &'s Bisected,
    probe: &'s P,
}

impl<P: Probe> BisectedSession<'_, P> {
    fn with<T>(&self, operation: impl FnOnce(&mut Nodes, &P) -> T) -> T {
        let mut nodes = self.tree.0.lock().unwrap_or_else(PoisonError::into_inner);
        operation(&mut nodes, self.probe)
    }
}

impl<P: Probe> Session<u64> for BisectedSession<'_, P> {
    fn insert(&mut self, key: &u64, value: u64) -> Result<(), MapError> {
        self.with(|nodes, probe| nodes.insert(*key, value, probe));
        Ok(())
    }

    fn get(&mut self, key: &u64) -> Option<u64> {
        self.with(|nodes, probe| nodes.get(*key, probe))
    }

    fn update(&mut self, key: &u64, value: u64) -> Result<bool, MapError> {
        self.insert(key, value)?;
        Ok(true)
    }

    fn scan(&mut self, _from: &u64, _count: usize) -> (usize, u64) {
        unreachable!("no experiment of weisgut-2025 scans trees")
    }

    fn remove(&mut self, _key: &u64) -> bool {
        unreachable!("no experiment of weisgut-2025 removes keys")
    }
}

impl Nodes {
    fn add(&mut self, kind: u64) -> usize {
        let node = self.words.len();
        self.words.resize(node + self.node_words, 0);
        self.words[node + COUNT] = kind;
        node
    }

    fn is_leaf(&self, node: usize) -> bool {
        self.words[node + COUNT] & IS_LEAF != 0
    }

    fn count(&self, node: usize) -> usize {
        (self.words[node + COUNT] & (IS_LEAF - 1)) as usize
    }

    fn set_count(&mut self, node: usize, count: usize) {
        let kind = self.words[node + COUNT] & IS_LEAF;
        self.words[node + COUNT] = kind | count as u64;
    }

    /// Words of keys: before the values of a leaf, behind the children of an inner node.
    fn first_key(&self, node: usize) -> usize {
        let before = if self.is_leaf(node) { 0 } else { self.capacity };
        node + HEADER_WORDS + before
    }

    /// Words of values or children.
    fn first_slot(&self, node: usize) -> usize {
        let before = if self.is_leaf(node) { self.capacity } else { 0 };
        node + HEADER_WORDS + before
    }

    fn is_full(&self, node: usize) -> bool {
        let room = self.capacity - usize::from(!self.is_leaf(node));
        self.count(node) == room
    }

    /// The first key that is not below `key`.
    fn lower_bound<P: Probe>(&self, node: usize, key: u64, probe: &P) -> usize {
        let first = self.first_key(node);
        let (mut lower, mut upper) = (0, self.count(node));
        probe.depends();
        while lower < upper {
            let middle = usize::midpoint(lower, upper);
            let word = first + middle;
            probe.read(address(word), WORD_BYTES);
            let (found, other) = (self.words[word], (lower, upper));
            if key == found {
                // That it is there comes as a surprise.
                probe.branch_mispredict();
                return middle;
            }
            let is_below = key < found;
            (lower, upper) = if is_below {
                (lower, middle)
            } else {
                (middle + 1, upper)
            };
            // Keys are random, and so is what the processor expects of their order.
            let is_predicted = mix(key ^ found.rotate_left(32)) & 1 == 0;
            if !is_predicted {
                let (low, high) = if is_below {
                    (middle + 1, other.1)
                } else {
                    (other.0, middle)
                };
                go_wrong_path(first, (low, high), key, probe);
                probe.branch_mispredict();
            }
        }
        lower
    }

    fn enter<P: Probe>(node: usize, probe: &P) {
        probe.depends();
        probe.read(address(node + LOCK), 2 * WORD_BYTES);
    }

    /// The child at an index. Where the last guess was right, it is read before the keys are there.
    fn child<P: Probe>(&self, node: usize, at: usize, probe: &P) -> usize {
        let word = self.first_slot(node) + at;
        probe.read(address(word), WORD_BYTES);
        let child = self.words[word] as usize;
        Self::enter(child, probe);
        probe.validate(address(node + LOCK));
        child
    }

    fn get<P: Probe>(&self, key: u64, probe: &P) -> Option<u64> {
        let mut node = self.root;
        Self::enter(node, probe);
        while !self.is_leaf(node) {
            let at = self.lower_bound(node, key, probe);
            node = self.child(node, at, probe);
        }
        let at = self.lower_bound(node, key, probe);
        let is_there = at < self.count(node) && self.words[self.first_key(node) + at] == key;
        let value = is_there.then(|| {
            let word = self.first_slot(node) + at;
            probe.read(address(word), WORD_BYTES);
            self.words[word]
        });
        probe.validate(address(node + LOCK));
        value
    }

    /// Full nodes on the way are split, and the way begins again.
    fn insert<P: Probe>(&mut self, key: u64, value: u64, probe: &P) {
        'restart: loop {
            let (mut node, mut parent) = (self.root, None);
            Self::enter(node, probe);
            loop {
                if self.is_full(node) {
                    self.split(node, parent, probe);
                    continue 'restart;
                }
                if self.is_leaf(node) {
                    break;
                }
                parent = Some(node);
                let at = self.lower_bound(node, key, probe);
                node = self.child(node, at, probe);
            }
            probe.lock(address(node + LOCK));
            self.insert_at(node, key, value, probe);
            probe.unlock(address(node + LOCK), true);
            return;
        }
    }

    /// Puts a key and its value, or the child behind it, into a node that has room.
    fn insert_at<P: Probe>(&mut self, node: usize, key: u64, slot: u64, probe: &P) {
        let (at, count) = (self.lower_bound(node, key, probe), self.count(node));
        let (keys, slots) = (self.first_key(node), self.first_slot(node));
        if at < count && self.words[keys + at] == key {
            self.words[slots + at] = slot;
            probe.write(address(slots + at), WORD_BYTES);
            return;
        }
        // A child lies behind its separator.
        let behind = usize::from(!self.is_leaf(node));
        let slots = slots + behind;
        self.words
            .copy_within(keys + at..keys + count, keys + at + 1);
        self.words
            .copy_within(slots + at..slots + count, slots + at + 1);
        self.words[keys + at] = key;
        self.words[slots + at] = slot;
        self.set_count(node, count + 1);
        // Where they lie follows from branches alone, so that nothing waits for keys but what comes
        // after a wrong guess. The words that move are read before they are written.
        for first in [keys + at, slots + at] {
            let bytes = (count + 1 - at) * WORD_BYTES;
            probe.read(address(first), bytes);
            probe.write(address(first), bytes);
        }
        probe.write(address(node + COUNT), WORD_BYTES);
    }

    /// Splits a node under its lock and that of what is above it, which are taken from above.
    fn split<P: Probe>(&mut self, node: usize, parent: Option<usize>, probe: &P) {
        let (is_leaf, count) = (self.is_leaf(node), self.count(node));
        let locks = [parent, Some(node)].into_iter().flatten();
        let locks = locks.map(|node| address(node + LOCK));
        locks.clone().for_each(|lock| probe.lock(lock));
        probe.critical_section(ALLOCATOR, ALLOCATOR_LINES);
        let new = self.add(if is_leaf { IS_LEAF } else { 0 });
        let moved = count - count / 2;
        // The separator of inner nodes goes up.
        let left = count - moved - usize::from(!is_leaf);
        let separator = self.words[self.first_key(node) + if is_leaf { left - 1 } else { left }];
        let from = left + usize::from(!is_leaf);
        for (old, new) in [
            (self.first_key(node), self.first_key(new)),
            (self.first_slot(node), self.first_slot(new)),
        ] {
            let words = moved + usize::from(!is_leaf);
            self.words.copy_within(old + from..old + from + words, new);
            probe.read(address(old + from), words * WORD_BYTES);
            probe.write(address(new), words * WORD_BYTES);
        }
        self.set_count(node, left);
        self.set_count(new, moved);
        probe.write(address(new), HEADER_WORDS * WORD_BYTES);
        probe.write(address(node + COUNT), WORD_BYTES);
        match parent {
            Some(parent) => self.insert_at(parent, separator, new as u64, probe),
            None => {
                probe.critical_section(ALLOCATOR, ALLOCATOR_LINES);
                self.root = self.add(0);
                let first = self.first_slot(self.root);
                self.words[first] = node as u64;
                let root = self.root;
                self.insert_at(root, separator, new as u64, probe);
            }
        }
        locks.for_each(|lock| probe.unlock(lock, true));
    }
}

/// What the processor reads behind a branch mispredict: a bisection that goes where it predicts, until
/// one line is left.
fn go_wrong_path<P: Probe>(first: usize, bounds: (usize, usize), key: u64, probe: &P) {
    let (mut low, mut high) = bounds;
    while low < high {
        let middle = usize::midpoint(low, high);
        probe.wrong_path_load(address(first + middle), WORD_BYTES);
        if high - low <= LINE_WORDS {
            return;
        }
        if mix(key ^ middle as u64) & 1 == 0 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
}

fn address(word: usize) -> usize {
    FIRST_ADDRESS + word * WORD_BYTES
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use nearfar_model::Native;
    use nearfar_model::simulation::{
        AddressMap, AddressSpace, Caches, Machine, Operation, OperationCost, PlacedBuffer, Program,
        Recorder, Simulation, TierName, VirtualProbe,
    };
    use nearfar_topology::Profile;

    use super::*;

    fn loaded(node_bytes: usize, keys: u64) -> Bisected {
        let map = Bisected::new(node_bytes);
        let mut session = map.session(&Native);
        for id in 0..keys {
            session.insert(&mix(id), id).unwrap();
        }
        drop(session);
        map
    }

    #[test]
    fn keys_are_found_in_nodes_of_all_sizes() {
        for node_bytes in [256, 1024, 4096] {
            let map = Bisected::new(node_bytes);
            let mut session = map.session(&Native);
            for id in 0..20_000 {
                session.insert(&mix(id), id).unwrap();
                session.insert(&mix(id / 2), id / 2).unwrap();
            }
            assert!(
                (0..20_000).all(|id| session.get(&mix(id)) == Some(id)),
                "{node_bytes}"
            );
            assert!((20_000..30_000).all(|id| session.get(&mix(id)).is_none()));
        }
    }

    const PAGE_BYTES: usize = 4096;
    const COST: OperationCost = OperationCost {
        operation_ns: 12.0,
        access_ns: 1.5,
    };

    /// Nodes from the second modelled page on, where a simulation of closures puts its first buffer.
    #[derive(Debug)]
    struct SecondPage;

    impl AddressSpace for SecondPage {
        fn modelled(&self, address: usize) -> u64 {
            (PAGE_BYTES + address - Bisected::addresses().start) as u64
        }
    }

    /// Looks keys up when the simulation asks for more.
    struct Lookups {
        map: Rc<Bisected>,
        recorder: Recorder<SecondPage>,
        keys: std::vec::IntoIter<u64>,
    }

    impl Program for Lookups {
        fn next_operation(&mut self) -> Option<Operation> {
            loop {
                if let Some(operation) = self.recorder.pop() {
                    return Some(operation);
                }
                let key = self.keys.next()?;
                self.recorder.begin(COST, false);
                assert!(self.map.session(&self.recorder).get(&key).is_some());
                self.recorder.end();
            }
        }
    }

    /// Index benchmarks charge operations through a [`Recorder`] of their own, closures in virtual
    /// time through a [`VirtualProbe`].
    #[test]
    fn the_same_lookups_take_the_same_time_in_both_kinds_of_simulations() {
        let machine = Machine::new(&Profile::builtin("cxl-card").unwrap()).unwrap();
        let far = machine.devices(TierName::Far, 1).unwrap();
        let map = Rc::new(loaded(1024, 20_000));
        let keys: Vec<u64> = (0..2_000).map(|turn| mix(turn * 7 % 20_000)).collect();

        let buffer = PlacedBuffer {
            addresses: Bisected::addresses(),
            cycle: far.clone(),
        };
        let shared = &*map;
        let lookups = |probe: &VirtualProbe| {
            for key in &keys {
                probe.begin(COST);
                assert!(shared.session(probe).get(key).is_some());
            }
        };
        let of_closure = machine.run(&[buffer], vec![lookups]).unwrap();

        let mut address_map = AddressMap::new();
        let pages = (Bisected::addresses().len() / PAGE_BYTES) as u64;
        address_map.add(1, pages, far);
        let program = Lookups {
            map: Rc::clone(&map),
            recorder: Recorder::new(SecondPage),
            keys: keys.clone().into_iter(),
        };
        let programs: Vec<Box<dyn Program>> = vec![Box::new(program)];
        let of_program = Simulation::new(&machine, address_map, programs, Caches::Simulated)
            .unwrap()
            .run();

        assert_eq!(of_closure.lines, of_program.lines);
        assert_eq!(of_closure.lines_read, of_program.lines_read);
        assert_eq!(of_closure.elapsed_ns, of_program.elapsed_ns);
    }
}
