//! Nearfar within this process: transactions are functions in Rust over a session of the engine, whose
//! statements are read once and then run as they were compiled.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_table::error::IndexError;
use nearfar_table::transaction::TransactionError;
use rust_decimal::Decimal;

use super::connection::{Connection, Database, Parts};
use super::error::Failure;
use super::schema::Table;
use super::statement::Statement;
use super::value::{Row, Value};

/// An engine.
#[derive(Clone)]
pub struct EngineDatabase(pub Arc<Engine>);

/// A session.
pub struct EngineConnection {
    session: Session,
    read: BTreeMap<Statement, nearfar_sql::sql::Statement>,
    control: [nearfar_sql::sql::Statement; 3],
}

impl Database for EngineDatabase {
    type Connection = EngineConnection;

    async fn connect(&self) -> Result<EngineConnection, Failure> {
        let session = self.0.session();
        let control = ["BEGIN", "COMMIT", "ROLLBACK"].map(|text| one_of(&session, text));
        let [begin, commit, roll_back] = control;
        Ok(EngineConnection {
            session,
            read: BTreeMap::new(),
            control: [begin?, commit?, roll_back?],
        })
    }

    async fn run(&self, sql: &str) -> Result<(), Failure> {
        self.0.session().execute(sql).await?;
        Ok(())
    }

    async fn query(&self, sql: &str) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for result in self.0.session().execute(sql).await? {
            rows.extend(rows_of(result).await?);
        }
        Ok(rows)
    }

    async fn fill(&self, table: Table, parts: Parts) -> Result<(), Failure> {
        let session = self.0.session();
        let copy = one_of(&session, &format!("COPY {} FROM STDIN", table.name()))?;
        let schema = session.copied_columns(&copy).await?;
        let batches = parts.filter(|part| !part.is_empty()).map(move |part| {
            let columns = schema.fields().iter().enumerate().map(|(column, field)| {
                let values = part.iter().map(|row| &row[column]);
                column_of(values, field.data_type())
            });
            let columns = columns.collect::<Result<Vec<_>, EngineError>>()?;
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        });
        let batches = futures::stream::iter(batches).boxed();
        session.copy_in(&Arc::default(), &copy, batches).await?;
        Ok(())
    }
}

/// Values of a column as an array of its type.
fn column_of<'a>(
    values: impl Iterator<Item = &'a Value> + Clone,
    kind: &DataType,
) -> Result<ArrayRef, EngineError> {
    let known = values.clone().find(|value| **value != Value::Null);
    let given = known.map_or_else(|| kind.clone(), |value| scalar(value).data_type());
    let null = ScalarValue::try_from(&given)?;
    let values = values.map(|value| match value {
        Value::Null => null.clone(),
        value => scalar(value),
    });
    let values = ScalarValue::iter_to_array(values)?;
    Ok(arrow::compute::cast(&values, kind)?)
}

fn one_of(session: &Session, text: &str) -> Result<nearfar_sql::sql::Statement, Failure> {
    let mut statements = session.read(text)?;
    statements
        .pop()
        .ok_or_else(|| Failure::unexpected("a statement", None))
}

impl EngineConnection {
    async fn run(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> Result<StatementResult, Failure> {
        if !self.read.contains_key(&statement) {
            let read = one_of(&self.session, statement.text())?;
            self.read.insert(statement, read);
        }
        let values: Vec<ScalarValue> = parameters.iter().map(scalar).collect();
        run(&self.session, &self.read[&statement], &values).await
    }
}

/// Runs a statement, without a wait where it needs none.
async fn run(
    session: &Session,
    statement: &nearfar_sql::sql::Statement,
    values: &[ScalarValue],
) -> Result<StatementResult, Failure> {
    match session.run_immediately(statement, values)?.wait()? {
        Some(result) => Ok(result),
        None => Ok(session.run_with(statement, values).await?),
    }
}

impl Connection for EngineConnection {
    async fn begin(&mut self) -> Result<(), Failure> {
        run(&self.session, &self.control[0], &[]).await.map(drop)
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        run(&self.session, &self.control[1], &[]).await.map(drop)
    }

