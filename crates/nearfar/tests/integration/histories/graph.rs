//! What transactions depend on each other by, and cycles of that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::history::Key;

/// Why one transaction comes before another (Adya, 1999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The other's version of a list follows its own: `ww`.
    Overwritten(Key),
    /// The other has read its version: `wr`.
    Read(Key),
    /// The other's version follows the one that it has read: `rw`.
    ReadBefore(Key),
}

impl Why {
    /// Whether the other one wrote what this one had not read.
    pub fn is_anti(self) -> bool {
        matches!(self, Self::ReadBefore(_))
    }
}

/// Transactions by number, and why each comes before others.
#[derive(Debug, Default, Clone)]
pub struct Graph {
    edges: Vec<BTreeSet<(usize, Why)>>,
}

/// Transactions in a circle, each with why it comes before the next.
pub type Cycle = Vec<(usize, Why)>;

impl Graph {
    pub fn new(nodes: usize) -> Self {
        Self {
            edges: vec![BTreeSet::new(); nodes],
        }
    }

    /// Nobody comes before itself.
    pub fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].insert((to, why));
        }
    }

    /// How many edges there are.
    pub fn len(&self) -> usize {
        self.edges.iter().map(BTreeSet::len).sum()
    }

    /// The edges of some kinds only.
    pub fn only(&self, is_wanted: impl Fn(Why) -> bool) -> Self {
        let edges = self.edges.iter().map(|edges| {
            let wanted = edges.iter().filter(|(_, why)| is_wanted(*why));
            wanted.copied().collect()
        });
        Self {
            edges: edges.collect(),
        }
    }

    /// All edges that read before a write.
    pub fn anti(&self) -> impl Iterator<Item = (usize, usize, Why)> {
        let edges = self.edges.iter().enumerate();
        edges.flat_map(|(from, edges)| {
            let anti = edges.iter().filter(|(_, why)| why.is_anti());
            anti.map(move |(to, why)| (from, *to, *why))
        })
    }

    /// A cycle that snapshot isolation forbids: one in which no two edges that read before a write follow each other
    /// (Fekete et al., "Making snapshot isolation serializable", 2005). None if there is none.
    pub fn cycle_without_adjacent_anti(&self) -> Option<Cycle> {
        // Such an edge and the one behind it are one step.
        let mut steps = self.only(|why| !why.is_anti());
        for (from, middle, why) in self.anti() {
            for (to, next) in &self.edges[middle] {
                if next.is_anti() {
                    continue;
                }
                if *to == from {
                    return Some(vec![(from, why), (middle, *next)]);
                }
                steps.edges[from].insert((*to, why));
            }
        }
        steps.cycle()
    }

    /// A cycle of one edge that reads before a write and others that do not (G-single).
    pub fn cycle_with_one_anti(&self) -> Option<Cycle> {
        // Those that are in some cycle are few.
        let component = self.components();
        let inner = |from: usize, to: usize| component[from] == component[to];
        let anti = self.anti().filter(|(from, to, _)| inner(*from, *to));
        anti.into_iter().find_map(|(from, to, why)| {
            let mut cycle = vec![(from, why)];
            cycle.extend(self.path(to, from, |why| !why.is_anti())?);
            Some(cycle)
        })
    }

    /// A shortest cycle through some transaction that is in one.
    pub fn cycle(&self) -> Option<Cycle> {
        let component = self.components();
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        component
            .iter()
            .for_each(|of| *counts.entry(*of).or_default() += 1);
        let node = (0..self.edges.len()).find(|node| counts[&component[*node]] > 1)?;
        self.path(node, node, |_| true)
    }

    /// A shortest way over edges of some kinds, by at least one of them.
    fn path(&self, from: usize, to: usize, is_wanted: impl Fn(Why) -> bool) -> Option<Cycle> {
        let mut came_by: BTreeMap<usize, (usize, Why)> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            for (other, why) in &self.edges[node] {
                if !is_wanted(*why) || came_by.contains_key(other) {
                    continue;
                }
                came_by.insert(*other, (node, *why));
                if *other == to {
                    return Some(back(&came_by, from, to));
                }
                next.push_back(*other);
            }
        }
        None
    }

    /// The strongly connected component of each node (Tarjan, 1972), without recursion.
    fn components(&self) -> Vec<usize> {
        let mut search = Components::new(self.edges.len());
        for root in 0..self.edges.len() {
            search.visit(self, root);
        }
        search.component
    }
}

fn back(came_by: &BTreeMap<usize, (usize, Why)>, from: usize, to: usize) -> Cycle {
    let mut way = Vec::new();
    let mut at = to;
    loop {
        let (before, why) = came_by[&at];
        way.push((before, why));
        at = before;
        if at == from {
            way.reverse();
            return way;
        }
    }
}

struct Components {
    order: Vec<Option<usize>>,
    lowest: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    component: Vec<usize>,
    count: usize,
}

impl Components {
    fn new(nodes: usize) -> Self {
        Self {
            order: vec![None; nodes],
            lowest: vec![0; nodes],
            is_open: vec![false; nodes],
            open: Vec::new(),
            component: vec![0; nodes],
            count: 0,
        }
    }

    fn enter(&mut self, node: usize) {
        self.order[node] = Some(self.count);
        self.lowest[node] = self.count;
        self.count += 1;
        self.open.push(node);
        self.is_open[node] = true;
    }

    fn visit(&mut self, graph: &Graph, root: usize) {
        if self.order[root].is_some() {
            return;
        }
        self.enter(root);
        let mut stack = vec![(root, graph.edges[root].iter())];
        while let Some((node, edges)) = stack.last_mut() {
            let node = *node;
            match edges.next() {
                Some((other, _)) => match self.order[*other] {
                    None => {
                        self.enter(*other);
                        stack.push((*other, graph.edges[*other].iter()));
                    }
                    Some(order) if self.is_open[*other] => {
                        self.lowest[node] = self.lowest[node].min(order);
                    }
                    Some(_) => {}
                },
                None => {
                    stack.pop();
                    if let Some((parent, _)) = stack.last() {
                        self.lowest[*parent] = self.lowest[*parent].min(self.lowest[node]);
                    }
                    self.leave(node);
                }
            }
        }
    }

    /// Closes the component that begins with `node`, if one does.
    fn leave(&mut self, node: usize) {
        if self.order[node] != Some(self.lowest[node]) {
            return;
        }
        while let Some(other) = self.open.pop() {
            self.is_open[other] = false;
            self.component[other] = node;
            if other == node {
                break;
            }
        }
    }
}
