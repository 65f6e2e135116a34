//! What nodes ask of each other beside plans and rows, as JSON in Flight's actions.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::SocketAddr;

use crate::home::TableHome;

/// Changes with every change of what nodes say to each other.
pub const PROTOCOL: u32 = 4;

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you? Asked when a node starts, and again and again.
    Hello(Hello),
    /// Which nodes are there? Asked by one that has no file of the cluster.
    Members,
    /// Keep the present state for a query.
    Pin {
        /// What the query calls it.
        pin: u64,
        /// The node that asks, by its place in the list.
        coordinator: usize,
    },
    /// The query has ended.
    Unpin {
        /// What it was called.
        pin: u64,
    },
    /// Let nobody else change the cluster for a while.
    Lock,
    /// Let others.
    Unlock {
        /// What [`Reply::Locked`] said.
        ticket: u64,
    },
    /// Are you ready for a step, whose coordinator says soon whether it is taken?
    Hold {
        /// The step.
        step: Step,
        /// The state that is left, and the one that is reached.
        change: Change,
        /// The node that asks, by its place in the list.
        coordinator: usize,
    },
    /// Take the step that you are ready for.
    Take {
        /// What [`Request::Hold`] said.
        change: Change,
    },
    /// Was this step taken? Asked of the first node.
    Outcome {
        /// What [`Request::Hold`] said.
        change: Change,
    },
    /// How are the tables made? Asked by a node that has lost them.
    Definitions,
    /// Forget the rows of a load.
    Abort {
        /// The load.
        load: u64,
    },
}

/// What leads to the next state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Make the rows of a load seen.
    Load(u64),
    /// Make, drop or empty a table.
    Define(TableDefinition),
}

/// How a table is made, dropped or emptied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableDefinition {
    /// The table.
    pub table: String,
    /// Where its rows are from now on; nothing if it is dropped, or stays where it is.
    pub home: Option<TableHome>,
    /// The statements, which run in one transaction.
    pub sql: Vec<String>,
    /// The random number of the step by which it was made, or emptied last; zero where it is not known yet, or was not
    /// written down.
    pub since: u64,
}

/// What has become of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was taken.
    Taken,
    /// It was not, and is not going to be.
    NotTaken,
    /// That is open.
    Undecided,
}

/// A step from one state of the cluster to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The state that all nodes are in.
    pub from: State,
    /// The state behind it.
    pub to: State,
}

impl Change {
    /// A step that begins in `from`, and that no other coordinator takes.
    pub fn of(from: State) -> Self {
        let to = State {
            version: from.version + 1,
            step: fresh(),
        };
        Self { from, to }
    }
}

/// A state of the cluster's tables. Two coordinators that both believe to be alone reach different states from the
/// same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The number of steps that have led to it.
    pub version: u64,
    /// The last of them, by a number that its coordinator has drawn.
    pub step: u64,
}

impl State {
    /// The newest of some states, unless several steps have led to its number.
    pub fn newest(states: impl Iterator<Item = Self> + Clone) -> Option<Self> {
        let newest = states.clone().max_by_key(|state| state.version)?;
        let mut as_new = states.filter(|state| state.version == newest.version);
        as_new.all(|state| state == newest).then_some(newest)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (step {:016x})", self.version, self.step)
    }
}

/// A random number, for what needs a name that nothing else in the cluster has, whatever its clocks say.
pub fn fresh() -> u64 {
    // Its keys are the operating system's random numbers, and others in each call.
    RandomState::new().hash_one(0)
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program.
    pub program: String,
    /// The cluster.
    pub cluster: String,
    /// The names of all nodes, in their order.
    pub nodes: Vec<String>,
    /// The node.
    pub node: String,
    /// [A random number](fresh) since it was started.
    pub life: u64,
    /// The state of its tables.
    pub state: State,
    /// Its tables, with their columns and types, and where their rows are.
    pub tables: BTreeMap<String, (String, TableHome)>,
    /// Whether its tables are changing at this moment.
    pub is_changing: bool,
    /// Whether it takes no more queries.
    pub is_draining: bool,
}

