//! Why points cannot be reproduced.

use nearfar_model::simulation::MachineError;
use nearfar_plan::CostError;

use crate::access::PlanError;

/// A file of points cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointsError {
    /// There is no point in it.
    #[error("{file}: there are no points")]
    Empty {
        /// The file.
        file: String,
    },
    /// More than any experiment has.
    #[error(
        "{file}: {bytes} bytes of points, at most {} are read",
        super::POINTS_BYTES_MAX
    )]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        bytes: usize,
    },
    /// A line is not as it must be.
    #[error("{file}, line {line}: {problem}")]
    At {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column's name, and what is wrong.
        problem: String,
    },
}

/// Points cannot be held against a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// The profile cannot be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A point asks for what the profile's machine does not have.
    #[error("{name}, line {line}: {source}")]
    Point {
        /// The figure or file.
        name: String,
        /// Line of the point.
        line: usize,
        /// What is asked too much.
        source: MachineError,
    },
    /// The specification of a point cannot be run on the profile's machine.
    #[error("{name}, line {line}: {source}")]
    Specification {
        /// The figure or file.
        name: String,
        /// Line of the point.
        line: usize,
        /// Why.
        source: Box<PlanError>,
    },
    /// No machine that has a price is what a point asks for.
    #[error("{name}, line {line}: {source}")]
    Price {
        /// The figure or file.
        name: String,
        /// Line of the point.
        line: usize,
        /// Why.
        source: CostError,
    },
    /// A tree could not be run.
    #[error("{name}, line {line}: {source}")]
    Tree {
        /// The figure or file.
        name: String,
        /// Line of the point.
        line: usize,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
