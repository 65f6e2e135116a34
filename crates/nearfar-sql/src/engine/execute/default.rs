//! `ALTER TABLE … ALTER COLUMN … SET DEFAULT` and `DROP DEFAULT`.

use std::sync::Arc;

use super::alter::column_of;
use crate::engine::defaults::check_default;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::sql::DefaultChange;
use nearfar_table::table::Table;

impl Session {
    /// Says what columns get in rows that are added from now on without values for them.
    pub(super) async fn alter_defaults(
        &self,
        table: &Arc<Table>,
        changes: &[DefaultChange],
    ) -> Result<(), EngineError> {
        if changes.is_empty() {
            return Ok(());
        }
        let state = self.context().state();
        let mut changed = Vec::with_capacity(changes.len());
        for change in changes {
            let column = column_of(table, &change.column)?;
            if let Some(sql) = &change.value {
                let field = table.schema().field_with_name(&column)?;
                check_default(&state, field, sql).await?;
            }
            changed.push((column, change.value.clone()));
        }
        self.change_rules(table, |rules| {
            for (column, value) in changed {
                match value {
                    Some(sql) => rules.defaults.insert(column, sql),
                    None => rules.defaults.remove(&column),
                };
            }
        })
        .await
    }
}
