//! The extended protocol: statements that are prepared, given values, and run in portions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::{Charge, Described, KnownDefinitions, PREPARED_MAX, TransactionState};
use nearfar_sql::sql::Statement;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use tokio::time::Instant;

use super::connection::Connection;
use super::failure::{Failure, state};
use super::interrupt::Ended;
use super::rows::Columns;
use super::session::already_prepared;
use super::settings::Command;
use super::statement::{BINARY, Kind, Outcome, Output, Read, TEXT};
use super::values::{Parameter, sql_type};
use crate::wire::{Bind, Parse, Target};

/// Statements that are prepared by messages, and portals, that a connection may have.
const NAMES_MAX: usize = PREPARED_MAX;

/// Bytes of values at most that the portal without a name keeps as part of its connection, which has one such portal.
const OWN_VALUES_BYTES: usize = 4 << 10;

/// A prepared statement.
#[derive(Debug, Default)]
pub struct Prepared {
    /// None for a text without a statement.
    read: Option<Read>,
    parameters: Vec<Parameter>,
    /// The columns of its rows, if it gives rows.
    columns: Option<Told>,
    /// What all of this was found out from, if it is known whole.
    definitions: Option<KnownDefinitions>,
}

/// A text that was prepared, with the types that the client gave its parameters.
#[derive(Debug, Clone)]
pub struct Parsed {
    types: Arc<[u32]>,
    prepared: Arc<Prepared>,
}

/// The columns of a statement's rows.
#[derive(Debug)]
struct Told {
    schema: SchemaRef,
    /// As the client is told of them where it wants texts.
    as_texts: Columns,
    /// The same where it wants the other form of all of them, once it has.
    as_binary: OnceLock<Columns>,
}

impl Told {
    /// # Errors
    /// A type that can't be sent.
    fn new(schema: SchemaRef) -> Result<Self, Failure> {
        let as_texts = Columns::new(&schema, &[])?;
        Ok(Self {
            schema,
            as_texts,
            as_binary: OnceLock::new(),
        })
    }

    /// The columns in the form of `formats`.
    ///
    /// # Errors
    /// Formats for other columns.
    fn columns(&self, formats: &[i16]) -> Result<Columns, Failure> {
        match formats {
            [] | [TEXT] => Ok(self.as_texts.clone()),
            [BINARY] => match self.as_binary.get() {
                Some(columns) => Ok(columns.clone()),
                None => {
                    let columns = Columns::new(&self.schema, formats)?;
                    Ok(self.as_binary.get_or_init(|| columns).clone())
                }
            },
            _ => Columns::new(&self.schema, formats),
        }
    }
}

impl Prepared {
    /// The statement, if there is one, and its parameters.
    pub(super) fn into_parts(self) -> (Option<Read>, Vec<Parameter>) {
        (self.read, self.parameters)
    }
}

/// A prepared statement with its values.
pub struct Portal {
    prepared: Arc<Prepared>,
    values: Vec<ScalarValue>,
    formats: Vec<i16>,
    progress: Progress,
    /// The memory that the values take while the portal is kept, where it is counted.
    _charge: Option<Charge>,
}

enum Progress {
    New,
    /// Rows are left.
    Suspended(Box<Output>),
    /// Everything was sent.
    Finished,
}

