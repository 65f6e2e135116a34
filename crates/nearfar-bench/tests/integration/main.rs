//! Whole runs over small data.

mod answers;
mod changes;
mod contenders;
mod cooperative;
mod heap;
mod inserts;
mod machine;
mod placements;
mod plans;
mod report;
mod tpcc;
