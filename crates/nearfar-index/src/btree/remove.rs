//! Removal of a key.

use std::sync::atomic::Ordering::Relaxed;

use nearfar_model::Probe;

use super::node::Restart;
use super::rebalance::is_low;
use super::tree::BPlusTree;
use crate::context::Context;
use crate::value::TreeValue;

impl<V: TreeValue> BPlusTree<V> {
    #[inline]
    pub(super) fn remove_in<P: Probe>(&self, context: &Context<'_, '_, P>, key: u64) -> Option<V> {
        loop {
            if let Ok(value) = self.try_remove(context, key) {
                return value;
            }
        }
    }

    #[inline(always)]
    fn try_remove<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: u64,
    ) -> Result<Option<V>, Restart> {
        let found = self.find(context, key)?;
        let leaf = found.leaf;
        if !found.is_there {
            leaf.validate(found.version, context)?;
            return Ok(None);
        }
        leaf.try_lock(found.version, context)?;
        leaf.read_slot(found.rank - 1, context);
        let word = leaf.values()[found.rank - 1].load(Relaxed);
        leaf.remove_pair(found.rank - 1, context);
        let leaves_it_low = is_low(leaf);
        context.unlock(leaf.lock());
        self.keys.take_one();
        self.frontend.use_leaf(leaf.counter(), context.probe);
        if leaves_it_low && self.root.load(Relaxed) != leaf.as_ptr() {
            self.rebalance(context, key);
        }
        // SAFETY: the word was the tree's until now, and is seen under this guard.
        let value = unsafe { V::from_word(word, context) };
        // SAFETY: it was taken out just now, by this thread alone.
        unsafe { V::retire_word(word, context) };
        Ok(Some(value))
    }
}
