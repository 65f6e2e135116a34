//! mao-2025: what CXL memory, local memory and storage take from each other, in virtual time.
//!
//! Everything comes out of one mechanism, the request table that all cores share: a request holds its
//! entry until its device has served it, so that slow requests leave no entries to fast ones. The
//! profiles `cxl-asic` and `cxl-agilex` are the paper's systems A and B.

mod causes;
mod chart;
mod curves;
mod declines;
mod matrix;
mod metrics;
mod ranked;
mod regulators;
mod system;

pub use self::causes::{CauseGroup, CauseRatio, Causes, reproduce_causes};
pub use self::curves::{
    BackgroundCurve, BackgroundPoint, Curves, CurvesError, CurvesFigure, PublishedShape,
    reproduce_curves,
};
pub use self::matrix::{InterplayCell, InterplayTable, reproduce_interplay};
pub(super) use self::matrix::{published_cells, run_cells};
pub use self::regulators::{RegulatedPoint, RegulatorFigure, Regulators, reproduce_regulators};
pub use self::system::System;
