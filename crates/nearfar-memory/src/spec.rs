//! Placements as they are written, in every command and in SQL: one grammar.
//!
//! ```text
//! placement = place                              all on one
//!           | "interleave:" pages ":" pages      so many pages near, then so many far, in turn
//!           | "interleave:" place {"," place}    page by page in turn
//!           | "weighted:" run {"," run}          so many pages of each in turn
//!           | "split:" place "=" share "," place the first share of the pages, and the rest
//! run       = place "=" pages
//! place     = a name: of a tier, of devices of one (cxl2, cxl1-3), of nodes (node4, node4-6)
//! pages     = a whole number above 0, or 0 on one side of the first form
//! share     = "90%" | "0.9"
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use nearfar_topology::units::split_number;
use nearfar_topology::{FAR, NEAR};

use crate::placement::{PlaceError, Placement};
use crate::system::MemorySystem;
use crate::tier::TierId;

const INTERLEAVE: &str = "interleave";
const WEIGHTED: &str = "weighted";
const SPLIT: &str = "split";

/// A placement as it is written: what is read is printed in a form that is read as the same.
///
/// What names mean is for a machine to say ([`Self::resolve`]) or for a profile's
/// ([`Placement::try_map`]); [`nearfar_topology::names`] has the rules.
///
/// ```
/// use nearfar_memory::{Budgets, MemorySystem, Placement, PlacementSpec, TierId};
/// use nearfar_memory::{TierKind, TierSpec};
///
/// let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
/// let cxl = TierSpec::new("cxl", TierKind::Cxl, [1, 2, 3, 4], 1 << 30);
/// let system = MemorySystem::from_specs(vec![near, cxl], &Budgets::new())?;
///
/// let spec: PlacementSpec = "split:near=90%,cxl1-3".parse()?;
/// let Placement::Split { rest, .. } = spec.resolve(&system)? else { unreachable!() };
/// assert_eq!(system.nodes(rest), [2, 3, 4]);
/// assert_eq!(spec.to_string(), "split:near=90%,cxl1-3");
///
/// let pages: PlacementSpec = "weighted:near=2,far=1".parse()?;
/// assert_eq!(pages.to_string(), "interleave:2:1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type PlacementSpec = Placement<PlaceName>;

/// The name of a tier, of devices of one, or of nodes, before it is known whether there is such a thing.
///
/// It begins with a letter, has letters, digits, points, dashes and underscores, and is none of the
/// grammar's own words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaceName(String);

impl PlaceName {
    /// The name `near`.
    #[must_use]
    pub fn near() -> Self {
        Self(NEAR.to_owned())
    }

    /// The name `far`.
    #[must_use]
    pub fn far() -> Self {
        Self(FAR.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlaceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for PlaceName {
    type Err = SpecProblem;

    fn from_str(text: &str) -> Result<Self, SpecProblem> {
        let text = text.trim();
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(is_of_name)
            && ![INTERLEAVE, WEIGHTED, SPLIT].contains(&text);
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(SpecProblem::Name {
                name: text.to_owned(),
            }),
        }
    }
}

/// What is wrong with a text that is no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecProblem {
    /// A word before the colon that there is not.
    #[error("there is no `{word}:`")]
    Word {
        /// The word.
        word: String,
    },
    /// What can be no name.
    #[error("`{name}` is no name of a tier")]
    Name {
        /// What stands for one.
        name: String,
    },
    /// What should be a name and a number of pages.
    #[error("`{part}` should be a tier and its pages, such as near=3")]
    Pages {
        /// What was written.
        part: String,
    },
    /// Numbers of pages near and far that are none, or are both 0.
    #[error("`{counts}` should be pages near and pages far, such as 2:1")]
    Counts {
        /// What was written.
        counts: String,
    },
    /// What should be a share on one tier and another tier.
    #[error("`{parts}` should be a tier with its share and another tier, such as near=90%,far")]
    Split {
        /// What was written.
        parts: String,
    },
    /// More tiers in turn than are supported.
    #[error("it goes over {runs} tiers in turn, and at most {max} are supported")]
    Runs {
        /// The tiers in turn.
        runs: usize,
        /// The most that are supported.
        max: usize,
    },
}

/// A text that is no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "placement `{text}` is not known: {problem}; write {}",
    PlacementSpec::FORMS
)]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: SpecProblem,
}

