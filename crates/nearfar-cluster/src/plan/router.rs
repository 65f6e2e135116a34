//! What the engine asks the cluster: how to read and fill its tables, and how to run definitions.

use async_trait::async_trait;
use datafusion::catalog::Session as Planning;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use nearfar_sql::engine::{CommandTag, Distribution, Session, TransactionState};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::{RoutedScan, StatementPin, TableRouter};
use nearfar_sql::sql::Statement;
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::leaf::{ClusterScan, QueryPin, ScanParts, Share};
use super::sink::insertion;
use super::stages;
use crate::error::{failed, failed_query};
use crate::home::TableHome;
use crate::messages::{Reply, Request, State, fresh};
use crate::node::Node;

/// How long a query waits for a change to come to its end on all nodes.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// The cluster, as the engine of a node knows it.
#[derive(Debug)]
pub struct Router(pub Arc<Node>);

impl Router {
    /// One state of all nodes that answer, kept for a query.
    async fn pin(&self) -> Result<QueryPin> {
        let begun = Instant::now();
        loop {
            match self.try_pin().await? {
                Ok(pin) => return Ok(pin),
                Err(versions) if begun.elapsed() > CHANGE_PATIENCE => {
                    return Err(failed_query(format!(
                        "the nodes are in different states of the cluster ({versions}): one of them has missed a \
                         change; give it its data directory of then, or make the tables again"
                    )));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// The states of nodes, if they are not the same.
    async fn try_pin(&self) -> Result<std::result::Result<QueryPin, String>> {
        let node = &self.0;
        let pin = fresh();
        let me = node.me();
        let request = Request::Pin {
            pin,
            coordinator: me,
        };
        // Before anybody is asked, so that what was kept is forgotten where the query is given up here.
        let mut kept = QueryPin {
            node: Arc::clone(node),
            pin,
            rows: BTreeMap::new(),
            missing: Vec::new(),
        };
        let asked = node.links().iter().enumerate().map(|(index, link)| {
            let request = &request;
            async move {
                match index == me {
                    true => link.granted(node.pin(pin, me).await),
                    false => link.ask(request).await,
                }
            }
        });
        let replies = futures::future::join_all(asked).await;
        let mut states = Vec::new();
        for (link, reply) in node.links().iter().zip(replies) {
            let reply = reply.and_then(|reply| match reply {
                Reply::Pinned { state, rows } => Ok((state, rows)),
                other => Err(link.unexpected(&other)),
            });
            match reply {
                Ok((state, rows)) => {
                    states.push((link.name(), state));
                    for (table, rows) in rows {
                        *kept.rows.entry(table).or_default() += rows;
                    }
                }
                Err(error) if link.name() == node.name_of(me) => return Err(error.into()),
                Err(error) => kept.missing.push(error),
            }
        }
        Ok(match differing(&states) {
            None => Ok(kept),
            Some(told) => Err(told),
        })
    }

    /// The table of the cluster that a statement is about, whose only name is the word at `at`; none for one that
    /// names no table of the cluster.
    ///
    /// # Errors
    /// A statement that says more than that, of which a node would do a part.
    fn only_table(
        &self,
        words: &[String],
        at: usize,
    ) -> std::result::Result<Option<String>, EngineError> {
        let tables = words.iter().map(|word| table_name(word));
        if !tables
            .clone()
            .skip(1)
            .any(|table| self.0.home(&table).is_some())
        {
            return Ok(None);
        }
        let table = tables.clone().nth(at).filter(|_| words.len() == at + 1);
        table
            .filter(|table| self.0.home(table).is_some())
            .map(Some)
            .ok_or_else(|| {
                failed("drop and truncate the tables of a cluster one by one, by their names alone")
            })
    }

    /// The state that all scans of a statement read.
    async fn statement_pin(&self, state: &dyn Planning) -> Result<Arc<QueryPin>> {
        let Some(cell) = state.config().get_extension::<StatementPin>() else {
            return Ok(Arc::new(self.pin().await?));
        };
        let pinned = cell.0.get_or_try_init(|| async {
            let pin: Arc<dyn Any + Send + Sync> = Arc::new(self.pin().await?);
            Result::<_>::Ok(pin)
        });
        let pinned = Arc::clone(pinned.await?).downcast::<QueryPin>();
        pinned.map_err(|_| failed_query("a pin of another kind"))
    }
}

#[async_trait]
impl TableRouter for Router {
    async fn scan(
        &self,
        state: &dyn Planning,
        table: &Arc<Table>,
        scan: RoutedScan,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = &self.0;
        if self.is_alone() {
            return Ok(None);
        }
        let Some(home) = node.home(table.name()) else {
            return Ok(None);
        };
        let pinned = self.statement_pin(state).await?;
        let shares = match home {
            TableHome::Replicated => vec![Share::Here],
            TableHome::Distributed { .. } => {
                if let Some(missing) = pinned.missing.first() {
                    return Err(missing.without_rows_of(table.name()));
                }
                (0..node.nodes()).map(Share::Of).collect()
            }
        };
        let is_replicated = matches!(home, TableHome::Replicated);
        let parts = ScanParts {
            table: table.name().to_owned(),
            scan,
            pin: pinned.pin,
            shares,
            width: state.config().target_partitions(),
            task: None,
        };
        let mut leaf = ClusterScan::try_new(node, parts)?;
        leaf.rows = match is_replicated {
            true => None,
            false => pinned.rows.get(table.name()).copied(),
        };
        leaf.pinned = Some(pinned);
        Ok(Some(Arc::new(leaf)))
    }

    fn insert(
        &self,
        state: &dyn Planning,
        table: &Arc<Table>,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(home) = self.0.home(table.name()) else {
            return Ok(None);
        };
        let transaction = state.config().get_extension::<Transaction>();
        if transaction.is_some_and(|transaction| transaction.is_explicit()) {
            return Err(failed_query(
                "rows are added to tables of a cluster by statements of their own: end the transaction first",
            ));
        }
        match self.is_alone() {
            true => Ok(None),
            false => insertion(&self.0, table, &home, input).map(Some),
        }
    }
}

/// The states of nodes, by their names, if they are not the same one.
fn differing(states: &[(&str, State)]) -> Option<String> {
    if states.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return None;
    }
    let told = states
        .iter()
        .map(|(node, state)| format!("`{node}` at {state}"));
    Some(told.collect::<Vec<_>>().join(", "))
}

/// What a statement asks for.
enum Asked {
    /// A command that makes, drops or empties a table: its name, the table, and where the rows of a new one are.
    Change((&'static str, String, Option<TableHome>)),
    /// Nothing that is left to do.
    Done(CommandTag),
    /// Something else.
    Another,
}

impl Router {
    /// What a statement asks for, by its words and the first of them in upper case.
    fn asked(
        &self,
        statement: &Statement,
        words: &[String],
        upper: &[&str],
    ) -> Result<Asked, EngineError> {
        let change = match upper {
            ["CREATE", "TABLE", ..] => {
                let Some(clause) = statement.distribution() else {
                    return Err(failed(
                        "a table of a cluster says where its rows are: end CREATE TABLE with DISTRIBUTED BY \
                         (columns) or REPLICATED, or create a TEMPORARY table on this node",
                    ));
                };
                if words.iter().any(|word| word.eq_ignore_ascii_case("select")) {
                    return Err(failed(
                        "create the table first, then add the rows by INSERT INTO … SELECT",
                    ));
                }
                check_clauses(words)?;
                let table = created(words, upper)?;
                if self.0.home(&table).is_some() {
                    return match upper[2] {
                        "IF" => Ok(Asked::Done(done("CREATE TABLE"))),
                        _ => Err(failed(format!("table `{table}` exists already"))),
                    };
                }
                ("CREATE TABLE", table, Some(TableHome::from(clause)))
            }
            ["DROP", "TABLE", ..] => {
                let at = if upper.get(2) == Some(&"IF") { 4 } else { 2 };
                match self.only_table(words, at)? {
                    Some(table) => ("DROP TABLE", table, None),
                    None => return Ok(Asked::Another),
                }
            }
            ["TRUNCATE", ..] => {
                let at = if upper.get(1) == Some(&"TABLE") { 2 } else { 1 };
                match self.only_table(words, at)? {
                    Some(table) => ("TRUNCATE TABLE", table, None),
                    None => return Ok(Asked::Another),
                }
            }
            ["PREPARE", ..]
                if words
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case("truncate")) =>
            {
                return Err(failed("TRUNCATE can't be prepared in a cluster"));
            }
            ["CREATE", "TEMP" | "TEMPORARY", ..] => return Ok(Asked::Another),
            [
                "CREATE" | "ALTER" | "DROP" | "VACUUM" | "CALL" | "MERGE" | "UPDATE" | "DELETE",
                ..,
            ] => {
                return Err(failed(format!(
                    "{} is not known in a cluster yet; it has CREATE, DROP and TRUNCATE TABLE, INSERT, COPY and \
                     queries",
                    upper.iter().take(2).copied().collect::<Vec<_>>().join(" ")
                )));
            }
            _ => return Ok(Asked::Another),
        };
        Ok(Asked::Change(change))
    }
}

#[async_trait]
impl Distribution for Router {
    fn is_alone(&self) -> bool {
        self.0.nodes() == 1
    }

    fn distributed(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
        let failed = match stages::distributed(&self.0, builder) {
            Ok(builder) => return builder,
            Err(error) => error,
        };
        // It has worked when the node started.
        let builder = SessionStateBuilder::new().with_default_features();
        stages::refusing(builder, failed.to_string())
    }

    fn metrics(&self) -> String {
        self.0.metrics()
    }

    async fn run(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> Result<Option<CommandTag>, EngineError> {
        let text = without_comments(statement.text());
        let words: Vec<String> = text
            .split(|c: char| !(c.is_alphanumeric() || "_.\"".contains(c)))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let upper: Vec<String> = words
            .iter()
            .take(5)
            .map(|word| word.to_uppercase())
            .collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        let (command, table, home) = match self.asked(statement, &words, &upper)? {
            Asked::Change(change) => change,
            Asked::Done(tag) => return Ok(Some(tag)),
            Asked::Another => return Ok(None),
        };
        if session.transaction_state() != TransactionState::Idle {
            return Err(failed(format!(
                "{command} can't be part of a transaction in a cluster"
            )));
        }
        if session.options().is_read_only {
            return Err(failed(format!(
                "this session may only read: {command} is refused"
            )));
        }
        let gate = session.gate();
        self.0
            .define_everywhere(gate, statement, &table, home)
            .await?;
        Ok(Some(done(command)))
    }
}

fn done(command: &'static str) -> CommandTag {
    CommandTag {
        command,
        rows: None,
    }
}

/// Refuses what every node would see to only among its own rows.
fn check_clauses(words: &[String]) -> Result<(), EngineError> {
    let refused = [
        "PRIMARY",
        "UNIQUE",
        "SERIAL",
        "BIGSERIAL",
        "SMALLSERIAL",
        "GENERATED",
        "REFERENCES",
    ];
    let found = words
        .iter()
        .find(|word| refused.contains(&word.to_uppercase().as_str()));
    match found {
        Some(word) => Err(failed(format!(
            "{} is not known in a cluster yet: a node knows only the keys and numbers of its own rows",
            word.to_uppercase()
        ))),
        None => Ok(()),
    }
}

/// The table that a `CREATE TABLE` makes.
fn created(words: &[String], upper: &[&str]) -> Result<String, EngineError> {
    let at = match upper.get(2) {
        Some(&"IF") => 5,
        _ => 2,
    };
    let name = words.get(at).map(|name| normalised(name));
    let name = name.ok_or_else(|| failed("CREATE TABLE without a name"))?;
    match name.split_once('.') {
        Some(("public", table)) => Ok(table.to_owned()),
        Some(_) => Err(failed("the tables of a cluster are in schema public")),
        None => Ok(name),
    }
}

/// The table that a word names, whatever its schema.
fn table_name(word: &str) -> String {
    normalised(word.rsplit('.').next().unwrap_or(word))
}

/// A statement without its comments, which may stand between any two words.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        match (quote, c, rest.peek()) {
            (Some(open), ..) => {
                if c == open {
                    quote = None;
                }
                kept.push(c);
            }
            (None, '-', Some('-')) => {
                rest.by_ref().find(|c| *c == '\n');
                kept.push(' ');
            }
            (None, '/', Some('*')) => {
                rest.next();
                let (mut depth, mut last) = (1, ' ');
                while depth > 0
                    && let Some(c) = rest.next()
                {
                    match (last, c) {
                        ('*', '/') => (depth, last) = (depth - 1, ' '),
                        ('/', '*') => (depth, last) = (depth + 1, ' '),
                        _ => last = c,
                    }
                }
                kept.push(' ');
            }
            (None, '\'' | '"', _) => {
                quote = Some(c);
                kept.push(c);
            }
            (None, ..) => kept.push(c),
        }
    }
    kept
}

/// A name as PostgreSQL keeps it.
fn normalised(word: &str) -> String {
    match word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'))
    {
        Some(quoted) => quoted.to_owned(),
        None => word.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_one_version_that_different_steps_led_to_are_different() {
        let state = |version, step| State { version, step };
        let same = [("w1", state(8, 3)), ("w2", state(8, 3))];
        assert_eq!(differing(&same), None);
        let told = differing(&[("w1", state(8, 3)), ("w2", state(8, 4))]).expect("told");
        assert!(
            told.starts_with("`w1` at 8 (step 0000000000000003), `w2` at 8 "),
            "{told}"
        );
    }

    #[test]
    fn comments_hide_no_words() {
        for (text, kept) in [
            ("TRUNCATE /* all */ t", "TRUNCATE   t"),
            ("-- first\nDROP TABLE t", " DROP TABLE t"),
            ("/* a /* b */ c */TRUNCATE t", " TRUNCATE t"),
            ("SELECT '--', \"/*\" FROM t", "SELECT '--', \"/*\" FROM t"),
        ] {
            assert_eq!(without_comments(text), kept);
        }
    }

    #[test]
    fn tables_are_known_with_their_schemas() {
        for word in [
            "t",
            "T",
            "public.t",
            "nearfar.public.T",
            "\"t\"",
            "\"public\".\"t\"",
        ] {
            assert_eq!(table_name(word), "t");
        }
        assert_eq!(table_name("\"T\""), "T");
    }
}
