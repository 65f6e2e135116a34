//! Placements as they are written.

use std::str::FromStr;

use crate::access::units;

/// On which tiers the pages of a region lie, by name.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementSpec {
    /// All on one.
    Bind(String),
    /// Page by page in turn.
    Interleave(Vec<String>),
    /// In turn, so many pages on each.
    Weighted(Vec<(String, u32)>),
    /// The first share on one, the rest on another.
    Split {
        /// Where the first pages lie.
        first: String,
        /// Their share.
        first_share: f64,
        /// Where the others lie.
        rest: String,
    },
}

impl PlacementSpec {
    /// The tiers named.
    pub fn tiers(&self) -> Vec<&str> {
        match self {
            Self::Bind(tier) => vec![tier],
            Self::Interleave(tiers) => tiers.iter().map(String::as_str).collect(),
            Self::Weighted(runs) => runs.iter().map(|(tier, _)| tier.as_str()).collect(),
            Self::Split { first, rest, .. } => vec![first, rest],
        }
    }
}

impl FromStr for PlacementSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?}: {why}");
        let Some((kind, list)) = text.split_once(':') else {
            return Ok(Self::Bind(text.trim().to_owned()));
        };
        let parts: Vec<&str> = list.split(',').map(str::trim).collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(wrong("a tier's name is missing"));
        }
        match kind.trim() {
            "interleave" => Ok(Self::Interleave(
                parts.into_iter().map(str::to_owned).collect(),
            )),
            "weighted" => {
                let run = |part: &str| {
                    let (tier, pages) = part.split_once('=')?;
                    let pages: u32 = pages.trim().parse().ok().filter(|pages| *pages > 0)?;
                    Some((tier.trim().to_owned(), pages))
                };
                let runs: Option<Vec<_>> = parts.into_iter().map(run).collect();
                runs.map(Self::Weighted)
                    .ok_or_else(|| wrong("write weighted:near=3,far=1"))
            }
            "split" => {
                let split = || {
                    let [first, rest] = parts[..] else {
                        return None;
                    };
                    let (first, share) = first.split_once('=')?;
                    let first_share = units::share(share).ok()?;
                    let (first, rest) = (first.trim().to_owned(), rest.to_owned());
                    Some(Self::Split {
                        first,
                        first_share,
                        rest,
                    })
                };
                split().ok_or_else(|| wrong("write split:near=90%,far"))
            }
            other => Err(wrong(&format!(
                "{other:?} is no placement; there are: TIER, interleave:, weighted:, split:"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read() {
        let read = |text: &str| text.parse::<PlacementSpec>();
        assert_eq!(read("near"), Ok(PlacementSpec::Bind("near".to_owned())));
        let both = ["near", "far"].map(str::to_owned);
        assert_eq!(
            read("interleave: near, far"),
            Ok(PlacementSpec::Interleave(both.to_vec()))
        );
        let [near, far] = both;
        let weighted = PlacementSpec::Weighted(vec![(near.clone(), 3), (far.clone(), 1)]);
        assert_eq!(read("weighted:near=3,far=1"), Ok(weighted));
        let split = PlacementSpec::Split {
            first: near,
            first_share: 0.9,
            rest: far,
        };
        assert_eq!(read("split:near=90%,far"), Ok(split));
        for wrong in [
            "interleave:",
            "weighted:near",
            "weighted:near=0",
            "split:near,far",
            "x:y",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
