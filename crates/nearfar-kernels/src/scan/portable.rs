//! The variant without intrinsics.

/// Values that are compared before the first match is looked for.
const GROUP: usize = 64;

/// Writes the positions of the values of `block` below `bound` to the front of `out`, which is as
/// long as `block` at least; returns their number. The first value has position `first`.
pub(super) fn filter(block: &[u32], bound: u32, first: u32, out: &mut [u32]) -> usize {
    let (groups, rest) = block.as_chunks::<GROUP>();
    let mut count = 0;
    let mut position = first;
    for group in groups {
        // The compiler vectorises this as its target allows.
        let has_match = group
            .iter()
            .fold(false, |any, value| any | (*value < bound));
        if has_match {
            count += filter_each(group, bound, position, &mut out[count..]);
        }
        position = position.wrapping_add(GROUP as u32);
    }
    count + filter_each(rest, bound, position, &mut out[count..])
}

/// Stores every position and steps past the matching ones: no branch to mispredict.
fn filter_each(values: &[u32], bound: u32, first: u32, out: &mut [u32]) -> usize {
    let mut count = 0;
    for (offset, value) in values.iter().enumerate() {
        out[count] = first.wrapping_add(offset as u32);
        count += usize::from(*value < bound);
    }
    count
}
