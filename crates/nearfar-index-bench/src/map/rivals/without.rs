//! What builds without the feature `rivals` have of other crates' maps: the reason why there are none.

use crate::map::{Contestant, OpenError, Opened, Rival, Visitor};

/// Names the feature.
///
/// # Errors
/// [`OpenError::NotBuilt`], always.
pub(in crate::map) fn open_integers<V: Visitor<u64>>(
    rival: Rival,
    _value_bytes: usize,
    _visitor: V,
) -> Opened<V::Output> {
    Err(not_built(rival))
}

/// Names the feature.
///
/// # Errors
/// [`OpenError::NotBuilt`], always.
pub(in crate::map) fn open_bytes<V: Visitor<[u8]>>(
    rival: Rival,
    _value_bytes: usize,
    _visitor: V,
) -> Opened<V::Output> {
    Err(not_built(rival))
}

fn not_built(rival: Rival) -> OpenError {
    let contestant = Contestant::Rival(rival);
    OpenError::NotBuilt { contestant }
}
