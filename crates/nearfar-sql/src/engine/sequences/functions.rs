//! `nextval`, `currval`, `lastval`, `setval` and `pg_get_serial_sequence`.

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use super::super::Engine;
use super::super::catalog::{PUBLIC, SessionTables, TEMPORARY};
use super::{NamedSequence, find, sequence_of};
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::SqlError;
use nearfar_table::sequence::SequenceValue;

/// The numbers that a session was given last.
#[derive(Debug, Default)]
pub struct SessionSequences {
    /// By the addresses of sequences, which are kept so that no other gets one.
    values: HashMap<usize, (NamedSequence, i64)>,
    last: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verb {
    Next,
    Current,
    Last,
    Set,
    OfColumn,
}

/// A function of sequences. It keeps neither the engine nor the session alive, since views are kept by the
/// engine.
#[derive(Debug)]
struct SequenceFunction {
    name: &'static str,
    verb: Verb,
    engine: Weak<Engine>,
    tables: Weak<SessionTables>,
    given: Arc<Mutex<SessionSequences>>,
    signature: Signature,
}

/// The functions of a session that sees these tables.
pub fn functions(
    engine: &Arc<Engine>,
    tables: &Arc<SessionTables>,
    given: &Arc<Mutex<SessionSequences>>,
) -> Vec<ScalarUDF> {
    let functions = [
        ("nextval", Verb::Next, vec![TypeSignature::Any(1)]),
        ("currval", Verb::Current, vec![TypeSignature::Any(1)]),
        ("lastval", Verb::Last, vec![TypeSignature::Nullary]),
        (
            "setval",
            Verb::Set,
            vec![TypeSignature::Any(2), TypeSignature::Any(3)],
        ),
        (
            "pg_get_serial_sequence",
            Verb::OfColumn,
            vec![TypeSignature::Any(2)],
        ),
    ];
    let functions = functions.map(|(name, verb, signatures)| {
        ScalarUDF::from(SequenceFunction {
            name,
            verb,
            engine: Arc::downgrade(engine),
            tables: Arc::downgrade(tables),
            given: Arc::clone(given),
            signature: Signature::one_of(signatures, Volatility::Volatile),
        })
    });
    functions.into()
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.verb == other.verb && Arc::ptr_eq(&self.given, &other.given)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.verb.hash(state);
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.verb {
            Verb::OfColumn => DataType::Utf8,
            _ => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|value| value.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let (Some(engine), Some(tables)) = (self.engine.upgrade(), self.tables.upgrade()) else {
            return Err(DataFusionError::Execution(
                "the session has ended".to_owned(),
            ));
        };
        let call = Call {
            engine: &engine,
            tables: &tables,
            given: &self.given,
        };
        let array: ArrayRef = match self.verb {
            Verb::OfColumn => {
                let (tables, columns) = (texts(&arrays[0])?, texts(&arrays[1])?);
                let names = tables.iter().zip(columns.iter());
                let names = names.map(|pair| match pair {
                    (Some(table), Some(column)) => call.of_column(table, column),
                    _ => Ok(None),
                });
                Arc::new(names.collect::<Result<StringArray>>()?)
            }
            Verb::Last => {
                let last = call.given.lock().last;
                let last = last.ok_or_else(|| no_value("lastval".to_owned()))?;
                Arc::new(Int64Array::from(vec![last; rows]))
            }
            Verb::Next | Verb::Current => {
                let names = texts(&arrays[0])?;
                let numbers = names.iter().map(|name| match (name, self.verb) {
                    (None, _) => Ok(None),
                    (Some(name), Verb::Next) => call.next(name).map(Some),
                    (Some(name), _) => call.current(name).map(Some),
                });
                Arc::new(numbers.collect::<Result<Int64Array>>()?)
            }
            Verb::Set => Arc::new(set(&call, &arrays)?),
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn texts(array: &ArrayRef) -> Result<StringArray> {
    Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn set(call: &Call<'_>, arrays: &[ArrayRef]) -> Result<Int64Array> {
    let names = texts(&arrays[0])?;
    let numbers = cast(&arrays[1], &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let called = match arrays.get(2) {
        Some(called) => cast(called, &DataType::Boolean)?.as_boolean().clone(),
        None => BooleanArray::from(vec![true; numbers.len()]),
    };
    let rows = names.iter().zip(numbers).zip(&called);
    let rows = rows.map(|row| match row {
        ((Some(name), Some(last)), Some(is_called)) => call.set(name, last, is_called).map(Some),
        _ => Ok(None),
    });
    rows.collect()
}

/// What a function has at hand.
struct Call<'a> {
    engine: &'a Engine,
    tables: &'a SessionTables,
    given: &'a Mutex<SessionSequences>,
}

fn no_value(what: String) -> DataFusionError {
    EngineError::from(SqlError::NoSequenceValue { what }).into()
}

impl Call<'_> {
    fn find(&self, text: &str) -> Result<NamedSequence> {
        let parts = name_parts(text)?;
        let found = match &parts[..] {
            [name] => find(self.engine, self.tables, None, name),
            [.., schema, name] => find(self.engine, self.tables, Some(schema), name),
            [] => Err(SqlError::UnknownTable {
                table: text.to_owned(),
            }),
        };
        Ok(found.map_err(EngineError::from)?)
    }

    fn next(&self, name: &str) -> Result<i64> {
        let found = self.find(name)?;
        let next = found.next(self.engine)?;
        let mut given = self.given.lock();
        given.last = Some(next);
        let address = Arc::as_ptr(&found.sequence) as usize;
        given.values.insert(address, (found, next));
        Ok(next)
    }

    fn current(&self, name: &str) -> Result<i64> {
        let found = self.find(name)?;
        let address = Arc::as_ptr(&found.sequence) as usize;
        let given = self.given.lock();
        let known = given.values.get(&address).map(|(_, value)| *value);
        known.ok_or_else(|| no_value(format!("currval of sequence \"{}\"", found.name)))
    }

    fn set(&self, name: &str, last: i64, is_called: bool) -> Result<i64> {
        let found = self.find(name)?;
        found.set(self.engine, SequenceValue { last, is_called })?;
        if is_called {
            let mut given = self.given.lock();
            let address = Arc::as_ptr(&found.sequence) as usize;
            given.values.insert(address, (found, last));
        }
        Ok(last)
    }

    /// The name of the sequence that a column of a table owns.
    fn of_column(&self, table: &str, column: &str) -> Result<Option<String>> {
        let parts = name_parts(table)?;
        let (schema, name) = match &parts[..] {
            [.., schema, name] => (schema.as_str(), name),
            [name] => (PUBLIC, name),
            [] => (PUBLIC, &String::new()),
        };
        let temporary = self.tables.temporary();
        let own = temporary
            .get(name)
            .filter(|_| [PUBLIC, TEMPORARY].contains(&schema));
        let (schema, map) = match own {
            Some(_) => (TEMPORARY, temporary.all()),
            None => {
                let map = self.tables.permanent().schema(schema);
                (schema, map.map(|map| map.all()).unwrap_or_default())
            }
        };
        let found = map.iter().find(|(known, _)| known == name);
        let table = found.and_then(|(_, provider)| table_of(provider.as_ref()));
        let Some(table) = table else {
            let table = table_name(&parts);
            return Err(EngineError::from(SqlError::UnknownTable { table }).into());
        };
        let owned = map.iter().find(|(_, provider)| {
            let owner = sequence_of(provider.as_ref()).and_then(|it| it.definition().owner.clone());
            owner.is_some_and(|(id, of)| id == table.id() && of == column)
        });
        Ok(owned.map(|(name, _)| format!("{schema}.{name}")))
    }
}

fn table_name(parts: &[String]) -> String {
    parts.join(".")
}

/// The parts of a name, those without quotes in lower case.
fn name_parts(text: &str) -> Result<Vec<String>> {
    let unreadable = || {
        let table = text.to_owned();
        DataFusionError::from(EngineError::from(SqlError::UnknownTable { table }))
    };
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
    let mut parser = parser.map_err(|_| unreadable())?;
    let name = parser.parse_object_name(false).map_err(|_| unreadable())?;
    let parts = name.0.iter().map(|part| {
        let ident = part.as_ident()?;
        Some(match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_lowercase(),
        })
    });
    parts
        .collect::<Option<Vec<String>>>()
        .ok_or_else(unreadable)
}
