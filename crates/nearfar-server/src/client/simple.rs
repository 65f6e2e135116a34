//! The simple protocol: scripts of statements, answered one after another.

use std::sync::Arc;

use bytes::Bytes;
use nearfar_sql::engine::TransactionState;
use nearfar_sql::sql::Statement;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;
use tokio::time::Instant;

use super::connection::Connection;
use super::failure::state;
use super::interrupt::Ended;
use super::rows::Columns;
use super::shape::Shape;
use super::statement::{Kind, Outcome, Read};
use super::values::Parameter;

/// What is known of the texts of a shape.
#[derive(Debug, Clone)]
pub enum Known {
    /// There was one.
    Seen,
    /// Each is read and planned by itself.
    Refused,
    /// They are one statement, which is not planned again.
    Compiled(Arc<Compiled>),
}

/// A statement that is not planned again, and its parameters.
#[derive(Debug)]
pub struct Compiled {
    statement: Arc<Statement>,
    parameters: Vec<Parameter>,
}

impl Connection {
    /// Runs a script up to its first error.
    pub async fn simple(&mut self, sql: String) -> Result<(), Ended> {
        // As in PostgreSQL, a script replaces the nameless statement and portal.
        self.prepared.remove("");
        self.portals.remove("");
        // What reading takes is part of the first statement.
        let mut deadline = self.deadline();
        let statements = match self.recent.get(&sql) {
            Some(known) => vec![known],
            None => {
                if let Some(outcome) = self.run_of_shape(&sql, deadline).await? {
                    return self.answer_with(outcome, deadline).await;
                }
                let statements = self.read(sql, deadline).await?;
                if let [one] = &statements[..]
                    && let Kind::Store(statement) = &one.kind
                {
                    self.recent
                        .keep(&one.text, statement.is_query(), one.clone());
                }
                statements
            }
        };
        if statements.is_empty() {
            let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
            self.writer.add(&empty)?;
        }
        for (index, statement) in statements.into_iter().enumerate() {
            if index > 0 {
                deadline = self.deadline();
            }
            let outcome = self.run(&statement, Vec::new(), &[], deadline).await?;
            self.answer_with(outcome, deadline).await?;
        }
        Ok(())
    }

    async fn answer_with(
        &mut self,
        outcome: Outcome,
        deadline: Option<Instant>,
    ) -> Result<(), Ended> {
        match outcome {
            Outcome::Done(tag) => self.complete(&tag),
            Outcome::Batch(batch) => {
                let columns = Columns::new(batch.schema(), &[])?;
                self.writer.add(&columns.description())?;
                self.add_batch(&columns, &batch)
            }
            Outcome::Rows(mut output) => {
                self.add_all(&output.begin())?;
                let sending = Box::pin(self.send_rows(&mut output, 0, deadline));
                let (count, _) = sending.await?;
                self.end_rows(&output, count)
            }
        }
    }

    /// Runs a text that differs from one before in its integers only, if such texts are not planned again.
    /// None for all others, of which nothing is done.
    async fn run_of_shape(
        &mut self,
        sql: &str,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome>, Ended> {
        let Some(shape) = Shape::of(sql) else {
            return Ok(None);
        };
        let known = match self.shapes.get(&shape.text) {
            // A text alone is not worth it.
            None => Known::Seen,
            Some(Known::Seen) => self.compile(&shape, deadline).await?,
            Some(known) => known,
        };
        let Known::Compiled(compiled) = &known else {
            self.shapes.keep(&shape.text.into(), false, known);
            return Ok(None);
        };
        let given = compiled.parameters.iter().zip(&shape.values);
        let values = given.map(|(parameter, digits)| parameter.read(Some(digits), true));
        // One that does not fit is judged where its text is read.
        let values = values.collect::<Result<Vec<_>, _>>().ok();
        let read = Read {
            kind: Kind::Store(Arc::clone(&compiled.statement)),
            text: sql.into(),
        };
        self.shapes.keep(&shape.text.into(), false, known);
        match values {
            Some(values) => self.run(&read, values, &[], deadline).await.map(Some),
            None => Ok(None),
        }
    }

    /// What is known of a shape of which there was a text before.
    async fn compile(&mut self, shape: &Shape, deadline: Option<Instant>) -> Result<Known, Ended> {
        if self.session.transaction_state() == TransactionState::Failed {
            return Ok(Known::Seen);
        }
        match self.compiled_shape(shape, deadline).await {
            Ok(compiled) => Ok(compiled.map_or(Known::Refused, Known::Compiled)),
            // What is wrong with its texts is said of each.
            Err(Ended::Failed(failure))
                if !failure.is_fatal && failure.code != state::QUERY_CANCELED =>
            {
                Ok(Known::Refused)
            }
            Err(ended) => Err(ended),
        }
    }

    async fn compiled_shape(
        &mut self,
        shape: &Shape,
        deadline: Option<Instant>,
    ) -> Result<Option<Arc<Compiled>>, Ended> {
        let mut read = self.read(shape.text.clone(), deadline).await?;
        let Some(read) = read.pop().filter(|_| read.is_empty()) else {
            return Ok(None);
        };
        let prepared = self.describe_statement(read, &[], deadline).await?;
        let (Some(read), parameters) = prepared.into_parts() else {
            return Ok(None);
        };
        let Kind::Store(statement) = read.kind else {
            return Ok(None);
        };
        let is_whole = parameters.len() == shape.values.len();
        if !is_whole || !parameters.iter().all(Parameter::takes_integers) {
            return Ok(None);
        }
        let given = parameters.iter().zip(&shape.values);
        let values =
            given.map(|(parameter, digits): (_, &Bytes)| parameter.read(Some(digits), true));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let (session, compiled) = (self.session.clone(), Arc::clone(&statement));
        let work = Box::pin(async move { session.compile(&compiled, &values).await });
        let is_compiled = self.on_workers(&read.text, deadline, work).await?;
        Ok(is_compiled.then(|| {
            Arc::new(Compiled {
                statement,
                parameters,
            })
        }))
    }
}
