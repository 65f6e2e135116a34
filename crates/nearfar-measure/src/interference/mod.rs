//! Interference: what one task takes from another that shares the machine's memory.

mod effect;

pub use self::effect::Effect;
