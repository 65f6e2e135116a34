//! Decisions as lines, for people and for programs.

use nearfar_topology::perf::is_scaled;
use serde_json::{Value, json};

use crate::attribution::Attribution;
use crate::observe::{BYTES_PER_S, Observer, Sureness, Waits};
use crate::regulator::{Decision, GroupDecision};

/// What is needed beside decisions to tell them.
#[derive(Debug, Clone)]
pub struct Report {
    victim: Watched,
    attribution: Option<Attributed>,
}

/// How it is known what the victim has.
#[derive(Debug, Clone)]
struct Watched {
    tells: &'static str,
    sureness: Sureness,
}

#[derive(Debug, Clone)]
struct Attributed {
    tier: String,
    unit: &'static str,
    sureness: Sureness,
}

impl Report {
    /// A report of decisions that this observer and this attribution led to; none where nothing looks at groups.
    pub fn new(observer: &dyn Observer, attribution: Option<&Attribution<'_>>) -> Self {
        let of = |attribution: &Attribution<'_>| Attributed {
            tier: attribution.tier().to_owned(),
            unit: attribution.unit(),
            sureness: attribution.sureness(),
        };
        Self {
            victim: Watched {
                tells: observer.tells(),
                sureness: observer.sureness(),
            },
            attribution: attribution.map(of),
        }
    }

    /// Lines for people: who is a cause now where that is news, and a line for each file that was changed.
    pub fn text(&self, decision: &Decision) -> Vec<String> {
        let at_s = decision.at_ms * 1e-3;
        let notes = decision.notes.iter();
        let mut lines: Vec<String> = notes.map(|note| format!("{at_s:.1} s: {note}")).collect();
        if decision.is_news {
            let gone = decision.groups.iter().filter(|group| group.is_gone);
            lines.extend(gone.map(|group| format!("{at_s:.1} s: {} is gone", group.name)));
            if let Some(attribution) = &self.attribution {
                lines.push(format!("{at_s:.1} s: {}", attribution.causes(decision)));
            }
        }
        let waits = decision.waits.map(told).unwrap_or_default();
        let of = |(path, content): &(std::path::PathBuf, String)| {
            format!(
                "{at_s:.1} s: victim {:.0} %{waits}, granted {:.0} %: {} = {}",
                decision.victim * 100.0,
                decision.granted * 100.0,
                path.display(),
                content.trim_end().replace('\n', "; "),
            )
        };
        lines.extend(decision.changes.iter().map(of));
        lines
    }

    /// A line of JSON for programs; none where nothing has become another. What is no number is null.
    pub fn json(&self, decision: &Decision) -> Option<String> {
        let is_silent = decision.changes.is_empty() && decision.notes.is_empty();
        if !decision.is_news && is_silent {
            return None;
        }
        let groups: Vec<Value> = decision.groups.iter().map(of_group).collect();
        let of_change = |(file, content): &(std::path::PathBuf, String)| json!({ "file": file.display().to_string(), "content": content });
        let changes: Vec<Value> = decision.changes.iter().map(of_change).collect();
        let attribution = self.attribution.as_ref();
        let line = json!({
            "at_ms": decision.at_ms,
            "victim": decision.victim,
            "victim_sureness": self.victim.sureness.name(),
            "victim_told_by": self.victim.tells,
            "waits": decision.waits.map(|waits| json!({
                "memory": waits.memory,
                "io": waits.io,
                "cpu": waits.cpu,
            })),
            "granted": decision.granted,
            "slow_tier": attribution.map(|attribution| &attribution.tier),
            "sureness": attribution.map(|attribution| attribution.sureness.name()),
            "slow_unit": attribution.map(|attribution| attribution.unit),
            "counted_percent": decision.counted_percent,
            "cxl_bytes_per_s": decision.cxl.map(|seen| seen.bytes_per_s),
            "cxl_counted_percent": decision.cxl.map(|seen| seen.counted_percent),
            "notes": decision.notes,
            "groups": groups,
            "changes": changes,
        });
        Some(line.to_string())
    }
}