impl PlacementSpec {
    /// All forms with an example each, for messages.
    pub const FORMS: &str = "a tier (near, far), its devices (cxl2, cxl1-3) or a node (node4), \
                             interleave:N:F (pages near and far in turn, such as interleave:2:1), \
                             interleave:A,B (page by page), weighted:A=3,B=1 (pages of each) or \
                             split:A=90%,B (the first pages and the rest)";

    /// So many pages near, then so many far, in turn; all on one where the other has none.
    ///
    /// ```
    /// use nearfar_memory::PlacementSpec;
    ///
    /// let two_to_one = PlacementSpec::near_far(2, 1).expect("pages");
    /// assert_eq!(two_to_one.to_string(), "interleave:2:1");
    /// assert!(PlacementSpec::near_far(0, 0).is_none());
    /// ```
    #[must_use]
    pub fn near_far(near_pages: u32, far_pages: u32) -> Option<Self> {
        let (near, far) = (PlaceName::near(), PlaceName::far());
        match (NonZeroU32::new(near_pages), NonZeroU32::new(far_pages)) {
            (Some(near_pages), Some(far_pages)) => {
                Some(Self::Weighted(vec![(near, near_pages), (far, far_pages)]))
            }
            (Some(_), None) => Some(Self::Bind(near)),
            (None, Some(_)) => Some(Self::Bind(far)),
            (None, None) => None,
        }
    }

    /// The placement over the tiers and nodes of `system`.
    ///
    /// # Errors
    /// [`PlaceError`] for the first name that pages cannot be put on there.
    pub fn resolve(&self, system: &MemorySystem) -> Result<Placement, PlaceError> {
        self.try_map(|name| system.place(name.as_str()))
    }

    /// How `placement` is written with the names of `system`.
    #[must_use]
    pub fn of(placement: &Placement, system: &MemorySystem) -> Self {
        let far = system.tier(FAR).ok();
        let name = |tier: &TierId| Ok::<_, std::convert::Infallible>(PlaceName(system.name(*tier)));
        match placement {
            // The short form, whatever the far tier's own name is.
            Placement::Weighted(runs) if matches!(&runs[..], [(TierId::NEAR, _), (tier, _)] if Some(*tier) == far) => {
                Self::Weighted(vec![
                    (PlaceName::near(), runs[0].1),
                    (PlaceName::far(), runs[1].1),
                ])
            }
            other => {
                let Ok(spec) = other.try_map(name);
                spec
            }
        }
    }
}

impl FromStr for PlacementSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        read(text)
            .and_then(check_runs)
            .map_err(|problem| SpecError {
                text: text.trim().to_owned(),
                problem,
            })
    }
}

fn read(text: &str) -> Result<PlacementSpec, SpecProblem> {
    let Some((word, parts)) = text.split_once(':') else {
        return text.parse().map(Placement::Bind);
    };
    let names = || parts.split(',').map(str::parse::<PlaceName>);
    match word.trim() {
        INTERLEAVE if parts.contains(':') => counts(parts),
        INTERLEAVE => Ok(Placement::Interleave(names().collect::<Result<_, _>>()?)),
        WEIGHTED => {
            let runs = parts.split(',').map(run);
            Ok(Placement::Weighted(runs.collect::<Result<_, _>>()?))
        }
        SPLIT => split(parts),
        other => Err(SpecProblem::Word {
            word: other.to_owned(),
        }),
    }
}

fn check_runs(spec: PlacementSpec) -> Result<PlacementSpec, SpecProblem> {
    let (runs, max) = (spec.places().count(), Placement::RUNS_MAX);
    match runs <= max {
        true => Ok(spec),
        false => Err(SpecProblem::Runs { runs, max }),
    }
}

/// `2:1`.
fn counts(text: &str) -> Result<PlacementSpec, SpecProblem> {
    let numbers = || {
        let (near, far) = text.split_once(':')?;
        PlacementSpec::near_far(near.trim().parse().ok()?, far.trim().parse().ok()?)
    };
    numbers().ok_or_else(|| SpecProblem::Counts {
        counts: text.trim().to_owned(),
    })
}

/// `near=3`.
fn run(part: &str) -> Result<(PlaceName, NonZeroU32), SpecProblem> {
    let wrong = || SpecProblem::Pages {
        part: part.trim().to_owned(),
    };
    let (name, pages) = part.split_once('=').ok_or_else(wrong)?;
    let pages = pages.trim().parse().map_err(|_| wrong())?;
    Ok((name.parse()?, pages))
}

