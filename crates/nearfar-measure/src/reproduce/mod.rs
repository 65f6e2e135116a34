//! Published experiments held against the model.
//!
//! [`Points`] are read from CSV: those of the product's own [`Figure`]s, or anybody's. Every point
//! names one experiment; [`reproduce`] runs it in the model of a profile and sets both values side
//! by side. Access benchmarks run as the same specifications that [`crate::access`] reads; trees run
//! in a [`TreeModel`] of the caller's. Nothing here is fitted: all parameters come from the profile.

mod chart;
mod claims;
mod error;
mod figures;
mod interference;
mod interplay;
mod metrics;
mod outcome;
mod papers;
mod points;
mod prices;
mod scan;
mod specification;
mod trees;

pub use self::claims::{Claim, Claims};
pub use self::error::{PointsError, ReproduceError};
pub use self::figures::Figure;
pub use self::interplay::{
    BackgroundCurve, BackgroundPoint, CauseGroup, CauseRatio, Causes, Curves, CurvesError,
    CurvesFigure, InterplayCell, InterplayTable, PublishedShape, RegulatedPoint, RegulatorFigure,
    Regulators, System, reproduce_causes, reproduce_curves, reproduce_interplay,
    reproduce_regulators,
};
pub(crate) use self::outcome::modelled;
pub use self::outcome::{ReproducedPoint, Reproduction, Series, reproduce, reproduce_with};
pub use self::papers::{FigureOutcome, Paper, overview};
pub use self::points::{
    AccessOp, BoundRun, Experiment, InterferenceRun, LatencyOp, LatencyTier, POINTS_BYTES_MAX,
    Point, Points, ScanPlacement, SlotUse, Statistic,
};
pub use self::trees::{TreeModel, TreeRun, TreeWorkload};
