//! Points, and what each of them asks.

use csv::StringRecord;
use nearfar_plan::DeviceRange;

use super::header::Header;
use crate::reproduce::error::PointsError;
use crate::reproduce::interplay::System;
use crate::reproduce::trees::TreeRun;

/// Largest file of points that is read, in bytes.
pub const POINTS_BYTES_MAX: usize = 8 << 20;

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

/// What is wrong with a line.
pub(super) type Problem = String;

/// The line where a record begins. Its position is that of the comments and empty lines before it.
fn line_of(record: &StringRecord, text: &str) -> usize {
    let position = record.position();
    let (byte, line) = position.map_or((0, 1), |at| (at.byte() as usize, at.line() as usize));
    let skipped = text[byte..]
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with('#'));
    line + skipped.count()
}
