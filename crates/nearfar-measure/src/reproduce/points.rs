//! Points of published experiments as CSV, and what each of them asks the model.

use std::str::FromStr;

use csv::StringRecord;
use nearfar_plan::DeviceRange;

use super::error::PointsError;
use super::interplay::System;
use super::trees::{TreeRun, TreeWorkload};

/// Largest file of points that is read, in bytes.
pub const POINTS_BYTES_MAX: usize = 8 << 20;

/// Columns that may occur, in no order.
const COLUMNS: [&str; 38] = [
    "op",
    "devices",
    "access_size",
    "threads",
    "pct_in_cxl",
    "tier",
    "percentile",
    "selectivity_pct",
    "placement",
    "pct_columns_in_cxl",
    "workload",
    "node_bytes",
    "system",
    "dut",
    "dut_op",
    "background",
    "bg_op",
    "bench",
    "group",
    "kind",
    "pct",
    "capacity_demand",
    "type",
    "price_factor",
    "cpu_id",
    "cpus",
    "cpu_dimms",
    "ddr",
    "cpu_dimm_size",
    "cpu_dimm_price",
    "devs",
    "dev_dimms",
    "dev_ddr",
    "dev_dimm_size",
    "dev_dimm_price",
    "cpu_capacity",
    "cxl_capacity",
    "capacity",
];

/// Columns of published values, named after their units but for `price`. `pct` is one of the columns above
/// too.
const VALUES: [&str; 5] = ["GBps", "ns", "Mops", "pct", "price"];

/// An access operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessOp {
    /// Loads in the order of addresses.
    SequentialRead,
    /// Loads at uniformly random places.
    RandomRead,
    /// Cached stores in the order of addresses.
    SequentialWrite,
    /// Cached stores at uniformly random places.
    RandomWrite,
    /// Non-temporal stores in the order of addresses.
    SequentialNonTemporalWrite,
    /// Non-temporal stores at uniformly random places.
    RandomNonTemporalWrite,
}

/// A latency benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyOp {
    /// Loads of 8 bytes in the order of addresses.
    SequentialRead,
    /// A chain of dependent loads.
    RandomRead,
    /// A store to a cached line, `clwb` and a fence.
    WriteBack,
}

/// A tier of a latency benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyTier {
    /// Local memory.
    Cpu,
    /// Memory of the other socket.
    RemoteCpu,
    /// CXL memory.
    Cxl,
}

/// What of the samples is reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// A percentile, from 0 to 100.
    Percentile(f64),
}

/// Where a scan's columns and positions lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanPlacement {
    /// CXL devices of columns; 0 for CPU memory.
    pub column_devices: u32,
    /// CXL devices of positions; 0 for CPU memory.
    pub position_devices: u32,
}

/// Threads of tree experiments whose points do not tell theirs (section 5.5).
const TREE_THREADS: usize = 48;

/// Threads of experiments on bound shares (section 5.1).
const BOUND_THREADS: usize = 40;
/// Nodes of their trees, where points do not tell others.
const BOUND_NODE_BYTES: usize = 1024;

/// What the issue slots of cores are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotUse {
    /// Instructions that complete.
    Retiring,
    /// Instructions on a wrong path.
    BadSpeculation,
    /// Empty for want of instructions.
    FrontEnd,
    /// Empty for want of data or units.
    BackEnd,
    /// Of those, empty for want of the bandwidth of memory, normalised.
    Bandwidth,
    /// And because of its latency, normalised.
    Latency,
}

/// What runs where issue slots are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BoundRun {
    /// A filtering scan.
    Scan {
        /// Qualifying values, per cent.
        selectivity_percent: f64,
        /// Where the data are.
        placement: ScanPlacement,
        /// Threads.
        threads: usize,
    },
    /// A B+tree.
    Tree(TreeRun),
}

