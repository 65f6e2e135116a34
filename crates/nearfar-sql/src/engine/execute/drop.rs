//! `DROP TABLE`, `DROP VIEW`, and schemas.

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{SchemaReference, TableReference};
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::logical_expr::{DdlStatement, DropTable, DropView, LogicalPlan, TableType};
use std::sync::Arc;

use super::done;
use crate::engine::catalog::{CATALOG, Draft, PUBLIC, SYSTEM, TEMPORARY};
use crate::engine::definitions::{remove_with_owned, view_sql};
use crate::engine::sequences::sequence_of;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::SqlError;
use nearfar_table::transaction::TableLockMode;

impl Session {
    /// `DROP TABLE`: a temporary table before a permanent one of the same name. Queries that have
    /// begun keep its memory until they end.
    pub(super) async fn drop_table(&self, cmd: &DropTable) -> Result<StatementResult, EngineError> {
        if self.can_drop(&cmd.name, cmd.if_exists).await? {
            self.drop_provider(&cmd.name)?;
        }
        Ok(done("DROP TABLE"))
    }

    /// Whether there is a table to be dropped.
    ///
    /// # Errors
    /// One that is used; a name that is not that of a table, where one has to be.
    pub(super) async fn can_drop(
        &self,
        name: &TableReference,
        if_exists: bool,
    ) -> Result<bool, EngineError> {
        let Some(provider) = self.provider(name).await? else {
            let table = name.to_string();
            return match if_exists {
                true => Ok(false),
                false => Err(SqlError::UnknownTable { table }.into()),
            };
        };
        if sequence_of(provider.as_ref()).is_some() {
            let name = name.table().to_owned();
            return Err(SqlError::IsSequence { name }.into());
        }
        if provider.table_type() == TableType::View {
            return Err(SqlError::unsupported(
                format!("DROP TABLE {name}"),
                "it is a view, for which there is DROP VIEW, or a system table",
            )
            .into());
        }
        if let Some(view) = self.view_of(&provider)? {
            return Err(SqlError::InUse {
                table: name.to_string(),
                view,
            }
            .into());
        }
        if let Some(table) = table_of(provider.as_ref()) {
            let transaction = self.current_transaction()?;
            self.wait_for_table(&transaction, table, TableLockMode::AccessExclusive)
                .await?;
        }
        Ok(true)
    }

    /// `DROP VIEW`: a temporary view before a permanent one of the same name.
    pub(super) async fn drop_view(&self, cmd: &DropView) -> Result<StatementResult, EngineError> {
        let provider = self.provider(&cmd.name).await?;
        let view = provider.filter(|view| view_sql(view.as_ref()).is_some());
        match (view, cmd.if_exists) {
            (Some(_), _) => self.drop_provider(&cmd.name)?,
            (None, true) => {}
            (None, false) => {
                let view = cmd.name.to_string();
                return Err(SqlError::UnknownView { view }.into());
            }
        }
        Ok(done("DROP VIEW"))
    }

    /// Takes a table or view out, the session's own first.
    pub(super) fn drop_provider(&self, name: &TableReference) -> Result<(), EngineError> {
        let (schema, name) = self.resolve(name)?;
        let is_own = [PUBLIC, TEMPORARY].contains(&schema.as_str());
        let is_temporary = is_own && self.temporary().get(&name).is_some();
        if is_temporary {
            self.gate.pass()?;
            remove_with_owned(&self.temporary(), &name);
            return Ok(());
        }
        if self.tables().draft().is_some() {
            let table = self
                .permanent()
                .schema(&schema)
                .and_then(|map| map.get(&name));
            let table = table.as_deref().and_then(table_of).cloned();
            self.references().check_unreferenced(table.as_slice())?;
            if let Some(map) = self.permanent().schema(&schema) {
                remove_with_owned(&map, &name);
            }
            self.note_references();
            return Ok(());
        }
        self.engine().drop_relation(&self.gate, &schema, &name)?;
        Ok(())
    }

    /// `CREATE SCHEMA` and `DROP SCHEMA`, where there is something to do; else they are left to
    /// DataFusion, which has the errors.
    pub(super) fn change_schema(
        &self,
        statement: &DdlStatement,
    ) -> Result<Option<StatementResult>, EngineError> {
        let catalog = self.permanent();
        match statement {
            DdlStatement::CreateCatalogSchema(cmd) => {
                let name = cmd.schema_name.rsplit_once('.');
                let (of, name) = name.unwrap_or((CATALOG, &cmd.schema_name));
                let is_reserved = [SYSTEM, TEMPORARY, "information_schema"].contains(&name);
                if of != CATALOG || is_reserved || catalog.schema(name).is_some() {
                    return Ok(None);
                }
                match self.tables().draft() {
                    Some(draft) => drop(draft.permanent.add_schema(name)),
                    None => self.engine().create_schema(&self.gate, name)?,
                }
                Ok(Some(done("CREATE SCHEMA")))
            }
            DdlStatement::DropCatalogSchema(cmd) => {
                let name = cmd.name.schema_name();
                let is_other = matches!(&cmd.name, SchemaReference::Full { catalog, .. }
                    if catalog.as_ref() != CATALOG);
                if is_other || name == PUBLIC || catalog.schema(name).is_none() {
                    return Ok(None);
                }
                let is_dropped = match self.tables().draft() {
                    Some(draft) => self.drop_drafted_schema(&draft, name, cmd.cascade)?,
                    None => self.engine().drop_schema(&self.gate, name, cmd.cascade)?,
                };
                Ok(is_dropped.then(|| done("DROP SCHEMA")))
            }
            _ => Ok(None),
        }
    }

    /// Takes a schema out, which is empty or goes with all that is in it; whether it was.
    fn drop_drafted_schema(
        &self,
        draft: &Draft,
        name: &str,
        with_contents: bool,
    ) -> Result<bool, EngineError> {
        let all = draft.permanent.schema(name).map(|map| map.all());
        let all = all.unwrap_or_default();
        let tables = all.iter();
        let tables = tables.filter_map(|(_, provider)| table_of(provider.as_ref()).cloned());
        self.references()
            .check_unreferenced(&tables.collect::<Vec<_>>())?;
        let is_dropped = with_contents || all.is_empty();
        if is_dropped {
            draft.permanent.remove_schema(name);
            self.note_references();
        }
        Ok(is_dropped)
    }

    /// A view that reads `table`.
    pub(super) fn view_of(
        &self,
        table: &Arc<dyn TableProvider>,
    ) -> Result<Option<String>, EngineError> {
        let shared = self
            .engine()
            .catalog()
            .all()
            .into_iter()
            .flat_map(|(_, map)| map.all());
        for (name, candidate) in shared.chain(self.temporary().all()) {
            if Arc::ptr_eq(&candidate, table) {
                continue;
            }
            let Some(view) = (candidate.as_ref() as &dyn std::any::Any).downcast_ref::<ViewTable>()
            else {
                continue;
            };
            let mut found = false;
            view.logical_plan().apply_with_subqueries(|node| {
                if let LogicalPlan::TableScan(scan) = node {
                    let source = source_as_provider(&scan.source);
                    found |= source.is_ok_and(|source| Arc::ptr_eq(&source, table));
                }
                Ok(if found {
                    TreeNodeRecursion::Stop
                } else {
                    TreeNodeRecursion::Continue
                })
            })?;
            if found {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
