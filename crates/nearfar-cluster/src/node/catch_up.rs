//! How a node that has missed steps, or has lost its tables, gets the newest state from those that have it: whole, in one
//! transaction. Nothing can be changed meanwhile, since a change needs all nodes in one state.

use futures::StreamExt;
use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Node;
use super::load::{add_rows, roll_back};
use crate::error::failed;
use crate::home::{TableHome, keeper, kept_in, quoted};
use crate::messages::{Change, Read, Reply, Request, State, TableDefinition, fresh};

/// A table of this node and where its rows come from.
#[derive(Debug, PartialEq)]
struct Source {
    table: String,
    node: usize,
    /// What it is called there.
    kept: String,
}

impl Node {
    /// Begins to catch up where another node is in a newer state, unless that is being done.
    pub(crate) fn begin_to_catch_up(self: &Arc<Self>) {
        let own = self.reached_state();
        let seen = State::newest(self.seen.lock().values().copied());
        let Some(newest) = seen.filter(|it| it.version > own.version) else {
            return;
        };
        // A step that is held is not missed, nor is one that is being taken.
        let is_stepping = self.held.lock().is_some() || self.state.try_lock().is_err();
        let is_busy = is_stepping || self.is_draining.load(Ordering::Relaxed);
        if is_busy || self.is_catching_up.swap(true, Ordering::AcqRel) {
            return;
        }
        let node = Arc::clone(self);
        tokio::spawn(async move {
            match node.catch_up(own, newest).await {
                Ok(()) => tracing::info!(%newest, "this node has caught up with the others"),
                Err(error) => tracing::warn!(%error, "this node can't catch up with the others"),
            }
            node.is_catching_up.store(false, Ordering::Release);
        });
    }

    /// Whether this node is about to take a step, or to catch up with the others.
    pub(crate) fn is_mending(&self) -> bool {
        self.is_catching_up.load(Ordering::Acquire) || self.held.lock().is_some()
    }

    async fn catch_up(&self, own: State, newest: State) -> Result<(), EngineError> {
        let pin = fresh();
        let sources = self.pin_sources(pin, newest).await;
        let done = self.replace_by(&sources, pin, own, newest).await;
        for node in sources {
            let _forgotten = self.link(node).ask(&Request::Unpin { pin }).await;
        }
        done
    }

    /// The nodes that keep the newest state for this one.
    async fn pin_sources(&self, pin: u64, newest: State) -> Vec<usize> {
        let seen: Vec<usize> = {
            let seen = self.seen.lock();
            let newest = seen.iter().filter(|(_, state)| **state == newest);
            newest.map(|(node, _)| *node).collect()
        };
        let coordinator = self.me;
        let asked = seen.into_iter().map(|node| async move {
            let request = Request::Pin { pin, coordinator };
            let kept = self.link(node).ask(&request).await;
            let is_newest = matches!(kept, Ok(Reply::Pinned(kept)) if kept.state == newest);
            is_newest.then_some(node)
        });
        let sources = futures::future::join_all(asked).await;
        sources.into_iter().flatten().collect()
    }

    /// Puts what nodes have pinned in the place of what is here.
    async fn replace_by(
        &self,
        nodes: &[usize],
        pin: u64,
        own: State,
        newest: State,
    ) -> Result<(), EngineError> {
        let first = nodes
            .first()
            .ok_or_else(|| failed("no node has the newest state any more"))?;
        let link = self.link(*first);
        let definitions = match link.ask(&Request::Definitions).await? {
            Reply::Definitions(definitions) => definitions,
            other => return Err(link.unexpected(&other).into()),
        };
        let sources = sources(&definitions, self.me, self.nodes(), nodes)?;
        let session = self.session();
        session.execute("BEGIN").await?;
        let filled = self.fill(&session, &definitions, &sources, pin).await;
        if let Err(error) = filled {
            roll_back(&session).await;
            return Err(error);
        }
        let mut state = self.state.lock().await;
        if *state != own {
            roll_back(&session).await;
            return Err(failed("it has taken a step meanwhile"));
        }
        let change = Change {
            from: own,
            to: newest,
        };
        self.write_state(&session, change).await?;
        session.execute("COMMIT").await?;
        self.read_tables(&session).await?;
        *state = newest;
        *self.reached.lock() = newest;
        Ok(())
    }