impl Connection {
    /// Prepares a statement.
    pub async fn parse(&mut self, parse: Parse) -> Result<(), Ended> {
        let is_taken =
            self.prepared.contains_key(&parse.name) || self.session.has_prepared(&parse.name);
        if !parse.name.is_empty() && is_taken {
            return Err(already_prepared(&parse.name).into());
        }
        if self.prepared.len() >= NAMES_MAX {
            let message = "too many prepared statements: close some";
            return Err(Failure::new(state::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
        let prepared = match self.parsed_before(&parse) {
            Some(prepared) => prepared,
            None => self.prepare(&parse).await?,
        };
        self.prepared.insert(parse.name, prepared);
        let complete = PgWireBackendMessage::ParseComplete(ParseComplete::new());
        Ok(self.writer.add(&complete)?)
    }

    /// What was prepared of the same text not long ago, where that would be the same again.
    fn parsed_before(&mut self, parse: &Parse) -> Option<Arc<Prepared>> {
        let parsed = self.parsed.get(&parse.sql)?;
        let definitions = parsed.prepared.definitions.as_ref()?;
        let is_same = *parsed.types == parse.types[..]
            && self.session.transaction_state() != TransactionState::Failed
            && self.session.has_definitions(definitions);
        is_same.then_some(parsed.prepared)
    }

    /// Reads and describes a statement, and keeps it for when its text comes again.
    async fn prepare(&mut self, parse: &Parse) -> Result<Arc<Prepared>, Ended> {
        let deadline = self.deadline();
        let mut statements = self.read(parse.sql.clone(), deadline).await?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::new(state::SYNTAX_ERROR, message).into());
        }
        let Some(read) = statements.pop() else {
            return Ok(Arc::default());
        };
        let text = Arc::clone(&read.text);
        let is_query = matches!(&read.kind, Kind::Store(statement) if statement.is_query());
        let prepared = self
            .describe_statement(read, &parse.types, deadline)
            .await?;
        let prepared = Arc::new(prepared);
        if prepared.definitions.is_some() {
            let types = parse.types.as_slice().into();
            let prepared = Arc::clone(&prepared);
            self.parsed
                .keep(&text, is_query, Parsed { types, prepared });
        }
        Ok(prepared)
    }

    /// What a statement that was read is like, whose parameters the client says to have `types`.
    pub(super) async fn describe_statement(
        &mut self,
        mut read: Read,
        types: &[u32],
        deadline: Option<Instant>,
    ) -> Result<Prepared, Ended> {
        let described = match &read.kind {
            Kind::Setting(Command::Show { name }) => {
                use arrow::datatypes::{Field, Schema};
                let field = Field::new(name, DataType::Utf8, true);
                Described {
                    columns: Some(Arc::new(Schema::new(vec![field]))),
                    ..Described::default()
                }
            }
            Kind::Setting(_) => Described::default(),
            Kind::Store(statement) => {
                let statement = Arc::clone(statement);
                let (described, statement) = self
                    .describe_store(statement, (&read.text, types), deadline)
                    .await?;
                read.kind = Kind::Store(statement);
                described
            }
        };
        Ok(Prepared {
            read: Some(read),
            parameters: Parameter::all(types, &described.parameters),
            // What can't be sent is an error now, not when rows come.
            columns: described.columns.map(Told::new).transpose()?,
            definitions: described.definitions,
        })
    }

    /// What a statement of the store is like, and the statement with the types of parameters that can't
    /// be known from it.
    async fn describe_store(
        &mut self,
        statement: Arc<Statement>,
        (text, types): (&str, &[u32]),
        deadline: Option<Instant>,
    ) -> Result<(Described, Arc<Statement>), Ended> {
        let failure = match self.describe_as(&statement, (text, types), deadline).await {
            Ok(described) => {
                return self
                    .with_texts(described, statement, (text, types), deadline)
                    .await;
            }
            // Another way would take as long.
            Err(Ended::Failed(failure)) if failure.code == state::QUERY_CANCELED => {
                return Err(failure.into());
            }
            Err(Ended::Failed(failure)) if !failure.is_fatal => failure,
            Err(ended) => return Err(ended),
        };
        let given = |number: usize| types.get(number - 1).copied().filter(|id| *id != 0);
        let has_unknown = AtomicBool::new(false);
        let cast = statement.with_parameter_types(|number| {
            let id = (number > 0).then(|| given(number)).flatten();
            has_unknown.fetch_or(id.is_none(), Ordering::Relaxed);
            Some(sql_type(id))
        });
        let Some(cast) = cast.map(Arc::new) else {
            return Err(failure.into());
        };
        match self.describe_as(&cast, (text, types), deadline).await {
            Ok(described) => Ok((described, cast)),
            // What is wrong whatever the types are.
            Err(Ended::Failed(again))
                if again.code == failure.code && is_of_names(failure.code) =>
            {
                Err(failure.into())
            }
            Err(Ended::Failed(again)) if again.code == state::QUERY_CANCELED => Err(again.into()),
            Err(Ended::Failed(_)) if has_unknown.into_inner() => {
                Err(indeterminate(&failure).into())
            }
            Err(ended) => Err(ended),
        }
    }

    /// The same with those parameters as texts, or as what the client says, of which the statement
    /// does not tell what they are.
    async fn with_texts(
        &mut self,
        described: Described,
        statement: Arc<Statement>,
        (text, types): (&str, &[u32]),
        deadline: Option<Instant>,
    ) -> Result<(Described, Arc<Statement>), Ended> {
        let cast = statement.with_parameter_types(|number| {
            let at = number.checked_sub(1)?;
            let known = described.parameters.get(at)?.as_ref();
            let is_known = known.is_some_and(|kind| *kind != DataType::Null);
            let given = types.get(at).copied().filter(|id| *id != 0);
            (!is_known).then(|| sql_type(given))
        });
        let Some(cast) = cast.map(Arc::new) else {
            return Ok((described, statement));
        };
        // The types were found out with the definitions of before.
        let definitions = described.definitions;
        match self.describe_as(&cast, (text, types), deadline).await {
            Ok(described) => Ok((
                Described {
                    definitions,
                    ..described
                },
                cast,
            )),
            Err(Ended::Failed(failure)) if failure.code == state::QUERY_CANCELED => {
                Err(failure.into())
            }
            Err(Ended::Failed(failure)) if !failure.is_fatal => Err(indeterminate(&failure).into()),
            Err(ended) => Err(ended),
        }
    }

    async fn describe_as(
        &mut self,
        statement: &Arc<Statement>,
        (text, types): (&str, &[u32]),
        deadline: Option<Instant>,
    ) -> Result<Described, Ended> {
        let (session, statement) = (self.session.clone(), Arc::clone(statement));
        let work = Box::pin(async move { session.describe(&statement).await });
        let mut described = self.on_workers(text, deadline, work).await?;
        let casts = std::mem::take(&mut described.casts);
        for (at, cast) in casts.into_iter().enumerate() {
            let wanted = &mut described.parameters[at];
            let is_given = types.get(at).is_some_and(|id| *id != 0);
            if !is_given && wanted.as_ref().is_none_or(DataType::is_null) {
                *wanted = cast;
            }
        }
        Ok(described)
    }

    /// Gives a prepared statement its values.
    pub fn bind(&mut self, bind: Bind) -> Result<(), Ended> {
        let prepared = self.find_statement(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("portal \"{}\" already exists", bind.portal);
            return Err(Failure::new(state::DUPLICATE_PORTAL, message).into());
        }
        if self.portals.len() >= NAMES_MAX {
            let message = "too many portals: close some";
            return Err(Failure::new(state::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
        let (given, wanted) = (bind.values.len(), prepared.parameters.len());
        if given != wanted {
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
                bind.statement
            );
            return Err(Failure::new(state::PROTOCOL_VIOLATION, message).into());
        }
        let formats = &bind.value_formats;
        if formats.len() > 1 && formats.len() != given {
            let message = format!("{} formats are given for {given} parameters", formats.len());
            return Err(Failure::new(state::PROTOCOL_VIOLATION, message).into());
        }
        let is_text = |at: usize| match formats[..] {
            [] => true,
            [all] => all == 0,
            _ => formats[at] == 0,
        };
        let charge = self.charge_values(&bind)?;
        let values = bind.values.iter().zip(&prepared.parameters).enumerate();
        let values =
            values.map(|(at, (value, parameter))| parameter.read(value.as_ref(), is_text(at)));
        let portal = Portal {
            values: values.collect::<Result<_, _>>()?,
            prepared,
            formats: bind.column_formats,
            progress: Progress::New,
            _charge: charge,
        };
        self.portals.insert(bind.portal, portal);
        let complete = PgWireBackendMessage::BindComplete(BindComplete::new());
        Ok(self.writer.add(&complete)?)
    }

    /// Takes what the values of a portal need, before they are read.
    fn charge_values(&self, bind: &Bind) -> Result<Option<Charge>, Failure> {
        let bytes = bind.values.iter().flatten().map(Bytes::len).sum::<usize>();
        let bytes = bytes + bind.values.len() * size_of::<ScalarValue>();
        if bind.portal.is_empty() && bytes <= OWN_VALUES_BYTES {
            return Ok(None);
        }
        let charge = self.session.charge("the values of a portal", bytes as u64);
        charge.map(Some).map_err(|error| Failure::of(&error, ""))
    }

    /// Tells what a statement or portal is like.
    pub fn describe(&mut self, target: &Target) -> Result<(), Ended> {
        let columns = match target {
            Target::Statement(name) => {
                let prepared = self.find_statement(name)?;
                let types = prepared
                    .parameters
                    .iter()
                    .map(|one| one.kind.oid())
                    .collect();
                let parameters = ParameterDescription::new(types);
                self.writer
                    .add(&PgWireBackendMessage::ParameterDescription(parameters))?;
                let told = prepared.columns.as_ref();
                told.map(|told| told.as_texts.clone())
            }
            Target::Portal(name) => {
                match (self.portals.get(name), self.session.cursor_columns(name)) {
                    (Some(portal), _) => portal.columns()?,
                    // Cursors of SQL are portals too.
                    (None, Some(schema)) => Some(Columns::new(&schema, &[])?),
                    (None, None) => return Err(unknown_portal(name).into()),
                }
            }
        };
        match columns {
            Some(columns) => self.writer.add_encoded(columns.described()?),
            None => {
                let message = PgWireBackendMessage::NoData(NoData::new());
                self.writer.add(&message)?;
            }
        }
        Ok(())
    }

    /// Runs a portal, or sends its next rows.
    pub async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Ended> {
        // Taken out while it runs: one that fails is gone.
        let Some(mut portal) = self.portals.remove(name) else {
            return Err(unknown_portal(name).into());
        };
        self.advance(&mut portal, rows_max).await?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    async fn advance(&mut self, portal: &mut Portal, rows_max: usize) -> Result<(), Ended> {
        let deadline = self.deadline();
        let progress = std::mem::replace(&mut portal.progress, Progress::Finished);
        let mut output = match (progress, portal.prepared.read.clone()) {
            (Progress::Suspended(output), _) => *output,
            (Progress::Finished, _) => {
                let done = CommandComplete::new("SELECT 0".to_owned());
                return Ok(self
                    .writer
                    .add(&PgWireBackendMessage::CommandComplete(done))?);
            }
            (Progress::New, None) => {
                let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
                return Ok(self.writer.add(&empty)?);
            }
            (Progress::New, Some(read)) => {
                let values = std::mem::take(&mut portal.values);
                match self.run(&read, values, &portal.formats, deadline).await? {
                    Outcome::Done(tag) => {
                        let state = self.session.transaction_state();
                        self.is_unconfirmed |= state == TransactionState::Idle;
                        return self.complete(&tag);
                    }
                    Outcome::Batch(batch) => {
                        let columns = portal.columns_of(batch.schema())?;
                        if rows_max == 0 {
                            return self.add_batch(&columns, &batch);
                        }
                        batch.into_output(columns)?
                    }
                    Outcome::Rows(output) => {
                        portal.check(&output.columns)?;
                        if output.is_copy() {
                            self.add_all(&output.begin())?;
                        }
                        output
                    }
                }
            }
        };
        let rows_max = if output.is_copy() { 0 } else { rows_max };
        let sending = Box::pin(self.send_rows(&mut output, rows_max, deadline));
        let (count, is_done) = sending.await?;
        if is_done {
            return self.end_rows(&output, count);
        }
        portal.progress = Progress::Suspended(Box::new(output));
        let suspended = PgWireBackendMessage::PortalSuspended(PortalSuspended::new());
        Ok(self.writer.add(&suspended)?)
    }

    /// Forgets a statement, or a portal and the query that it may run.
    pub fn close(&mut self, target: &Target) -> Result<(), Ended> {
        match target {
            Target::Statement(name) => drop(self.prepared.remove(name)),
            Target::Portal(name) => {
                if self.portals.remove(name).is_none() {
                    self.session.close_cursor(name);
                }
            }
        }
        let complete = PgWireBackendMessage::CloseComplete(CloseComplete::new());
        Ok(self.writer.add(&complete)?)
    }

    /// Ends a series of messages. Portals end with their transaction.
    pub fn end_series(&mut self) {
        if self.session.transaction_state() != TransactionState::Open {
            self.portals.clear();
        }
    }

    fn find_statement(&self, name: &str) -> Result<Arc<Prepared>, Failure> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            Failure::new(state::UNKNOWN_STATEMENT, message)
        })
    }
}

impl Portal {
    fn columns(&self) -> Result<Option<Columns>, Failure> {
        let told = self.prepared.columns.as_ref();
        told.map(|told| told.columns(&self.formats)).transpose()
    }

