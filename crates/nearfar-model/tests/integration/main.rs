//! The paced tier in virtual and in wall-clock time.

mod invariants;
mod simulation;
mod streams;
mod virtual_time;
mod wall_clock;