/// What a victim waits for, of which something is known.
fn told(waits: Waits) -> String {
    let kinds = [
        ("memory", waits.memory),
        ("storage", waits.io),
        ("a processor", waits.cpu),
    ];
    let known = kinds.into_iter().filter(|(_, share)| share.is_finite());
    let known: Vec<String> = known
        .map(|(kind, share)| format!("{kind} {:.0} %", 100.0 * share))
        .collect();
    match known.is_empty() {
        true => String::new(),
        false => format!(" (waits for {})", known.join(", ")),
    }
}

fn of_group(group: &GroupDecision) -> Value {
    json!({
        "name": group.name,
        "slow": group.slow,
        "slow_percent": group.slow_percent,
        "occupancy_bytes": group.occupancy_bytes,
        "sureness": group.sureness.map(Sureness::name),
        "is_cause": group.is_cause,
        "is_gone": group.is_gone,
        "granted": group.granted,
    })
}

impl Attributed {
    fn causes(&self, decision: &Decision) -> String {
        let named = |is_cause: bool| {
            let groups = decision.groups.iter();
            let groups = groups.filter(|group| group.is_cause == is_cause && !group.is_gone);
            let told: Vec<String> = groups.map(|group| self.group(group)).collect();
            told.join(", ")
        };
        let (causes, others) = (named(true), named(false));
        let sure = self.sure(decision);
        let tier = &self.tier;
        match (causes.as_str(), others.as_str()) {
            ("", others) => format!("no group is a cause: {others} of {tier}, {sure}"),
            (causes, "") => format!("the cause is {causes} of {tier}, {sure}"),
            (causes, others) => format!("the cause is {causes} of {tier}, {sure}; not {others}"),
        }
    }

    /// A group with what it moves, and what it has in the last levels where that is told.
    fn group(&self, group: &GroupDecision) -> String {
        if !group.slow.is_finite() {
            return format!("{} (nothing seen)", group.name);
        }
        let moved = match self.unit {
            BYTES_PER_S => format!("{:.2} GB/s", group.slow * 1e-9),
            unit => format!("{:.1} {unit}", group.slow),
        };
        let share = group.slow_percent;
        let occupancy = match group.occupancy_bytes.is_finite() {
            true => format!(
                ", {:.1} MiB of last level",
                group.occupancy_bytes / 1_048_576.0
            ),
            false => String::new(),
        };
        let sure = match group.sureness {
            Some(sureness) if sureness != self.sureness => format!(", {}", sureness.name()),
            _ => String::new(),
        };
        let moved = format!("{moved}{occupancy}{sure}");
        match share.is_finite() {
            true => format!("{} ({share:.0} %, {moved})", group.name),
            false => format!("{} ({moved})", group.name),
        }
    }

