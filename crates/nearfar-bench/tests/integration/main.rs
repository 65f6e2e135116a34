//! Whole runs over small data.

mod answers;
mod contenders;
mod machine;
mod placements;
mod report;