    /// Makes and fills the tables of `definitions`, in the session's transaction.
    async fn fill(
        &self,
        session: &Session,
        definitions: &[TableDefinition],
        sources: &[Source],
        pin: u64,
    ) -> Result<(), EngineError> {
        let present = self.tables.read().clone();
        for (name, local) in present {
            for rank in 0..local.home.tables() {
                let table = quoted(&kept_in(&name, rank));
                session.execute(&format!("DROP TABLE {table}")).await?;
            }
        }
        session
            .execute("DELETE FROM nearfar_cluster_tables")
            .await?;
        for definition in definitions {
            for sql in &definition.sql {
                session.execute(sql).await?;
            }
            self.write_definition(session, definition, definition.since)
                .await?;
        }
        for source in sources {
            let kept = Read::Kept {
                table: source.kept.clone(),
                pin,
            };
            let rows = self.link(source.node).read(&kept).await?;
            add_rows(session, &source.table, rows.boxed()).await?;
        }
        Ok(())
    }
}

/// Where the rows of each table that `me` keeps come from: nodes among `present`.
///
/// # Errors
/// Rows that none of them has; a table whose definition is not known.
fn sources(
    definitions: &[TableDefinition],
    me: usize,
    nodes: usize,
    present: &[usize],
) -> Result<Vec<Source>, EngineError> {
    let mut sources = Vec::new();
    for definition in definitions {
        let name = &definition.table;
        if definition.sql.is_empty() {
            return Err(failed(format!(
                "table `{name}` was made before tables could be made again: make it anew"
            )));
        }
        let Some(home) = &definition.home else {
            continue;
        };
        if let TableHome::Replicated = home {
            sources.extend(present.first().map(|node| Source {
                table: name.clone(),
                node: *node,
                kept: name.clone(),
            }));
            continue;
        }
        let copies = home.tables();
        for rank in 0..copies {
            let share = (me + nodes - rank) % nodes;
            let keepers = (0..copies).map(|there| (keeper(share, there, nodes), there));
            let mut found = keepers.filter(|(node, _)| *node != me && present.contains(node));
            let (node, there) = found.next().ok_or_else(|| {
                failed(format!(
                    "no node that is there has rows of `{name}` that belong here"
                ))
            })?;
            sources.push(Source {
                table: kept_in(name, rank),
                node,
                kept: kept_in(name, there),
            });
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(home: TableHome) -> TableDefinition {
        TableDefinition {
            table: "t".to_owned(),
            home: Some(home),
            sql: vec!["CREATE TABLE t (a INT)".to_owned()],
            since: 0,
        }
    }

    #[test]
    fn shares_come_from_those_that_keep_them() {
        let columns = vec!["a".to_owned()];
        let twice = definition(TableHome::Distributed { columns, copies: 2 });
        let found = sources(std::slice::from_ref(&twice), 1, 3, &[0, 2]).expect("sources");
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.table.as_str(), it.node, it.kept.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("t", 2, "nearfar_copy_1_of_t"),
                ("nearfar_copy_1_of_t", 0, "t")
            ]
        );
        let told = sources(&[twice], 1, 3, &[0]).expect_err("a share is missing");
        assert!(told.to_string().contains("`t`"), "{told}");
        let all = sources(&[definition(TableHome::Replicated)], 1, 3, &[2]).expect("sources");
        assert_eq!((all[0].node, all[0].kept.as_str()), (2, "t"));
    }

    #[test]
    fn tables_without_a_definition_can_not_be_made() {
        let mut old = definition(TableHome::Replicated);
        old.sql.clear();
        assert!(sources(&[old], 0, 2, &[1]).is_err());
    }
}
