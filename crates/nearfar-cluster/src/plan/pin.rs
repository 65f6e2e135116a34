//! One state of all nodes that a query reads, and which node reads what for it.

use std::sync::Arc;

use crate::error::AskError;
use crate::home::{TableHome, keeper, kept_in, rank};
use crate::messages::{PinnedState, Request, State};
use crate::node::{Heard, Node};

/// The state that a query reads on all nodes, as long as one of its plans is there.
#[derive(Debug)]
pub struct QueryPin {
    pub node: Arc<Node>,
    pub pin: u64,
    /// Of each node, in their order: what it keeps, or why the query does without it.
    pub nodes: Vec<Result<PinnedState, AskError>>,
}

impl Drop for QueryPin {
    fn drop(&mut self) {
        self.node.unpin(self.pin);
        let (node, pin) = (Arc::clone(&self.node), self.pin);
        // Outside of a runtime, the pins of other nodes end by their age.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            for (index, link) in node.links().iter().enumerate() {
                // One that is being stopped waits for this.
                if index != node.me() && link.heard() != Heard::Nothing {
                    let _forgotten = link.ask(&Request::Unpin { pin }).await;
                }
            }
        });
    }
}

impl QueryPin {
    /// Whether the query does without a node.
    pub fn is_without_some(&self) -> bool {
        self.nodes.iter().any(Result::is_err)
    }

    /// The node that runs what belongs to a share: the first of those that keep it, and of those behind them, that
    /// takes part in the query. All tables of a query have the same one, so that their shares are joined in place.
    pub fn runner(&self, share: usize) -> usize {
        let nodes = self.nodes.len();
        let keepers = (0..nodes).map(|rank| keeper(share, rank, nodes));
        let mut present = keepers.filter(|node| self.nodes[*node].is_ok());
        present.next().unwrap_or(self.node.me())
    }

    /// The node that reads a share of a table of which there are so many copies.
    ///
    /// # Errors
    /// Why the first of those that keep it does not, if none does.
    pub fn reader(&self, share: usize, copies: usize) -> Result<usize, &AskError> {
        let runner = self.runner(share);
        match &self.nodes[share] {
            Err(missing) if rank(share, runner, self.nodes.len()) >= copies => Err(missing),
            _ => Ok(runner),
        }
    }

    /// The rows of a table on all nodes that take part, each row once. Nothing where all nodes have all of them.
    pub fn rows(&self, table: &str, home: &TableHome) -> Option<u64> {
        let TableHome::Distributed { copies, .. } = home else {
            return None;
        };
        let nodes = self.nodes.len();
        let of_share = |share: usize| {
            let reader = self.reader(share, *copies).ok()?;
            let kept = kept_in(table, rank(share, reader, nodes));
            self.nodes[reader].as_ref().ok()?.rows.get(&kept).copied()
        };
        (0..nodes).map(of_share).sum()
    }

    /// Whether this node has taken fewer steps than another one.
    pub fn is_behind(&self) -> bool {
        let own = &self.nodes[self.node.me()];
        let mut others = self.nodes.iter().flatten();
        own.as_ref()
            .is_ok_and(|own| others.any(|other| other.state.version > own.state.version))
    }

    /// Does without the nodes that are behind the newest state, where there is one newest state and this node has it.
    /// Otherwise the states, which can't be told to be newer or older.
    pub fn leave_out_those_behind(&mut self) -> Result<(), String> {
        let Some(told) = self.differing() else {
            return Ok(());
        };
        let own = &self.nodes[self.node.me()];
        let newest = State::newest(self.nodes.iter().flatten().map(|pinned| pinned.state));
        let Some(newest) = newest.filter(|it| own.as_ref().is_ok_and(|own| own.state == *it))
        else {
            return Err(told);
        };
        for pinned in &mut self.nodes {
            if pinned.as_ref().is_ok_and(|it| it.state != newest) {
                *pinned = Err(AskError::Behind {
                    states: told.clone(),
                });
            }
        }
        Ok(())
    }

    /// The states of nodes, by their names, if they are not the same one.
    pub fn differing(&self) -> Option<String> {
        let pinned = self.nodes.iter().enumerate();
        let states = pinned.filter_map(|(node, pinned)| {
            let state = pinned.as_ref().ok()?.state;
            Some((self.node.name_of(node), state))
        });
        let states: Vec<_> = states.collect();
        if states.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return None;
        }
        let told = states
            .iter()
            .map(|(node, state)| format!("`{node}` at {state}"));
        Some(told.collect::<Vec<_>>().join(", "))
    }
}
