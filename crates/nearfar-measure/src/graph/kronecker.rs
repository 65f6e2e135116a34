//! Kronecker graphs: few nodes with many neighbours, many with few or none, and no locality.

use crate::random::SplitMix64;

/// Largest scale: all neighbours have numbers of four bytes.
pub const SCALE_MAX: u32 = 26;

/// Most edges that are drawn for each node, for the same reason.
pub const DEGREE_MAX: u32 = 31;

/// Of 2^16 edges, those in the first quarter of the matrix, and those before the end of the second and the third
/// (Graph500: 0.57, 0.19, 0.19).
const QUARTERS: [u64; 3] = [37_356, 49_807, 62_259];

/// What is no size of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a graph of scale {scale} with {degree} edges drawn for each node: the scale is at least 1 and at most \
     {SCALE_MAX}, the edges are at least 1 and at most {DEGREE_MAX}"
)]
pub struct KroneckerError {
    /// The binary logarithm of the number of nodes.
    pub scale: u32,
    /// Edges drawn for each node.
    pub degree: u32,
}

/// An undirected graph, in ordinary memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KroneckerGraph {
    /// Where the neighbours of each node begin, and where those of the last one end.
    pub offsets: Vec<u32>,
    /// Neighbours of each node in order, each once.
    pub neighbours: Vec<u32>,
}

impl KroneckerGraph {
    /// Draws `degree` edges for each of the 2^`scale` nodes (Leskovec 2010, with the numbers of Graph500). Edges from
    /// a node to itself are left out, and of several between the same nodes one stays. Nodes have no order: what is
    /// near in number is not near in the graph. The same seed gives the same graph.
    ///
    /// # Errors
    /// [`KroneckerError`] for a graph whose neighbours could not be counted with four bytes.
    pub fn draw(scale: u32, degree: u32, seed: u64) -> Result<Self, KroneckerError> {
        let is_possible = (1..=SCALE_MAX).contains(&scale) && (1..=DEGREE_MAX).contains(&degree);
        if !is_possible {
            return Err(KroneckerError { scale, degree });
        }
        let edges = Edges {
            scale,
            count: u64::from(degree) << scale,
            seed,
            names: names(scale, seed),
        };
        Ok(edges.compressed())
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// A random order of the numbers of nodes.
fn names(scale: u32, seed: u64) -> Vec<u32> {
    let mut names: Vec<u32> = (0..1 << scale).collect();
    let mut random = SplitMix64::new(!seed);
    for last in (1..names.len()).rev() {
        names.swap(last, random.below(last as u64 + 1) as usize);
    }
    names
}

/// Edges that are drawn as often as they are looked at, since a list of them is as large as the graph.
struct Edges {
    scale: u32,
    count: u64,
    seed: u64,
    names: Vec<u32>,
}

impl Edges {
    fn for_each(&self, mut take: impl FnMut(u32, u32)) {
        let mut random = SplitMix64::new(self.seed);
        for _ in 0..self.count {
            let (mut from, mut to) = (0_usize, 0_usize);
            let mut bits = 0;
            for level in 0..self.scale {
                if level % 4 == 0 {
                    bits = random.next();
                }
                let place = bits & 0xFFFF;
                bits >>= 16;
                let quarter = QUARTERS.iter().filter(|end| place >= **end).count();
                from = from << 1 | quarter >> 1;
                to = to << 1 | quarter & 1;
            }
            if from != to {
                take(self.names[from], self.names[to]);
            }
        }
    }

    fn compressed(&self) -> KroneckerGraph {
        let nodes = self.names.len();
        let mut offsets = vec![0_u32; nodes + 1];
        self.for_each(|from, to| {
            offsets[from as usize + 1] += 1;
            offsets[to as usize + 1] += 1;
        });
        for node in 0..nodes {
            offsets[node + 1] += offsets[node];
        }
        let mut neighbours = vec![0_u32; offsets[nodes] as usize];
        let mut next = offsets.clone();
        self.for_each(|from, to| {
            for (node, other) in [(from, to), (to, from)] {
                let place = &mut next[node as usize];
                neighbours[*place as usize] = other;
                *place += 1;
            }
        });
        keep_one_of_each(&mut offsets, &mut neighbours);
        KroneckerGraph {
            offsets,
            neighbours,
        }
    }
}

/// Puts the neighbours of each node in order and leaves out those that are there already.
fn keep_one_of_each(offsets: &mut [u32], neighbours: &mut Vec<u32>) {
    let (mut begin, mut kept) = (0, 0);
    for end in &mut offsets[1..] {
        let of_node = begin..*end as usize;
        begin = of_node.end;
        neighbours[of_node.clone()].sort_unstable();
        let first = kept;
        for at in of_node {
            let neighbour = neighbours[at];
            if kept == first || neighbours[kept - 1] != neighbour {
                neighbours[kept] = neighbour;
                kept += 1;
            }
        }
        *end = kept as u32;
    }
    neighbours.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_undirected_each_once_and_lead_nowhere_else() {
        let graph = KroneckerGraph::draw(9, 8, 3).unwrap();
        assert_eq!(graph.nodes(), 512);
        let of = |node: usize| {
            let ends = [graph.offsets[node], graph.offsets[node + 1]].map(|end| end as usize);
            &graph.neighbours[ends[0]..ends[1]]
        };
        for node in 0..graph.nodes() {
            assert!(
                of(node).windows(2).all(|pair| pair[0] < pair[1]),
                "in order, each once"
            );
            for other in of(node) {
                assert_ne!(*other as usize, node);
                assert!(of(*other as usize).contains(&(node as u32)), "and back");
            }
        }
        assert_eq!(
            *graph.offsets.last().unwrap() as usize,
            graph.neighbours.len()
        );
    }

    #[test]
    fn few_nodes_have_most_neighbours_and_lie_anywhere() {
        let graph = KroneckerGraph::draw(12, 16, 1).unwrap();
        let mut degrees: Vec<(u32, usize)> = (0..graph.nodes())
            .map(|node| (graph.offsets[node + 1] - graph.offsets[node], node))
            .collect();
        degrees.sort_unstable();
        degrees.reverse();
        let of_first: u32 = degrees[..graph.nodes() / 10].iter().map(|one| one.0).sum();
        let share = f64::from(of_first) / graph.neighbours.len() as f64;
        assert!(
            (0.5..0.9).contains(&share),
            "a tenth of the nodes has {share} of all"
        );
        let isolated = degrees.iter().filter(|one| one.0 == 0).count();
        assert!(isolated > graph.nodes() / 20, "{isolated} have none");
        let place: usize = degrees[..64].iter().map(|one| one.1).sum::<usize>() / 64;
        let middle = graph.nodes() / 2;
        assert!(
            place.abs_diff(middle) < middle / 3,
            "in the mean at {place}"
        );
    }

    #[test]
    fn a_seed_gives_one_graph() {
        let draw = |seed| KroneckerGraph::draw(6, 4, seed).unwrap();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
        for (scale, degree) in [(0, 16), (SCALE_MAX + 1, 16), (10, 0), (10, DEGREE_MAX + 1)] {
            let error = KroneckerGraph::draw(scale, degree, 1).unwrap_err();
            assert_eq!((error.scale, error.degree), (scale, degree));
        }
    }
}
