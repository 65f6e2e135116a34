//! Why a machine cannot be calibrated.

use crate::reproduce::ReproduceError;

/// Points do not make a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The profile to begin with has no simulator parameters.
    #[error("profile {profile} has no parameters of the simulator to begin with: {reason}")]
    NoSimulation {
        /// The profile.
        profile: String,
        /// Why it has none.
        reason: String,
    },
    /// A point that parameters cannot be fitted to.
    #[error("{name}, line {line}: only throughput and latency of accesses can be calibrated on")]
    NotAnAccess {
        /// The file.
        name: String,
        /// Line of the point.
        line: usize,
    },
    /// Results without a figure of the preset.
    #[error("{name} has no bandwidth or latency of one task on near or far memory")]
    NothingMeasured {
        /// The file.
        name: String,
    },
    /// The same parameter twice, or none.
    #[error("give each parameter once, and at least one")]
    Parameters,
    /// Fewer points than a fit needs.
    #[error(
        "{fitted} points are left to fit {parameters} parameters, with {held_out} held out; there must be \
         more points than parameters, and one held out"
    )]
    TooFewPoints {
        /// Points to fit.
        fitted: usize,
        /// Points held out.
        held_out: usize,
        /// Parameters to fit.
        parameters: usize,
    },
    /// No point depends on a parameter.
    #[error(
        "the points do not determine {key}: a change of it by {change_percent} % changes none of them by more than \
         {effect_percent:.2} %; leave it out, or add points ({hint})"
    )]
    NoEffect {
        /// The parameter.
        key: &'static str,
        /// By how much it was changed.
        change_percent: f64,
        /// The largest effect.
        effect_percent: f64,
        /// Which points would determine it.
        hint: &'static str,
    },
    /// A parameter that others can stand in for.
    #[error(
        "the points do not determine {key}: its standard error is {uncertainty}; other parameters that are fitted have \
         the same effect on these points; leave one out, or add points ({hint})"
    )]
    NotDetermined {
        /// The parameter.
        key: &'static str,
        /// The standard error, as text.
        uncertainty: String,
        /// Which points would determine it.
        hint: &'static str,
    },
    /// The model cannot run the points.
    #[error(transparent)]
    Model(#[from] ReproduceError),
    /// The caller has stopped it.
    #[error("the calibration was stopped")]
    Stopped,
    /// The optimiser gave up.
    #[error("no parameters were found: {reason}")]
    Optimiser {
        /// What it says.
        reason: String,
    },
}