    /// The columns of rows that have this schema.
    fn columns_of(&self, schema: &Schema) -> Result<Columns, Failure> {
        match &self.prepared.columns {
            Some(told) if told.schema.fields() == schema.fields() => told.columns(&self.formats),
            _ => {
                let columns = Columns::new(schema, &self.formats)?;
                self.check(&columns)?;
                Ok(columns)
            }
        }
    }

    /// Makes sure that rows are what the client was told they are.
    fn check(&self, columns: &Columns) -> Result<(), Failure> {
        match self.columns()? {
            Some(told) if !told.are_like(columns) => {
                let message =
                    "cached plan must not change result type: prepare the statement again";
                Err(Failure::new(state::FEATURE_NOT_SUPPORTED, message))
            }
            _ => Ok(()),
        }
    }
}

/// A statement that is wrong with texts where nothing tells what parameters are.
fn indeterminate(failure: &Failure) -> Failure {
    let why = &failure.message;
    let message = format!("could not determine data type of a parameter ({why})");
    Failure {
        hint: Some("write its type, as in CAST($1 AS BIGINT)".to_owned()),
        ..Failure::new(state::INDETERMINATE_DATATYPE, message)
    }
}

/// Whether an error is about a name and not about types.
fn is_of_names(code: &str) -> bool {
    [
        state::UNDEFINED_TABLE,
        state::UNDEFINED_COLUMN,
        state::UNDEFINED_SCHEMA,
        state::AMBIGUOUS_COLUMN,
        state::FAILED_TRANSACTION,
    ]
    .contains(&code)
}

fn unknown_portal(name: &str) -> Failure {
    Failure::new(
        state::UNKNOWN_PORTAL,
        format!("portal \"{name}\" does not exist"),
    )
}
