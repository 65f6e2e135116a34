//! Emulated tiers in virtual and in wall-clock time.

mod derived_profiles;
mod invariants;
mod lock_words;
mod one_core;
mod simulation;
mod streams;
mod virtual_time;
mod wall_clock;
