//! A chain of dependent reads in random order.

use crate::random::SplitMix64;

/// Most nodes of a chain: their order is drawn in a table of 16 MiB.
const NODES_MAX: usize = 1 << 22;

/// Bytes of the line that holds one node.
const LINE_BYTES: usize = 64;

/// A cycle through lines that are spread evenly over a piece of memory.
///
/// Every node holds the offset of the next one, so that no read can begin before the previous one
/// has returned, and the order is a single random cycle (Sattolo's algorithm), so that no
/// prefetcher can foresee it and no node comes twice before all have come once.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    memory: &'a [u8],
    at: usize,
}

impl<'a> Chain<'a> {
    /// Writes the chain into `memory`, which must hold at least two lines.
    pub(super) fn build(memory: &'a mut [u8], seed: u64) -> Self {
        let lines = memory.len() / LINE_BYTES;
        let nodes = lines.min(NODES_MAX);
        let stride_bytes = lines / nodes * LINE_BYTES;
        for (node, next) in sattolo(nodes, seed).into_iter().enumerate() {
            let offset = node * stride_bytes;
            let next_offset = (next as usize * stride_bytes) as u64;
            memory[offset..offset + 8].copy_from_slice(&next_offset.to_ne_bytes());
        }
        Self { memory, at: 0 }
    }

    /// The memory the chain lies in.
    pub(super) fn memory(&self) -> &'a [u8] {
        self.memory
    }

    /// One dependent read: goes to the next node and returns its offset.
    #[inline]
    pub(super) fn hop(&mut self) -> usize {
        let place = &self.memory[self.at..self.at + 8];
        self.at = place
            .first_chunk()
            .map_or(0, |word| u64::from_ne_bytes(*word) as usize);
        self.at
    }
}

/// `next[i]` for a random permutation of `0..nodes` that is one single cycle (Sattolo 1986).
fn sattolo(nodes: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut next: Vec<u32> = (0..nodes as u32).collect();
    for last in (1..nodes).rev() {
        next.swap(last, random.below(last as u64) as usize);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_node_once() {
        for lines in [2, 3, 64, 1_000] {
            let mut memory = vec![0_u8; lines * LINE_BYTES + 17];
            let mut chain = Chain::build(&mut memory, 7);
            let mut seen = vec![false; lines];
            for _ in 0..lines {
                let node = chain.hop() / LINE_BYTES;
                assert!(
                    !std::mem::replace(&mut seen[node], true),
                    "{node} of {lines} twice"
                );
            }
            assert!(seen.into_iter().all(|seen| seen));
        }
    }

    #[test]
    fn seeds_give_different_orders() {
        assert_ne!(sattolo(100, 1), sattolo(100, 2));
        assert_eq!(sattolo(100, 1), sattolo(100, 1));
    }
}