/// A cell of mao-2025, table III: the largest change over numbers of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterferenceRun {
    /// The machine.
    pub system: System,
    /// Device under test: `MMEM` or `CXL`.
    pub device: &'static str,
    /// What is done to it: `ld`, `st` or `ntst`.
    pub operation: &'static str,
    /// Device of the background: `MMEM`, `CXL` or `SSD`.
    pub background: &'static str,
    /// What is done to that: an operation, or a column of the SSD.
    pub background_operation: &'static str,
}

/// What one point asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Experiment {
    /// Throughput of an access pattern (weisgut-2025, sections 4.2, 4.3 and 4.5).
    Access {
        /// What is done.
        op: AccessOp,
        /// CXL devices, over which pages are interleaved; 0 for CPU memory alone.
        devices: u32,
        /// Bytes of one access.
        access_bytes: u32,
        /// Threads.
        threads: usize,
        /// Share of the region in CXL memory, per cent.
        cxl_percent: f64,
    },
    /// Latency of single accesses (section 4.4).
    Latency {
        /// What is done.
        op: LatencyOp,
        /// On which memory.
        tier: LatencyTier,
        /// What is reported.
        statistic: Statistic,
    },
    /// Throughput of filtering scans (sections 5.2 and 5.3).
    Scan {
        /// Qualifying values, per cent.
        selectivity_percent: f64,
        /// Where the data are.
        placement: ScanPlacement,
        /// Threads, each with a column of its own.
        threads: usize,
        /// Share of the columns that lie in CXL memory, per cent.
        cxl_columns_percent: f64,
    },
    /// Throughput of a B+tree (sections 5.4 and 5.5).
    Tree(TreeRun),
    /// Share of the issue slots, per cent (section 5.1).
    BoundShare {
        /// What runs.
        run: BoundRun,
        /// Which slots.
        slots: SlotUse,
    },
    /// Price of the cheapest machine that is large enough (section 7).
    Price {
        /// Memory that is needed, in GiB.
        demand_gib: u32,
        /// Devices that it may have.
        devices: DeviceRange,
    },
    /// Largest change of a device's bandwidth beside another one's (mao-2025, table III), on the machines of that
    /// paper.
    Interference(InterferenceRun),
}

/// One published point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Line of the file, from 1.
    pub line: usize,
    /// Its columns but for the published value, in the file's order.
    pub columns: Vec<(String, String)>,
    /// The published value.
    pub published: f64,
    /// What it asks.
    pub experiment: Experiment,
}

/// Points of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// Unit of the values: `GBps`, `ns`, `Mops`, `pct` or `USD`.
    pub unit: String,
    /// The column that charts take as the horizontal axis.
    pub axis: String,
    /// The points in the file's order.
    pub points: Vec<Point>,
}

impl Points {
    /// Reads points; `file` names them in errors. Lines that are empty or begin with `#` are
    /// skipped, and so is a column without a name.
    ///
    /// # Errors
    /// [`PointsError`]: unknown, missing or repeated columns, values that are none of those
    /// allowed, and lines of another length, each with line and name.
    pub fn parse(file: &str, text: &str) -> Result<Self, PointsError> {
        let wrong = |line, problem| PointsError::At {
            file: file.to_owned(),
            line,
            problem,
        };
        if text.len() > POINTS_BYTES_MAX {
            return Err(PointsError::TooLarge {
                file: file.to_owned(),
                bytes: text.len(),
            });
        }
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let records = reader.records().map(|record| match record {
            Ok(record) => Ok((line_of(&record, text), record)),
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                Err(wrong(line as usize, error.to_string()))
            }
        });
        let mut records = records.filter(|record| {
            let is_blank = |record: &StringRecord| record.len() == 1 && record[0].is_empty();
            record
                .as_ref()
                .map_or(true, |(_, record)| !is_blank(record))
        });
        let (line, names) = records.next().ok_or_else(|| PointsError::Empty {
            file: file.to_owned(),
        })??;
        let header = Header::parse(&names).map_err(|problem| wrong(line, problem))?;
        let mut points = Vec::new();
        for record in records {
            let (line, record) = record?;
            points.push(
                header
                    .point(line, &record)
                    .map_err(|problem| wrong(line, problem))?,
            );
        }
        if points.is_empty() {
            return Err(PointsError::Empty {
                file: file.to_owned(),
            });
        }
        Ok(Self {
            unit: header.unit().to_owned(),
            axis: header.axis().to_owned(),
            points,
        })
    }
}

