//! What `perf stat` prints, as JSON (`-j`, since version 6.0) or separated by commas (`-x ,`), and the processor's
//! model that says which events it has.

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

/// Least share of the time that any of these was counted for, in per cent; none where that is told of none. What is not
/// nearly 100 was scaled, and events of the same run were not counted in the same moments.
pub fn counted_percent<'a>(counts: impl IntoIterator<Item = &'a Count>) -> Option<f64> {
    let percent = counts.into_iter().filter_map(|count| count.counted_percent);
    percent.reduce(f64::min)
}

/// Whether what was counted for such a share of the time was scaled.
pub fn is_scaled(counted_percent: f64) -> bool {
    counted_percent < 99.5
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
    text.lines()
        .filter_map(json)
        .flat_map(Line::counts)
        .collect()
}

/// A line of JSON. Some versions leave a comma behind the last field.
fn json(line: &str) -> Option<Line> {
    let line = line.trim();
    let read = |line: &str| serde_json::from_str(line).ok();
    read(line).or_else(|| {
        let fields = line.strip_suffix('}')?.trim_end().strip_suffix(',')?;
        read(&format!("{fields}}}"))
    })
}

/// The counts of lines that `-x ,` separates, without `-I`, cgroups and topologies; what is none is skipped.
pub fn parse_separated(text: &str) -> Vec<Count> {
    let lines = text.lines().filter_map(separated);
    lines.flat_map(Line::counts).collect()
}

/// `value,unit,event,run time,per cent of it` and, where there is one, `,metric,unit of the metric`.
fn separated(line: &str) -> Option<Line> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    if fields.len() < 5 || line.starts_with('#') {
        return None;
    }
    let field = |index: usize| fields.get(index).filter(|text| !text.is_empty());
    let text = |index: usize| field(index).map(|text| Value::Text((*text).to_owned()));
    Some(Line {
        interval: None,
        cgroup: None,
        event: field(2).map(|event| (*event).to_owned()),
        counter_value: text(0),
        pcnt_running: field(4).and_then(|percent| percent.parse().ok()),
        metric_value: text(5),
        metric_unit: field(6).map(|unit| (*unit).to_owned()),
    })
}

/// Whether the `perf` that says this of itself has `stat -j`.
pub fn prints_json(version: &str) -> bool {
    let number = version.trim().trim_start_matches("perf version").trim();
    let major = number
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= 6)
}

/// Metrics of the top-down method by AMD's names, which say nothing of the method.
const AMD_TOP_DOWN: [&str; 9] = [
    "retiring",
    "bad_speculation",
    "frontend_bound",
    "backend_bound",
    "smt_contention",
    "frontend_bound_by_latency",
    "frontend_bound_by_bandwidth",
    "backend_bound_by_memory",
    "backend_bound_by_cpu",
];

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
            let name = name.trim();
            let is_top_down = name.contains("tma_") || AMD_TOP_DOWN.contains(&name);
            // A share of the slots is one of a hundred.
            let unit = unit.trim().trim_end_matches("slots");
            is_top_down.then(|| of(name, value, unit))
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

/// Whether this processor is AMD's of the generation Zen 4 or later.
#[cfg(target_arch = "x86_64")]
pub fn is_zen_4_or_later() -> bool {
    // "Auth", the first letters of the vendor.
    let is_amd = std::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Auth");
    is_amd && is_zen_4(std::arch::x86_64::__cpuid(1).eax)
}

/// Whether the processor with this signature is of the generation Zen 4 or later: family 1Ah, or of family 19h those
/// models that are not Zen 3.
#[cfg(target_arch = "x86_64")]
fn is_zen_4(signature: u32) -> bool {
    let family = (signature >> 8 & 0xF) + (signature >> 20 & 0xFF);
    let model = (signature >> 4 & 0xF) | (signature >> 12 & 0xF0);
    match family {
        0x19 => matches!(model, 0x10..=0x1F | 0x60..=0x7F | 0xA0..=0xAF),
        family => family > 0x19,
    }
}

