//! Statements that change rows and give some of them back, or look at other tables.
//!
//! They are planned in parts ([`crate::sql::ChangeForms`], and [`crate::sql::MergeForms`] of `MERGE`): what changes rows, and a query for what is given back,
//! which stands over a [node](ChangedRows) for the rows that were changed.

mod merging;
mod node;
mod plan;
mod prepared;
mod run;
mod upsert;

pub(in crate::engine) use merging::MergeInto;
pub(in crate::engine) use node::Upsert;
pub(super) use node::{ChangedRows, rows_plan};
pub(super) use plan::change_plan;
pub(in crate::engine) use prepared::PreparedChange;
pub(super) use run::{Asked, Change, Changed};
