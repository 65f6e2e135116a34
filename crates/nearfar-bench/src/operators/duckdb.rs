//! Whole queries of the same columns on DuckDB: an aggregate, a filter and a join, by one thread.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use nearfar_measure::operators::native::{checksum, passed, summary};
use nearfar_topology::Known;
use parquet::arrow::ArrowWriter;

use super::error::OperatorsBenchError;
use super::join::Sides;
use super::round::{Round, timed};
use crate::bench::{BenchError, Contender, Launch, Processes, Rival, Who, read_answer};
use crate::tpch::answer::Answer;

/// The filter passes one row in so many.
const ONE_IN: usize = 1000;

/// DuckDB as a rival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuckDbOptions {
    /// The interpreter of its Python package.
    pub python: PathBuf,
    /// A folder for the columns as Parquet files.
    pub directory: PathBuf,
}

/// A query that both run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryRounds {
    /// What it is: the name of its metric.
    pub metric: &'static str,
    /// Bytes of its build side; none of a query of one table.
    pub build_bytes: Option<usize>,
    pub rounds: Vec<Round>,
}

/// What we answer: a row.
type Row = Result<Vec<i64>, OperatorsBenchError>;

/// A query and our way to answer it.
struct Query<'a> {
    metric: &'static str,
    build_bytes: Option<usize>,
    sql: String,
    ours: Box<dyn Fn() -> Row + 'a>,
}

/// Both answer the queries of one build side in turn, the first time to compare answers. Unavailable where DuckDB cannot
/// take part.
pub(super) fn rounds(
    options: &DuckDbOptions,
    (build_bytes, sides): (usize, &Sides),
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> Result<Known<Vec<QueryRounds>>, OperatorsBenchError> {
    let launcher = Processes {
        program: PathBuf::new(),
        arguments: Vec::new(),
        python: options.python.clone(),
    };
    let mut contender = match launcher.launch(Who::Rival(Rival::DuckDb)) {
        Ok(contender) => contender,
        Err(BenchError::Absent { reason, .. }) => {
            let remedy = Rival::DuckDb.remedy();
            return Ok(Known::unavailable(format!(
                "{reason}; install it with: {remedy}"
            )));
        }
        Err(error) => return Err(error.into()),
    };
    let folder = options.directory.join(build_bytes.to_string());
    write(&folder, sides)?;
    contender.load(&folder, &["build", "probed"], 1)?;
    let queries = queries(build_bytes, sides);
    for query in &queries {
        agree(query, &mut contender, &folder)?;
    }
    let mut all: Vec<QueryRounds> = queries
        .iter()
        .map(|query| QueryRounds {
            metric: query.metric,
            build_bytes: query.build_bytes,
            rounds: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        progress(round);
        for (query, taken) in queries.iter().zip(&mut all) {
            let (ours, ours_s) = timed(&query.ours);
            ours?;
            let theirs_s = contender.query(&query.sql)?;
            taken.rounds.push(Round { ours_s, theirs_s });
        }
    }
    Ok(Known::Value(all))
}

fn queries(build_bytes: usize, sides: &Sides) -> Vec<Query<'_>> {
    let probed = sides.probed();
    let high = (probed[1].len() / ONE_IN) as i64;
    let aggregate = move || -> Row {
        let found = summary(probed[1]);
        let (min, max) = (found.min.unwrap_or(0), found.max.unwrap_or(0));
        Ok(vec![found.count.cast_signed(), found.sum as i64, min, max])
    };
    let filter = move || -> Row { Ok(vec![passed(probed[1], high) as i64]) };
    let join = move || -> Row {
        let joined = sides.ours()?;
        // Keys are those of the probe side, twice.
        let keys = checksum(probed[0]).wrapping_mul(2);
        let values = joined.checksum.wrapping_sub(keys);
        Ok(vec![joined.rows as i64, values])
    };
    vec![
        Query {
            metric: "aggregate_ratio_to_duckdb",
            build_bytes: None,
            sql: "select count(v) a, cast(sum(v) as bigint) b, min(v) c, max(v) d from probed"
                .to_owned(),
            ours: Box::new(aggregate),
        },
        Query {
            metric: "filter_ratio_to_duckdb",
            build_bytes: None,
            sql: format!("select count(*) a from probed where v between 0 and {high}"),
            ours: Box::new(filter),
        },
        Query {
            metric: "join_ratio_to_duckdb",
            build_bytes: Some(build_bytes),
            sql: "select count(*) a, cast(sum(b.v) + sum(p.v) as bigint) b \
                  from probed p join build b on p.k = b.k"
                .to_owned(),
            ours: Box::new(join),
        },
    ]
}

/// Refuses queries that both answer differently.
fn agree(
    query: &Query<'_>,
    contender: &mut Contender,
    folder: &Path,
) -> Result<(), OperatorsBenchError> {
    let path = folder.join("answer.parquet");
    contender.save(&query.sql, &path)?;
    match expected(&(query.ours)()?)?.difference(&read_answer(&path)?, &[]) {
        None => Ok(()),
        Some(difference) => Err(OperatorsBenchError::DuckDb {
            metric: query.metric,
            difference: Box::new(difference),
        }),
    }
}

/// A row of these values.
fn expected(values: &[i64]) -> Result<Answer, OperatorsBenchError> {
    let columns = values.iter().zip(["a", "b", "c", "d"]);
    let columns = columns.map(|(value, name)| {
        let column = Int64Array::from(vec![*value]);
        (name, Arc::new(column) as ArrayRef)
    });
    let row = RecordBatch::try_from_iter(columns)?;
    Ok(Answer::from_batches(&[row])?)
}

/// Both sides as `TABLE/000.parquet`.
fn write(folder: &Path, sides: &Sides) -> Result<(), OperatorsBenchError> {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    for (table, batches) in sides.tables() {
        let table = folder.join(table);
        let file = table.join("000.parquet");
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| BenchError::File {
            path: file.clone(),
            source,
        };
        fs::create_dir_all(&table).map_err(|source| failed(source.into()))?;
        let write = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let mut writer = ArrowWriter::try_new(File::create(&file)?, Arc::clone(&schema), None)?;
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.close()?;
            Ok(())
        };
        write().map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn the_queries_ask_for_what_ours_answers() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let sides = Sides::new(16_000, 20_000).unwrap();
        let context = SessionContext::new();
        for (name, batches) in sides.tables() {
            let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()]).unwrap();
            context.register_table(name, Arc::new(table)).unwrap();
        }
        for query in queries(16_000, &sides) {
            let frame = runtime.block_on(context.sql(&query.sql)).unwrap();
            let rows = runtime.block_on(frame.collect()).unwrap();
            let answer = Answer::from_batches(&rows).unwrap();
            let ours = expected(&(query.ours)().unwrap()).unwrap();
            assert_eq!(ours.difference(&answer, &[]), None, "{}", query.sql);
        }
    }

    #[test]
    fn a_rival_that_is_not_there_is_unavailable() {
        let options = DuckDbOptions {
            python: "/nowhere/python3".into(),
            directory: std::env::temp_dir(),
        };
        let sides = Sides::new(16, 10).unwrap();
        let found = rounds(&options, (16, &sides), 1, |_| ()).unwrap();
        assert!(
            found.reason().unwrap().contains("/nowhere/python3"),
            "{found:?}"
        );
    }
}