/// What the cheapest machine consists of: given with its price, and not asked for.
const CONFIGURATION: [&str; 15] = [
    "price_factor",
    "cpu_id",
    "cpus",
    "cpu_dimms",
    "ddr",
    "cpu_dimm_size",
    "cpu_dimm_price",
    "devs",
    "dev_dimms",
    "dev_ddr",
    "dev_dimm_size",
    "dev_dimm_price",
    "cpu_capacity",
    "cxl_capacity",
    "capacity",
];

/// What is wrong with a line.
pub(super) type Problem = String;

struct Header<'a> {
    names: Vec<&'a str>,
    value: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Access,
    Latency,
    Scan,
    Tree,
    BoundShares,
    Interference,
    Price,
}

impl Kind {
    /// Needed columns, further columns, and the published value.
    const fn columns(
        self,
    ) -> (
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
    ) {
        match self {
            Self::Access => (
                &["op", "access_size", "threads"],
                &["devices", "pct_in_cxl"],
                "GBps",
            ),
            Self::Latency => (&["op", "tier", "percentile"], &[], "ns"),
            Self::Scan => (
                &["selectivity_pct", "threads"],
                &["placement", "devices", "pct_columns_in_cxl"],
                "GBps",
            ),
            Self::Tree => (
                &["workload", "node_bytes"],
                &["placement", "threads"],
                "Mops",
            ),
            Self::BoundShares => (
                &["bench", "group", "placement", "kind"],
                &["threads", "node_bytes"],
                "pct",
            ),
            Self::Interference => (
                &["system", "dut", "dut_op", "background", "bg_op"],
                &[],
                "pct",
            ),
            Self::Price => (&["capacity_demand", "type"], &CONFIGURATION, "price"),
        }
    }

    const ALL: [Self; 7] = [
        Self::Access,
        Self::Latency,
        Self::Scan,
        Self::Tree,
        Self::BoundShares,
        Self::Interference,
        Self::Price,
    ];
}

impl<'a> Header<'a> {
    fn parse(record: &'a StringRecord) -> Result<Self, Problem> {
        let names: Vec<&str> = record.iter().collect();
        for (index, name) in names.iter().enumerate() {
            if !name.is_empty() && !COLUMNS.contains(name) && !VALUES.contains(name) {
                return Err(format!(
                    "unknown column {name:?}; there are {} and {}",
                    COLUMNS.join(", "),
                    VALUES.join(", ")
                ));
            }
            if names[..index].contains(name) {
                return Err(format!("column {name:?} occurs twice"));
            }
        }
        let has = |name: &&str| names.contains(name);
        let found = Kind::ALL.into_iter().find(|kind| {
            let (needed, _, value) = kind.columns();
            needed.iter().all(&has) && has(&value)
        });
        let kind = found.ok_or_else(|| {
            let kinds = Kind::ALL.map(|kind| {
                let (needed, _, value) = kind.columns();
                format!("{},{value}", needed.join(","))
            });
            format!(
                "no experiment has these columns; one needs {}",
                kinds.join(" or ")
            )
        })?;
        let (needed, further, value) = kind.columns();
        let extra = names.iter().find(|name| {
            let is_known = **name == value || needed.contains(name) || further.contains(name);
            !name.is_empty() && !is_known
        });
        match extra {
            Some(name) => Err(format!(
                "column {name:?} does not belong to this experiment"
            )),
            None => Ok(Self { names, value, kind }),
        }
    }

