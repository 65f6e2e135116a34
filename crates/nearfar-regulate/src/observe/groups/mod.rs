//! Observers of candidates: what each group moves to and from the slow tier.

mod resctrl;
mod residence;
mod samples;
mod servers;

pub use self::resctrl::GroupTraffic;
pub use self::residence::Residence;
pub use self::samples::GroupSamples;
pub use self::servers::ServerCounters;
use crate::error::RegulateError;

/// What groups did between two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupsSeen {
    /// What each moved to and from the slow tier, in the observer's unit and the order of the groups. What is no
    /// number says nothing.
    pub slow: Vec<f64>,
    /// What each has in the last levels; no number where that is not told.
    pub occupancy_bytes: Vec<f64>,
    /// How it is known what each moves; none of a group that nothing tells of any more: it is released.
    pub sureness: Vec<Option<Sureness>>,
    /// For how much of the time it was counted; the rest is scaled.
    pub counted_percent: f64,
    /// Of which groups something else tells since this look, and why: for people.
    pub notes: Vec<String>,
}

impl GroupsSeen {
    /// A look that says nothing of so many groups.
    pub(crate) fn nothing(groups: usize, sureness: Sureness) -> Self {
        Self {
            slow: vec![f64::NAN; groups],
            occupancy_bytes: vec![f64::NAN; groups],
            sureness: vec![Some(sureness); groups],
            counted_percent: 100.0,
            notes: Vec::new(),
        }
    }
}

/// How an observer knows what a victim has, or what a group moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sureness {
    /// The machine counts it, or the program itself does.
    Counted,
    /// It follows from a part of it: reads of a probe, or events, scaled where they were counted for a part of the time.
    Sampled,
    /// It is presumed from something else.
    Inferred,
}

impl Sureness {
    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Sampled => "sampled",
            Self::Inferred => "inferred",
        }
    }
}

/// Looks at what groups move.
pub trait GroupObserver {
    /// What it looks at, and what that leaves out: for people.
    fn tells(&self) -> String;

    /// How it knows.
    fn sureness(&self) -> Sureness;

    /// Unit of what it sees.
    fn unit(&self) -> &'static str;

    /// Less than this disturbs nobody, in its unit.
    fn least(&self) -> f64;

    /// What the groups did since the last look, taken at `now_ms`. A group that is gone moves what is no number.
    ///
    /// # Errors
    /// What keeps it from looking.
    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError>;
}

/// Unit and least of observers that count bytes.
pub(crate) const BYTES_PER_S: &str = "B/s";
/// A hundredth of what the slowest devices of CXL take.
pub(crate) const LEAST_BYTES_PER_S: f64 = 1e8;

/// What was read, or no number where the group is gone or its counter is not there for now.
fn or_nothing(read: Result<f64, RegulateError>) -> Result<f64, RegulateError> {
    match read {
        Err(RegulateError::Vanished { .. } | RegulateError::Garbled { .. }) => Ok(f64::NAN),
        other => other,
    }
}
