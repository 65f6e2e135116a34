//! Tables by their names and identifiers: `regclass`, their sizes, and what is declared of them.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::catalog::CatalogProvider;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use futures::FutureExt;
use nearfar_sql::engine::{PUBLIC, TEMPORARY};
use nearfar_sql::error::EngineError;
use nearfar_sql::scan::table_of;
use nearfar_sql::sql::{PG_CATALOG, SqlError, is_catalog};

use super::constraints::Constraint;
use super::contents::{Contents, relation_id};
use super::keys::{Index, quoted};

/// Where tables are looked for that are named without a schema.
const SEARCHED: [&str; 3] = [TEMPORARY, PUBLIC, PG_CATALOG];

/// The functions that find tables in `catalog`.
pub fn all(catalog: &Arc<dyn CatalogProvider>) -> Vec<ScalarUDF> {
    let functions = [
        ("pg_regclass", Lookup::Identifier { must_exist: true }),
        ("to_regclass", Lookup::Identifier { must_exist: false }),
        ("pg_regclass_name", Lookup::Name),
        ("pg_relation_size", Lookup::Size),
        ("pg_table_size", Lookup::Size),
        ("pg_total_relation_size", Lookup::Size),
        ("pg_get_indexdef", Lookup::Index),
        ("pg_get_constraintdef", Lookup::Constraint),
        ("pg_get_viewdef", Lookup::View),
    ];
    let functions = functions.map(|(name, lookup)| {
        ScalarUDF::from(Classes {
            name,
            lookup,
            catalog: Arc::clone(catalog),
            signature: match lookup {
                // A column, and whether it is to be read by people.
                Lookup::Index | Lookup::Constraint | Lookup::View => {
                    let signatures = (1..=3).map(TypeSignature::Any).collect();
                    Signature::one_of(signatures, Volatility::Stable)
                }
                _ => Signature::any(1, Volatility::Stable),
            },
        })
    });
    functions.into()
}

/// What is wanted of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    Identifier {
        must_exist: bool,
    },
    Name,
    Size,
    /// The statement that makes an index.
    Index,
    /// What a table's statement says of a constraint.
    Constraint,
    /// The query of a view.
    View,
}

/// A function of a table's name or identifier.
#[derive(Debug)]
struct Classes {
    name: &'static str,
    lookup: Lookup,
    catalog: Arc<dyn CatalogProvider>,
    signature: Signature,
}

impl PartialEq for Classes {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Classes {}

impl Hash for Classes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Classes {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.lookup {
            Lookup::Name | Lookup::Index | Lookup::Constraint | Lookup::View => DataType::Utf8,
            Lookup::Identifier { .. } | Lookup::Size => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = ColumnarValue::values_to_arrays(&args.args)?;
        let given = relations(&arguments[0])?.into_iter();
        let numbers = |numbers: Result<Int64Array>| Ok(Arc::new(numbers?) as ArrayRef);
        let found = match self.lookup {
            Lookup::Identifier { must_exist } => numbers(
                given
                    .map(|relation| self.identifier(relation, must_exist))
                    .collect(),
            ),
            Lookup::Size => numbers(given.map(|relation| self.bytes(relation)).collect()),
            Lookup::Name => {
                let names = given.map(|relation| Some(self.shown_name(relation?)));
                Ok(Arc::new(names.collect::<StringArray>()) as ArrayRef)
            }
            Lookup::Index | Lookup::Constraint => self.declarations(&arguments),
            Lookup::View => self.views(given),
        };
        found.map(ColumnarValue::Array)
    }
}

/// A table as a statement names it.
enum Relation {
    Identifier(i64),
    Name {
        schema: Option<String>,
        name: String,
    },
}

fn relations(given: &ArrayRef) -> Result<Vec<Option<Relation>>> {
    if !given.data_type().is_string() {
        let ids = cast(given, &DataType::Int64)?;
        let ids = ids.as_primitive::<Int64Type>().iter();
        return Ok(ids.map(|id| id.map(Relation::Identifier)).collect());
    }
    let names = cast(given, &DataType::Utf8)?;
    let names = names.as_string::<i32>().iter();
    Ok(names.map(|name| name.map(relation)).collect())
}

fn relation(text: &str) -> Relation {
    if let Ok(id) = text.trim().parse() {
        return Relation::Identifier(id);
    }
    let mut parts = parts(text);
    let name = parts.pop().unwrap_or_default();
    Relation::Name {
        schema: parts.pop(),
        name,
    }
}

/// The parts of a name between points outside of quotes; those without quotes in lower case, without spaces.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = text.trim().chars().peekable();
    while let Some(c) = characters.next() {
        let Some(part) = parts.last_mut() else { break };
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                part.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            c if is_quoted => part.push(c),
            c if c.is_whitespace() => {}
            c => part.extend(c.to_lowercase()),
        }
    }
    parts
}

impl Classes {
    /// The schema and name of a table.
    fn find(&self, relation: &Relation) -> Option<(String, String)> {
        match relation {
            Relation::Name {
                schema: Some(schema),
                name,
            } => {
                // The catalogs have names for what has no rows here.
                let is_there = schema == PG_CATALOG || self.has(schema, name);
                is_there.then(|| (schema.clone(), name.clone()))
            }
            Relation::Name { schema: None, name } => {
                let mut searched = SEARCHED.iter();
                let found = searched.find(|schema| self.has(schema, name)).copied();
                // The catalogs have names for what has no rows here.
                let schema = found.or_else(|| is_catalog(name).then_some(PG_CATALOG))?;
                Some((schema.to_owned(), name.clone()))
            }
            Relation::Identifier(id) => {
                let schemas = self.catalog.schema_names().into_iter();
                let mut all = schemas.flat_map(|schema| {
                    let provider = self.catalog.schema(&schema);
                    let names = provider.map(|provider| provider.table_names());
                    let names = names.unwrap_or_default().into_iter();
                    names.map(move |name| (schema.clone(), name))
                });
                all.find(|(schema, name)| relation_id(schema, name) == *id)
            }
        }
    }

