//! Virtual time: whole picoseconds, so that every machine computes the same.

/// Picoseconds of virtual time since the start of a simulation.
pub(crate) type Ps = u64;

/// Later than everything, and so that durations can still be added.
pub(crate) const NEVER: Ps = 1 << 62;

/// Picoseconds in a nanosecond.
const PS_PER_NS: f64 = 1_000.0;

/// `ns` as whole picoseconds.
pub(crate) fn ps(ns: f64) -> Ps {
    (ns * PS_PER_NS).round() as Ps
}

/// `ps` as nanoseconds.
pub(crate) fn ns(ps: Ps) -> f64 {
    ps as f64 / PS_PER_NS
}
