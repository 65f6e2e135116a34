//! Empty maps of other crates.

use super::bplustree::BPlusTreeCrate;
use super::congee::CongeeCrate;
use super::ferntree::FerntreeCrate;
use super::masstree::MasstreeCrate;
use super::scc::SccCrate;
use super::skiplist::SkiplistCrate;
use crate::map::{Contestant, OpenError, Opened, Rival, TestKey, TestValue, Visitor, WORD_BYTES};

/// Hands an empty map over 8-byte integers to the visitor.
///
/// # Errors
/// [`OpenError::ValuesNotTaken`].
pub(in crate::map) fn open_integers<V: Visitor<u64>>(
    rival: Rival,
    value_bytes: usize,
    visitor: V,
) -> Opened<V::Output> {
    match (rival, value_bytes) {
        (Rival::Congee, WORD_BYTES) => Ok(visitor.visit(CongeeCrate::default())),
        (Rival::Ferntree, WORD_BYTES) => Ok(visitor.visit(FerntreeCrate::default())),
        (Rival::Masstree, WORD_BYTES) => Ok(visitor.visit(MasstreeCrate::of_words())),
        (Rival::Masstree, bytes) => Ok(visitor.visit(MasstreeCrate::of_bytes(bytes))),
        (_, WORD_BYTES) => open_of::<u64, u64, V>(rival, value_bytes, visitor),
        _ => open_of::<u64, Box<[u8]>, V>(rival, value_bytes, visitor),
    }
}

/// Hands an empty map over byte strings to the visitor.
///
/// # Errors
/// [`OpenError::KeysNotTaken`].
pub(in crate::map) fn open_bytes<V: Visitor<[u8]>>(
    rival: Rival,
    value_bytes: usize,
    visitor: V,
) -> Opened<V::Output> {
    match (rival, value_bytes) {
        (Rival::Congee | Rival::Ferntree, _) => Err(OpenError::KeysNotTaken {
            contestant: Contestant::Rival(rival),
        }),
        (Rival::Masstree, WORD_BYTES) => Ok(visitor.visit(MasstreeCrate::of_words())),
        (Rival::Masstree, bytes) => Ok(visitor.visit(MasstreeCrate::of_bytes(bytes))),
        (_, WORD_BYTES) => open_of::<[u8], u64, V>(rival, value_bytes, visitor),
        _ => open_of::<[u8], Box<[u8]>, V>(rival, value_bytes, visitor),
    }
}

/// Maps that take keys and values of any type.
fn open_of<K: TestKey + ?Sized, R: TestValue, V: Visitor<K>>(
    rival: Rival,
    bytes: usize,
    visitor: V,
) -> Opened<V::Output> {
    match rival {
        Rival::BPlusTree => Ok(visitor.visit(BPlusTreeCrate::<K, R>::new(bytes))),
        Rival::Scc => Ok(visitor.visit(SccCrate::<K, R>::new(bytes))),
        Rival::Skiplist => Ok(visitor.visit(SkiplistCrate::<K, R>::new(bytes))),
        Rival::Congee | Rival::Ferntree | Rival::Masstree => Err(OpenError::ValuesNotTaken {
            contestant: Contestant::Rival(rival),
        }),
    }
}
