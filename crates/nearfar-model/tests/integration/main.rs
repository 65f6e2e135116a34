//! Emulated tiers in virtual and in wall-clock time.

mod derived_profiles;
mod invariants;
mod one_core;
mod simulation;
mod streams;
mod virtual_time;
mod wall_clock;
