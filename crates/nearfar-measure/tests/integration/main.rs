//! Probe, results and reports from the outside.

mod probe;
mod report;
mod reproduce;
mod results;
