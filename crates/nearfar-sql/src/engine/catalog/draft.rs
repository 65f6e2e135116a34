//! What a transaction defines, seen by nobody else until it commits.

use datafusion::catalog::TableProvider;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{SharedCatalog, TableMap};
use crate::engine::references::ReferenceMap;
use nearfar_table::table::{ColumnSource, TableId};
use nearfar_table::transaction::ReplacedTable;

/// What there is as a transaction defines it. Each of its statements that define something works on a copy of its own,
/// so that a savepoint has the one of its time.
#[derive(Debug)]
pub struct Draft {
    /// What was committed when the transaction first defined something. Names that others define meanwhile are not those
    /// that it has defined, or it can't commit.
    pub base: Arc<SharedCatalog>,
    /// The tables that will be shared.
    pub permanent: Arc<SharedCatalog>,
    /// The session's own.
    pub temporary: Arc<TableMap>,
    /// The tables that have another definition than the committed one.
    pub redefined: Mutex<BTreeMap<TableId, Redefined>>,
    /// The foreign keys.
    pub references: Mutex<Arc<ReferenceMap>>,
    /// Columns with other names: their table, the name before, and the one now. Their sequences are told once it is committed.
    pub renamed: Mutex<Vec<(TableId, String, String)>>,
}

/// Another definition of a table that is committed.
#[derive(Debug, Clone)]
pub struct Redefined {
    /// The committed one.
    pub replaced: ReplacedTable,
    /// Where the values of columns come from.
    pub origin: Origin,
}

/// Where the rows of a table's new definition come from, which the log is told.
#[derive(Debug, Clone)]
pub enum Origin {
    /// The columns of the committed rows.
    Columns(Vec<ColumnSource>),
    /// The log is told all rows.
    Rows,
}

impl Draft {
    /// What is committed, to be changed.
    pub fn of(
        permanent: &SharedCatalog,
        temporary: &TableMap,
        references: Arc<ReferenceMap>,
    ) -> Self {
        let base = permanent.draft();
        Self {
            permanent: base.draft(),
            temporary: temporary.draft(),
            base,
            redefined: Mutex::default(),
            references: Mutex::new(references),
            renamed: Mutex::default(),
        }
    }

    /// A copy, to be changed by the next statement.
    pub fn next(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            permanent: self.permanent.draft(),
            temporary: self.temporary.draft(),
            redefined: Mutex::new(self.redefined.lock().clone()),
            references: Mutex::new(Arc::clone(&self.references.lock())),
            renamed: Mutex::new(self.renamed.lock().clone()),
        }
    }

    /// The schemas that the transaction has made.
    pub fn new_schemas(&self) -> Vec<(String, Arc<TableMap>)> {
        only_in(&self.permanent, &self.base)
    }

    /// Those that it has taken out, as they were before.
    pub fn dropped_schemas(&self) -> Vec<(String, Arc<TableMap>)> {
        only_in(&self.base, &self.permanent)
    }

    /// What the transaction has entered or taken out: by schema and name, what was there and what is now.
    pub fn changes(&self) -> Vec<Changed> {
        let mut changes = Vec::new();
        let names = |catalog: &SharedCatalog| {
            let schemas = catalog.all().into_iter();
            let names = schemas.flat_map(|(schema, map)| {
                let all = map.all().into_iter();
                let all = all.map(move |(name, provider)| ((schema.clone(), name), provider));
                all.collect::<Vec<_>>()
            });
            names.collect::<BTreeMap<_, _>>()
        };
        let (mut before, after) = (names(&self.base), names(&self.permanent));
        for ((schema, name), provider) in after {
            let known = before.remove(&(schema.clone(), name.clone()));
            if known
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, &provider))
            {
                continue;
            }
            changes.push(Changed {
                schema,
                name,
                before: known,
                after: Some(provider),
            });
        }
        let gone = before
            .into_iter()
            .map(|((schema, name), provider)| Changed {
                schema,
                name,
                before: Some(provider),
                after: None,
            });
        changes.extend(gone);
        changes
    }
}

/// The schemas of one catalog that another one has not.
fn only_in(one: &SharedCatalog, other: &SharedCatalog) -> Vec<(String, Arc<TableMap>)> {
    let mut schemas = one.all();
    schemas.retain(|(name, _)| other.schema(name).is_none());
    schemas
}

/// A name that a transaction has defined.
#[derive(Debug)]
pub struct Changed {
    pub schema: String,
    pub name: String,
    /// What was there.
    pub before: Option<Arc<dyn TableProvider>>,
    /// What is there now.
    pub after: Option<Arc<dyn TableProvider>>,
}

impl Origin {
    /// Where rows come from that are those of a definition before this one, with these columns.
    #[must_use]
    pub fn then(&self, sources: &[ColumnSource]) -> Self {
        let Self::Columns(before) = self else {
            return Self::Rows;
        };
        let source = |source: &ColumnSource| match source {
            ColumnSource::Kept(at) => before[*at].clone(),
            ColumnSource::Filled(value) => ColumnSource::Filled(Arc::clone(value)),
        };
        Self::Columns(sources.iter().map(source).collect())
    }
}
