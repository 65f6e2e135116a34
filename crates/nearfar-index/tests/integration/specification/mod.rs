//! The specification of migration, checked by a model checker over all interleavings: a reader, two
//! writers of which one splits and one removes a leaf, and a migrator of leaves and inner nodes.
//!
//! Larger sets of operations are checked by
//! `cargo test --release -p nearfar-index --test integration specification -- --ignored`.

mod protocol;
mod state;

use protocol::Step;
use state::{Phase, State};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Keys of the model.
const KEYS: usize = 5;
/// Keys that a leaf holds.
const LEAF_KEYS: usize = 2;
/// Nodes that there can be, free ones included.
const SLOTS: usize = 8;

/// An operation of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Get {
        key: usize,
    },
    Put {
        key: usize,
        value: u8,
    },
    Remove {
        key: usize,
    },
    /// Migration of the leaf of a key.
    MoveLeaf {
        key: usize,
        to: u8,
    },
    /// Migration of the inner node.
    MoveInner {
        to: u8,
    },
}

impl Op {
    fn key(self) -> usize {
        match self {
            Self::Get { key }
            | Self::Put { key, .. }
            | Self::Remove { key }
            | Self::MoveLeaf { key, .. } => key,
            Self::MoveInner { .. } => 0,
        }
    }

    fn value(self) -> u8 {
        if let Self::Put { value, .. } = self {
            value
        } else {
            0
        }
    }

    fn is_write(self) -> bool {
        matches!(self, Self::Put { .. } | Self::Remove { .. })
    }
}

/// A way to get the protocol wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    /// The migrator unlocks the old node as if nothing had happened.
    OldNodeStaysUsable,
    /// The migrator does not look at the tiers above and below.
    IgnoresBoundary,
    /// The migrator copies the node and then locks it.
    CopiesBeforeLocking,
    /// A reader does not validate what it read.
    ReaderTrusts,
    /// Retired nodes are free immediately.
    FreesAtOnce,
    /// Writers lock the leaf and then the node above.
    SplitLocksUpwards,
}

/// Threads with their operations.
#[derive(Debug, Clone)]
struct Migration {
    ops: Vec<Vec<Op>>,
    mutation: Mutation,
}

const READS_TRUE: &str = "a read returns what its key was meanwhile";
const KEEPS_WRITES: &str = "at the end the tree holds what was written";
const KEEPS_BOUNDARY: &str = "no node is nearer than its parent";
const RETIRES_UNREACHABLE: &str = "what is retired cannot be reached";
const TOUCHES_LIVE: &str = "nobody touches a free node";
const GOES_ON: &str = "somebody can always go on";
const ENDS: &str = "all operations can end";

impl Migration {
    fn step(&self, state: &State, index: usize) -> Option<State> {
        let mut next = state.clone();
        let step = Step {
            state: &mut next,
            mutation: self.mutation,
            index,
            ops: &self.ops,
        };
        step.take()?;
        Some(next)
    }

    /// Pointers in the tree, from a node to one below.
    fn edges(state: &State) -> Vec<(u8, u8)> {
        let inner = state.children(0)[0];
        let leaves = state.children(inner).into_iter();
        leaves
            .map(|leaf| (inner, leaf))
            .chain([(0, inner)])
            .collect()
    }
}

impl Model for Migration {
    type State = State;
    type Action = usize;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.ops.len())]
    }

    fn actions(&self, _state: &State, actions: &mut Vec<usize>) {
        actions.extend(0..self.ops.len());
    }

    fn next_state(&self, state: &State, index: usize) -> Option<State> {
        self.step(state, index)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(READS_TRUE, |_, state: &State| !state.has_misread),
            Property::always(TOUCHES_LIVE, |_, state: &State| !state.has_touched_freed),
            Property::always(KEEPS_WRITES, |model: &Self, state: &State| {
                !state.is_done(&model.ops) || state.walk() == state.truth
            }),
            Property::always(KEEPS_BOUNDARY, |_, state: &State| {
                let tier = |slot: u8| state.nodes[usize::from(slot)].tier;
                let edges = Self::edges(state);
                edges
                    .iter()
                    .all(|(above, below)| tier(*above) <= tier(*below))
            }),
            Property::always(RETIRES_UNREACHABLE, |_, state: &State| {
                let is_live = |slot: u8| state.nodes[usize::from(slot)].phase == Phase::Live;
                Self::edges(state).iter().all(|(_, below)| is_live(*below))
            }),
            Property::always(GOES_ON, |model: &Self, state: &State| {
                let mut threads = 0..model.ops.len();
                state.is_done(&model.ops) || threads.any(|index| model.step(state, index).is_some())
            }),
            Property::sometimes(ENDS, |model: &Self, state: &State| {
                state.is_done(&model.ops)
            }),
        ]
    }
}