    fn sure(&self, decision: &Decision) -> String {
        let name = self.sureness.name();
        match decision.counted_percent {
            Some(percent) if is_scaled(percent) => {
                format!("{name} for {percent:.0} % of the time and scaled")
            }
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn decision(is_cause: bool) -> Decision {
        let group = |name: &str, slow: f64, is_cause, granted| GroupDecision {
            name: name.to_owned(),
            slow,
            slow_percent: slow / 1e8,
            occupancy_bytes: f64::NAN,
            sureness: Some(Sureness::Sampled),
            is_cause,
            is_gone: false,
            had: 1.0,
            granted,
        };
        Decision {
            at_ms: 1_250.0,
            victim: 0.4,
            waits: None,
            granted: 0.6,
            groups: vec![
                group("batch", 9.8e9, is_cause, 0.6),
                group("tidy", 2e8, false, 1.0),
            ],
            counted_percent: Some(66.7),
            cxl: None,
            notes: Vec::new(),
            is_news: true,
            changes: vec![(PathBuf::from("/x/cpu.max"), "960000 100000\n".to_owned())],
        }
    }

    fn watched() -> Watched {
        Watched {
            tells: "a victim",
            sureness: Sureness::Inferred,
        }
    }

    fn report(sureness: Sureness) -> Report {
        Report {
            victim: watched(),
            attribution: Some(Attributed {
                tier: "cxl".to_owned(),
                unit: "B/s",
                sureness,
            }),
        }
    }

    #[test]
    fn people_are_told_the_cause_the_tier_and_how_sure_it_is() {
        let lines = report(Sureness::Sampled).text(&decision(true));
        let cause = "1.2 s: the cause is batch (98 %, 9.80 GB/s) of cxl, sampled for 67 % of the time and \
                     scaled; not tidy (2 %, 0.20 GB/s)";
        let change = "1.2 s: victim 40 %, granted 60 %: /x/cpu.max = 960000 100000";
        assert_eq!(lines, [cause, change]);
        let none = report(Sureness::Sampled).text(&Decision {
            counted_percent: Some(100.0),
            ..decision(false)
        });
        let expected = "1.2 s: no group is a cause: batch (98 %, 9.80 GB/s), tidy (2 %, 0.20 GB/s) of cxl, \
                        sampled";
        assert_eq!(none[0], expected);
        // Without a look at groups there is no cause to tell.
        let alone = Report {
            victim: watched(),
            attribution: None,
        };
        assert_eq!(alone.text(&decision(true)).len(), 1);
    }

    #[test]
    fn a_group_that_is_known_in_another_way_is_told_so_with_its_notes() {
        let mut mixed = decision(true);
        mixed.groups[1].sureness = Some(Sureness::Counted);
        mixed.notes = vec!["tidy counts again".to_owned()];
        let lines = report(Sureness::Sampled).text(&mixed);
        assert_eq!(lines[0], "1.2 s: tidy counts again");
        let tidy = "; not tidy (2 %, 0.20 GB/s, counted)";
        assert!(lines[1].ends_with(tidy), "{lines:?}");
        // A note is news by itself.
        mixed.is_news = false;
        mixed.changes.clear();
        let line = report(Sureness::Sampled).json(&mixed).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["notes"][0], "tidy counts again");
        assert_eq!(line["groups"][0]["sureness"], "sampled");
        assert_eq!(line["groups"][1]["sureness"], "counted");
    }

    #[test]
    fn what_the_victim_waits_for_is_told_as_far_as_it_is_known() {
        let waits = Waits {
            memory: 0.6,
            io: 0.05,
            cpu: f64::NAN,
        };
        let waiting = Decision {
            waits: Some(waits),
            ..decision(true)
        };
        let lines = report(Sureness::Sampled).text(&waiting);
        let expected = "victim 40 % (waits for memory 60 %, storage 5 %), granted 60 %";
        assert!(lines[1].contains(expected), "{lines:?}");
        let line = report(Sureness::Sampled).json(&waiting).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["waits"]["io"], 0.05);
        assert_eq!(line["waits"]["cpu"], Value::Null);
    }

    #[test]
    fn programs_are_told_the_same() {
        let line = report(Sureness::Sampled).json(&decision(true)).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["victim_sureness"], "inferred");
        assert_eq!(line["victim_told_by"], "a victim");
        assert_eq!(line["slow_tier"], "cxl");
        assert_eq!(line["sureness"], "sampled");
        assert_eq!(line["counted_percent"], 66.7);
        assert_eq!(line["groups"][0]["is_cause"], true);
        assert_eq!(line["groups"][0]["occupancy_bytes"], Value::Null);
        assert_eq!(line["changes"][0]["file"], "/x/cpu.max");
        let silent = Decision {
            is_news: false,
            changes: Vec::new(),
            ..decision(true)
        };
        assert_eq!(report(Sureness::Sampled).json(&silent), None);
    }
}
