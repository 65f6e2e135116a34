//! Whole runs over small data.

mod answers;
mod changes;
mod contenders;
mod machine;
mod placements;
mod report;
