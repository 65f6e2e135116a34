//! Whether an emulated tier behaves as its profile says.

use serde::Serialize;

use super::waiting::Runs;
use crate::statistics::Summary;

/// Largest deviation from the profile that counts as finding it.
pub const TOLERANCE: f64 = 0.10;

/// A figure whose threads waited for a processor for more than this share of a run proves nothing
/// against a profile.
const DISTURBED_SHARE: f64 = 0.05;

/// What a figure of an emulated tier says about the profile it came from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The profile's figure was found within [`TOLERANCE`].
    Within {
        /// Found over profile, less one.
        error: f64,
    },
    /// The profile asks for more than this machine has, so emulation cannot reach it: a latency
    /// shorter or a bandwidth higher than the machine's own.
    MachineSlower {
        /// What the machine has without delays; for a latency, together with the look at
        /// the clock that every read of an emulated tier needs.
        machine: f64,
        /// What the profile asks for.
        profile: f64,
    },
    /// The profile's figure was not found, but other processes kept the threads from running: to
    /// be repeated on a quiet machine.
    Disturbed {
        /// Found over profile, less one.
        error: f64,
        /// Share of the run that a thread spent waiting for a processor.
        waited_share: f64,
    },
    /// The machine could have reached the profile's figure and did not.
    Off {
        /// What was found.
        found: f64,
        /// What the profile asks for.
        profile: f64,
        /// Found over profile, less one.
        error: f64,
    },
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// What a verdict is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    pub found: f64,
    pub waited_share: Option<f64>,
    /// The best that the machine can do.
    pub machine: f64,
    pub profile: f64,
    pub better: Better,
}

impl Evidence {
    pub(super) fn judge(self) -> Verdict {
        let Self {
            found,
            machine,
            profile,
            ..
        } = self;
        let error = found / profile - 1.0;
        let machine_slower = match self.better {
            Better::Lower => machine > profile,
            Better::Higher => machine < profile,
        };
        match self.waited_share {
            _ if error.abs() <= TOLERANCE => Verdict::Within { error },
            _ if machine_slower => Verdict::MachineSlower { machine, profile },
            Some(waited_share) if waited_share > DISTURBED_SHARE => Verdict::Disturbed {
                error,
                waited_share,
            },
            _ => Verdict::Off {
                found,
                profile,
                error,
            },
        }
    }
}

impl Verdict {
    /// Whether nothing speaks against the emulation: all but [`Verdict::Off`].
    pub fn is_sound(&self) -> bool {
        !matches!(self, Self::Off { .. })
    }
}

/// One figure of an emulated tier, beside what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Check {
    /// The figure with delays: modelled.
    pub found: Summary,
    /// The figure of the same memory without delays: measured.
    pub machine: Summary,
    /// What the profile makes it: for bandwidths, the share of the threads in use, and not more
    /// than their cores can keep in flight.
    pub profile: f64,
    /// What follows.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Check {
    pub(super) fn latency(found: &Runs, machine: &Runs, profile: f64, clock_ns: f64) -> Self {
        let reachable = machine.figure.median + clock_ns;
        Self::new(found, machine, profile, Better::Lower, reachable)
    }

    pub(super) fn bandwidth(found: &Runs, machine: &Runs, profile: f64) -> Self {
        Self::new(
            found,
            machine,
            profile,
            Better::Higher,
            machine.figure.median,
        )
    }

    fn new(found: &Runs, machine: &Runs, profile: f64, better: Better, reachable: f64) -> Self {
        let evidence = Evidence {
            found: found.figure.median,
            waited_share: found.waited_share,
            machine: reachable,
            profile,
            better,
        };
        Self {
            found: found.figure,
            machine: machine.figure,
            profile,
            verdict: evidence.judge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(found: f64, machine: f64) -> Verdict {
        let better = Better::Lower;
        Evidence {
            found,
            waited_share: Some(0.01),
            machine,
            profile: 500.0,
            better,
        }
        .judge()
    }

    fn bandwidth(found: f64, machine: f64, waited_share: Option<f64>) -> Verdict {
        Evidence {
            found,
            waited_share,
            machine,
            profile: 40e9,
            better: Better::Higher,
        }
        .judge()
    }

    #[test]
    fn latencies_are_judged() {
        assert!(matches!(latency(520.0, 150.0), Verdict::Within { .. }));
        assert!(matches!(
            latency(700.0, 690.0),
            Verdict::MachineSlower { .. }
        ));
        assert!(matches!(latency(600.0, 150.0), Verdict::Off { .. }));
        assert!(matches!(latency(400.0, 150.0), Verdict::Off { .. }));
    }

    #[test]
    fn bandwidths_are_judged() {
        assert!(matches!(
            bandwidth(38e9, 90e9, None),
            Verdict::Within { .. }
        ));
        assert!(matches!(
            bandwidth(38e9, 90e9, Some(0.5)),
            Verdict::Within { .. }
        ));
        assert!(matches!(
            bandwidth(12e9, 13e9, Some(0.5)),
            Verdict::MachineSlower { .. }
        ));
        assert!(matches!(
            bandwidth(30e9, 90e9, Some(0.5)),
            Verdict::Disturbed { .. }
        ));
        assert!(matches!(bandwidth(30e9, 90e9, None), Verdict::Off { .. }));
        assert!(!bandwidth(30e9, 90e9, Some(0.0)).is_sound());
    }
}