    fn axis(&self) -> &'static str {
        let has = |name: &str| self.names.contains(&name);
        match self.kind {
            Kind::Access if has("pct_in_cxl") => "pct_in_cxl",
            Kind::Scan if has("pct_columns_in_cxl") => "pct_columns_in_cxl",
            Kind::Tree if has("threads") => "threads",
            Kind::Access | Kind::Scan => "threads",
            Kind::Latency => "percentile",
            Kind::Tree => "node_bytes",
            Kind::BoundShares => "kind",
            Kind::Interference => "bg_op",
            Kind::Price => "capacity_demand",
        }
    }

    fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Price => "USD",
            _ => self.value,
        }
    }

    /// Whether a column says what is asked: not the value, nor what an answer consists of beside it.
    fn asks(&self, name: &str) -> bool {
        !name.is_empty() && name != self.value && !CONFIGURATION.contains(&name)
    }

    fn point(&self, line: usize, record: &StringRecord) -> Result<Point, Problem> {
        let values: Vec<&str> = record.iter().collect();
        if values.len() != self.names.len() {
            return Err(format!(
                "{} values for {} columns",
                values.len(),
                self.names.len()
            ));
        }
        let row = Row {
            names: &self.names,
            values: &values,
        };
        let least = match self.kind {
            Kind::Interference => -100.0,
            _ => 0.0,
        };
        let published = row.number(self.value, least, 1e9)?;
        // A share or a change can be zero; a rate or a latency of zero has no relative error.
        if published <= 0.0 && self.value != "pct" {
            return Err(format!("{}: {published} must be above 0", self.value));
        }
        let columns = self
            .names
            .iter()
            .zip(&values)
            .filter(|(name, _)| self.asks(name));
        Ok(Point {
            line,
            columns: columns
                .map(|(n, v)| ((*n).to_owned(), one_line(v)))
                .collect(),
            published,
            experiment: self.experiment(&row)?,
        })
    }

    fn experiment(&self, row: &Row<'_>) -> Result<Experiment, Problem> {
        Ok(match self.kind {
            Kind::Access => row.access()?,
            Kind::Latency => row.latency()?,
            Kind::Scan => row.scan()?,
            Kind::Tree => row.tree()?,
            Kind::BoundShares => row.bound_share()?,
            Kind::Interference => row.interference()?,
            Kind::Price => row.price()?,
        })
    }
}

struct Row<'a> {
    names: &'a [&'a str],
    values: &'a [&'a str],
}

