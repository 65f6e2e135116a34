//! Points of published experiments as CSV, and what each of them asks the model.

mod header;
mod point;
mod row;

pub use self::point::{
    AccessOp, BoundRun, Experiment, InterferenceRun, LatencyOp, LatencyTier, POINTS_BYTES_MAX,
    Point, Points, ScanPlacement, SlotUse, Statistic,
};
