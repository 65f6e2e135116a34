//! What `perf stat -j` prints, and the processor's model that says which events it has.

use serde::Deserialize;

use crate::Known;

/// A count of one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// Its name.
    pub event: String,
    /// The count, or a metric's value. `perf` has scaled what was counted for a part of the time only.
    pub value: Known<f64>,
    /// Its unit, if it is a metric.
    pub unit: String,
    /// The group of tasks that it is of, with `--for-each-cgroup`.
    pub group: Option<String>,
    /// When the interval ended, in seconds from the start, with `-I`.
    pub until_s: Option<f64>,
    /// For how much of the time the event was counted, in per cent: less than 100 where there are more events
    /// than counters.
    pub counted_percent: Option<f64>,
}

impl Count {
    /// A count of the whole run, of nobody in particular.
    pub fn new(event: impl Into<String>, value: Known<f64>, unit: impl Into<String>) -> Self {
        Self {
            event: event.into(),
            value,
            unit: unit.into(),
            group: None,
            until_s: None,
            counted_percent: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    interval: Option<f64>,
    cgroup: Option<String>,
    event: Option<String>,
    counter_value: Option<Value>,
    pcnt_running: Option<f64>,
    metric_value: Option<Value>,
    metric_unit: Option<String>,
}

/// A number, which versions of `perf` print as a number or as text, or why there is none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    fn known(&self) -> Known<f64> {
        match self {
            Self::Number(number) => Known::Value(*number),
            Self::Text(text) => match text.trim().parse::<f64>() {
                Ok(number) => Known::Value(number),
                Err(_) => Known::unavailable(format!("perf: {}", text.trim_matches(['<', '>']))),
            },
        }
    }
}

/// The counts of all lines; what is no JSON is skipped.
pub fn parse(text: &str) -> Vec<Count> {
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str::<Line>(line.trim()).ok())
        .flat_map(Line::counts)
        .collect()
}

impl Line {
    /// The event's count, and the metric of the top-down method that stands beside it.
    fn counts(self) -> impl Iterator<Item = Count> {
        let of = |event: &str, value: &Value, unit: &str| Count {
            group: self.cgroup.clone(),
            until_s: self.interval,
            counted_percent: self.pcnt_running,
            ..Count::new(event, value.known(), unit)
        };
        let event = self.event.as_deref().filter(|event| !event.is_empty());
        let count = event.zip(self.counter_value.as_ref());
        let count = count.map(|(event, value)| of(event, value, ""));
        let metric = self.metric_unit.as_deref().zip(self.metric_value.as_ref());
        let metric = metric.and_then(|(unit, value)| {
            let (unit, name) = unit.trim().rsplit_once("  ")?;
            let is_top_down = name.contains("tma_");
            is_top_down.then(|| of(name.trim(), value, unit.trim()))
        });
        count.into_iter().chain(metric)
    }
}

/// Processors that have the offcore and uncore events of Sapphire Rapids, by their model in CPUID: Sapphire, Emerald and
/// Granite Rapids.
const WITH_SAPPHIRE_RAPIDS_EVENTS: [u32; 3] = [143, 207, 173];

/// Whether this processor has the events of Sapphire Rapids.
///
/// # Errors
/// The reason why it has not.
pub fn check_sapphire_rapids_events() -> Result<(), String> {
    match intel_model().is_some_and(|model| WITH_SAPPHIRE_RAPIDS_EVENTS.contains(&model)) {
        true => Ok(()),
        false => Err("the events of this processor's model are not known".to_owned()),
    }
}

/// The model of this processor in CPUID, if it is Intel's.
#[cfg(target_arch = "x86_64")]
pub fn intel_model() -> Option<u32> {
    let signature = std::arch::x86_64::__cpuid(1).eax;
    let model = (signature >> 4 & 0xF) | (signature >> 12 & 0xF0);
    is_intel().then_some(model)
}

/// Whether this processor is Intel's.
#[cfg(target_arch = "x86_64")]
pub fn is_intel() -> bool {
    // "Genu", the first letters of the vendor.
    std::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Genu")
}

/// The model of this processor in CPUID, if it is Intel's.
#[cfg(not(target_arch = "x86_64"))]
pub fn intel_model() -> Option<u32> {
    None
}

/// Whether this processor is Intel's.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_intel() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "{\"counter-value\" : \"1200.000000\", \"event\" : \"cycles\", \"event-runtime\" : 5}\n\
                    {\"counter-value\" : \"<not supported>\", \"event\" : \"instructions\"}\n\
                    {\"metric-value\" : \"62.5\", \"metric-unit\" : \"%  tma_dram_bound\"}\n\
                    no JSON\n";
        let counts = parse(text);
        assert_eq!(counts[0], Count::new("cycles", Known::Value(1200.0), ""));
        assert_eq!(counts[1].value.reason(), Some("perf: not supported"));
        assert_eq!(
            counts[2],
            Count::new("tma_dram_bound", Known::Value(62.5), "%")
        );
        assert_eq!(counts.len(), 3);
    }

    #[test]
    fn intervals_groups_and_numbers_without_quotes_are_read() {
        let text = "{\"interval\" : 0.100149490, \"counter-value\" : \"200.5\", \"unit\" : \"msec\", \
                    \"event\" : \"cpu-clock\", \"cgroup\" : \"batch\", \"event-runtime\" : 56, \
                    \"pcnt-running\" : 66.70, \"metric-value\" : 2.005652, \"metric-unit\" : \"CPUs utilized\"}";
        let expected = Count {
            group: Some("batch".to_owned()),
            until_s: Some(0.100_149_490),
            counted_percent: Some(66.7),
            ..Count::new("cpu-clock", Known::Value(200.5), "")
        };
        assert_eq!(parse(text), [expected]);
    }
}
