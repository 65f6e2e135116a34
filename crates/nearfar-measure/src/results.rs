//! Results for programs: one JSON object per line.
//!
//! The first line is the [`Header`]; every other line is a [`Metric`].
//!
//! ```json
//! {"schema":"nearfar-results/1","version":"0.1.0","command":["tiers","--probe"],"machine":{"cpu":"…","cpus":2,"memory_bytes":25282142208,"kernel":"6.12.1","architecture":"x86_64","virtualized":true},"configuration":{"runs":5},"unavailable":[{"what":"resctrl","reason":"not mounted"}]}
//! {"metric":"idle_latency_ns","value":507.3,"unit":"ns","kind":"modelled","min":506.1,"max":509.9,"runs":5,"tier":"far","profile":"cxl-blades-1"}
//! {"metric":"write_bandwidth_bytes_per_s","value":{"unavailable":"not published"},"unit":"B/s","kind":"published","tier":"far"}
//! ```
//!
//! Keys of the header:
//!
//! | key | meaning |
//! |---|---|
//! | `schema` | [`SCHEMA`]; the number rises when a key changes its meaning |
//! | `version` | version of the program |
//! | `command` | arguments it was called with |
//! | `machine` | see [`Machine`] |
//! | `configuration` | the full configuration, an object of the command's own |
//! | `unavailable` | what the machine could not do, each with the reason |
//!
//! Keys of a metric:
//!
//! | key | meaning |
//! |---|---|
//! | `metric` | name in snake case, unit last where the name has one |
//! | `value` | a finite number (the median where there are several runs), or `{"unavailable": reason}`; never zero for what is unknown |
//! | `unit` | `ns`, `s`, `B`, `B/s`, `1/s`, `ratio`, `count`, … |
//! | `kind` | `measured`, `modelled`, `published` or `estimated`: see [`Kind`] |
//! | `min`, `max`, `runs` | spread of the value over its runs; absent where there is no repetition |
//! | all others | dimensions: what the value belongs to, such as `tier`, `query`, `placement` |
//!
//! Unknown keys of a metric are dimensions, so a program that reads the lines must look the named
//! ones up and take the rest as they come.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use nearfar_topology::Known;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::known;
use crate::machine::Machine;
use crate::statistics::Summary;

/// The schema that this module writes.
pub const SCHEMA: &str = "nearfar-results/1";

/// Keys of a metric that cannot be dimensions.
const RESERVED: [&str; 7] = ["metric", "value", "unit", "kind", "min", "max", "runs"];

/// Where a number comes from. The kinds are never mixed in one series, nor in a column whose rows do
/// not name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Taken from this machine's memory as it is.
    Measured,
    /// Taken with a modelled tier, or computed by a model.
    Modelled,
    /// Printed in a paper or a data sheet, or declared by firmware.
    Published,
    /// Computed from assumptions that are documented, not from a model of the access.
    Estimated,
}

impl Kind {
    /// All kinds, in the order of legends.
    pub const ALL: [Self; 4] = [
        Self::Measured,
        Self::Modelled,
        Self::Published,
        Self::Estimated,
    ];

    /// Its word in results and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Published => "published",
            Self::Estimated => "estimated",
        }
    }
}

/// Something the machine could not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// What is not there.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// The first line: what the following ones were taken with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub version: String,
    /// Arguments of the program.
    pub command: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// The full configuration.
    pub configuration: Value,
    /// What the machine could not do.
    pub unavailable: Vec<Gap>,
}

impl Header {
    /// The header of a run on this machine.
    pub fn new(version: &str, command: Vec<String>, configuration: Value) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: version.to_owned(),
            command,
            machine: Machine::this(),
            configuration,
            unavailable: Vec::new(),
        }
    }

    /// Adds something that the machine could not do.
    #[must_use]
    pub fn unavailable(mut self, what: impl Into<String>, reason: impl Into<String>) -> Self {
        self.unavailable.push(Gap {
            what: what.into(),
            reason: reason.into(),
        });
        self
    }
}

/// Spread of a value over its runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest run.
    pub min: f64,
    /// Largest run.
    pub max: f64,
    /// Number of runs.
    pub runs: u32,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub metric: String,
    /// The number, or why there is none.
    #[serde(deserialize_with = "known::deserialize")]
    pub value: Known<f64>,
    /// Unit of the value.
    pub unit: String,
    /// Where it comes from.
    pub kind: Kind,
    /// Its spread, where it was repeated.
    #[serde(flatten)]
    pub spread: Option<Spread>,
    /// What it belongs to.
    #[serde(flatten)]
    pub dimensions: BTreeMap<String, Value>,
}

impl Metric {
    /// A figure of a single run.
    pub fn new(metric: &str, value: f64, unit: &str, kind: Kind) -> Self {
        Self {
            metric: metric.to_owned(),
            value: Known::Value(value),
            unit: unit.to_owned(),
            kind,
            spread: None,
            dimensions: BTreeMap::new(),
        }
    }

