//! One request on a map.

use crate::map::{MapError, Session};
use crate::workload::{Action, KeySpace, Request};

/// What requests found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Keys that are in the map and were not found.
    pub(crate) lost: u64,
    /// A sum of all values, so that none of them can be left out.
    pub(crate) checksum: u64,
}

#[inline(always)]
pub(crate) fn perform<S: KeySpace, M: Session<S::Key>>(
    session: &mut M,
    request: &Request,
    arena: &[u8],
    found: &mut Found,
) -> Result<(), MapError> {
    let key = S::resolve(&request.token, arena);
    let value = request.token >> 8;
    match request.action {
        Action::Read => match session.get(key) {
            Some(value) => found.checksum = found.checksum.wrapping_add(value),
            None => found.lost += 1,
        },
        Action::Update => found.lost += u64::from(!session.update(key, value)?),
        Action::Insert => session.insert(key, value)?,
        Action::Scan(count) => {
            let (seen, sum) = session.scan(key, usize::from(count));
            found.lost += u64::from(seen == 0);
            found.checksum = found.checksum.wrapping_add(sum);
        }
        Action::ReadModifyWrite => match session.get(key) {
            Some(old) => found.lost += u64::from(!session.update(key, old.wrapping_add(value))?),
            None => found.lost += 1,
        },
    }
    Ok(())
}

/// Room for the keys and values of a batch, so that no lookup allocates.
pub(crate) struct Batch<'t, K: ?Sized> {
    keys: Vec<&'t K>,
    values: Vec<Option<u64>>,
}

impl<K: ?Sized> Batch<'_, K> {
    /// Room for so many keys.
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            keys: Vec::with_capacity(keys),
            values: Vec::with_capacity(keys),
        }
    }
}

/// Looks up the keys of all requests together.
pub(crate) fn read_batch<'t, S: KeySpace, M: Session<S::Key>>(
    session: &mut M,
    requests: &'t [Request],
    arena: &'t [u8],
    batch: &mut Batch<'t, S::Key>,
    found: &mut Found,
) {
    let keys = requests.iter();
    let keys = keys.map(|request| S::resolve(&request.token, arena));
    batch.keys.clear();
    batch.keys.extend(keys);
    session.get_batch(&batch.keys, &mut batch.values);
    for value in &batch.values {
        match value {
            Some(value) => found.checksum = found.checksum.wrapping_add(*value),
            None => found.lost += 1,
        }
    }
}
