//! What a session may do: every statement is one or several [`Action`]s, each of which needs a right.
//!
//! Kinds of statements and of plans are matched without a wildcard, so that a kind that is new is
//! given a right before anything can be built.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, Statement as Planned, WriteOp};

use super::change::MergeInto;
use super::modify::is_into_files;
use super::table_locks::action_of;
use super::transaction::within;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::settings::{Known, Scope};
use crate::sql::{
    Procedure, SequenceCommand, SessionCommand, SqlError, Statement, StatementKind, TablesVerb,
};
use nearfar_table::transaction::Transaction;

/// What an [`Action`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing: every session may.
    Read,
    /// The right to write: refused to read-only sessions and in read-only transactions.
    Write,
    /// The right to files of this machine, and the right to write.
    Files,
    /// It is refused to every session.
    Nobody,
}

macro_rules! actions {
    ($($name:ident => $right:ident, $statement:literal;)*) => {
        /// What a statement does, as far as rights go.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $(#[doc = concat!("`", $statement, "`.")] $name,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it needs.
            pub fn right(self) -> Right {
                match self {
                    $(Self::$name => Right::$right,)*
                }
            }

            /// How it is named where it is refused.
            pub fn statement(self) -> &'static str {
                match self {
                    $(Self::$name => $statement,)*
                }
            }
        }
    };
}

actions! {
    Query => Read, "a query";
    Describe => Read, "DESCRIBE";
    Begin => Read, "BEGIN";
    End => Read, "COMMIT, ROLLBACK or a savepoint";
    SetOwn => Read, "SET of a setting of the session";
    SetShared => Write, "SET of a setting of all sessions";
    ResetAll => Read, "RESET ALL";
    Prepare => Read, "PREPARE";
    Execute => Read, "EXECUTE";
    Deallocate => Read, "DEALLOCATE";
    Discard => Read, "DISCARD";
    Nothing => Read, "a statement without effect";
    CopyOut => Read, "COPY … TO STDOUT";
    Load => Read, "CALL nearfar.load";
    Check => Read, "CALL nearfar.check";
    CopyIn => Write, "COPY … FROM STDIN";
    Insert => Write, "INSERT";
    Cursor => Read, "DECLARE, FETCH, MOVE or CLOSE";
    LockToRead => Read, "LOCK TABLE … IN ACCESS SHARE MODE";
    LockTable => Write, "LOCK TABLE";
    LockRows => Write, "SELECT … FOR UPDATE";
    Update => Write, "UPDATE";
    Delete => Write, "DELETE";
    Truncate => Write, "TRUNCATE";
    MergeInto => Write, "MERGE";
    CreateTable => Write, "CREATE TABLE";
    CreateView => Write, "CREATE VIEW";
    CreateSchema => Write, "CREATE SCHEMA";
    CreateDatabase => Write, "CREATE DATABASE";
    CreateIndex => Write, "CREATE INDEX";
    CreateFunction => Write, "CREATE FUNCTION";
    DropIndex => Write, "DROP INDEX";
    CreateSequence => Write, "CREATE SEQUENCE";
    AlterSequence => Write, "ALTER SEQUENCE";
    DropSequence => Write, "DROP SEQUENCE";
    Advance => Write, "nextval() or setval()";
    DropTable => Write, "DROP TABLE";
    DropView => Write, "DROP VIEW";
    DropSchema => Write, "DROP SCHEMA";
    DropFunction => Write, "DROP FUNCTION";
    AlterTable => Write, "ALTER TABLE";
    AlterIndex => Write, "ALTER INDEX";
    Merge => Write, "CALL nearfar.merge";
    Checkpoint => Write, "CHECKPOINT";
    CreateExternalTable => Files, "CREATE EXTERNAL TABLE";
    InsertIntoFile => Files, "INSERT into a table that is not in memory";
    CopyToFile => Files, "COPY … TO a file";
    CopyFromFile => Files, "COPY … FROM a file";
    Nested => Nobody, "a setting, a transaction or another kind of change within a statement";
}

