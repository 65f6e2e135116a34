//! A machine's own points become parameters of the simulator.
//!
//! [`calibrate`] begins with a profile that has simulator parameters, takes points of a machine (CSV as
//! [`crate::reproduce`] reads it, or results of the preset `calibrate`), and fits [`Parameter`]s so that the
//! model meets them. A share of the points is held out: it takes no part, and its error says what the
//! profile is worth for points that nobody has seen.
//!
//! Parameters are fitted as logarithms, to the mean square of the logarithms of modelled over given, by Powell's
//! BOBYQA: simulations are dear, and have no derivatives. The uncertainty of a
//! parameter is its standard error from the sensitivities of the fitted points. A parameter that the
//! points do not determine is an error and no number.

mod error;
mod fit;
mod measured;
mod outcome;
mod parameters;
mod write;

pub use self::error::CalibrateError;
pub use self::fit::{Options, calibrate, calibrate_until};
pub use self::measured::measured_points;
pub use self::outcome::{CalibratedPoint, Calibration, FittedParameter};
pub use self::parameters::Parameter;
pub use self::write::profile_text;