impl Row<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|column| *column == name)?;
        Some(self.values[index])
    }

    fn text(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| format!("{name}: is missing"))
    }

    fn number(&self, name: &str, min: f64, max: f64) -> Result<f64, Problem> {
        let text = self.text(name)?;
        let value = f64::from_str(text).map_err(|_| format!("{name}: {text:?} is no number"))?;
        if !(min..=max).contains(&value) {
            return Err(format!("{name}: {text} is not from {min} to {max}"));
        }
        Ok(value)
    }

    fn count(&self, name: &str, min: u32, max: u32) -> Result<u32, Problem> {
        let value = self.number(name, f64::from(min), f64::from(max))?;
        if value.fract() != 0.0 {
            return Err(format!("{name}: {value} is no whole number"));
        }
        Ok(value as u32)
    }

    fn optional(&self, name: &str, otherwise: f64, max: f64) -> Result<f64, Problem> {
        self.get(name)
            .map_or(Ok(otherwise), |_| self.number(name, 0.0, max))
    }

    fn one_of<T: Copy>(&self, name: &str, allowed: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.text(name)?;
        let found = allowed.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = allowed.iter().map(|(word, _)| *word).collect();
            format!(
                "{name}: {text:?} is unknown; there are {}",
                words.join(", ")
            )
        })
    }

    fn access(&self) -> Result<Experiment, Problem> {
        let op = self.one_of(
            "op",
            &[
                ("seq_read", AccessOp::SequentialRead),
                ("rand_read", AccessOp::RandomRead),
                ("seq_write", AccessOp::SequentialWrite),
                ("rand_write", AccessOp::RandomWrite),
                ("seq_ntwrite", AccessOp::SequentialNonTemporalWrite),
                ("rand_ntwrite", AccessOp::RandomNonTemporalWrite),
            ],
        )?;
        let access_bytes = self.count("access_size", 8, 8192)?;
        if !access_bytes.is_power_of_two() {
            return Err(format!("access_size: {access_bytes} is no power of two"));
        }
        Ok(Experiment::Access {
            op,
            devices: match self.get("devices") {
                Some(_) => self.count("devices", 0, 64)?,
                None => 1,
            },
            access_bytes,
            threads: self.count("threads", 1, 4096)? as usize,
            cxl_percent: self.optional("pct_in_cxl", 100.0, 100.0)?,
        })
    }

    fn latency(&self) -> Result<Experiment, Problem> {
        let op = self.one_of(
            "op",
            &[
                ("seq_read", LatencyOp::SequentialRead),
                ("rand_read", LatencyOp::RandomRead),
                ("write_clwb", LatencyOp::WriteBack),
            ],
        )?;
        let tier = self.one_of(
            "tier",
            &[
                ("cpu", LatencyTier::Cpu),
                ("remote_cpu", LatencyTier::RemoteCpu),
                ("cxl", LatencyTier::Cxl),
            ],
        )?;
        let statistic = match self.text("percentile")? {
            "avg" => Statistic::Mean,
            _ => Statistic::Percentile(self.number("percentile", 0.0, 100.0)?),
        };
        Ok(Experiment::Latency {
            op,
            tier,
            statistic,
        })
    }

    fn scan(&self) -> Result<Experiment, Problem> {
        let placement = match (self.get("placement"), self.get("devices")) {
            (Some(text), None) => scan_placement(text)?,
            (None, Some(_)) => ScanPlacement {
                column_devices: self.count("devices", 0, 64)?,
                position_devices: 0,
            },
            (Some(_), Some(_)) => {
                return Err("devices: placement already says how many".to_owned());
            }
            (None, None) => return Err("placement: is missing".to_owned()),
        };
        Ok(Experiment::Scan {
            selectivity_percent: self.number("selectivity_pct", 0.0, 100.0)?,
            placement,
            threads: self.count("threads", 1, 4096)? as usize,
            cxl_columns_percent: self.optional("pct_columns_in_cxl", 100.0, 100.0)?,
        })
    }
}

