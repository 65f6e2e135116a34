//! Many lookups concurrently: while one waits for memory, others go on.

use nearfar_model::Probe;

use super::handle::{Kind, NODE_BYTES_MAX, Restart, enter};
use super::leaf::{Found, Leaf};
use super::node::Node;
use super::record::{Record, pointer_to_word};
use super::slice::{LAYER, SLICE_BYTES, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::key::{Key, KeyBytes};
use crate::lock::{OptimisticLock, Version};
use crate::value::TreeValue;

/// Lookups that are under way together: about as many lines as a core can fetch concurrently.
const GROUP: usize = 16;

/// What a lookup does next. The memory that it needs for that is on its way.
enum Next {
    /// To go into a node.
    Node,
    /// To compare the rest of the key with a record's.
    Record,
    /// To copy the value from its block.
    Value,
}

/// One lookup under way.
struct Lookup<'g, 'k> {
    key: KeyBytes<'k>,
    /// The position of the key, and of its value.
    index: usize,
    next: Next,
    /// Points to what comes next; it was loaded from what `lock` protects since `version`.
    pointer: *mut Node,
    lock: &'g OptimisticLock,
    version: Version,
    /// Bytes of the key in the layers above.
    depth: usize,
}

impl<V: TreeValue> Masstree<V> {
    /// Looks `keys` up and appends what they have to `values`.
    pub(super) fn get_batch_in<P: Probe, K: Key>(
        &self,
        context: &Context<'_, '_, P>,
        keys: &[K],
        values: &mut Vec<Option<V>>,
    ) {
        let start = values.len();
        values.resize(start + keys.len(), None);
        let values = &mut values[start..];
        let mut waiting = keys.iter().enumerate();
        let mut group: Vec<Lookup<'_, '_>> = Vec::with_capacity(GROUP.min(keys.len()));
        for (index, key) in waiting.by_ref().take(GROUP) {
            group.push(self.begin(context, index, key.key_bytes()));
        }
        while !group.is_empty() {
            let mut at = 0;
            while at < group.len() {
                let lookup = &mut group[at];
                match self.advance(context, lookup) {
                    Ok(None) => at += 1,
                    Err(Restart) => {
                        *lookup = self.begin(context, lookup.index, lookup.key);
                        at += 1;
                    }
                    Ok(Some(value)) => {
                        values[lookup.index] = value;
                        if let Some((index, key)) = waiting.next() {
                            *lookup = self.begin(context, index, key.key_bytes());
                            at += 1;
                        } else {
                            group.swap_remove(at);
                        }
                    }
                }
            }
        }
    }

    fn begin<'g, 'k, P: Probe>(
        &'g self,
        context: &'g Context<'_, '_, P>,
        index: usize,
        key: KeyBytes<'k>,
    ) -> Lookup<'g, 'k> {
        let edge = loop {
            if let Ok(edge) = self.first_edge(context) {
                break edge;
            }
        };
        Lookup {
            key,
            index,
            next: Next::Node,
            pointer: context.guard.load(edge.slot),
            lock: edge.lock,
            version: edge.version,
            depth: 0,
        }
    }

    /// Goes one step, and says what was found once that is known.
    #[inline(always)]
    fn advance<'g, P: Probe>(
        &self,
        context: &'g Context<'_, '_, P>,
        lookup: &mut Lookup<'g, '_>,
    ) -> Result<Option<Option<V>>, Restart> {
        match lookup.next {
            Next::Node => self.advance_in_node(context, lookup),
            Next::Record => {
                // SAFETY: the pointer was a record's in a leaf of one state, under the guard.
                let (record, suffix) = unsafe {
                    let record = Record::of(lookup.pointer);
                    (record, Record::suffix(lookup.pointer, context))
                };
                if suffix != &lookup.key.as_ref()[lookup.depth + SLICE_BYTES..] {
                    return Ok(Some(None));
                }
                lookup.pointer = context.guard.load(&record.value);
                Ok(finish(context, lookup))
            }
            Next::Value => {
                let word = pointer_to_word(lookup.pointer);
                // SAFETY: the word was the key's in a leaf of one state, under the guard.
                Ok(Some(Some(unsafe { V::from_word(word, context) })))
            }
        }
    }

    #[inline(always)]
    fn advance_in_node<'g, P: Probe>(
        &self,
        context: &'g Context<'_, '_, P>,
        lookup: &mut Lookup<'g, '_>,
    ) -> Result<Option<Option<V>>, Restart> {
        if lookup.pointer.is_null() && context.validate(lookup.lock, lookup.version) {
            return Ok(Some(None));
        }
        let (node, own) = enter(context, lookup.pointer, lookup.lock, lookup.version, 0)?;
        lookup.version = own;
        lookup.lock = &node.get().lock;
        let slice = Slice::of(&lookup.key.as_ref()[lookup.depth..]);
        match node.kind() {
            Kind::Inner(inner) => {
                let (position, _) = inner.position(slice.bits);
                inner.report_search(position, context);
                lookup.pointer = context.guard.load(inner.get().child(position));
                context.prefetch(lookup.pointer, inner.node.child_bytes());
                Ok(None)
            }
            Kind::Leaf(leaf) => self.advance_in_leaf(context, lookup, leaf.get(), slice),
        }
    }

    #[inline(always)]
    fn advance_in_leaf<'g, P: Probe>(
        &self,
        context: &'g Context<'_, '_, P>,
        lookup: &mut Lookup<'g, '_>,
        leaf: &'g Leaf,
        slice: Slice,
    ) -> Result<Option<Option<V>>, Restart> {
        leaf.report_search(context);
        let found = leaf.find(slice);
        if let Some(Found { slot, .. }) = found {
            let word = leaf.word(slot);
            context.probe.read(std::ptr::from_ref(word).addr(), 8);
            lookup.pointer = context.guard.load(word);
        }
        if !context.validate(lookup.lock, lookup.version) {
            return Err(Restart);
        }
        if let Some(Found { class: LAYER, .. }) = found {
            lookup.depth += SLICE_BYTES;
            context.prefetch(lookup.pointer, NODE_BYTES_MAX);
            return Ok(None);
        }
        self.frontend.use_leaf(&leaf.node.counter, context.probe);
        match found {
            None => Ok(Some(None)),
            Some(found) if found.class == SUFFIX => {
                lookup.next = Next::Record;
                let length = lookup.key.as_ref().len() - lookup.depth;
                context.prefetch(lookup.pointer, length + SLICE_BYTES);
                Ok(None)
            }
            Some(_) => Ok(finish(context, lookup)),
        }
    }
}

/// The value whose word was found, or a step more where it is elsewhere.
#[inline(always)]
fn finish<V: TreeValue, P: Probe>(
    context: &Context<'_, '_, P>,
    lookup: &mut Lookup<'_, '_>,
) -> Option<Option<V>> {
    if V::INLINE {
        let word = pointer_to_word(lookup.pointer);
        // SAFETY: the word was the key's in a leaf of one state, under the guard.
        return Some(Some(unsafe { V::from_word(word, context) }));
    }
    lookup.next = Next::Value;
    context.prefetch(lookup.pointer, size_of::<u64>());
    None
}
