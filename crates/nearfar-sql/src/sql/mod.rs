//! Nearfar's statements: PostgreSQL's tablespaces on top of DataFusion's SQL.
//!
//! A script is cut into statements by its tokens ([`statements`]). What DataFusion's parser has no
//! words for is read here, from tokens and syntax trees, never from raw text:
//!
//! | statement | meaning |
//! |---|---|
//! | `CREATE [OR REPLACE] [TEMP] TABLE [IF NOT EXISTS] t … [TABLESPACE s] [AS …]` | where the table's columns go |
//! | `CREATE TABLE t … WITH (placement = 'interleave:2:1') …` | pages near and far in turn |
//! | `ALTER TABLE t SET TABLESPACE s`, `ALTER TABLE t SET (placement = '…')` | moves all columns while queries run |
//! | `ALTER TABLE t ALTER [COLUMN] c SET TABLESPACE s [, ALTER …]` | moves single columns |
//! | `PRIMARY KEY` and `UNIQUE` in `CREATE TABLE`, `ALTER TABLE t ADD PRIMARY KEY …`, `ADD CONSTRAINT`, `DROP CONSTRAINT` | keys |
//! | `CHECK` and `REFERENCES` in `CREATE TABLE` and `ALTER TABLE` | what rows have to be |
//! | `DEFAULT` in `CREATE TABLE`, `VALUES` and `SET`, `ALTER TABLE t ALTER c SET DEFAULT v`, `DROP DEFAULT` | values of columns that are given none |
//! | `CREATE`, `ALTER`, `DROP SEQUENCE`, `SERIAL`, `GENERATED … AS IDENTITY`, `OVERRIDING SYSTEM VALUE` | numbers that are given out once |
//! | `CREATE [UNIQUE] INDEX i ON t [USING art\|masstree] (…) [WITH (…)] [TABLESPACE s]`, `DROP INDEX i` | indexes |
//! | `ALTER INDEX i SET TABLESPACE s`, `ALTER INDEX i SET (policy = …, near_share = …)` | makes an index again elsewhere |
//! | `SET default_tablespace = s`, also `temp_tablespaces`, `heap_tablespace`, `memory_limit` | for this session |
//! | `SHOW` and `RESET` of these, `RESET ALL`, `SHOW TABLESPACES` | |
//! | `DEALLOCATE [name\|ALL]`, `DISCARD ALL` | what the session has prepared, and all of it |
//! | `BEGIN`, `START TRANSACTION`, `COMMIT`, `END`, `ROLLBACK`, `ABORT` | transactions of several statements |
//! | `SELECT … FOR UPDATE\|NO KEY UPDATE\|SHARE\|KEY SHARE [OF t, …] [NOWAIT\|SKIP LOCKED]` | locks the rows that it reads |
//! | `CALL nearfar.merge('t')` | turns what was written to a table into main storage |
//! | `COPY t FROM 'file' [(FORMAT csv, HEADER …)]` | adds the rows of a file |
//! | `COPY t FROM STDIN`, `COPY t TO STDOUT` | rows from and to the client of a server |
//! | `CREATE TABLE t (…) DISTRIBUTED BY (…)` or `REPLICATED` | where the rows are in a cluster |
//!
//! Everything else is DataFusion's.

mod aggregates;
mod alter;
mod alter_columns;
mod call;
mod constraints;
mod copy;
mod cursors;
mod defaults;
mod depth;
mod dialect;
mod distribution;
mod forms;
mod indexes;
mod limits;
mod lock_table;
mod parameters;
mod postgres;
mod recent;
mod repetition;
mod rewrite;
mod script;
mod sequences;
mod session;
mod statement;
mod tables;
mod transaction;
mod views;

pub use crate::error::SqlError;
pub use crate::settings::Place;
pub(crate) use alter::AlterTable;
pub use alter::{AlteredColumn, ColumnOptions, DefaultChange, KeyChange};
pub use alter_columns::names_column;
pub(crate) use alter_columns::{ColumnChange, selects_all, with_renamed_column};
pub use call::{Call, Procedure};
pub use constraints::{CheckClause, ConstraintClause, ReferenceClause};
pub use copy::{ClientCopy, CopyFormat, CopyFrom, CopyIn, CopyOptions, CopyOut};
pub use cursors::{CursorCommand, FetchedRows};
pub(crate) use defaults::{DefaultValues, expression_query, only_expression};
pub use distribution::Distributed;
pub use forms::array_elements;
pub(crate) use forms::{
    BaseForm, ChangeForms, ConflictForm, JoinedForm, KeyTarget, LockWait, RowLocking,
    call_by_own_names, change_forms, shown, with_unique_names,
};
pub(crate) use forms::{MergeActionForm, MergeForms, MergeWhen, merge_forms};
pub use indexes::{
    AlterIndex, CreateIndex, DropIndex, IndexChange, IndexPlace, KeyClause, KeyColumn,
};
pub use limits::{COLUMNS_MAX, PLAN_STEPS_MAX};
pub(crate) use limits::{check_grown_plan, check_plan};
pub use lock_table::LockTable;
pub(crate) use parameters::cast_parameters;
pub use postgres::{CATALOGS, PG_CATALOG, is_catalog};
pub use recent::Recent;
pub(crate) use repetition::{check_expressions, has_more_operators};
pub use script::Completeness;
pub use sequences::{NumberedColumn, SequenceClauses, SequenceCommand};
pub use session::SessionCommand;
pub(crate) use statement::{CreateClauses, StatementKind};
pub use statement::{Statement, statements};
pub(crate) use tables::{TablesCommand, TablesVerb};
pub use transaction::{TransactionCommand, TransactionModes};
pub use views::{ViewQuery, view_query};
