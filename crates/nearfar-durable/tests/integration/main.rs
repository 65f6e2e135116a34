//! Tests of what outlives the process, without SQL.

mod checkpoints;
