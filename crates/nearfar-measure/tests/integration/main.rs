//! Probe, results and reports from the outside.

mod access;
mod calibrate;
mod fuzz;
mod interference;
mod operators;
mod pipelines;
mod probe;
mod published_errors;
mod report;
mod reproduce;
mod results;
mod scan;
mod shapes;
mod simulated;
