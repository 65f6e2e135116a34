//! What groups of a machine did, as a trace that can be replayed.

use std::fmt::Write;

use super::trace::{UNTIL_MS_MAX, read_trace};
use crate::error::RegulateError;
use crate::regulator::Decision;

/// A look is left out where no group differs from the one before by more than this share of the most.
const SAME: f64 = 0.02;

/// What groups asked for while they were looked at: what they moved, and of those that were slowed what they would have
/// moved by the share that they had. It keeps looks that differ, of as much time as a trace may have.
#[derive(Debug, Clone)]
pub struct Recording {
    groups: Vec<String>,
    /// When, and what each group asked for.
    looks: Vec<(f64, Vec<f64>)>,
    /// What each asked for when it was last seen.
    known: Vec<f64>,
    /// The most that all asked for together.
    most: f64,
}

impl Recording {
    /// One of these groups that has seen nothing.
    ///
    /// # Errors
    /// [`RegulateError::Record`] for groups that no trace can have: too many, or with a comma in their names.
    pub fn new(groups: &[String]) -> Result<Self, RegulateError> {
        let head = head(groups);
        let problem = match read_trace(&format!("{head}0{}\n", ",0".repeat(groups.len()))) {
            Ok(trace) if trace.groups == groups => {
                return Ok(Self {
                    groups: groups.to_vec(),
                    looks: Vec::new(),
                    known: vec![0.0; groups.len()],
                    most: 0.0,
                });
            }
            Err(RegulateError::Trace { line: 1, problem }) => problem,
            _ => "names have no commas, line breaks, or spaces around them".to_owned(),
        };
        Err(RegulateError::Record {
            head: head.trim_end().to_owned(),
            problem,
        })
    }

    /// Keeps what a decision saw. A look that says nothing of a group keeps what was known of it; one that is gone asks
    /// for nothing.
    pub fn see(&mut self, decision: &Decision) {
        for (known, group) in self.known.iter_mut().zip(&decision.groups) {
            let asked = group.slow / group.had;
            if group.is_gone {
                *known = 0.0;
            } else if asked.is_finite() {
                *known = asked;
            }
        }
        self.most = self.most.max(self.known.iter().sum());
        let differs = |(_, last): &(f64, Vec<f64>)| {
            let mut pairs = last.iter().zip(&self.known);
            pairs.any(|(last, known)| (last - known).abs() > SAME * self.most)
        };
        let is_kept = self.looks.last().is_none_or(differs);
        if is_kept && decision.at_ms <= UNTIL_MS_MAX {
            self.looks.push((decision.at_ms, self.known.clone()));
        }
    }

    /// The trace: shares of the most that all asked for together. None where nothing was moved.
    pub fn trace(&self) -> Option<String> {
        if self.most <= 0.0 {
            return None;
        }
        let mut text = head(&self.groups);
        // Writing to a string cannot fail.
        for (at_ms, asked) in &self.looks {
            let _ = write!(text, "{at_ms:.0}");
            for asked in asked {
                let _ = write!(text, ",{:.3}", asked / self.most);
            }
            text.push('\n');
        }
        Some(text)
    }
}

/// The first line of a trace.
fn head(groups: &[String]) -> String {
    format!("ms,{}\n", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulator::GroupDecision;

    fn decision(at_ms: f64, groups: [(f64, f64); 2]) -> Decision {
        let group = |(slow, had)| GroupDecision {
            name: String::new(),
            slow,
            slow_percent: f64::NAN,
            occupancy_bytes: f64::NAN,
            sureness: None,
            is_cause: false,
            is_gone: false,
            had,
            granted: 0.1,
        };
        Decision {
            at_ms,
            victim: 1.0,
            waits: None,
            granted: 1.0,
            groups: groups.map(group).into(),
            counted_percent: None,
            cxl: None,
            notes: Vec::new(),
            is_news: false,
            changes: Vec::new(),
        }
    }

    fn recording() -> Recording {
        Recording::new(&["batch", "tidy"].map(str::to_owned)).unwrap()
    }

    #[test]
    fn what_was_seen_can_be_replayed() {
        let mut recording = recording();
        assert_eq!(recording.trace(), None);
        for (at_ms, groups) in [
            (0.0, [(f64::NAN, 1.0), (f64::NAN, 1.0)]),
            (50.0, [(8e9, 1.0), (2e9, 1.0)]),
            // What is slowed to a half asks for twice as much.
            (100.0, [(4.01e9, 0.5), (2e9, 1.0)]),
            (150.0, [(0.0, 1.0), (f64::NAN, 1.0)]),
        ] {
            recording.see(&decision(at_ms, groups));
        }
        let mut gone = decision(200.0, [(0.0, 1.0), (f64::NAN, 1.0)]);
        gone.groups[1].is_gone = true;
        recording.see(&gone);
        let text = recording.trace().unwrap();
        let expected =
            "ms,batch,tidy\n0,0.000,0.000\n50,0.798,0.200\n150,0.000,0.200\n200,0.000,0.000\n";
        assert_eq!(text, expected);
        assert_eq!(read_trace(&text).unwrap().demands.len(), 4);
    }

    #[test]
    fn a_day_of_the_same_is_one_line_and_what_no_trace_can_have_is_left_out() {
        let mut recording = recording();
        for look in 0..100_000 {
            let off = 1.0 + 0.01 * f64::from(look % 2);
            recording.see(&decision(
                f64::from(look) * 864.0,
                [(8e9 * off, 1.0), (0.0, 1.0)],
            ));
        }
        assert_eq!(recording.looks.len(), 1);
        recording.see(&decision(UNTIL_MS_MAX, [(1e9, 1.0), (0.0, 1.0)]));
        recording.see(&decision(UNTIL_MS_MAX + 50.0, [(8e9, 1.0), (0.0, 1.0)]));
        let text = recording.trace().unwrap();
        assert_eq!(read_trace(&text).unwrap().demands.len(), 2, "{text}");
    }

    #[test]
    fn groups_that_no_trace_can_have_are_refused() {
        let refused = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Recording::new(&names).unwrap_err().to_string()
        };
        let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let cases = [
            (refused(&nine), "8 groups at most"),
            (refused(&["a,b", "c"]), "no commas"),
            (refused(&["a", "b\n0,1,1"]), "ms,a,b"),
            (refused(&["a", "a"]), "no name of one group"),
        ];
        for (message, expected) in cases {
            assert!(message.contains(expected), "{message}");
        }
        let eight: Vec<String> = nine[..8].iter().map(|name| (*name).to_owned()).collect();
        assert!(Recording::new(&eight).is_ok());
    }
}
