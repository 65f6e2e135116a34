//! Tablespaces: the names under which SQL knows tiers and placements.

use nearfar_memory::{MemorySystem, Placement, TierId};
use nearfar_topology::{FAR, NEAR};
use std::sync::Arc;

use crate::error::SqlError;
use nearfar_table::placement::{Strategy, interleaved};

/// Where something is to be put, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `TABLESPACE name`.
    Tablespace(String),
    /// `placement = 'text'`.
    Placement(String),
}

/// The tablespaces of an engine: every tier by its name, `near`, and `far` where there is one.
#[derive(Debug, Clone)]
pub struct Tablespaces {
    system: Arc<MemorySystem>,
    far: Option<TierId>,
}

impl Tablespaces {
    /// The tablespaces of `system`, whose tier `far` the name `far` means.
    pub fn new(system: Arc<MemorySystem>, far: Option<TierId>) -> Self {
        Self { system, far }
    }

    /// All names, near to far.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .system
            .tiers()
            .map(|(_, info)| info.name.clone())
            .collect();
        let aliases = [Some(NEAR), self.far.map(|_| FAR)];
        for alias in aliases.into_iter().flatten() {
            if !names.iter().any(|name| name == alias) {
                names.push(alias.to_owned());
            }
        }
        names
    }

    /// The name of a tier.
    pub fn name(&self, tier: TierId) -> String {
        let named = self.system.tiers().find(|(id, _)| *id == tier);
        named.map_or_else(|| tier.to_string(), |(_, info)| info.name.clone())
    }

    /// The tier that a tablespace is.
    ///
    /// # Errors
    /// A name that there is not, or a tier that nothing can be put on.
    pub fn tier(&self, name: &str) -> Result<TierId, SqlError> {
        let known = self
            .system
            .tiers()
            .find(|(_, info)| info.name == name)
            .map(|(id, _)| id);
        let alias = match name {
            NEAR => Some(TierId::NEAR),
            FAR => self.far,
            _ => None,
        };
        let tier = known.or(alias).ok_or_else(|| SqlError::UnknownTablespace {
            name: name.to_owned(),
            known: self.names(),
        })?;
        if self.system.info(tier).is_allocatable() {
            Ok(tier)
        } else {
            Err(SqlError::UnusableTablespace {
                name: name.to_owned(),
                reason: "the kernel can't allocate on it; bring its memory online first".to_owned(),
            })
        }
    }

    /// Where `place` puts pages.
    ///
    /// # Errors
    /// A name that there is not, or a placement that can't be read.
    pub fn placement(&self, place: &Place) -> Result<Placement, SqlError> {
        let (Place::Tablespace(text) | Place::Placement(text)) = place;
        if let Ok(Strategy::Interleave { near, far }) = text.parse() {
            let far_tier = self.tier(FAR)?;
            return Ok(interleaved(near, far, far_tier));
        }
        let unknown = |error: SqlError| match (place, error) {
            (Place::Placement(text), SqlError::UnknownTablespace { known, .. }) => {
                SqlError::UnknownPlacement {
                    text: text.clone(),
                    known,
                }
            }
            (_, error) => error,
        };
        self.tier(text).map(Placement::Bind).map_err(unknown)
    }

    /// A placement in words: the name of a tier, `interleave:2:1`, or what else it is.
    pub fn describe(&self, placement: &Placement) -> String {
        let name = |tier: &TierId| self.name(*tier);
        match placement {
            Placement::Bind(tier) => name(tier),
            Placement::Interleave(tiers) => {
                format!(
                    "interleave {}",
                    tiers.iter().map(name).collect::<Vec<_>>().join(", ")
                )
            }
            Placement::Weighted(runs) => match &runs[..] {
                [(TierId::NEAR, near), (far, pages)] if Some(*far) == self.far => {
                    format!("interleave:{near}:{pages}")
                }
                _ => {
                    let run = |(tier, pages): &(TierId, _)| format!("{} {pages}", name(tier));
                    format!(
                        "interleave {}",
                        runs.iter().map(run).collect::<Vec<_>>().join(", ")
                    )
                }
            },
            Placement::Split {
                first,
                first_share,
                rest,
            } => {
                let percent = first_share * 100.0;
                format!("{percent:.0}% {}, rest {}", name(first), name(rest))
            }
        }
    }
}
