//! `LOCK TABLE`, and what other statements wait for because of it.
//!
//! A query has `ACCESS SHARE` of its tables, one that locks rows `ROW SHARE`, and a change `ROW EXCLUSIVE` of its own.
//! These are taken only while some statement has asked for a lock of the table; what a transaction has changed before is
//! known to those that ask. A commit looks again, for the tables that were locked since.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use tokio::time::timeout;

use super::{Action, done, table_reference};
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::provider_of;
use crate::sql::{LockTable, SqlError};
use nearfar_table::table::Table;
use nearfar_table::transaction::{TableLockMode, Transaction, TransactionError};

impl Session {
    /// Locks tables, one after another.
    pub(super) async fn lock_tables(
        &self,
        transaction: &Arc<Transaction>,
        lock: &LockTable,
    ) -> Result<StatementResult, EngineError> {
        if !transaction.is_explicit() {
            let statement = "LOCK TABLE";
            return Err(TransactionError::NoTransaction { statement }.into());
        }
        if self.distribution.is_some() {
            let instead = "leave it out: a cluster's tables can't be locked";
            return Err(SqlError::unsupported("LOCK TABLE in a cluster", instead).into());
        }
        for name in &lock.tables {
            let table = self.memory_table(&table_reference(name)?).await?;
            let wish = Wish {
                mode: lock.mode,
                is_asked: true,
                is_immediate: lock.is_immediate,
            };
            self.lock_one(transaction, &table, wish).await?;
        }
        transaction.settle_locked();
        Ok(done("LOCK TABLE"))
    }

    /// Waits for the locks of the tables that `plan` reads or changes, if there are any.
    pub(super) async fn wait_for_tables(
        &self,
        transaction: &Arc<Transaction>,
        plan: &LogicalPlan,
        locks_rows: bool,
    ) -> Result<(), EngineError> {
        if !transaction.meets_locked_tables() {
            return Ok(());
        }
        let reading = match locks_rows {
            true => TableLockMode::RowShare,
            false => TableLockMode::AccessShare,
        };
        let mut wanted: Vec<(Arc<Table>, TableLockMode)> = Vec::new();
        plan.apply_with_subqueries(|node| {
            let (source, mode) = match node {
                LogicalPlan::TableScan(scan) => (&scan.source, reading),
                LogicalPlan::Dml(dml) => (&dml.target, TableLockMode::RowExclusive),
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            let provider = source_as_provider(source)?;
            if let Some(own) = provider_of(provider.as_ref()) {
                wanted.push((Arc::clone(own.table()), mode));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        for (table, mode) in wanted {
            self.wait_for_table(transaction, &table, mode).await?;
        }
        Ok(())
    }

    /// The same for one table that is read or changed.
    pub(super) async fn wait_for_table(
        &self,
        transaction: &Transaction,
        table: &Table,
        mode: TableLockMode,
    ) -> Result<(), EngineError> {
        if !transaction.meets_locked(table.id()) || transaction.has_locked(table.id(), mode) {
            return Ok(());
        }
        let wish = Wish {
            mode,
            is_asked: false,
            is_immediate: false,
        };
        if self.lock_one(transaction, table, wish).await? {
            // What was committed meanwhile is read, where the transaction reads what is committed.
            transaction.refresh()?;
        }
        Ok(())
    }

    /// Has a commit wait for the tables that others have locked since they were changed.
    pub(super) async fn wait_to_commit(
        &self,
        transaction: &Transaction,
    ) -> Result<(), EngineError> {
        for table in transaction.tables_to_wait_for() {
            let wish = Wish {
                mode: TableLockMode::RowExclusive,
                is_asked: false,
                is_immediate: false,
            };
            self.lock_one(transaction, &table, wish).await?;
        }
        Ok(())
    }

    /// Locks a table, in its turn. Whether it had to wait.
    async fn lock_one(
        &self,
        transaction: &Transaction,
        table: &Table,
        wish: Wish,
    ) -> Result<bool, EngineError> {
        let try_lock = || transaction.lock_table(table, wish.mode, wish.is_asked);
        let table_name = || table.name().to_owned();
        if wish.is_immediate {
            return match try_lock() {
                Ok(None) => Ok(false),
                Ok(Some(_)) | Err(TransactionError::Deadlock) => {
                    Err(TransactionError::TableNotAvailable {
                        table: table_name(),
                    }
                    .into())
                }
                Err(other) => Err(other.into()),
            };
        }
        let Some(first) = try_lock()? else {
            return Ok(false);
        };
        let limit = self.settings().lock_timeout();
        let _turn = transaction.queue_for(table, wish.mode, wish.is_asked);
        let waiting = async move {
            let mut other = first;
            loop {
                other.wait().await;
                match try_lock()? {
                    None => return Ok::<(), TransactionError>(()),
                    Some(next) => other = next,
                }
            }
        };
        match limit {
            None => waiting.await?,
            Some(limit) => {
                let late = |_| TransactionError::TableLockTimeout {
                    table: table_name(),
                };
                timeout(limit, waiting).await.map_err(late)??;
            }
        }
        Ok(true)
    }
}

/// How a table is to be locked.
#[derive(Clone, Copy)]
struct Wish {
    mode: TableLockMode,
    /// Whether a statement asks for it, and not only needs it.
    is_asked: bool,
    /// Whether it is not waited for.
    is_immediate: bool,
}

/// What the statement that asks for a lock does, as far as rights go.
pub(super) fn action_of(lock: &LockTable) -> Action {
    match lock.mode {
        TableLockMode::AccessShare => Action::LockToRead,
        _ => Action::LockTable,
    }
}
