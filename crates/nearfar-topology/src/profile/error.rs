//! What can be wrong with a profile.

use std::path::PathBuf;

use thiserror::Error;

/// A profile cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No built-in profile has that name.
    #[error(
        "no built-in profile is named {name:?}; there are {}; a profile of your own is given by \
         its path, such as ./{name}.toml",
        known.join(", ")
    )]
    Unknown {
        /// The name asked for.
        name: String,
        /// The built-in names.
        known: Vec<String>,
    },
    /// The file cannot be read.
    #[error("cannot read profile {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or has keys or types that no profile has.
    #[error("profile {file}: {source}")]
    Syntax {
        /// The file, or `built-in <name>`.
        file: String,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
    /// A number is missing or impossible.
    #[error("profile {file}: {key}: {problem}")]
    Invalid {
        /// The file, or `built-in <name>`.
        file: String,
        /// The key, such as `far.idle_latency_ns`.
        key: String,
        /// What is wrong with it.
        problem: ProfileProblem,
    },
}

/// What is wrong with one key of a profile.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ProfileProblem {
    /// The number lies outside of what is possible.
    #[error("{value} is not possible, allowed is {allowed}")]
    OutOfRange {
        /// The value given.
        value: f64,
        /// What would be allowed.
        allowed: String,
    },
    /// The key is needed and not there.
    #[error("is missing; write {{ value = ..., source = \"...\" }}{}",
        if *.may_be_unknown { " or { unknown = \"why\" }" } else { "" })]
    Missing {
        /// Whether `{ unknown = "why" }` would do.
        may_be_unknown: bool,
    },
    /// The number is said to be unknown, and nothing works without it.
    #[error("must be known: {why}")]
    MustBeKnown {
        /// What needs it.
        why: &'static str,
    },
    /// A value without a source.
    #[error("has the value {value} but no source; say where the number comes from")]
    NoSource {
        /// The value given.
        value: f64,
    },
    /// Both a value and a reason for having none, or a source without a value.
    #[error("needs either value and source, or unknown alone")]
    Contradiction,
    /// No simulation has such a key.
    #[error("is no key of a simulation")]
    UnknownKey,
    /// No built-in simulation has that name.
    #[error("no built-in simulation is named {name:?}; there are {known}")]
    UnknownSimulation {
        /// The name given.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// A text that must say something is empty.
    #[error("is empty")]
    Empty,
    /// A name with characters that a name cannot have.
    #[error("{name:?} is not a name: lower-case letters, digits and dashes, 1 to 64 of them")]
    BadName {
        /// The name given.
        name: String,
    },
    /// A name that no tier can have beside `near` and `far`.
    #[error(
        "{name:?} is no name of a tier: lower-case letters, and dashes between them, 1 to 32 of them, and no word that \
         placements have (near, far, node, split, disk, ...)"
    )]
    BadTierName {
        /// The name given.
        name: String,
    },
}
