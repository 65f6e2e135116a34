//! What groups ask for over time, as text.

use crate::error::RegulateError;

/// Groups that a trace may have: what they do together is computed for all that run or stand still.
const GROUPS_MAX: usize = 8;
/// When its last line may begin: what happens is kept for every tick until then.
pub(super) const UNTIL_MS_MAX: f64 = 3_600_000.0;
/// The group of a trace that names none.
const UNNAMED: &str = "aggressor";

/// What groups ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Their names.
    pub groups: Vec<String>,
    /// In the order of time.
    pub demands: Vec<Demand>,
}

/// What the groups ask for from a time on, each as a share of what the far tier takes from all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// From when.
    pub from_ms: f64,
    /// 0 is none, 1 is all, in the order of the groups.
    pub shares: Vec<f64>,
}

impl Trace {
    /// One group that asks for all from a time on.
    pub(super) fn all_from(from_ms: f64) -> Self {
        Self {
            groups: vec![UNNAMED.to_owned()],
            demands: vec![Demand {
                from_ms,
                shares: vec![1.0],
            }],
        }
    }

    /// When the last line begins.
    pub fn last_ms(&self) -> f64 {
        self.demands.last().map_or(0.0, |demand| demand.from_ms)
    }

    /// What each group asks for at a time.
    pub(super) fn at(&self, now_ms: f64) -> Vec<f64> {
        let after = self
            .demands
            .partition_point(|demand| demand.from_ms <= now_ms);
        let demand = after.checked_sub(1).map(|index| &self.demands[index]);
        demand.map_or_else(
            || vec![0.0; self.groups.len()],
            |demand| demand.shares.clone(),
        )
    }

    /// The most that each group asks for: its speed when nothing limits it.
    pub(super) fn most(&self) -> Vec<f64> {
        let mut most = vec![0.0_f64; self.groups.len()];
        for demand in &self.demands {
            for (most, share) in most.iter_mut().zip(&demand.shares) {
                *most = most.max(*share);
            }
        }
        most
    }
}

/// Reads a trace: lines of `ms,share` in the order of time, or, below a first line `ms,NAME,NAME`, with a share for
/// each group; `#` begins a comment. Its last line begins within an hour.
///
/// # Errors
/// [`RegulateError::Trace`] with the line.
pub fn read_trace(text: &str) -> Result<Trace, RegulateError> {
    let mut trace = Trace {
        groups: vec![UNNAMED.to_owned()],
        demands: Vec::new(),
    };
    let mut is_first = true;
    for (index, line) in text.lines().enumerate() {
        let wrong = |problem: String| RegulateError::Trace {
            line: index + 1,
            problem,
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("ms,") {
            Some("share") if is_first => {}
            Some(names) if is_first => trace.groups = read_names(names).map_err(wrong)?,
            _ => {
                let last = trace.demands.last();
                let demand = read_demand(line, trace.groups.len(), last).map_err(wrong)?;
                trace.demands.push(demand);
            }
        }
        is_first = false;
    }
    if trace.demands.is_empty() {
        return Err(RegulateError::Trace {
            line: 1,
            problem: "there is nothing in it".to_owned(),
        });
    }
    Ok(trace)
}

fn read_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let is_named_twice = |name: &String| names.iter().filter(|one| *one == name).count() > 1;
    match names
        .iter()
        .find(|name| name.is_empty() || is_named_twice(name))
    {
        Some(name) => Err(format!("{name:?} is no name of one group")),
        None if names.len() > GROUPS_MAX => Err(format!("{GROUPS_MAX} groups at most")),
        None => Ok(names),
    }
}

fn read_demand(line: &str, groups: usize, last: Option<&Demand>) -> Result<Demand, String> {
    let numbers = line.split(',').map(|text| text.trim().parse::<f64>().ok());
    let numbers: Vec<Option<f64>> = numbers.collect();
    if numbers.len() != groups + 1 {
        return Err(match groups {
            1 => "write ms,share".to_owned(),
            _ => format!("write ms and the shares of {groups} groups"),
        });
    }
    let numbers = numbers
        .into_iter()
        .map(|one| one.filter(|one| one.is_finite()));
    let Some(mut numbers) = numbers.collect::<Option<Vec<f64>>>() else {
        return Err("all are numbers".to_owned());
    };
    let from_ms = numbers.remove(0);
    if !numbers.iter().all(|share| (0.0..=1.0).contains(share)) {
        return Err("a share is from 0 to 1".to_owned());
    }
    if from_ms < 0.0 || last.is_some_and(|last| last.from_ms >= from_ms) {
        return Err("times rise, from 0 on".to_owned());
    }
    if from_ms > UNTIL_MS_MAX {
        return Err(format!("a trace ends after {UNTIL_MS_MAX} ms"));
    }
    Ok(Demand {
        from_ms,
        shares: numbers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_or_there_is_one() {
        let trace = read_trace("ms,share\n0,1\n# back\n3000,0.5\n").unwrap();
        assert_eq!(trace.groups, [UNNAMED]);
        assert_eq!(trace.at(2_999.0), [1.0]);
        assert_eq!(trace.at(3_000.0), [0.5]);
        let trace = read_trace("ms,batch,tidy\n100,1,0.1\n200,0,0.2\n").unwrap();
        assert_eq!(trace.groups, ["batch", "tidy"]);
        assert_eq!(trace.at(50.0), [0.0, 0.0]);
        assert_eq!(trace.at(150.0), [1.0, 0.1]);
        assert_eq!(trace.most(), [1.0, 0.2]);
        assert_eq!(trace.last_ms(), 200.0);
    }

    #[test]
    fn damaged_traces_are_refused_with_their_line() {
        let cases = [
            ("", "line 1: there is nothing"),
            ("0;1", "line 1: write ms,share"),
            ("0,1\nx,1", "line 2: all are numbers"),
            ("0,1.5", "line 1: a share is from 0 to 1"),
            ("5,1\n5,0", "line 2: times rise"),
            ("0,NaN", "line 1: all are numbers"),
            (
                "0,1\n3600000,0\n3600001,1",
                "line 3: a trace ends after 3600000 ms",
            ),
            ("1e15,1", "line 1: a trace ends after"),
            ("ms,a,a\n0,1,1", "line 1: \"a\" is no name of one group"),
            ("ms,a,\n0,1,1", "line 1: \"\" is no name"),
            ("ms,a,b\n0,1", "line 2: write ms and the shares of 2 groups"),
            ("0,1\nms,a,b", "line 2: write ms,share"),
            ("ms,a,b,c,d,e,f,g,h,i", "line 1: 8 groups at most"),
        ];
        for (text, expected) in cases {
            let message = read_trace(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
