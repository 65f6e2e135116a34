//! How a node starts, and what it does for others: plans, rows and changes that they ask for.

mod service;
mod start;
mod worker;
