//! Reading one key.

use nearfar_model::Probe;

use super::handle::Restart;
use super::record::pointer_to_word;
use super::tree::Masstree;
use crate::context::Context;
use crate::value::TreeValue;

impl<V: TreeValue> Masstree<V> {
    #[inline(always)]
    pub(super) fn get_in<P: Probe>(&self, context: &Context<'_, '_, P>, key: &[u8]) -> Option<V> {
        loop {
            if let Ok(value) = self.try_get(context, key) {
                return value;
            }
        }
    }

    #[inline(always)]
    fn try_get<P: Probe>(
        &self,
        context: &Context<'_, '_, P>,
        key: &[u8],
    ) -> Result<Option<V>, Restart> {
        let Some(spot) = self.descend(context, key)? else {
            return Ok(None);
        };
        self.frontend
            .use_leaf(&spot.leaf.node.counter, context.probe);
        let Some(cell) = self.value_cell(context, key, &spot)? else {
            return Ok(None);
        };
        let word = pointer_to_word(context.guard.load(cell));
        spot.validate(context)?;
        // SAFETY: the word was the key's under the guard, and the leaf was of one state.
        Ok(Some(unsafe { V::from_word(word, context) }))
    }
}
