//! The paced tier in virtual and in wall-clock time.

mod invariants;
mod simulation;
mod streams;
mod wall_clock;