    /// What there is. Tables in memory are there without waiting.
    fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::new("", "");
        let added = contents.add(self.catalog.as_ref());
        added.now_or_never().transpose()?;
        Ok(contents)
    }

    /// The queries of views; nothing of what is no view.
    fn views(&self, given: impl Iterator<Item = Option<Relation>>) -> Result<ArrayRef> {
        let contents = self.contents()?;
        let queries = given.map(|given| {
            let (schema, name) = self.find(&given?)?;
            let mut relations = contents.relations.iter();
            let view = relations.find(|one| one.schema == schema && one.name == name)?;
            view.query()
        });
        Ok(Arc::new(queries.collect::<StringArray>()))
    }

    /// How the indexes or constraints of these identifiers are declared; nothing of others.
    fn declarations(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let contents = self.contents()?;
        let numbers = |of: &ArrayRef| cast(of, &DataType::Int64);
        let ids = numbers(&arguments[0])?;
        let ids = ids.as_primitive::<Int64Type>().iter();
        let texts: StringArray = match self.lookup {
            Lookup::Constraint => {
                // Whether it is to be read by people.
                let pretty = arguments
                    .get(1)
                    .map(|of| cast(of, &DataType::Boolean))
                    .transpose()?;
                let all = Constraint::all(&contents).into_iter();
                let all: HashMap<i64, Constraint> = all.map(|it| (it.id, it)).collect();
                let declared = ids.enumerate().map(|(row, id)| {
                    let constraint = all.get(&id?)?;
                    let is_pretty = pretty
                        .as_ref()
                        .is_some_and(|of| of.is_valid(row) && of.as_boolean().value(row));
                    Some(match is_pretty {
                        true => constraint.pretty_clause(),
                        false => constraint.clause.clone(),
                    })
                });
                declared.collect()
            }
            _ => {
                // The number of a column, or 0 for the whole.
                let columns = arguments.get(1).map(numbers).transpose()?;
                let all = Index::all(&contents).into_iter();
                let all: HashMap<i64, Index> = all.map(|it| (it.relation.id(), it)).collect();
                let declared = ids.enumerate().map(|(row, id)| {
                    let index = all.get(&id?)?;
                    let place = columns
                        .as_ref()
                        .filter(|of| of.is_valid(row))
                        .map_or(0, |of| of.as_primitive::<Int64Type>().value(row));
                    match place {
                        0 => Some(index.statement()),
                        place => Some(index.column(place).unwrap_or_default()),
                    }
                });
                declared.collect()
            }
        };
        Ok(Arc::new(texts))
    }

    fn has(&self, schema: &str, name: &str) -> bool {
        let schema = self.catalog.schema(schema);
        schema.is_some_and(|schema| schema.table_exist(name))
    }

    fn identifier(&self, relation: Option<Relation>, must_exist: bool) -> Result<Option<i64>> {
        let Some(relation) = relation else {
            return Ok(None);
        };
        if let Relation::Identifier(id) = relation {
            return Ok(Some(id));
        }
        match self.find(&relation) {
            Some((schema, name)) => Ok(Some(relation_id(&schema, &name))),
            None if must_exist => Err(unknown(&relation)),
            None => Ok(None),
        }
    }

    /// The name under which a table is found; the identifier of what is not there.
    fn shown_name(&self, relation: Relation) -> String {
        match (self.find(&relation), relation) {
            (Some((schema, name)), _) if SEARCHED.contains(&schema.as_str()) => quoted(&name),
            (Some((schema, name)), _) => format!("{}.{}", quoted(&schema), quoted(&name)),
            (None, Relation::Identifier(0)) => "-".to_owned(),
            (None, Relation::Identifier(id)) => id.to_string(),
            (None, Relation::Name { name, .. }) => name,
        }
    }

    /// Bytes of a table in memory; none of what is no such table.
    fn bytes(&self, relation: Option<Relation>) -> Result<Option<i64>> {
        let Some(relation) = relation else {
            return Ok(None);
        };
        let Some((schema, name)) = self.find(&relation) else {
            return match relation {
                Relation::Identifier(_) => Ok(None),
                Relation::Name { .. } => Err(unknown(&relation)),
            };
        };
        let schema = self.catalog.schema(&schema);
        // Tables in memory are there without waiting.
        let provider = schema.and_then(|schema| schema.table(&name).now_or_never()?.ok()?);
        let table = provider.as_deref().and_then(table_of);
        Ok(Some(
            table.map_or(0, |table| table.tier_bytes().total() as i64),
        ))
    }
}

fn unknown(relation: &Relation) -> datafusion::error::DataFusionError {
    let table = match relation {
        Relation::Identifier(id) => id.to_string(),
        Relation::Name { schema: None, name } => name.clone(),
        Relation::Name {
            schema: Some(schema),
            name,
        } => format!("{schema}.{name}"),
    };
    EngineError::from(SqlError::UnknownTable { table }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        assert_eq!(parts("T"), ["t"]);
        assert_eq!(parts("S.\"A.b\"\"\""), ["s", "A.b\""]);
        assert_eq!(parts("s . \"a b\""), ["s", "a b"]);
        assert_eq!(quoted("a_1"), "a_1");
        assert_eq!(quoted("A b"), "\"A b\"");
    }
}
