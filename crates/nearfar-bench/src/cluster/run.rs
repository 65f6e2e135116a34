//! Rounds: one for each number of workers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::error::ClusterBenchError;
use super::local::LocalCluster;
use super::schema;
use crate::bench::write_table;
use crate::server_process::ServerProcess;
use crate::tpch::Suite;

/// Two numbers that are so close, relative to the larger one, are equal: sums of floats depend on their order.
const TOLERANCE: f64 = 1e-9;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOptions {
    /// The program whose servers are measured.
    pub program: PathBuf,
    /// Where files go, and what is in it may be overwritten.
    pub folder: PathBuf,
    /// The benchmark.
    pub suite: Suite,
    /// Its scale factor.
    pub scale_factor: f64,
    /// Threads of the one process, and of all workers together.
    pub threads: usize,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// Which queries.
    pub queries: Vec<u8>,
    /// How often each of them is run.
    pub runs: usize,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOutcome {
    /// What was asked for.
    pub options: ClusterOptions,
    /// One for each number of workers.
    pub rounds: Vec<ClusterRound>,
}

/// A cluster beside one process.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterRound {
    /// Nodes of the cluster.
    pub workers: usize,
    /// What loading took, with one process and with the cluster.
    pub loading: (Duration, Duration),
    /// The queries.
    pub queries: Vec<QueryRound>,
}

/// One query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRound {
    /// Its number.
    pub query: u8,
    /// What was measured, or why nothing was: a query that fails, or is answered otherwise than by one process.
    pub outcome: Result<QueryTimes, String>,
}

/// What a query takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryTimes {
    /// The shortest time of one process.
    pub single: Duration,
    /// The shortest time of the cluster.
    pub cluster: Duration,
    /// Bytes that nodes exchanged in one run.
    pub bytes: u64,
}

/// Measures clusters of several sizes against one process, whose answers theirs have to equal. `follow` is told what
/// is next.
///
/// # Errors
/// Servers that do not start, and loads that fail.
pub fn measure_cluster(
    options: &ClusterOptions,
    mut follow: impl FnMut(String),
) -> Result<ClusterOutcome, ClusterBenchError> {
    let suite = options.suite;
    let files = options.folder.join(suite.name());
    for table in suite.tables() {
        follow(format!("writing {table}"));
        write_table(&files, suite, table, options.scale_factor, 1)?;
    }
    let args = [
        "serve",
        "--port",
        "0",
        "--no-http",
        "--allow-files",
        "--threads",
    ];
    let mut args = args.map(std::ffi::OsString::from).to_vec();
    args.push(options.threads.to_string().into());
    let single = ServerProcess::start_with(&options.program, &args)?;
    follow("loading one process".to_owned());
    let loading = load(suite, single.address, &files, false)?;
    let mut rounds = Vec::new();
    for workers in options.workers.iter().copied() {
        follow(format!("starting {workers} workers"));
        let folder = options.folder.join(format!("workers-{workers}"));
        fs::create_dir_all(&folder).map_err(|source| ClusterBenchError::File {
            path: folder.clone(),
            source,
        })?;
        let threads = (options.threads / workers).max(1);
        let cluster = LocalCluster::start(&options.program, &folder, workers, threads, false)?;
        let loading = (loading, load(suite, cluster.address(0), &files, true)?);
        let mut queries = Vec::new();
        for query in options.queries.iter().copied() {
            follow(format!("query {query} on {workers} workers"));
            let outcome = round(options, query, single.address, &cluster);
            let outcome = outcome.map_err(|error| error.to_string());
            queries.push(QueryRound { query, outcome });
        }
        rounds.push(ClusterRound {
            workers,
            loading,
            queries,
        });
    }
    Ok(ClusterOutcome {
        options: options.clone(),
        rounds,
    })
}