    /// A figure that could not be had.
    pub fn unavailable(metric: &str, reason: &str, unit: &str, kind: Kind) -> Self {
        let value = Known::unavailable(reason.to_owned());
        Self {
            value,
            ..Self::new(metric, 0.0, unit, kind)
        }
    }

    /// A figure of several runs: the median, with its spread.
    pub fn of_runs(metric: &str, summary: &Summary, unit: &str, kind: Kind) -> Self {
        let Summary {
            median,
            min,
            max,
            runs,
        } = *summary;
        Self {
            spread: Some(Spread { min, max, runs }),
            ..Self::new(metric, median, unit, kind)
        }
    }

    /// Says what the figure belongs to.
    #[must_use]
    pub fn with(mut self, dimension: &str, value: impl Into<Value>) -> Self {
        self.dimensions.insert(dimension.to_owned(), value.into());
        self
    }

    fn check(&self) -> Result<(), WriteError> {
        let spread = self
            .spread
            .iter()
            .flat_map(|spread| [spread.min, spread.max]);
        if let Some(value) = self
            .value
            .get()
            .into_iter()
            .chain(spread)
            .find(|v| !v.is_finite())
        {
            return Err(WriteError::NotFinite {
                metric: self.metric.clone(),
                value,
            });
        }
        match RESERVED
            .into_iter()
            .find(|key| self.dimensions.contains_key(*key))
        {
            Some(dimension) => Err(WriteError::ReservedDimension {
                metric: self.metric.clone(),
                dimension,
            }),
            None => Ok(()),
        }
    }
}

/// Why a result was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// JSON has no such number.
    #[error("metric {metric}: {value} is not a finite number")]
    NotFinite {
        /// Name of the metric.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// A dimension has the name of one of the fixed keys.
    #[error("metric {metric}: the key {dimension:?} cannot be a dimension")]
    ReservedDimension {
        /// Name of the metric.
        metric: String,
        /// The key.
        dimension: &'static str,
    },
    /// An object could not be turned into JSON.
    #[error("a result cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The output does not take the line.
    #[error("cannot write results: {0}")]
    Io(#[from] std::io::Error),
}

/// Writes results line by line; each line reaches the output immediately.
#[derive(Debug)]
pub struct ResultsWriter<W: Write> {
    output: W,
}

impl<W: Write> ResultsWriter<W> {
    /// Starts with the header.
    ///
    /// # Errors
    /// [`WriteError::Io`] where the output fails.
    pub fn new(output: W, header: &Header) -> Result<Self, WriteError> {
        let mut writer = Self { output };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes one figure.
    ///
    /// # Errors
    /// [`WriteError::NotFinite`] and [`WriteError::ReservedDimension`] for a metric that the
    /// schema does not allow, of which nothing is written; [`WriteError::Io`] where the output
    /// fails.
    pub fn metric(&mut self, metric: &Metric) -> Result<(), WriteError> {
        metric.check()?;
        self.line(metric)
    }

    fn line(&mut self, object: &impl Serialize) -> Result<(), WriteError> {
        let mut line = serde_json::to_vec(object).map_err(WriteError::Json)?;
        line.push(b'\n');
        self.output.write_all(&line)?;
        Ok(self.output.flush()?)
    }
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is not even a header.
    #[error("no results: the input is empty")]
    Empty,
    /// A line is not what the schema says.
    #[error("line {line} of the results: {source}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Where in it and why.
        #[source]
        source: serde_json::Error,
    },
    /// Results of another schema.
    #[error("results of schema {found:?}, this program reads {SCHEMA:?}")]
    Schema {
        /// The schema that the header names.
        found: String,
    },
    /// The input does not give its lines.
    #[error("cannot read results: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads what a [`ResultsWriter`] wrote. Empty lines are skipped.
///
/// # Errors
/// See [`ReadError`].
pub fn read(input: impl BufRead) -> Result<(Header, Vec<Metric>), ReadError> {
    let mut header = None;
    let mut metrics = Vec::new();
    for (index, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |source| ReadError::Line {
            line: index + 1,
            source,
        };
        match &header {
            None => header = Some(read_header(&line, wrong)?),
            Some(_) => metrics.push(serde_json::from_str(&line).map_err(wrong)?),
        }
    }
    Ok((header.ok_or(ReadError::Empty)?, metrics))
}

/// Looks at the schema before the rest, which another schema may shape differently.
fn read_header(
    line: &str,
    wrong: impl Fn(serde_json::Error) -> ReadError,
) -> Result<Header, ReadError> {
    let value: Value = serde_json::from_str(line).map_err(&wrong)?;
    if let Some(found) = value
        .get("schema")
        .and_then(Value::as_str)
        .filter(|s| *s != SCHEMA)
    {
        return Err(ReadError::Schema {
            found: found.to_owned(),
        });
    }
    serde_json::from_value(value).map_err(wrong)
}
