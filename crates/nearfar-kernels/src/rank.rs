//! `PageRank` over a graph whose edges and ranks may lie on any tier.

use std::ops::Range;

use nearfar_model::Probe;

/// Share of a node's rank that goes to its neighbours (Brin and Page 1998; Beamer 2017, GAPBS).
const DAMPING: f64 = 0.85;

/// What is no graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The places where neighbours begin do not fit the neighbours.
    #[error("offset {at} is {found}: offsets begin with 0, do not fall, and end with {edges}")]
    Offset {
        /// Which offset.
        at: usize,
        /// What it is.
        found: u32,
        /// Neighbours of all nodes.
        edges: usize,
    },
    /// A neighbour that is no node.
    #[error("neighbour {at} is {found}, and nodes are 0 to {}", nodes.saturating_sub(1))]
    Neighbour {
        /// Which of all neighbours.
        at: usize,
        /// What it is.
        found: u32,
        /// Nodes of the graph.
        nodes: usize,
    },
}

/// An undirected graph: the neighbours of every node, those of one node after those of the other. An edge
/// is there twice, once at each of its ends.
///
/// One pass of `PageRank` is [`Adjacency::share`] for all nodes and then [`Adjacency::gather`] for all of them.
/// Threads may divide the nodes: each call changes only what it is given. Ranks and shares are 4-byte
/// floating-point numbers, kept as their bits ([`f32::to_bits`]), so that regions can be seen as such
/// ([`words_mut`](crate::words_mut)).
///
/// ```
/// use nearfar_kernels::Adjacency;
/// use nearfar_model::Native;
///
/// // A path of three nodes.
/// let graph = Adjacency::new(&[0, 1, 3, 4], &[1, 0, 2, 1])?;
/// let mut ranks = [(1.0_f32 / 3.0).to_bits(); 3];
/// let mut shares = [0; 3];
/// for _ in 0..50 {
///     graph.share(0..3, &ranks, &mut shares, &Native);
///     graph.gather(0..3, &shares, &mut ranks, &Native);
/// }
/// let [end, middle, _] = ranks.map(f32::from_bits);
/// assert!((end - 0.2568).abs() < 1e-4 && (middle - 0.4865).abs() < 1e-4);
/// # Ok::<(), nearfar_kernels::GraphError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Adjacency<'a> {
    offsets: &'a [u32],
    neighbours: &'a [u32],
}

impl<'a> Adjacency<'a> {
    /// A graph with a node less than `offsets`: the neighbours of node `n` are those from `offsets[n]` to
    /// `offsets[n + 1]`. Looks at all of it once.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn new(offsets: &'a [u32], neighbours: &'a [u32]) -> Result<Self, GraphError> {
        let edges = neighbours.len();
        let wrong = |at: usize| GraphError::Offset {
            at,
            found: offsets.get(at).copied().unwrap_or_default(),
            edges,
        };
        if offsets.first() != Some(&0) {
            return Err(wrong(0));
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(wrong(at + 1));
        }
        let last = offsets.len() - 1;
        if offsets[last] as usize != edges {
            return Err(wrong(last));
        }
        let is_no_node = |neighbour: &u32| *neighbour as usize >= last;
        if let Some(at) = neighbours.iter().position(is_no_node) {
            return Err(GraphError::Neighbour {
                at,
                found: neighbours[at],
                nodes: last,
            });
        }
        Ok(Self {
            offsets,
            neighbours,
        })
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Neighbours of all nodes, which are twice the edges.
    pub fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// What each of these nodes gives to each of its neighbours. A node that has none keeps its rank from
    /// nobody: its share is 0.
    ///
    /// # Panics
    /// Where `ranks` or `shares` are not as many as the nodes, or those are not in the graph.
    pub fn share<P: Probe>(
        &self,
        nodes: Range<usize>,
        ranks: &[u32],
        shares: &mut [u32],
        probe: &P,
    ) {
        let offsets = &self.offsets[nodes.start..=nodes.end];
        assert_eq!((ranks.len(), shares.len()), (nodes.len(), nodes.len()));
        tell!(probe.stream(offsets.as_ptr().addr(), size_of_val(offsets)));
        tell!(probe.stream(ranks.as_ptr().addr(), size_of_val(ranks)));
        tell!(probe.write(shares.as_ptr().addr(), size_of_val(shares)));
        let _ = probe;
        for ((share, rank), ends) in shares.iter_mut().zip(ranks).zip(offsets.windows(2)) {
            let degree = ends[1] - ends[0];
            let of_each = f64::from(f32::from_bits(*rank)) / f64::from(degree.max(1));
            *share = if degree == 0 {
                0
            } else {
                (of_each as f32).to_bits()
            };
        }
    }