/// `near=90%,far`.
fn split(parts: &str) -> Result<PlacementSpec, SpecProblem> {
    let wrong = || SpecProblem::Split {
        parts: parts.trim().to_owned(),
    };
    let (first, rest) = parts.split_once(',').ok_or_else(wrong)?;
    let (first, share) = first.split_once('=').ok_or_else(wrong)?;
    Ok(Placement::Split {
        first: first.parse()?,
        first_share: parse_share(share).ok_or_else(wrong)?,
        rest: rest.parse()?,
    })
}

/// `90%` or `0.9`.
fn parse_share(text: &str) -> Option<f64> {
    let (number, unit) = split_number(text)?;
    let number: f64 = number.replace('_', "").parse().ok()?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return None,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// In percent where that is read as the same number, else as a fraction.
fn share_text(share: f64) -> String {
    // Rounded, so that 7 % do not read as 7.000000000000001.
    let percent = format!("{}%", (share * 1e11).round() / 1e9);
    match parse_share(&percent) == Some(share) {
        true => percent,
        false => share.to_string(),
    }
}

impl fmt::Display for PlacementSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |parts: Vec<String>| parts.join(",");
        match self {
            Self::Bind(name) => write!(formatter, "{name}"),
            Self::Interleave(names) => {
                let names = names.iter().map(ToString::to_string).collect();
                write!(formatter, "{INTERLEAVE}:{}", list(names))
            }
            Self::Weighted(runs) => match &runs[..] {
                [(near, near_pages), (far, far_pages)]
                    if near.as_str() == NEAR && far.as_str() == FAR =>
                {
                    write!(formatter, "{INTERLEAVE}:{near_pages}:{far_pages}")
                }
                _ => {
                    let runs = runs.iter().map(|(name, pages)| format!("{name}={pages}"));
                    write!(formatter, "{WEIGHTED}:{}", list(runs.collect()))
                }
            },
            Self::Split {
                first,
                first_share,
                rest,
            } => {
                let share = share_text(*first_share);
                write!(formatter, "{SPLIT}:{first}={share},{rest}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tier::PARTS_MAX;
    use crate::{Budgets, TierKind, TierSpec};

    fn name() -> impl Strategy<Value = PlaceName> {
        "[a-z][a-z0-9._-]{0,8}".prop_filter_map("a word", |name| name.parse().ok())
    }

    fn pages() -> impl Strategy<Value = NonZeroU32> {
        (1..=u32::MAX).prop_filter_map("no pages", NonZeroU32::new)
    }

    fn spec() -> impl Strategy<Value = PlacementSpec> {
        let any_name = prop_oneof![name(), Just(PlaceName::near()), Just(PlaceName::far())].boxed();
        let names = prop::collection::vec(any_name.clone(), 1..5);
        let runs = prop::collection::vec((any_name.clone(), pages()), 1..5);
        prop_oneof![
            any_name.clone().prop_map(Placement::Bind),
            names.prop_map(Placement::Interleave),
            runs.prop_map(Placement::Weighted),
            (any_name.clone(), 0.0..=1.0, any_name).prop_map(|(first, first_share, rest)| {
                Placement::Split {
                    first,
                    first_share,
                    rest,
                }
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 512 }, ..ProptestConfig::default() })]

        #[test]
        fn what_is_printed_is_read_as_the_same(spec in spec()) {
            let text = spec.to_string();
            prop_assert_eq!(text.parse::<PlacementSpec>(), Ok(spec), "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9:,=%. _-]{0,40}") {
            if let Ok(spec) = text.parse::<PlacementSpec>() {
                prop_assert_eq!(spec.to_string().parse::<PlacementSpec>(), Ok(spec));
            }
        }
    }

    #[test]
    fn every_form_is_read_and_printed() {
        for text in [
            "near",
            "dax0.0",
            "cxl2",
            "cxl1-3",
            "node4-6",
            "interleave:2:1",
            "interleave:4294967295:1",
            "interleave:near,cxl,node4",
            "weighted:near=3,cxl=1,remote=2",
            "weighted:far=1,near=2",
            "split:near=90%,far",
            "split:near=0.1%,far",
            "split:near=29%,cxl1-3",
            "split:near=0%,far",
        ] {
            let spec: PlacementSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), text);
        }
        for (text, same) in [
            ("weighted:near=2,far=1", "interleave:2:1"),
            (" interleave : near , far ", "interleave:near,far"),
            ("interleave:3:0", "near"),
            ("interleave:0:3", "far"),
            ("split:near=0.25,far", "split:near=25%,far"),
            ("split:near=25.0 %,far", "split:near=25%,far"),
        ] {
            let spec: PlacementSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), same);
        }
    }

    #[test]
    fn what_is_no_placement_is_named_with_the_forms() {
        let long = format!("interleave:{}", vec!["near"; 65].join(","));
        for text in [
            "",
            "2",
            "near,far",
            "interleave",
            "x:y",
            "interleave:",
            "interleave:near,",
            "interleave:0:0",
            "interleave:x:1",
            "interleave:1:2:3",
            "weighted:near",
            "weighted:near=0",
            "weighted:near=4294967296",
            "split:near,far",
            "split:near=90%",
            "split:near=101%,far",
            "split:near=NaN,far",
            "split:near=90%,far,cxl",
            &long,
        ] {
            let error = text.parse::<PlacementSpec>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
            assert!(error.contains("interleave:N:F"), "{error}");
        }
    }

    fn system() -> std::sync::Arc<MemorySystem> {
        let specs = vec![
            TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30),
            TierSpec::new("cxl", TierKind::Cxl, [1, 2, 4], 1 << 30),
            TierSpec::new("dax0.0", TierKind::Dax, [], 1 << 30),
        ];
        MemorySystem::from_specs(specs, &Budgets::new()).expect("a system")
    }

    fn resolved(system: &MemorySystem, text: &str) -> Result<Placement, PlaceError> {
        let spec: PlacementSpec = text.parse().expect(text);
        spec.resolve(system)
    }

    #[test]
    fn names_are_tiers_parts_of_tiers_and_nodes() {
        let system = system();
        let nodes = |text: &str| {
            let placement = resolved(&system, text).expect(text);
            let nodes = placement.tiers().map(|tier| system.nodes(tier).to_vec());
            nodes.collect::<Vec<_>>()
        };
        assert_eq!(resolved(&system, "far"), Ok(Placement::Bind(TierId::at(1))));
        assert_eq!(nodes("node1-2"), [[1, 2]]);
        assert_eq!(nodes("interleave:node0,cxl2"), [[0], [4]]);
        assert_eq!(nodes("cxl0-2"), [[1, 2, 4]]);
        for (text, printed) in [
            ("far", "cxl"),
            ("node0", "near"),
            ("node4", "cxl2"),
            ("interleave:2:1", "interleave:2:1"),
            ("weighted:near=2,cxl=1", "interleave:2:1"),
            ("weighted:near=2,cxl1-2=1", "weighted:near=2,cxl1-2=1"),
            ("split:near=5%,far", "split:near=5%,cxl"),
        ] {
            let placement = resolved(&system, text).expect(text);
            let spec = PlacementSpec::of(&placement, &system);
            assert_eq!(spec.to_string(), printed);
            assert_eq!(spec.resolve(&system), Ok(placement));
        }
    }

    #[test]
    fn what_a_machine_has_not_is_named() {
        let unknown = resolved(&system(), "split:near=5%,cxl3").expect_err("no such device");
        assert_eq!(
            unknown.to_string(),
            "no tier or node is named \"cxl3\"; there are: near, cxl (cxl0 to cxl2), dax0.0, far"
        );
        let offline = resolved(&system(), "dax0.0").expect_err("not online");
        assert_eq!(
            offline.to_string(),
            "nothing can be put on tier \"dax0.0\": bring its memory online first"
        );
    }

    #[test]
    fn choices_of_devices_are_told_apart_up_to_a_number() {
        let cxl = TierSpec::new("cxl", TierKind::Cxl, (1..=20).collect::<Vec<_>>(), 1 << 30);
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
        let system = MemorySystem::from_specs(vec![near, cxl], &Budgets::new()).expect("a system");
        let single = |device: u32| system.place(&format!("cxl{device}"));
        for device in (0..PARTS_MAX as u32).chain(0..3) {
            let tier = single(device).expect("a device");
            assert_eq!((system.nodes(tier), tier.index()), (&[device + 1][..], 1));
        }
        let refused = single(15).expect_err("one more");
        assert!(refused.to_string().contains("\"cxl15\""), "{refused}");
        assert_eq!(system.place("cxl").map(TierId::is_whole), Ok(true));
    }
}