const GET_0: Op = Op::Get { key: 0 };
/// Moves to another leaf in the split.
const GET_1: Op = Op::Get { key: 1 };
const GET_3: Op = Op::Get { key: 3 };
/// Splits the far leaf.
const PUT_2: Op = Op::Put { key: 2, value: 2 };
/// Overwrites in the far leaf.
const PUT_0: Op = Op::Put { key: 0, value: 2 };
/// Empties the near leaf, which goes.
const REMOVE_3: Op = Op::Remove { key: 3 };
const LEAF_NEAR: Op = Op::MoveLeaf { key: 0, to: 0 };
const LEAF_FAR: Op = Op::MoveLeaf { key: 3, to: 1 };
const INNER_FAR: Op = Op::MoveInner { to: 1 };

fn holds(ops: Vec<Vec<Op>>) -> usize {
    let model = Migration {
        ops,
        mutation: Mutation::None,
    };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

/// The properties that a broken protocol violates, the first found.
fn broken(mutation: Mutation, ops: Vec<Vec<Op>>) -> Vec<&'static str> {
    let model = Migration { ops, mutation };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut violated: Vec<_> = checker.discoveries().into_keys().collect();
    violated.retain(|name| *name != ENDS);
    violated
}

#[test]
fn migration_is_right_beside_a_reader_and_a_split() {
    let states = holds(vec![vec![GET_1], vec![PUT_2], vec![LEAF_NEAR, INNER_FAR]]);
    assert!(states > 1000, "{states} states");
}

#[test]
fn migration_is_right_beside_a_reader_and_a_removal() {
    holds(vec![vec![GET_3], vec![REMOVE_3], vec![LEAF_FAR, INNER_FAR]]);
}

#[test]
fn migration_is_right_beside_two_writers() {
    holds(vec![vec![PUT_2], vec![REMOVE_3], vec![LEAF_FAR, INNER_FAR]]);
    holds(vec![vec![PUT_0], vec![PUT_2], vec![LEAF_NEAR]]);
}

#[test]
fn migration_is_right_beside_a_reader_and_two_writers() {
    for (get, migration) in [(GET_1, INNER_FAR), (GET_3, LEAF_FAR)] {
        holds(vec![
            vec![get],
            vec![PUT_2],
            vec![REMOVE_3],
            vec![migration],
        ]);
    }
}

#[test]
#[ignore = "twelve million states: a documented command runs it with optimisation"]
fn migrations_are_right_beside_several_reads_and_writes() {
    let states = holds(vec![
        vec![GET_1, GET_3],
        vec![PUT_2],
        vec![REMOVE_3, PUT_0],
        vec![LEAF_FAR, INNER_FAR],
    ]);
    assert!(states > 100_000, "{states} states");
}

#[test]
fn a_broken_protocol_is_found_out() {
    let cases = [
        (
            Mutation::OldNodeStaysUsable,
            vec![vec![PUT_0], vec![LEAF_NEAR]],
            KEEPS_WRITES,
        ),
        (
            Mutation::CopiesBeforeLocking,
            vec![vec![PUT_0], vec![LEAF_NEAR]],
            KEEPS_WRITES,
        ),
        (
            Mutation::IgnoresBoundary,
            vec![vec![GET_0], vec![INNER_FAR]],
            KEEPS_BOUNDARY,
        ),
        (
            Mutation::ReaderTrusts,
            vec![vec![GET_0, GET_0], vec![PUT_0], vec![LEAF_NEAR]],
            READS_TRUE,
        ),
        (
            Mutation::FreesAtOnce,
            vec![vec![GET_0], vec![LEAF_NEAR]],
            TOUCHES_LIVE,
        ),
        (
            Mutation::SplitLocksUpwards,
            vec![vec![PUT_2], vec![LEAF_NEAR]],
            GOES_ON,
        ),
    ];
    for (mutation, ops, property) in cases {
        let violated = broken(mutation, ops.clone());
        assert!(violated.contains(&property), "{mutation:?}: {violated:?}");
        assert!(broken(Mutation::None, ops).is_empty());
    }
}
