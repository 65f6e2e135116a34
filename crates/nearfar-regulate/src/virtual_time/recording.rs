//! What groups of a machine did, as a trace that can be replayed.

use std::fmt::Write;

use crate::regulator::Decision;

/// A line is left out where no group differs from the line before by more than this share of the most.
const SAME: f64 = 0.02;

/// What groups asked for while they were looked at: what they moved, and of those that were slowed what they would have
/// moved by their share.
#[derive(Debug, Clone)]
pub struct Recording {
    groups: Vec<String>,
    /// When, and what each group asked for.
    looks: Vec<(f64, Vec<f64>)>,
}

impl Recording {
    /// One of these groups that has seen nothing.
    pub fn new(groups: &[String]) -> Self {
        Self {
            groups: groups.to_vec(),
            looks: Vec::new(),
        }
    }

    /// Keeps what a decision saw. A look that says nothing of a group keeps what was known of it.
    pub fn see(&mut self, decision: &Decision) {
        let before = self.looks.last().map(|(_, asked)| asked.as_slice());
        let asked = decision.groups.iter().enumerate().map(|(index, group)| {
            let asked = group.slow / group.granted;
            match asked.is_finite() {
                true => asked,
                false => before.map_or(0.0, |before| before[index]),
            }
        });
        let asked = asked.collect();
        self.looks.push((decision.at_ms, asked));
    }

    /// The trace: shares of the most that all asked for together. None where nothing was moved.
    pub fn trace(&self) -> Option<String> {
        let together = self
            .looks
            .iter()
            .map(|(_, asked)| asked.iter().sum::<f64>());
        let most = together.fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let mut text = format!("ms,{}\n", self.groups.join(","));
        let mut last: Option<Vec<f64>> = None;
        for (at_ms, asked) in &self.looks {
            let shares: Vec<f64> = asked.iter().map(|asked| asked / most).collect();
            let is_same = |last: &Vec<f64>| {
                let mut pairs = last.iter().zip(&shares);
                pairs.all(|(last, share)| (last - share).abs() <= SAME)
            };
            if last.as_ref().is_some_and(is_same) {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "{at_ms:.0}");
            for share in &shares {
                let _ = write!(text, ",{share:.3}");
            }
            text.push('\n');
            last = Some(shares);
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::read_trace;
    use super::*;
    use crate::regulator::GroupDecision;

    fn decision(at_ms: f64, groups: [(f64, f64); 2]) -> Decision {
        let group = |(slow, granted)| GroupDecision {
            name: String::new(),
            slow,
            slow_percent: f64::NAN,
            occupancy_bytes: f64::NAN,
            sureness: None,
            is_cause: false,
            is_gone: false,
            granted,
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

    #[test]
    fn what_was_seen_can_be_replayed() {
        let mut recording = Recording::new(&["batch", "tidy"].map(str::to_owned));
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
        let text = recording.trace().unwrap();
        let expected = "ms,batch,tidy\n0,0.000,0.000\n50,0.798,0.200\n150,0.000,0.200\n";
        assert_eq!(text, expected);
        assert_eq!(read_trace(&text).unwrap().demands.len(), 3);
    }
}
