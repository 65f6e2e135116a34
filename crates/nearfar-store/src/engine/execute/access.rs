//! What a session may do.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement};

use crate::engine::session::Session;
use crate::error::StoreError;
use crate::sql::SqlError;
use crate::transaction::Transaction;

/// Settings that are those of all sessions.
const SHARED_SETTINGS: [&str; 2] = ["nearfar.merge_rows", "nearfar.merge_bytes"];

impl Session {
    /// Refuses a plan that does what the session may not. Statements that change rows are checked
    /// where they do.
    pub(super) fn check_access(
        &self,
        transaction: &Transaction,
        plan: &LogicalPlan,
    ) -> Result<(), StoreError> {
        let mut refused = Ok(());
        plan.apply_with_subqueries(|node| {
            refused = self.check_node(transaction, node);
            Ok(match refused {
                Ok(()) => TreeNodeRecursion::Continue,
                Err(_) => TreeNodeRecursion::Stop,
            })
        })?;
        refused
    }

    fn check_node(&self, transaction: &Transaction, node: &LogicalPlan) -> Result<(), StoreError> {
        match node {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) => {
                self.check_files("CREATE EXTERNAL TABLE")?;
            }
            LogicalPlan::Copy(_) => {
                self.check_files("COPY … TO a file")?;
                transaction.check_writable("COPY … TO a file")?;
            }
            _ => {}
        }
        match node {
            LogicalPlan::Ddl(_) => {
                Ok(transaction.check_writable("a statement that creates or drops something")?)
            }
            // Of statements that EXPLAIN runs too.
            LogicalPlan::Dml(_) => Ok(transaction.check_writable("a statement that changes rows")?),
            LogicalPlan::Statement(Statement::SetVariable(set)) => {
                self.check_setting(transaction, &set.variable)
            }
            LogicalPlan::Statement(Statement::ResetVariable(reset)) => {
                self.check_setting(transaction, &reset.variable)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a statement that uses files where the session may not.
    pub(super) fn check_files(&self, statement: &'static str) -> Result<(), StoreError> {
        match self.options().may_use_files {
            true => Ok(()),
            false => Err(SqlError::FilesRefused { statement }.into()),
        }
    }

    fn check_setting(&self, transaction: &Transaction, name: &str) -> Result<(), StoreError> {
        if SHARED_SETTINGS.contains(&name) {
            transaction.check_writable("SET of a setting of all sessions")?;
        }
        Ok(())
    }
}
