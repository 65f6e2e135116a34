//! `DROP TABLE`.

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::logical_expr::{DdlStatement, DropTable, LogicalPlan, TableType};
use std::sync::Arc;

use super::done;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::StoreError;
use crate::sql::SqlError;

impl Session {
    /// `DROP TABLE`: a temporary table before a permanent one of the same name. Queries that have
    /// begun keep its memory until they end.
    pub(super) async fn drop_table(&self, cmd: &DropTable) -> Result<StatementResult, StoreError> {
        let Some(provider) = self.provider(&cmd.name).await? else {
            return if cmd.if_exists {
                Ok(done("DROP TABLE"))
            } else {
                Err(SqlError::UnknownTable {
                    table: cmd.name.to_string(),
                }
                .into())
            };
        };
        if provider.table_type() == TableType::View {
            return Err(SqlError::unsupported(
                format!("DROP TABLE {}", cmd.name),
                "it is a view, for which there is DROP VIEW, or a system table",
            )
            .into());
        }
        if let Some(view) = self.view_of(&provider)? {
            return Err(SqlError::InUse {
                table: cmd.name.to_string(),
                view,
            }
            .into());
        }
        let plan = LogicalPlan::Ddl(DdlStatement::DropTable(cmd.clone()));
        self.context().execute_logical_plan(plan).await?;
        Ok(done("DROP TABLE"))
    }

    /// A view that reads `table`.
    pub(super) fn view_of(
        &self,
        table: &Arc<dyn TableProvider>,
    ) -> Result<Option<String>, StoreError> {
        let shared = self
            .engine()
            .catalog()
            .all()
            .into_iter()
            .flat_map(|(_, map)| map.all());
        for (name, candidate) in shared.chain(self.temporary.all()) {
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
