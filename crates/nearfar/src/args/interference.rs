//! `nearfar measure interference`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nearfar_measure::access::CpuList;
use nearfar_measure::interference::ApplicationType;

use super::FigureArgs;
use crate::human::ByteSize;

/// Measure what memory, storage and programs lose beside each other: everything under test, alone and
/// beside every background, over all numbers of threads.
///
/// `docs/interference.md` has the matrix and how to read it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar measure interference --dry-run
  nearfar measure interference -o matrix.jsonl --report matrix.html
  nearfar measure interference --under-test 'near ld' --beside 'far ntst,copy' --threads 8
  nearfar measure interference --storage /mnt/ssd/load --beside ssd
  nearfar measure interference --application 'sort big.txt' --on far
  nearfar measure interference --application-preset pagerank --application-type c
  nearfar measure interference --profile cxl-asic --virtual --report matrix.html")]
pub struct InterferenceArgs {
    /// What is under test, by words of its name such as `near ld`, `far` or `ssd` [default: all].
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub under_test: Vec<String>,
    /// What runs beside it, likewise; also copies, such as `near to far movdir64b` [default: all].
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub beside: Vec<String>,
    /// Threads under test, each number for itself [default: half of the processors].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = super::threads)]
    pub threads: Vec<std::num::NonZeroU32>,
    /// Threads of the background, each number for itself [default: 1, 2, 4 and so on].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = super::threads)]
    pub background_threads: Vec<std::num::NonZeroU32>,
    /// Processors to use, such as 0-15 [default: one of each core that this process may run on].
    #[arg(long, value_name = "LIST", conflicts_with = "virtual")]
    pub cpus: Option<CpuList>,
    /// Seconds of one repetition.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::seconds)]
    pub time: Duration,
    /// Seconds that a load runs before what is under test begins, where one of them is a process.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::seconds)]
    pub settle: Duration,
    /// How often each point is run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Bytes of each region of memory: several times what the last cache holds.
    #[arg(long, value_name = "BYTES", default_value = "512MiB")]
    pub region_size: ByteSize,
    /// Run in virtual time on the machine of this profile, with --virtual.
    #[arg(long, value_name = "NAME|FILE", requires = "virtual")]
    pub profile: Option<String>,
    /// Run in the model, not on this machine.
    #[arg(
        id = "virtual",
        long,
        requires = "profile",
        conflicts_with_all = ["storage", "application", "application_preset", "application_type"]
    )]
    pub virtual_time: bool,
    #[command(flatten)]
    pub storage: StorageArgs,
    #[command(flatten)]
    pub application: ApplicationArgs,
    /// Watch why something is lost: counters, kernel functions and last-level occupancy; with --virtual, the queues where
    /// requests wait.
    #[arg(long)]
    pub causes: bool,
    /// Print what would run and how long, and run nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Write results to this file as they come, from which an interrupted run can go on.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Go on with the results in the output file.
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// Write a page: the matrix as a heat map, and a curve behind each cell.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Load on storage.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storage")]
pub struct StorageArgs {
    /// The file or device that `fio` runs on, and nothing else. A file that does not exist is made, and
    /// removed in the end.
    #[arg(long, value_name = "PATH")]
    pub storage: Option<PathBuf>,
    /// Bytes of a file that is made.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1GiB",
        requires = "storage"
    )]
    pub storage_size: ByteSize,
    /// Seconds of a test of storage, of which the paper takes 20 [default: those of --time].
    #[arg(long, value_name = "SECONDS", requires = "storage", value_parser = super::seconds)]
    pub storage_time: Option<Duration>,
    /// Let writes destroy what the file or device holds.
    #[arg(long, requires = "storage")]
    pub storage_overwrite: bool,
    /// Go through the page cache.
    #[arg(long, requires = "storage")]
    pub storage_buffered: bool,
    /// How requests are made: libaio or io_uring.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "libaio",
        requires = "storage",
        value_parser = ["libaio", "io_uring"]
    )]
    pub storage_engine: String,
    /// Requests under way for each thread.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "storage", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub storage_depth: u32,
}

/// A program under test.
#[derive(Debug, Args)]
#[command(next_help_heading = "Application")]
pub struct ApplicationArgs {
    /// A command line that is under test, for sh; its time counts, or its metric.
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = ["application_preset", "under_test"]
    )]
    pub application: Option<String>,
    /// A built-in one: redis, valkey, db_bench, pagerank, inference, or on the file of --storage fileserver or varmail.
    #[arg(long, value_name = "NAME", conflicts_with = "under_test")]
    pub application_preset: Option<String>,
    /// What in its output is its metric: a regular expression, whose first group is the number.
    #[arg(long, value_name = "REGEX", requires = "application")]
    pub metric_pattern: Option<String>,
    /// Whether less of the metric is better, as of a latency.
    #[arg(long, requires = "metric_pattern")]
    pub lower_is_better: bool,
    /// The tier that its memory comes from [default: the kernel's choice].
    #[arg(long, value_name = "TIER")]
    pub on: Option<String>,
    /// The paper's type of it, instead of --on and --beside.
    #[arg(long, value_enum, value_name = "TYPE", conflicts_with_all = ["on", "beside"])]
    pub application_type: Option<TypeName>,
}

/// A type of applications, and what runs beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TypeName {
    /// One that works on files, beside far memory.
    A,
    /// One in far memory, beside storage.
    B,
    /// One in near memory, beside far memory.
    C,
    /// One in far memory, beside near memory.
    D,
}

impl ApplicationArgs {
    /// Whether a program is under test.
    pub fn is_named(&self) -> bool {
        self.application.is_some() || self.application_preset.is_some()
    }

    /// What is meant by the type, if one is named.
    pub fn kind(&self) -> Option<ApplicationType> {
        self.application_type.map(|name| match name {
            TypeName::A => ApplicationType::A,
            TypeName::B => ApplicationType::B,
            TypeName::C => ApplicationType::C,
            TypeName::D => ApplicationType::D,
        })
    }

    /// The tier that its memory comes from, if one is named or follows from its type.
    pub fn tier(&self) -> Option<&str> {
        let of_kind = self.kind().and_then(ApplicationType::on);
        self.on.as_deref().or(of_kind)
    }
}
