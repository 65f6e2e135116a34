//! A database that is reached over PostgreSQL's protocol, with prepared statements.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::temporal_conversions::timestamp_us_to_datetime;
use bytes::{Bytes, BytesMut};
use futures::SinkExt;
use rust_decimal::Decimal;
use tokio_postgres::types::{IsNull, ToSql, Type};
use tokio_postgres::{Client, NoTls};

use super::connection::{Connection, Database, Parts};
use super::error::Failure;
use super::schema::Table;
use super::statement::Statement;
use super::value::{Row, Value};

/// A server.
#[derive(Debug, Clone)]
pub struct WireDatabase {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name of the database.
    pub name: &'static str,
}

/// A connection to a server.
pub struct WireConnection {
    client: Client,
    prepared: BTreeMap<Statement, tokio_postgres::Statement>,
}

impl WireDatabase {
    async fn client(&self) -> Result<Client, Failure> {
        let mut config = tokio_postgres::Config::new();
        config.host(self.address.ip().to_string());
        config.port(self.address.port());
        config.user("nearfar").dbname(self.name);
        let (client, connection) = config.connect(NoTls).await?;
        // How it ends is told by the client.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

impl Database for WireDatabase {
    type Connection = WireConnection;

    async fn connect(&self) -> Result<WireConnection, Failure> {
        Ok(WireConnection {
            client: self.client().await?,
            prepared: BTreeMap::new(),
        })
    }

    async fn run(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.client().await?.batch_execute(sql).await?)
    }

    async fn query(&self, sql: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.client().await?.query(sql, &[]).await?;
        rows.iter().map(row_of).collect()
    }

    async fn fill(&self, table: Table, parts: Parts) -> Result<(), Failure> {
        let client = self.client().await?;
        let copy = format!("COPY {} FROM STDIN", table.name());
        let sink = client.copy_in(&copy).await?;
        futures::pin_mut!(sink);
        for part in parts {
            sink.send(Bytes::from(copied(&part))).await?;
        }
        sink.finish().await?;
        Ok(())
    }
}

/// Rows in the text format of `COPY`. No text of TPC-C has a character that is escaped in it.
fn copied(rows: &[Vec<Value>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (at, value) in row.iter().enumerate() {
            if at > 0 {
                text.push('\t');
            }
            // Writing to a `String` does not fail.
            let _ = match value {
                Value::Null => write!(text, "\\N"),
                Value::Int(value) => write!(text, "{value}"),
                Value::Long(value) => write!(text, "{value}"),
                Value::Number(value) => write!(text, "{value}"),
                Value::Text(value) => write!(text, "{value}"),
                Value::Time(us) => match timestamp_us_to_datetime(*us) {
                    Some(time) => write!(text, "{time}"),
                    None => write!(text, "\\N"),
                },
            };
        }
        text.push('\n');
    }
    text
}

impl WireConnection {
    /// The statement, prepared for parameters like these.
    async fn prepared(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> Result<tokio_postgres::Statement, Failure> {
        if let Some(prepared) = self.prepared.get(&statement) {
            return Ok(prepared.clone());
        }
        let types: Vec<Type> = parameters.iter().map(type_of).collect();
        let prepared = self.client.prepare_typed(statement.text(), &types).await?;
        self.prepared.insert(statement, prepared.clone());
        Ok(prepared)
    }
}

impl Connection for WireConnection {
    async fn begin(&mut self) -> Result<(), Failure> {
        Ok(self.client.batch_execute("BEGIN").await?)
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        Ok(self.client.batch_execute("COMMIT").await?)
    }

    async fn roll_back(&mut self) -> Result<(), Failure> {
        Ok(self.client.batch_execute("ROLLBACK").await?)
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.client.query(sql, &[]).await?;
        rows.iter().map(row_of).collect()
    }

    async fn rows(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> Result<Vec<Row>, Failure> {
        let prepared = self.prepared(statement, parameters).await?;
        let given: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|value| value as _).collect();
        let rows = self.client.query(&prepared, &given).await?;
        rows.iter().map(row_of).collect()
    }

    async fn change(&mut self, statement: Statement, parameters: &[Value]) -> Result<u64, Failure> {
        let prepared = self.prepared(statement, parameters).await?;
        let given: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|value| value as _).collect();
        Ok(self.client.execute(&prepared, &given).await?)
    }
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Int(_) => Type::INT4,
        Value::Long(_) => Type::INT8,
        Value::Number(_) => Type::NUMERIC,
        Value::Time(_) => Type::TIMESTAMP,
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql(kind, out),
            Self::Long(value) => value.to_sql(kind, out),
            Self::Number(value) => value.to_sql(kind, out),
            Self::Text(value) => value.to_sql(kind, out),
            Self::Time(us) => {
                let since = Duration::from_micros(us.unsigned_abs());
                (UNIX_EPOCH + since).to_sql(kind, out)
            }
        }
    }

    fn accepts(kind: &Type) -> bool {
        let known = [Type::TEXT, Type::VARCHAR, Type::INT4, Type::INT8];
        known.contains(kind) || [Type::NUMERIC, Type::TIMESTAMP].contains(kind)
    }

    tokio_postgres::types::to_sql_checked!();
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, Failure> {
    let value = |at: usize| -> Result<Value, Failure> {
        let found = match *row.columns()[at].type_() {
            Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(Value::Int),
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(Value::Long),
            Type::NUMERIC => row.try_get::<_, Option<Decimal>>(at)?.map(Value::Number),
            Type::TIMESTAMP => row
                .try_get::<_, Option<SystemTime>>(at)?
                .map(|time| Value::Time(us_of(time))),
            _ => row.try_get::<_, Option<String>>(at)?.map(Value::Text),
        };
        Ok(found.unwrap_or(Value::Null))
    };
    (0..row.len()).map(value).collect::<Result<_, _>>().map(Row)
}

/// Microseconds since 1970 of a time after that.
pub fn us_of(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => Self::Refused {
                code: refused.code().code().to_owned(),
                message: refused.message().to_owned(),
            },
            None => {
                let source = error.source().map(|source| format!(": {source}"));
                Self::Lost(format!("{error}{}", source.unwrap_or_default()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_as_text() {
        let row = vec![
            Value::Int(-1),
            Value::Null,
            Value::Number(Decimal::new(1230, 2)),
            Value::Text("a b".to_owned()),
            Value::Time(1_000_001),
        ];
        assert_eq!(
            copied(&[row]),
            "-1\t\\N\t12.30\ta b\t1970-01-01 00:00:01.000001\n"
        );
    }
}