/// Whether this processor is AMD's of the generation Zen 4 or later.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_zen_4_or_later() -> bool {
    false
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

    /// Shapes of what versions 6.1, 6.4 and 6.9 print; the numbers are ours.
    #[test]
    fn metrics_of_all_versions_are_read() {
        let beside = "{\"counter-value\" : \"9000.000000\", \"unit\" : \"\", \"event\" : \"TOPDOWN.SLOTS\", \
                      \"event-runtime\" : 500, \"pcnt-running\" : 100.00, \"metric-value\" : 41.250000, \
                      \"metric-unit\" : \"%  tma_backend_bound\"}\n\
                      {\"counter-value\" : \"3000.000000\", \"unit\" : \"\", \"event\" : \"topdown-retiring\", \
                      \"event-runtime\" : 500, \"pcnt-running\" : 100.00, }\n";
        let apart = "{\"event-runtime\" : 500, \"pcnt-running\" : 100.00, \"metricgroup\" : \"TopdownL1\"}\n\
                     {\"metric-value\" : \"41.250000\", \"metric-unit\" : \"%  tma_backend_bound\", \
                     \"metric-threshold\" : \"bad\"}\n";
        let of_amd = "{\"counter-value\" : \"9000.000000\", \"event\" : \"ls_not_halted_cyc\", \
                      \"pcnt-running\" : 33.30, \"metric-value\" : \"41.250000\", \
                      \"metric-unit\" : \"%slots  backend_bound\"}\n\
                      {\"metric-value\" : \"2.5\", \"metric-unit\" : \"per_instr  branches\"}\n";
        for (text, name, others) in [
            (beside, "tma_backend_bound", 2),
            (apart, "tma_backend_bound", 0),
            (of_amd, "backend_bound", 1),
        ] {
            let counts = parse(text);
            let found = counts.iter().find(|count| count.event == name);
            let found = found.map(|count| (count.value.clone(), count.unit.as_str()));
            assert_eq!(found, Some((Known::Value(41.25), "%")), "{text}");
            assert_eq!(counts.len(), 1 + others, "{counts:?}");
        }
    }

    /// As versions before 6.0 print them.
    #[test]
    fn separated_lines_are_read() {
        let text = "# started on Thu\n\n<not supported>,,cycles,0,100.00,,\n\
                    1200,,instructions,500,75.00,1.20,insn per cycle\n\
                    0.81,msec,cpu-clock,811582,100.00,0.169,CPUs utilized\n\
                    9000,,slots,500,100.00,41.3,%  tma_backend_bound\n\
                    ,,,,,20.5,%  tma_retiring\n\
                    Error: something\n";
        let counts = parse_separated(text);
        let events: Vec<&str> = counts.iter().map(|count| count.event.as_str()).collect();
        assert_eq!(
            events,
            [
                "cycles",
                "instructions",
                "cpu-clock",
                "slots",
                "tma_backend_bound",
                "tma_retiring"
            ]
        );
        assert_eq!(counts[0].value.reason(), Some("perf: not supported"));
        assert_eq!(counts[1].counted_percent, Some(75.0));
        assert_eq!(
            (counts[5].value.get(), counts[5].unit.as_str()),
            (Some(20.5), "%")
        );
    }

    #[test]
    fn versions_say_what_they_print() {
        for (version, expected) in [
            ("perf version 5.15.0\n", false),
            ("perf version 4.18.0-553.el8.x86_64", false),
            ("perf version 6.1.187", true),
            ("perf version 6.14.gabcdef", true),
            ("perf version 10.0", true),
            ("no version", false),
        ] {
            assert_eq!(prints_json(version), expected, "{version}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn generations_follow_from_signatures() {
        // Milan, Genoa, Turin, Rome.
        let found = [0x00A0_0F11, 0x00A1_0F11, 0x00B0_0F21, 0x0083_0F10].map(is_zen_4);
        assert_eq!(found, [false, true, true, false]);
    }

    #[test]
    fn the_event_that_was_counted_least_says_how_sure_all_of_them_are() {
        let of = |percent: Option<f64>| Count {
            counted_percent: percent,
            ..Count::new("cycles", Known::Value(1.0), "")
        };
        let counts = [of(Some(100.0)), of(None), of(Some(40.0))];
        assert_eq!(counted_percent(&counts), Some(40.0));
        assert_eq!(counted_percent(&counts[1..2]), None);
        assert!(is_scaled(40.0) && !is_scaled(99.99));
    }
}
