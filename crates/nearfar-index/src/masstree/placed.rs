//! What placement sees of the tree.

use std::ops::ControlFlow;

use nearfar_memory::TierId;
use nearfar_model::Probe;

use super::descent::Spot;
use super::handle::{At, Kind, Restart, bytes_of};
use super::leaf::{Entry, Leaf, Page};
use super::node::Node;
use super::record::{Record, pointer_to_word};
use super::scan::{Cursor, Limit, Onward, step};
use super::slice::{LAYER, SUFFIX, Slice};
use super::tree::Masstree;
use crate::context::Context;
use crate::memory::NodeMemory;
use crate::placement::{Frontend, LeafView, MigrateError, Migration, NodeView, Placed, PlacedTree};
use crate::value::TreeValue;

/// How often a migration tries to get the locks of a node and the one above it.
const ATTEMPTS: usize = 100;

/// The name of a node.
type Name = Placed<Box<[u8]>>;

impl<V: TreeValue> PlacedTree for Masstree<V> {
    type Node = Name;

    fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    fn frontend(&self) -> &Frontend {
        &self.frontend
    }

    /// Known immediately unless the root of a layer came or went; then all leaves are visited.
    fn height(&self) -> u32 {
        self.height.get(|| {
            let mut deepest = 0;
            let _ = self.visit_leaves(&mut |leaf| {
                deepest = deepest.max(leaf.level);
                ControlFlow::Continue(())
            });
            deepest + 1
        })
    }

    fn visit_leaves(
        &self,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visit_from(&[], visitor)
    }

    fn visit_leaves_from(
        &self,
        from: &Name,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        Some(self.visit_from(&from.key, visitor))
    }

    fn identity(&self, node: &Name) -> Option<usize> {
        let context = Context::native(&self.memory);
        loop {
            if let Ok(located) = self.locate(&context, node) {
                return located.map(|located| located.node.pointer().addr());
            }
        }
    }

    fn parent(&self, node: &Name) -> Option<Name> {
        node.parent()
    }

    fn view(&self, node: &Name) -> Option<NodeView> {
        let context = Context::native(&self.memory);
        loop {
            if let Ok(view) = self.try_view(&context, node) {
                return view;
            }
        }
    }

    fn migrate(
        &self,
        node: &Name,
        to: TierId,
        keep_boundary: bool,
    ) -> Result<Migration, MigrateError> {
        let context = Context::native(&self.memory);
        for _ in 0..ATTEMPTS {
            if let Ok(end) = self.try_migrate(&context, node, to, keep_boundary) {
                return end;
            }
            std::hint::spin_loop();
        }
        Err(MigrateError::Busy)
    }
}

impl<V: TreeValue> Masstree<V> {
    /// Visits the leaf for a key and all behind it.
    fn visit_from(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut cursor = Cursor::new(key, Limit::Included);
        let mut is_new = true;
        loop {
            let context = Context::native(&self.memory);
            if let Ok(Some(end)) = self.visit_run(&context, &mut cursor, &mut is_new, visitor) {
                return end;
            }
        }
    }