impl Session {
    /// What a statement does, as far as rights go; of one that is planned, with what is planned of it.
    ///
    /// # Errors
    /// A statement that can't be planned; a setting that there is not.
    pub async fn actions(&self, statement: &Statement) -> Result<Vec<Action>, EngineError> {
        let StatementKind::DataFusion {
            statement: parsed,
            locking,
            ..
        } = statement.kind()
        else {
            return Ok(vec![of_kind(statement.kind())?]);
        };
        let transaction = self.current_transaction()?;
        let state = within(&transaction, self.context().state());
        let plan = super::plan(&state, parsed).await?;
        let mut actions: Vec<Action> = locking.iter().map(|_| Action::LockRows).collect();
        plan.apply_with_subqueries(|node| {
            actions.push(of_node(node)?);
            if advances(node)? {
                actions.push(Action::Advance);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        actions.sort_unstable();
        actions.dedup();
        Ok(actions)
    }

    /// Refuses a statement that does what the session may not, before anything else is looked at.
    /// What is planned is checked by its plan ([`Self::check_access`]).
    pub(super) fn check_kind(
        &self,
        transaction: &Transaction,
        kind: &StatementKind,
    ) -> Result<(), EngineError> {
        self.check(transaction, of_kind(kind)?)
    }

    /// Refuses a plan that does what the session may not.
    pub(super) fn check_access(
        &self,
        transaction: &Transaction,
        plan: &LogicalPlan,
    ) -> Result<(), EngineError> {
        let mut refused = Ok(());
        plan.apply_with_subqueries(|node| {
            refused = self.check(transaction, of_node(node)?);
            if refused.is_ok() && advances(node)? {
                refused = self.check(transaction, Action::Advance);
            }
            Ok(match refused {
                Ok(()) => TreeNodeRecursion::Continue,
                Err(_) => TreeNodeRecursion::Stop,
            })
        })?;
        refused
    }

    /// Refuses what the session may not do. The right to files comes first, so that nothing else is
    /// told of a statement that names some.
    pub(super) fn check(
        &self,
        transaction: &Transaction,
        action: Action,
    ) -> Result<(), EngineError> {
        let statement = action.statement();
        match action.right() {
            Right::Read => Ok(()),
            Right::Write => Ok(transaction.check_writable(statement)?),
            Right::Files if !self.options().may_use_files => {
                Err(SqlError::FilesRefused { statement }.into())
            }
            Right::Files => Ok(transaction.check_writable(statement)?),
            Right::Nobody => Err(SqlError::unsupported(statement, "run it by itself").into()),
        }
    }
}

/// What a statement does; for one that DataFusion plans, only that it is planned.
fn of_kind(kind: &StatementKind) -> Result<Action, EngineError> {
    use crate::sql::TransactionCommand::Begin;
    Ok(match kind {
        StatementKind::DataFusion { .. } => Action::Query,
        StatementKind::Alter(_) => Action::AlterTable,
        StatementKind::CreateIndex(_) => Action::CreateIndex,
        StatementKind::DropIndex(_) => Action::DropIndex,
        StatementKind::AlterIndex(_) => Action::AlterIndex,
        StatementKind::Sequence(command) => match command {
            SequenceCommand::Create { .. } => Action::CreateSequence,
            SequenceCommand::Alter { .. } => Action::AlterSequence,
            SequenceCommand::Drop { .. } => Action::DropSequence,
        },
        StatementKind::CopyFrom(_) => Action::CopyFromFile,
        StatementKind::CopyIn(_) => Action::CopyIn,
        StatementKind::CopyOut(_) => Action::CopyOut,
        StatementKind::Transaction(Begin(_)) => Action::Begin,
        StatementKind::Transaction(_) => Action::End,
        StatementKind::Call(call) => match call.procedure {
            Procedure::Merge => Action::Merge,
            Procedure::Load => Action::Load,
            Procedure::Check => Action::Check,
        },
        // What a cursor reads is checked where it is declared.
        StatementKind::Cursor(_) => Action::Cursor,
        StatementKind::LockTable(lock) => action_of(lock),
        StatementKind::Checkpoint => Action::Checkpoint,
        StatementKind::Tables(command) => match command.verb {
            TablesVerb::Drop { .. } => Action::DropTable,
            TablesVerb::Truncate { .. } => Action::Truncate,
            TablesVerb::Vacuum => Action::Merge,
            TablesVerb::Analyze => Action::Nothing,
        },
        StatementKind::Session(command) => match command {
            SessionCommand::Set { name, .. } | SessionCommand::Reset { name } => of_setting(name)?,
            SessionCommand::SetTransaction { .. } | SessionCommand::SetConstraints { .. } => {
                Action::SetOwn
            }
            SessionCommand::ResetAll => Action::ResetAll,
            SessionCommand::Deallocate { .. } | SessionCommand::DeallocateAll => Action::Deallocate,
            SessionCommand::DiscardAll | SessionCommand::DiscardTemporary => Action::Discard,
            SessionCommand::Nothing { .. } => Action::Nothing,
        },
    })
}

/// What it is to set or reset a setting.
pub(super) fn of_setting(name: &str) -> Result<Action, SqlError> {
    match Known::find(name)? {
        Known::Own(setting) if setting.scope == Scope::Shared => Ok(Action::SetShared),
        Known::Own(_) | Known::Library(_) => Ok(Action::SetOwn),
    }
}

/// Whether an expression of a node gives numbers of sequences out, or sets them.
fn advances(node: &LogicalPlan) -> datafusion::error::Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| {
            Ok(matches!(part, Expr::ScalarFunction(function)
                if ["nextval", "setval"].contains(&function.func.name())))
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// What one node of a plan does.
fn of_node(node: &LogicalPlan) -> datafusion::error::Result<Action> {
    Ok(match node {
        LogicalPlan::Extension(_) if MergeInto::of(node).is_some() => Action::MergeInto,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => Action::Query,
        LogicalPlan::DescribeTable(_) => Action::Describe,
        LogicalPlan::Copy(_) => Action::CopyToFile,
        LogicalPlan::Dml(dml) => match &dml.op {
            WriteOp::Insert(_) if is_into_files(node)? => Action::InsertIntoFile,
            WriteOp::Insert(_) => Action::Insert,
            WriteOp::Delete => Action::Delete,
            WriteOp::Update => Action::Update,
            WriteOp::Ctas => Action::CreateTable,
            WriteOp::Truncate => Action::Truncate,
            WriteOp::MergeInto(_) => Action::MergeInto,
            // The list is open; what it gets is refused until it is given a right.
            _ => Action::Nested,
        },
        LogicalPlan::Ddl(ddl) => of_definition(ddl),
        LogicalPlan::Statement(statement) => match statement {
            Planned::Prepare(_) => Action::Prepare,
            Planned::Execute(_) => Action::Execute,
            Planned::Deallocate(_) => Action::Deallocate,
            // Those that stand by themselves are not planned.
            Planned::SetVariable(_)
            | Planned::ResetVariable(_)
            | Planned::TransactionStart(_)
            | Planned::TransactionEnd(_) => Action::Nested,
        },
    })
}

fn of_definition(ddl: &DdlStatement) -> Action {
    match ddl {
        DdlStatement::CreateExternalTable(_) => Action::CreateExternalTable,
        DdlStatement::CreateMemoryTable(_) => Action::CreateTable,
        DdlStatement::CreateView(_) => Action::CreateView,
        DdlStatement::CreateCatalogSchema(_) => Action::CreateSchema,
        DdlStatement::CreateCatalog(_) => Action::CreateDatabase,
        DdlStatement::CreateIndex(_) => Action::CreateIndex,
        DdlStatement::DropTable(_) => Action::DropTable,
        DdlStatement::DropView(_) => Action::DropView,
        DdlStatement::DropCatalogSchema(_) => Action::DropSchema,
        DdlStatement::CreateFunction(_) => Action::CreateFunction,
        DdlStatement::DropFunction(_) => Action::DropFunction,
    }
}
