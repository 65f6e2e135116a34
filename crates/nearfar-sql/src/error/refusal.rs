//! Operators that were refused memory, and why.

use nearfar_topology::units::Bytes;

/// An operator that was refused memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory: {operator} needs {} more, but the query holds {} and {}; {}",
    Bytes(*requested_bytes), Bytes(*query_bytes), whose.reason(*limit_bytes), whose.remedy()
)]
pub struct Refusal {
    /// The operator, as DataFusion names its consumers of memory.
    pub operator: String,
    /// What it asked for.
    pub requested_bytes: u64,
    /// What all operators of the query held.
    pub query_bytes: u64,
    /// The limit that was met.
    pub limit_bytes: u64,
    /// Whose limit it was.
    pub whose: LimitOf,
}

/// Whose limit a query met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitOf {
    /// The query's own.
    Query,
    /// That of all queries of the session.
    Session {
        /// What the other queries of the session held.
        others_bytes: u64,
    },
    /// That of all queries of the engine.
    Engine {
        /// What the other queries held.
        others_bytes: u64,
        /// The tier whose budget sets the limit, where no number was given for it.
        tier: Option<String>,
    },
}

impl LimitOf {
    fn reason(&self, limit_bytes: u64) -> String {
        let limit = Bytes(limit_bytes);
        match self {
            Self::Query => format!("may hold {limit}"),
            Self::Session { others_bytes } => format!(
                "all queries of the session together may hold {limit}, of which others hold {}",
                Bytes(*others_bytes)
            ),
            Self::Engine { others_bytes, .. } => {
                format!(
                    "all queries together may hold {limit}, of which others hold {}",
                    Bytes(*others_bytes)
                )
            }
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Query => "raise it with SET memory_limit".to_owned(),
            Self::Session { .. } => {
                "raise it with SET session_memory_limit, up to what the server gives every session"
                    .to_owned()
            }
            Self::Engine { tier: None, .. } => "raise the engine's memory limit".to_owned(),
            Self::Engine {
                tier: Some(tier), ..
            } => {
                format!("raise the budget of tier {tier}, or set the engine's memory limit")
            }
        }
    }
}