    /// The new ranks of these nodes from the shares of all; how much they have changed in all.
    ///
    /// # Panics
    /// Where `shares` are not as many as there are nodes, or `ranks` as many as these.
    pub fn gather<P: Probe>(
        &self,
        nodes: Range<usize>,
        shares: &[u32],
        ranks: &mut [u32],
        probe: &P,
    ) -> f64 {
        let offsets = &self.offsets[nodes.start..=nodes.end];
        assert_eq!((ranks.len(), shares.len()), (nodes.len(), self.nodes()));
        tell!(probe.stream(offsets.as_ptr().addr(), size_of_val(offsets)));
        let base = (1.0 - DAMPING) / self.nodes() as f64;
        let mut change = 0.0;
        for (rank, ends) in ranks.iter_mut().zip(offsets.windows(2)) {
            let neighbours = &self.neighbours[ends[0] as usize..ends[1] as usize];
            tell!(probe.stream(neighbours.as_ptr().addr(), size_of_val(neighbours)));
            let mut sum = 0.0;
            for neighbour in neighbours {
                let share = &shares[*neighbour as usize];
                tell!(probe.read(std::ptr::from_ref(share).addr(), size_of_val(share)));
                sum += f64::from(f32::from_bits(*share));
            }
            let new = (base + DAMPING * sum) as f32;
            tell!(probe.write(std::ptr::from_ref(rank).addr(), size_of_val(rank)));
            change += f64::from((new - f32::from_bits(*rank)).abs());
            *rank = new.to_bits();
        }
        let _ = probe;
        change
    }
}

#[cfg(test)]
mod tests {
    use nearfar_model::Native;
    use proptest::prelude::*;

    use super::*;

    /// The definition, over a matrix and in numbers of 8 bytes.
    fn by_definition(edges: &[Vec<bool>], passes: usize) -> Vec<f64> {
        let nodes = edges.len();
        let degree = |node: usize| edges[node].iter().filter(|is_edge| **is_edge).count();
        let mut ranks = vec![1.0 / nodes as f64; nodes];
        for _ in 0..passes {
            let of = |node: usize| {
                let from = (0..nodes).filter(|other| edges[node][*other]);
                let sum: f64 = from.map(|other| ranks[other] / degree(other) as f64).sum();
                0.15 / nodes as f64 + 0.85 * sum
            };
            ranks = (0..nodes).map(of).collect();
        }
        ranks
    }

    fn compressed(edges: &[Vec<bool>]) -> (Vec<u32>, Vec<u32>) {
        let (mut offsets, mut neighbours) = (vec![0], Vec::new());
        for row in edges {
            let of_row = row.iter().enumerate().filter(|(_, is_edge)| **is_edge);
            neighbours.extend(of_row.map(|(other, _)| other as u32));
            offsets.push(neighbours.len() as u32);
        }
        (offsets, neighbours)
    }

    proptest! {
        #[test]
        fn ranks_are_those_of_the_definition_however_nodes_are_divided(
            nodes in 1_usize..24,
            bits in proptest::collection::vec(any::<bool>(), 24 * 24),
            cut in 0_usize..24,
            passes in 1_usize..12,
        ) {
            let is_edge = |a: usize, b: usize| a != b && bits[a.min(b) * 24 + a.max(b)];
            let edges: Vec<Vec<bool>> = (0..nodes)
                .map(|node| (0..nodes).map(|other| is_edge(node, other)).collect())
                .collect();
            let (offsets, neighbours) = compressed(&edges);
            let graph = Adjacency::new(&offsets, &neighbours).unwrap();
            let mut ranks = vec![(1.0 / nodes as f32).to_bits(); nodes];
            let mut shares = vec![0; nodes];
            let cut = cut.min(nodes);
            let mut change = 0.0;
            for _ in 0..passes {
                let before = ranks.clone();
                for part in [0..cut, cut..nodes] {
                    graph.share(part.clone(), &ranks[part.clone()], &mut shares[part], &Native);
                }
                change = 0.0;
                for part in [0..cut, cut..nodes] {
                    change += graph.gather(part.clone(), &shares, &mut ranks[part], &Native);
                }
                let moved = before.iter().zip(&ranks).map(|(a, b)| {
                    f64::from((f32::from_bits(*a) - f32::from_bits(*b)).abs())
                });
                prop_assert!((change - moved.sum::<f64>()).abs() < 1e-6);
            }
            prop_assert!(change.is_finite());
            for (rank, expected) in ranks.iter().zip(by_definition(&edges, passes)) {
                let rank = f64::from(f32::from_bits(*rank));
                prop_assert!((rank / expected - 1.0).abs() < 1e-5, "{rank} and not {expected}");
            }
        }
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        let offset = |at, found, edges| Err(GraphError::Offset { at, found, edges });
        let check =
            |offsets: &[u32], neighbours: &[u32]| Adjacency::new(offsets, neighbours).map(|_| ());
        assert_eq!(check(&[], &[]), offset(0, 0, 0));
        assert_eq!(check(&[1, 1], &[0]), offset(0, 1, 1));
        assert_eq!(check(&[0, 2, 1], &[0]), offset(2, 1, 1));
        assert_eq!(check(&[0, 1], &[0, 0]), offset(1, 1, 2));
        let neighbour = GraphError::Neighbour {
            at: 1,
            found: 2,
            nodes: 2,
        };
        assert_eq!(check(&[0, 1, 2], &[0, 2]), Err(neighbour));
        assert_eq!(check(&[0], &[]), Ok(()), "no nodes are a graph");
    }
}