impl Row<'_> {
    fn interference(&self) -> Result<Experiment, Problem> {
        let device = |name, words: &[&'static str]| {
            let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
            self.one_of(name, &words)
        };
        let background = device("background", &["MMEM", "CXL", "SSD"])?;
        let background_operations: &[&'static str] = match background {
            "SSD" => &["col1", "col2"],
            _ => &["ld", "st", "ntst"],
        };
        Ok(Experiment::Interference(InterferenceRun {
            system: self.one_of("system", &System::ALL.map(|system| (system.name(), system)))?,
            device: device("dut", &["MMEM", "CXL"])?,
            operation: device("dut_op", &["ld", "st", "ntst"])?,
            background,
            background_operation: device("bg_op", background_operations)?,
        }))
    }

    fn price(&self) -> Result<Experiment, Problem> {
        let kind = one_line(self.text("type")?);
        let devices = match kind.strip_prefix("CPU Memory + ") {
            None if kind == "CPU Memory" => Ok(DeviceRange::exactly(0)),
            None => Err(String::new()),
            Some(devices) => {
                let devices = devices.trim_end_matches(" CXL Devices");
                let devices = devices.trim_end_matches(" CXL Device");
                devices.replace(" to ", "-").parse()
            }
        };
        let unknown = |_| {
            format!(
                "type: {kind:?} is unknown; there are CPU Memory, CPU Memory + n CXL Devices, \
                 CPU Memory + n to m CXL Devices"
            )
        };
        Ok(Experiment::Price {
            demand_gib: self.count("capacity_demand", 1, 1 << 30)?,
            devices: devices.map_err(unknown)?,
        })
    }

    fn threads_or(&self, otherwise: usize) -> Result<usize, Problem> {
        match self.get("threads") {
            Some(_) => Ok(self.count("threads", 1, 4096)? as usize),
            None => Ok(otherwise),
        }
    }

    fn node_bytes(&self) -> Result<usize, Problem> {
        let node_bytes = self.count("node_bytes", 256, 4096)? as usize;
        if !node_bytes.is_power_of_two() {
            return Err(format!("node_bytes: {node_bytes} is no power of two"));
        }
        Ok(node_bytes)
    }

    /// CXL devices of a tree; 0 for CPU memory.
    fn tree_devices(&self) -> Result<u32, Problem> {
        let placement = scan_placement(self.text("placement")?)?;
        if placement.column_devices != placement.position_devices {
            return Err("placement: trees have no columns; there are CPU, CXL-n".to_owned());
        }
        Ok(placement.column_devices)
    }

    fn tree(&self) -> Result<Experiment, Problem> {
        Ok(Experiment::Tree(TreeRun {
            workload: self.one_of("workload", &TREE_WORKLOADS)?,
            devices: self.tree_devices()?,
            node_bytes: self.node_bytes()?,
            threads: self.threads_or(TREE_THREADS)?,
        }))
    }

    fn bound_share(&self) -> Result<Experiment, Problem> {
        let slots = self.one_of(
            "kind",
            &[
                ("retiring", SlotUse::Retiring),
                ("bad_spec", SlotUse::BadSpeculation),
                ("frontend", SlotUse::FrontEnd),
                ("backend", SlotUse::BackEnd),
                ("bandwidth", SlotUse::Bandwidth),
                ("latency", SlotUse::Latency),
            ],
        )?;
        let threads = self.threads_or(BOUND_THREADS)?;
        let is_tree = self.one_of("bench", &[("scan", false), ("btree", true)])?;
        let run = if is_tree {
            BoundRun::Tree(TreeRun {
                workload: self.one_of("group", &TREE_WORKLOADS)?,
                devices: self.tree_devices()?,
                node_bytes: match self.get("node_bytes") {
                    Some(_) => self.node_bytes()?,
                    None => BOUND_NODE_BYTES,
                },
                threads,
            })
        } else {
            let group = self.text("group")?;
            let percent = group.strip_suffix('%').and_then(|text| text.parse().ok());
            let selectivity_percent = percent
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or_else(|| format!("group: {group:?} is no share such as 0.1%"))?;
            BoundRun::Scan {
                selectivity_percent,
                placement: scan_placement(self.text("placement")?)?,
                threads,
            }
        };
        Ok(Experiment::BoundShare { run, slots })
    }
}

const TREE_WORKLOADS: [(&str, TreeWorkload); 2] = [
    ("read95", TreeWorkload::Read95),
    ("write95", TreeWorkload::Write95),
];

/// The line where a record begins. Its position is that of the comments and empty lines before it.
fn line_of(record: &StringRecord, text: &str) -> usize {
    let position = record.position();
    let (byte, line) = position.map_or((0, 1), |at| (at.byte() as usize, at.line() as usize));
    let skipped = text[byte..]
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with('#'));
    line + skipped.count()
}

/// A text with single blanks where it had several, or line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `CPU`, `CXL-n` or `ColumnsCXL-n` (weisgut-2025, section 5.2).
fn scan_placement(text: &str) -> Result<ScanPlacement, Problem> {
    let unknown = || format!("placement: {text:?} is unknown; there are CPU, CXL-n, ColumnsCXL-n");
    if text == "CPU" {
        return Ok(ScanPlacement {
            column_devices: 0,
            position_devices: 0,
        });
    }
    let (name, devices) = text.split_once('-').ok_or_else(unknown)?;
    let devices = devices
        .parse()
        .ok()
        .filter(|n| (1..=64).contains(n))
        .ok_or_else(unknown)?;
    let position_devices = match name {
        "CXL" => devices,
        "ColumnsCXL" => 0,
        _ => return Err(unknown()),
    };
    Ok(ScanPlacement {
        column_devices: devices,
        position_devices,
    })
}