    async fn roll_back(&mut self) -> Result<(), Failure> {
        run(&self.session, &self.control[2], &[]).await.map(drop)
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        let statement = one_of(&self.session, sql)?;
        rows_of(self.session.run_with(&statement, &[]).await?).await
    }

    async fn rows(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> Result<Vec<Row>, Failure> {
        rows_of(self.run(statement, parameters).await?).await
    }

    async fn change(&mut self, statement: Statement, parameters: &[Value]) -> Result<u64, Failure> {
        match self.run(statement, parameters).await? {
            StatementResult::Command(tag) => Ok(tag.rows.unwrap_or_default()),
            StatementResult::Rows(_) => Err(Failure::unexpected("a count", None)),
        }
    }
}

/// A value as a parameter. Numbers have the precision of the columns that they go to.
fn scalar(value: &Value) -> ScalarValue {
    match value {
        Value::Null => ScalarValue::Null,
        Value::Int(value) => ScalarValue::Int32(Some(*value)),
        Value::Long(value) => ScalarValue::Int64(Some(*value)),
        Value::Number(value) => {
            let precision = if value.scale() > 2 { 4 } else { 12 };
            let scale = value.scale() as i8;
            ScalarValue::Decimal128(Some(value.mantissa()), precision, scale)
        }
        Value::Text(value) => ScalarValue::Utf8(Some(value.clone())),
        Value::Time(us) => ScalarValue::TimestampMicrosecond(Some(*us), None),
    }
}

async fn rows_of(result: StatementResult) -> Result<Vec<Row>, Failure> {
    let StatementResult::Rows(rows) = result else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for batch in rows.collect().await? {
        for at in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| {
                let scalar = ScalarValue::try_from_array(column, at);
                value(scalar.map_err(EngineError::from)?)
            });
            found.push(Row(values.collect::<Result<_, Failure>>()?));
        }
    }
    Ok(found)
}

fn value(scalar: ScalarValue) -> Result<Value, Failure> {
    Ok(match scalar {
        scalar if scalar.is_null() => Value::Null,
        ScalarValue::Int32(Some(value)) => Value::Int(value),
        ScalarValue::Int64(Some(value)) => Value::Long(value),
        ScalarValue::Decimal128(Some(value), _, scale) => {
            let number = Decimal::try_from_i128_with_scale(value, u32::from(scale.unsigned_abs()));
            Value::Number(number.map_err(|error| Failure::Answer {
                expected: "a NUMERIC of at most 28 digits",
                found: error.to_string(),
            })?)
        }
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)) => Value::Text(text),
        ScalarValue::Dictionary(_, inner) => value(*inner)?,
        ScalarValue::TimestampMicrosecond(Some(us), _) => Value::Time(us),
        ScalarValue::TimestampNanosecond(Some(ns), _) => Value::Time(ns / 1000),
        other => {
            return Err(Failure::Answer {
                expected: "a value of TPC-C",
                found: format!("{other:?}"),
            });
        }
    })
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        let code = match &error {
            EngineError::Transaction(error) => code_of(error),
            EngineError::Index(IndexError::Duplicate { .. }) => "23505",
            other => transaction_error(other).map_or("XX000", code_of),
        };
        Self::Refused {
            code: code.to_owned(),
            message,
        }
    }
}

/// What others were in the way of, below an error of an operator.
fn transaction_error(error: &EngineError) -> Option<&TransactionError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(EngineError::Transaction(found)) = error.downcast_ref() {
            return Some(found);
        }
        if let Some(found) = error.downcast_ref::<TransactionError>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn code_of(error: &TransactionError) -> &'static str {
    match error {
        TransactionError::Conflict { .. } | TransactionError::TruncateConflict { .. } => "40001",
        TransactionError::Deadlock => "40P01",
        TransactionError::LockTimeout { .. } => "55P03",
        _ => "25000",
    }
}