    /// Visits the leaves below one inner node, from the cursor on, and says how the visit ended
    /// once it has. The first leaf comes if it `is_new`, or if the cursor is where it begins.
    fn visit_run<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        cursor: &mut Cursor,
        is_new: &mut bool,
        visitor: &mut dyn FnMut(LeafView<'_, Name>) -> ControlFlow<()>,
    ) -> Result<Option<ControlFlow<()>>, Restart> {
        let Some((mut spot, mut from)) = self.seek::<P, false>(context, cursor)? else {
            return Ok(Some(ControlFlow::Continue(())));
        };
        let depth = spot.depth;
        let mut page = Page::new();
        let mut name = Placed {
            key: Box::from([]),
            level: spot.level,
        };
        // A leaf comes once, before its layers: after those, the cursor is in the middle of it.
        *is_new |= is_first_of(&spot, from);
        loop {
            spot.leaf.copy(from, Slice::GREATEST, context, &mut page);
            let (bytes, _) = self.around(context, &spot.leaf, || spot.validate(context))?;
            if std::mem::take(is_new) {
                set_key(&mut name.key, &cursor.key[..depth], spot.lower.unwrap_or(0));
                let end = visitor(LeafView {
                    node: &name,
                    level: spot.level,
                    tier: spot.leaf.node.tier,
                    bytes,
                    counter: &spot.leaf.node.counter,
                });
                if end.is_break() {
                    return Ok(Some(end));
                }
            }
            let layer = page.entries().iter().find(|entry| entry.class == LAYER);
            if let Some(layer) = layer {
                cursor.set(depth, layer.slice(), Limit::Excluded);
                return Ok(None);
            }
            if let Some(upper) = spot.upper {
                // If the step fails, the visit goes on behind this leaf.
                cursor.set(depth, Slice::first_of(upper), Limit::Included);
            }
            match step::<P, false>(&spot, cursor, context)? {
                Onward::Leaf(next) => spot = next,
                Onward::Seek => return Ok(None),
                Onward::End => return Ok(Some(ControlFlow::Continue(()))),
            }
            (from, *is_new) = (Slice::LEAST, true);
        }
    }

    /// Bytes of a leaf with what moves along, and the nearest tier of the layers below. `validate`
    /// is asked before pointers are followed.
    pub(super) fn around<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        leaf: &Leaf,
        validate: impl Fn() -> Result<(), Restart>,
    ) -> Result<(usize, Option<TierId>), Restart> {
        let mut page = Page::new();
        leaf.copy(Slice::LEAST, Slice::GREATEST, context, &mut page);
        validate()?;
        let mut bytes = bytes_of(&leaf.node);
        let mut nearest = None;
        for Entry { class, word, .. } in page.entries().iter().copied() {
            let mut value = word;
            if class == LAYER {
                // SAFETY: the entry is a layer's root, in a leaf of one state, under the guard.
                let tier = unsafe { At::<Node>::new(word) }.tier;
                nearest = Some(nearest.map_or(tier, |nearest: TierId| nearest.min(tier)));
                continue;
            }
            if class == SUFFIX {
                // SAFETY: the entry is a record, in a leaf of one state, under the guard.
                let record = unsafe { Record::of(word) };
                bytes += record.bytes();
                value = context.guard.load(&record.value);
            }
            // SAFETY: the word is a value's, as above.
            bytes += unsafe { V::bytes_beside(pointer_to_word(value), context) };
        }
        Ok((bytes, nearest))
    }

    fn try_view<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        name: &Name,
    ) -> Result<Option<NodeView>, Restart> {
        let Some(located) = self.locate(context, name)? else {
            return Ok(None);
        };
        let node = located.node;
        let (bytes, nearest_child) = self.surroundings(context, &located)?;
        Ok(Some(NodeView {
            level: name.level,
            tier: node.tier,
            bytes,
            is_leaf: matches!(node.kind(), Kind::Leaf(_)),
            nearest_child,
        }))
    }
}

/// Whether the slice is where the leaf begins. In a layer below the first, no key ends before it.
fn is_first_of(spot: &Spot<'_>, from: Slice) -> bool {
    match spot.lower {
        Some(lower) => from <= Slice::first_of(lower),
        None => from <= Slice { bits: 0, class: 1 },
    }
}

/// Makes `key` the prefix and the slice, in the memory that it has if that is enough.
fn set_key(key: &mut Box<[u8]>, prefix: &[u8], bits: u64) {
    let slice = bits.to_be_bytes();
    if key.len() != prefix.len() + slice.len() {
        *key = vec![0; prefix.len() + slice.len()].into_boxed_slice();
    }
    key[..prefix.len()].copy_from_slice(prefix);
    key[prefix.len()..].copy_from_slice(&slice);
}
