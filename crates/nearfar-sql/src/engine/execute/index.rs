//! Keys and indexes of tables.

use datafusion::common::TableReference;
use std::sync::Arc;

use super::alter::table_reference;
use super::columns::has_constraint;
use super::done;
use crate::engine::catalog::{PUBLIC, TEMPORARY, TableMap};
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::settings::Tablespaces;
use crate::sql::{
    AlterIndex, CreateIndex, DropIndex, IndexChange, IndexPlace, KeyChange, KeyClause, SqlError,
};
use nearfar_memory::TierId;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexPlacement, IndexPolicy, IndexRole, Snapshot, Table,
    TableIndex,
};
use nearfar_topology::FAR;

/// An index, the table that it is of, and the tables among which that is.
type OwnedIndex = (Arc<TableMap>, Arc<Table>, Arc<TableIndex>);

impl Session {
    /// `CREATE INDEX`. Nobody commits meanwhile.
    pub(super) async fn create_index(
        &self,
        create: &CreateIndex,
    ) -> Result<StatementResult, EngineError> {
        let name = table_reference(&create.table)?;
        let table = self.memory_table(&name).await?;
        let map = self.map_of(&name)?;
        let is_there = create
            .key
            .name
            .as_ref()
            .is_some_and(|name| is_taken(&map, name));
        if !(is_there && create.if_not_exists) {
            self.add_keys(table, map, vec![create.key.clone()]).await?;
        }
        Ok(done("CREATE INDEX"))
    }

    /// `DROP INDEX`: indexes, or none of them where one can't be dropped.
    pub(super) async fn drop_index(
        &self,
        drop: &DropIndex,
    ) -> Result<StatementResult, EngineError> {
        let names = drop.names.iter().map(table_reference);
        let names = names.collect::<Result<Vec<TableReference>, _>>()?;
        for name in &names {
            self.check_dropped_index(name, drop.if_exists)?;
        }
        for name in &names {
            // A name may be written twice, or be of no index. Each drop may make another definition of the table.
            if let Some((_, table, index)) = self.index_of(name)? {
                self.remove_index(table, index).await?;
            }
        }
        Ok(done("DROP INDEX"))
    }

    /// Refuses to drop an index that there is not, where one has to be, or that something needs.
    fn check_dropped_index(
        &self,
        name: &TableReference,
        if_exists: bool,
    ) -> Result<(), EngineError> {
        let Some((_, table, index)) = self.index_of(name)? else {
            let index = name.table().to_owned();
            return match if_exists {
                true => Ok(()),
                false => Err(SqlError::UnknownIndex { index }.into()),
            };
        };
        if index.definition().role.is_constraint() {
            return Err(SqlError::IndexOfConstraint {
                index: index.definition().name.clone(),
                table: table.name().to_owned(),
            }
            .into());
        }
        Ok(self.check_key_unused(&table, &index)?)
    }

    /// `ALTER INDEX`: the index is made again, elsewhere or by another name, and takes the place of the one before.
    /// Nobody commits meanwhile.
    pub(super) async fn alter_index(
        &self,
        alter: &AlterIndex,
    ) -> Result<StatementResult, EngineError> {
        let name = table_reference(&alter.name)?;
        let Some((map, table, index)) = self.index_of(&name)? else {
            if alter.if_exists {
                return Ok(done("ALTER INDEX"));
            }
            let index = name.table().to_owned();
            return Err(SqlError::UnknownIndex { index }.into());
        };
        let index = index.definition().name.clone();
        let tablespaces = self.engine().tablespaces();
        let change = alter.change.clone();
        self.replace_index(table, index, move |before| match change {
            IndexChange::Place(place) => Ok(IndexDefinition {
                placement: placed(&before.placement, &place, &tablespaces)?,
                ..before.clone()
            }),
            IndexChange::Name(to) => renamed(before, &map, to),
        })
        .await?;
        Ok(done("ALTER INDEX"))
    }

    /// `ALTER TABLE … RENAME CONSTRAINT` of a key of the table `name`; whether it has one of this name.
    pub(super) async fn rename_key(
        &self,
        table: &Arc<Table>,
        name: &TableReference,
        (from, to): (&str, &str),
    ) -> Result<bool, EngineError> {
        let snapshot = table.snapshot();
        let is_key = |index: &Arc<TableIndex>| {
            let definition = index.definition();
            definition.name == from && definition.role.is_constraint()
        };
        if !snapshot.indexes().iter().any(is_key) {
            return Ok(false);
        }
        if has_constraint(&table.rules(), to) {
            return Err(SqlError::ConstraintExists {
                constraint: to.to_owned(),
                table: table.name().to_owned(),
            }
            .into());
        }
        let (map, key, to) = (self.map_of(name)?, from.to_owned(), to.to_owned());
        let change = move |before: &IndexDefinition| renamed(before, &map, to);
        self.replace_index(Arc::clone(table), key, change).await?;
        Ok(true)
    }