fn round(
    options: &ClusterOptions,
    query: u8,
    single: SocketAddr,
    cluster: &LocalCluster,
) -> Result<QueryTimes, ClusterBenchError> {
    let suite = options.suite;
    let sql = suite.query(query, options.scale_factor);
    let sql = sql.ok_or_else(|| ClusterBenchError::NoQuery { suite, query })?;
    // A limit may leave open which rows are kept.
    let whole = suite.unlimited(query).unwrap_or(&sql);
    let expected = query_rows(single, whole)?;
    let answer = query_rows(cluster.address(0), whole)?;
    if let Some(difference) = difference(&expected, &answer) {
        return Err(ClusterBenchError::WrongAnswer { difference });
    }
    let mut found = QueryTimes {
        single: Duration::MAX,
        cluster: Duration::MAX,
        bytes: 0,
    };
    for _ in 0..options.runs.max(1) {
        found.single = found.single.min(timed(single, &sql)?);
        let before = cluster.exchanged_bytes()?;
        found.cluster = found.cluster.min(timed(cluster.address(0), &sql)?);
        found.bytes = cluster.exchanged_bytes()?.saturating_sub(before);
    }
    Ok(found)
}

/// The rows of an answer, as texts.
type Rows = Vec<Vec<Option<String>>>;

fn timed(address: SocketAddr, sql: &str) -> Result<Duration, ClusterBenchError> {
    with_client(address, async |client| {
        let begun = Instant::now();
        rows(&client, sql).await?;
        Ok(begun.elapsed())
    })
}

/// The rows of a query that the server at `address` answers, as texts.
///
/// # Errors
/// A statement that fails.
pub fn query_rows(
    address: SocketAddr,
    sql: &str,
) -> Result<Vec<Vec<Option<String>>>, ClusterBenchError> {
    with_client(address, async |client| rows(&client, sql).await)
}

async fn rows(client: &Client, sql: &str) -> Result<Rows, ClusterBenchError> {
    let messages = client.simple_query(sql).await;
    let messages = messages.map_err(|error| ClusterBenchError::Statement {
        statement: sql.chars().take(80).collect(),
        reason: match error.as_db_error() {
            Some(told) => told.message().to_owned(),
            None => error.to_string(),
        },
    })?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
            Some(values.collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}

fn with_client<T>(
    address: SocketAddr,
    work: impl AsyncFnOnce(Client) -> Result<T, ClusterBenchError>,
) -> Result<T, ClusterBenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut config = tokio_postgres::Config::new();
        config
            .host(address.ip().to_string())
            .port(address.port())
            .user("bench");
        let connected = config.connect(NoTls).await;
        let (client, connection) = connected.map_err(std::io::Error::other)?;
        let talking = tokio::spawn(connection);
        let done = work(client).await;
        talking.abort();
        done
    })
}

/// Makes the tables at `address` and fills them from the files in `files`. What it took.
fn load(
    suite: Suite,
    address: SocketAddr,
    files: &Path,
    is_cluster: bool,
) -> Result<Duration, ClusterBenchError> {
    let begun = Instant::now();
    for table in suite.tables() {
        // Their columns are the same at all scale factors.
        let columns = suite.rows(table, 1.0, 1)?.schema;
        query_rows(
            address,
            &schema::create(suite, table, &columns, is_cluster)?,
        )?;
        let file = files.join(table).join("000.parquet");
        query_rows(address, &format!("COPY {table} FROM '{}'", file.display()))?;
    }
    Ok(begun.elapsed())
}

/// Where two answers differ, as sets of rows: rows of equal keys have no order.
fn difference(expected: &Rows, found: &Rows) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!(
            "{} rows instead of {}",
            found.len(),
            expected.len()
        ));
    }
    let sorted = |rows: &Rows| {
        let mut rows = rows.clone();
        rows.sort();
        rows
    };
    let pairs = sorted(expected).into_iter().zip(sorted(found));
    let mut wrong = pairs.filter(|(expected, found)| !equal_rows(expected, found));
    let (expected, found) = wrong.next()?;
    Some(format!("{found:?} instead of {expected:?}"))
}

fn equal_rows(expected: &[Option<String>], found: &[Option<String>]) -> bool {
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(expected, found)| {
            let number = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok();
            match (number(expected), number(found)) {
                (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
                _ => expected == found,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_as_sets_of_values() {
        let row = |values: &[&str]| -> Vec<Option<String>> {
            values
                .iter()
                .map(|value| Some((*value).to_owned()))
                .collect()
        };
        let expected = vec![row(&["a", "1.0"]), row(&["b", "2"])];
        assert_eq!(
            difference(&expected, &vec![row(&["b", "2"]), row(&["a", "1"])]),
            None
        );
        assert!(difference(&expected, &vec![row(&["a", "1.0"])]).is_some());
        assert!(difference(&expected, &vec![row(&["a", "1.0"]), row(&["b", "2.1"])]).is_some());
    }
}