impl Hello {
    /// Why this node can't work together with the node `name`, which says to be `other`, if it can't.
    pub fn mismatch(&self, other: &Self, name: &str) -> Option<String> {
        if other.protocol != self.protocol || other.program != self.program {
            return Some(format!(
                "node `{name}` runs version {} (protocol {}), and this one {} (protocol {}): run one version",
                other.program, other.protocol, self.program, self.protocol
            ));
        }
        if other.cluster != self.cluster || other.nodes != self.nodes {
            return Some(format!(
                "node `{name}` has another cluster file: cluster `{}` of {}; give all nodes the same",
                other.cluster,
                other.nodes.join(", ")
            ));
        }
        if other.node != name {
            return Some(format!(
                "at the address of `{name}` is node `{}`",
                other.node
            ));
        }
        // Tables are compared where nothing else explains that they differ.
        if self.is_changing || other.is_changing || self.state != other.state {
            return None;
        }
        let mut tables = self.tables.keys().chain(other.tables.keys());
        let differs = tables.find(|table| self.tables.get(*table) != other.tables.get(*table));
        differs
            .map(|table| format!("node `{name}` has other tables than this one, such as `{table}`"))
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(Hello),
    /// To [`Request::Members`].
    Members {
        /// The cluster.
        cluster: String,
        /// Its nodes: their names and addresses.
        nodes: Vec<(String, SocketAddr)>,
    },
    /// To [`Request::Pin`].
    Pinned(PinnedState),
    /// To [`Request::Outcome`].
    Outcome(Outcome),
    /// To [`Request::Definitions`].
    Definitions(Vec<TableDefinition>),
    /// To [`Request::Lock`].
    Locked {
        /// For [`Request::Unlock`].
        ticket: u64,
    },
    /// To everything else.
    Done,
    /// The node is being stopped, and takes no more queries.
    Stopping,
    /// It can't be done.
    Refused {
        /// Why.
        message: String,
    },
}

/// A state of a node that is kept for a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinnedState {
    /// [`Hello::life`] of the node.
    pub life: u64,
    /// The state.
    pub state: State,
    /// The rows of each table in it, also of those that are copies of other nodes' shares.
    pub rows: BTreeMap<String, u64>,
}

/// Which rows a stream asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Read {
    /// Those of one partition of a plan that reads this node's tables.
    Plan {
        /// The plan, as bytes.
        plan: Vec<u8>,
        /// The partition.
        partition: usize,
    },
    /// All of a table of this node, as a pin keeps it.
    Kept {
        /// The table.
        table: String,
        /// The pin.
        pin: u64,
    },
}

/// Which load a stream of rows belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The load.
    pub load: u64,
    /// The table, of those of the node that takes the rows.
    pub table: String,
    /// The state of the node that sends them.
    pub state: State,
    /// How many tables of that node get rows of the load, each from a stream of its own.
    pub tables: usize,
    /// The node that sends them, by its place in the list.
    pub coordinator: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_not_given_twice_and_follow_no_order() {
        let numbers: Vec<u64> = (0..1000).map(|_| fresh()).collect();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 1000);
        let near = numbers
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 40);
        assert_eq!(near.count(), 0, "a clock or a counter");
    }

    fn hello(node: &str) -> Hello {
        let home = TableHome::Replicated;
        let tables = [("t".to_owned(), ("a Int32".to_owned(), home))];
        Hello {
            protocol: PROTOCOL,
            program: "1.0".to_owned(),
            cluster: "c".to_owned(),
            nodes: vec!["w1".to_owned(), "w2".to_owned()],
            node: node.to_owned(),
            life: 1,
            state: State::default(),
            tables: tables.into(),
            is_changing: false,
            is_draining: false,
        }
    }

    #[test]
    fn nodes_of_another_version_list_or_schema_do_not_fit() {
        let own = hello("w1");
        assert_eq!(own.mismatch(&hello("w2"), "w2"), None);
        let changed = |change: fn(&mut Hello)| {
            let mut other = hello("w2");
            change(&mut other);
            own.mismatch(&other, "w2").expect("a mismatch")
        };
        for (wrong, part) in [
            (changed(|h| h.protocol += 1), "run one version"),
            (changed(|h| h.program = "1.1".to_owned()), "version 1.1"),
            (changed(|h| h.cluster = "d".to_owned()), "cluster `d`"),
            (changed(|h| h.nodes.reverse()), "w2, w1"),
            (changed(|h| h.node = "w1".to_owned()), "is node `w1`"),
            (changed(|h| h.tables.clear()), "such as `t`"),
            (
                changed(|h| {
                    let home = TableHome::Replicated;
                    h.tables.insert("u".to_owned(), (String::new(), home));
                }),
                "such as `u`",
            ),
        ] {
            assert!(wrong.contains(part), "{wrong}");
        }
    }

    #[test]
    fn tables_of_nodes_in_different_states_may_differ() {
        let (own, mut other) = (hello("w1"), hello("w2"));
        other.tables.clear();
        other.state.step = 1;
        assert_eq!(own.mismatch(&other, "w2"), None);
    }

    #[test]
    fn of_two_steps_to_one_number_none_is_the_newest() {
        let state = |version, step| State { version, step };
        let newest = |states: &[State]| State::newest(states.iter().copied());
        assert_eq!(newest(&[]), None);
        let [old, one, other] = [state(7, 1), state(8, 1), state(8, 2)];
        assert_eq!(newest(&[old, one, one]), Some(one));
        assert_eq!(newest(&[one, old, other]), None);
    }

    #[test]
    fn two_steps_from_one_state_lead_to_different_ones() {
        let from = State {
            version: 7,
            step: 1,
        };
        let (one, other) = (Change::of(from), Change::of(from));
        assert_eq!((one.to.version, other.to.version), (8, 8));
        assert_ne!(one.to, other.to);
    }
}