    /// Has another definition of an index, made of the rows again, take its place.
    async fn replace_index<F>(
        &self,
        table: Arc<Table>,
        index: String,
        change: F,
    ) -> Result<(), EngineError>
    where
        F: FnOnce(&IndexDefinition) -> Result<IndexDefinition, SqlError> + Send + 'static,
    {
        let engine = Arc::clone(self.engine());
        self.change_indexes(table, move |_, snapshot| {
            let mut indexes = snapshot.indexes().to_vec();
            let changed = indexes
                .iter_mut()
                .find(|other| other.definition().name == index);
            let changed = changed.ok_or(SqlError::UnknownIndex { index })?;
            let definition = change(changed.definition())?;
            *changed = TableIndex::filled(definition, snapshot, engine.storage())?;
            Ok(indexes)
        })
        .await
    }

    /// `ALTER TABLE … ADD` and `DROP CONSTRAINT`.
    pub(super) async fn alter_keys(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        changes: &[KeyChange],
    ) -> Result<(), EngineError> {
        for change in changes {
            // Within a transaction, each change makes another definition of it.
            let table = &match self.tables().draft() {
                Some(_) => self.memory_table(name).await?,
                None => Arc::clone(table),
            };
            match change {
                KeyChange::Add(key) => {
                    let (table, map) = (Arc::clone(table), self.map_of(name)?);
                    self.add_keys(table, map, vec![key.clone()]).await?;
                }
                KeyChange::Constrain(clause) => self.add_constraint(name, table, clause).await?,
                KeyChange::Drop {
                    name: dropped,
                    if_exists,
                } => {
                    if self.drop_constraint(table, dropped).await? {
                        continue;
                    }
                    let snapshot = table.snapshot();
                    let mut keys = snapshot.indexes().iter();
                    let key = keys.find(|index| {
                        let definition = index.definition();
                        definition.name == *dropped && definition.role.is_constraint()
                    });
                    match key {
                        Some(key) => {
                            let (table, key) = (Arc::clone(table), Arc::clone(key));
                            self.remove_index(table, key).await?;
                        }
                        None if *if_exists => {}
                        None => {
                            return Err(SqlError::UnknownConstraint {
                                constraint: dropped.clone(),
                                table: table.name().to_owned(),
                            }
                            .into());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives a table keys, which are made of its rows.
    pub(super) async fn add_keys(
        &self,
        table: Arc<Table>,
        map: Arc<TableMap>,
        keys: Vec<KeyClause>,
    ) -> Result<(), EngineError> {
        let engine = Arc::clone(self.engine());
        self.change_indexes(table, move |table, snapshot| {
            let tables = (table, &*map, &engine.tablespaces());
            with_keys(snapshot, tables, &keys, |definition| {
                let made = TableIndex::filled(definition, snapshot, engine.storage());
                made.map_err(|error| error.of_table(table.full_name()))
            })
        })
        .await
    }

    async fn remove_index(
        &self,
        table: Arc<Table>,
        index: Arc<TableIndex>,
    ) -> Result<(), EngineError> {
        self.check_key_unused(&table, &index)?;
        self.change_indexes(table, move |_, snapshot| {
            // It can have been made for other rows since.
            let name = &index.definition().name;
            let others = snapshot.indexes().iter();
            let others = others.filter(|other| other.definition().name != *name);
            Ok(others.cloned().collect())
        })
        .await
    }

    /// The tables among which the table of this name is.
    fn map_of(&self, name: &TableReference) -> Result<Arc<TableMap>, EngineError> {
        let (schema, table) = self.resolve(name)?;
        let is_own = [PUBLIC, TEMPORARY].contains(&schema.as_str());
        if is_own && self.temporary().get(&table).is_some() {
            return Ok(self.temporary());
        }
        let known = self.permanent().schema(&schema);
        Ok(known.ok_or(SqlError::UnknownSchema { schema })?)
    }

    /// The index of this name, and its table; the session's own first.
    fn index_of(&self, name: &TableReference) -> Result<Option<OwnedIndex>, EngineError> {
        let (schema, index) = self.resolve(name)?;
        let own = [PUBLIC, TEMPORARY].contains(&schema.as_str());
        let own = own.then(|| self.temporary());
        let maps = own.into_iter().chain(self.permanent().schema(&schema));
        let mut found = maps.filter_map(|map| {
            let (table, index) = find_index(&map, &index)?;
            Some((map, table, index))
        });
        Ok(found.next())
    }
}

fn find_index(map: &TableMap, name: &str) -> Option<(Arc<Table>, Arc<TableIndex>)> {
    map.all().iter().find_map(|(_, provider)| {
        let table = table_of(provider.as_ref())?;
        let snapshot = table.snapshot();
        let mut indexes = snapshot.indexes().iter();
        let index = indexes.find(|index| index.definition().name == name)?;
        Some((Arc::clone(table), Arc::clone(index)))
    })
}

/// The definition of an index with another name, which is free among the tables of `map`.
fn renamed(
    before: &IndexDefinition,
    map: &TableMap,
    to: String,
) -> Result<IndexDefinition, SqlError> {
    if is_taken(map, &to) {
        return Err(SqlError::IndexExists { index: to });
    }
    Ok(IndexDefinition {
        name: to,
        ..before.clone()
    })
}

/// Whether a table or an index has a name.
pub(super) fn is_taken(map: &TableMap, name: &str) -> bool {
    map.get(name).is_some() || find_index(map, name).is_some()
}

/// The indexes of `snapshot` with those of `keys`, each of which `make` makes: of a table, for a name that
/// no other of `map` has, on one of the tablespaces.
///
/// # Errors
/// A place that there is not; a column that the table does not have; a name that a table or index of `map` has; a second primary key.
pub(super) fn with_keys<E>(
    snapshot: &Snapshot,
    (table, map, tablespaces): (&Table, &TableMap, &Tablespaces),
    keys: &[KeyClause],
    make: impl Fn(IndexDefinition) -> Result<Arc<TableIndex>, E>,
) -> Result<Vec<Arc<TableIndex>>, EngineError>
where
    EngineError: From<E>,
{
    let mut indexes = snapshot.indexes().to_vec();
    for key in keys {
        let is_primary = |role| role == IndexRole::PrimaryKey;
        let mut others = indexes.iter().map(|index| index.definition().role);
        if is_primary(key.role) && others.any(is_primary) {
            let table = table.name().to_owned();
            return Err(SqlError::SeveralPrimaryKeys { table }.into());
        }
        let is_free = |name: &str| {
            let mut own = indexes.iter().map(|index| &index.definition().name);
            !own.any(|own| own == name) && name != table.name() && !is_taken(map, name)
        };
        let name = match &key.name {
            Some(name) if is_free(name) => name.clone(),
            Some(name) => {
                return Err(SqlError::IndexExists {
                    index: name.clone(),
                }
                .into());
            }
            None => free_name(table, key, is_free),
        };
        let columns = key.columns.iter().map(|column| {
            let schema = table.schema();
            let unknown = |_| SqlError::UnknownColumn {
                table: table.name().to_owned(),
                column: column.name.clone(),
                known: schema.fields().iter().map(|f| f.name().clone()).collect(),
            };
            Ok(IndexColumn {
                column: schema.index_of(&column.name).map_err(unknown)?,
                is_descending: column.is_descending,
                nulls_first: column.nulls_first,
            })
        });
        indexes.push(make(IndexDefinition {
            name,
            columns: columns.collect::<Result<_, SqlError>>()?,
            kind: key.kind,
            role: key.role,
            placement: placed(&IndexPlacement::default(), &key.place, tablespaces)?,
        })?);
    }
    Ok(indexes)
}

/// Where the nodes of an index go that were placed as `before`, by what is said of them.
///
/// # Errors
/// A tablespace that there is not; a policy that needs another one, or a share of which none is near.
fn placed(
    before: &IndexPlacement,
    place: &IndexPlace,
    tablespaces: &Tablespaces,
) -> Result<IndexPlacement, SqlError> {
    let named = place.tablespace.as_deref();
    let tier = named.map(|name| tablespaces.tier(name)).transpose()?;
    let policy = match (place.policy, place.near_percent, tier) {
        (Some(policy), ..) => policy,
        (None, Some(_), _) if !before.policy.has_share() => IndexPolicy::Sidle,
        (None, _, Some(TierId::NEAR)) => IndexPolicy::Near,
        (None, _, Some(_)) if !before.policy.is_split() => IndexPolicy::Far,
        _ => before.policy,
    };
    let tier = match (policy, tier, &before.tier) {
        (IndexPolicy::Near, ..) => None,
        (_, Some(tier), _) => Some(tablespaces.name(tier)),
        (_, None, Some(before)) => Some(before.clone()),
        (_, None, None) => Some(tablespaces.name(tablespaces.tier(FAR)?)),
    };
    let wrong = |name: &str, value: String, allowed: &str| SqlError::SettingValue {
        name: name.to_owned(),
        value,
        allowed: allowed.to_owned(),
    };
    let near = tablespaces.name(TierId::NEAR);
    if tier.as_ref() == Some(&near) {
        let allowed = "near and another tablespace are what nodes are put on: name the other one";
        return Err(wrong("policy", policy.name().to_owned(), allowed));
    }
    if let Some(percent) = place.near_percent.filter(|_| !policy.has_share()) {
        let allowed = "a share goes with the policies interleave, sidle and fitted";
        return Err(wrong("near_share", format!("{percent}%"), allowed));
    }
    Ok(IndexPlacement {
        policy,
        near_percent: place.near_percent.unwrap_or(before.near_percent),
        tier,
    })
}

/// The name that PostgreSQL gives a key without one: of table and columns, with a number where it is taken.
fn free_name(table: &Table, key: &KeyClause, is_free: impl Fn(&str) -> bool) -> String {
    let columns: Vec<&str> = key
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let (table, columns) = (table.name(), columns.join("_"));
    let name = match key.role {
        IndexRole::PrimaryKey => format!("{table}_pkey"),
        IndexRole::UniqueConstraint => format!("{table}_{columns}_key"),
        IndexRole::Unique | IndexRole::Search => format!("{table}_{columns}_idx"),
    };
    let numbered = (1..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| is_free(name)).unwrap_or(name)
}
