//! `nearfar bench`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use nearfar_bench::bench::{Rival, Role};
use nearfar_bench::tpch::Suite;
use nearfar_kernels::Isa;
use nearfar_kernels::copy::CopyMethod;
use nearfar_measure::operators::{Access, CopierCount, PipelineWork};
use nearfar_memory::PlacementSpec;

use super::{
    BenchHtapArgs, BenchIndexArgs, BenchRegulateArgs, BenchTpccArgs, FigureArgs, MachineArgs,
    QueryList, ScaleArgs, ThreadArgs,
};
use crate::human::{Bandwidth, ByteSize};

/// Compare Nearfar with other engines, in one run over the same data.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to compare.
    #[command(subcommand)]
    pub area: BenchArea,
}

/// Areas of comparison.
#[derive(Debug, Subcommand)]
pub enum BenchArea {
    Tpch(BenchTpchArgs),
    Tpcds(BenchTpcdsArgs),
    Scan(BenchScanArgs),
    Operators(Box<BenchOperatorsArgs>),
    Heap(BenchHeapArgs),
    Cooperative(BenchCooperativeArgs),
    Merge(BenchMergeArgs),
    Insert(BenchInsertArgs),
    Restart(BenchRestartArgs),
    Fairness(BenchFairnessArgs),
    Cluster(BenchClusterArgs),
    Oltp(BenchOltpArgs),
    Tpcc(BenchTpccArgs),
    Htap(BenchHtapArgs),
    Regulate(BenchRegulateArgs),
    Index(Box<BenchIndexArgs>),
    /// Be a process that starts; what `restart` starts.
    #[command(hide = true)]
    Start {
        /// With what.
        order: String,
    },
    /// Be one of the engines that are compared; what `tpch` and `tpcds` start.
    #[command(hide = true)]
    Contender {
        /// Which.
        role: Role,
    },
}

/// TPC-H with all data near against DataFusion's own tables in memory, and against rivals.
///
/// All engines are processes of their own, load the same Parquet files, and must give the same
/// answers; each query runs on Nearfar and on the other in turn. Last, Nearfar runs with and without
/// counting the accesses of columns. Ratios are Nearfar's time over the
/// other's: below 1, Nearfar is faster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench tpch
  nearfar bench tpch --rival duckdb --rival hyper --format json > results.jsonl
  nearfar bench tpch --sf 10 --apart --runs 3 --load-runs 1 --directory /big/disk")]
pub struct BenchTpchArgs {
    #[command(flatten)]
    pub comparison: ComparisonArgs,
}

/// TPC-DS with all data near against DataFusion's own tables in memory, and against rivals.
///
/// As `nearfar bench tpch`, but that a query which fails or whose answers differ is left out, with the
/// reason, and accesses are not counted. Answers with a limit that leaves open which rows it keeps are
/// compared without it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench tpcds --rival duckdb
  nearfar bench tpcds --rival duckdb --no-memtable --runs 3 --format json > results.jsonl")]
pub struct BenchTpcdsArgs {
    #[command(flatten)]
    pub comparison: ComparisonArgs,
}

/// A comparison of Nearfar with other engines.
#[derive(Debug, Args)]
pub struct ComparisonArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// Timed runs of each query.
    #[arg(long, value_name = "N", default_value = "5")]
    pub runs: NonZeroU32,
    /// Let every engine run all queries alone, one engine after the other, instead of in turn: for
    /// data of which two copies do not fit into memory.
    #[arg(long)]
    pub apart: bool,
    /// Timed loads, each in a fresh process.
    #[arg(long, value_name = "N", default_value = "3")]
    pub load_runs: NonZeroU32,
    /// Queries to run, such as 1,3-5,22 [default: all].
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList>,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Compare with this engine too; it must be installed [possible values: duckdb, hyper].
    #[arg(long = "rival", value_name = "NAME", value_parser = rival)]
    pub rivals: Vec<Rival>,
    /// Leave DataFusion's own tables out.
    #[arg(long)]
    pub no_memtable: bool,
    /// Run queries with this setting on and off in turn, such as share_subplans; may be repeated.
    #[arg(long, value_name = "SETTING")]
    pub without: Vec<String>,
    /// Have Nearfar plan a query each time that it runs, instead of keeping the plan of a text that comes again.
    #[arg(long)]
    pub plan_anew: bool,
    /// Most memory that the joins, sorts and aggregates of one query of Nearfar may take: the rest is spilled.
    #[arg(long, value_name = "BYTES")]
    pub memory_limit: Option<ByteSize>,
    /// The interpreter of rivals that are Python packages.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Write the Parquet files below this folder: about 0.4 GB per scale factor, removed in the end
    /// [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

fn rival(text: &str) -> Result<Rival, String> {
    let names: Vec<&str> = Rival::ALL.iter().map(|rival| rival.name()).collect();
    let found = Rival::ALL.into_iter().find(|rival| rival.name() == text);
    found.ok_or_else(|| format!("there are: {}", names.join(", ")))
}

/// The filtering scan against the machine's own bandwidth and Arrow's kernels.
///
/// Each thread has a column of its own and writes the positions of the values below a bound. Every
/// round runs all contestants in turn; ratios are the scan's bandwidth over the other's: above 1,
/// the scan is faster. With --virtual, the scan and a plain read run in virtual time and nothing is measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench scan
  nearfar bench scan --threads 1 --selectivity 0.1,10,100 --format json > scan.jsonl
  nearfar bench scan --placement interleave:near,far --positions near
  nearfar bench scan --profile cxl-blades-4 --virtual --threads 16 --placement far
  nearfar bench scan --profile mine.toml --compare-model --placement far")]
pub struct BenchScanArgs {
    /// Threads [default: the processors of this process].
    #[arg(long, value_name = "N", value_parser = super::threads)]
    pub threads: Option<NonZeroU32>,
    /// Bytes of each thread's column [default: 128MiB].
    #[arg(long, value_name = "BYTES")]
    pub column: Option<ByteSize>,
    /// Where columns lie, on this machine's own tiers or, with --virtual, on the profile's: a tier (near, far),
    /// interleave:A,B or another placement.
    #[arg(long, value_name = "PLACEMENT", default_value = "near")]
    pub placement: PlacementSpec,
    /// Where positions are written, likewise.
    #[arg(long, value_name = "PLACEMENT", default_value = "near")]
    pub positions: PlacementSpec,
    /// Times that each contestant runs [default: 31].
    #[arg(long, value_name = "N", conflicts_with = "is_virtual")]
    pub rounds: Option<NonZeroU32>,
    /// Shares of the values that match, in percent [default: 0.1,100].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub selectivity: Vec<f64>,
    /// Instructions of the scan [possible values: portable, avx2, avx512; default: the widest].
    #[arg(long, value_name = "NAME", value_parser = isa, conflicts_with = "modelled")]
    pub isa: Option<Isa>,
    /// A built-in profile or a TOML file: the machine that is modelled.
    #[arg(long, value_name = "NAME|FILE", requires = "modelled")]
    pub profile: Option<String>,
    /// Run the scan and the plain read in virtual time on the machine of the profile, and measure nothing.
    #[arg(long = "virtual", requires = "profile", group = "modelled")]
    pub is_virtual: bool,
    /// Run in this machine's own memory and then in the model of the profile, such as one that `nearfar calibrate` made
    /// of this machine, and print both with their ratio.
    #[arg(long, requires = "profile", group = "modelled")]
    pub compare_model: bool,
    #[command(flatten)]
    pub figures: FigureArgs,
}

fn isa(text: &str) -> Result<Isa, String> {
    let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
    let found = all.into_iter().find(|isa| isa.name() == text);
    found.ok_or_else(|| format!("there are: {}", all.map(Isa::name).join(", ")))
}

/// Aggregate, filter and hash join against reads and DataFusion, and over near and far memory.
///
/// One thread sums and filters a column beside a plain read of it, and joins the same arrays beside
/// DataFusion's join, turn by turn; ratios above 1 say that ours is faster. Then threads sum near and far
/// buffers, and join near and far columns, which they read where they are, or which copiers copy; and pipelines read one
/// far column at the same time, each for itself or all by the same copies. Far is the machine's own far tier, or, without
/// one, an emulated one. The join's own code also runs in the simulator with its
/// build side far. With --virtual, all of it runs in virtual time and nothing is measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench operators
  nearfar bench operators --build 1MiB,16MiB --rounds 5 --format json > operators.jsonl
  nearfar bench operators --joins 1,20 --access grouped --copiers 1,5 --chunk 64KiB,1MiB
  nearfar bench operators --pipelines 1,2,4,8 --pipeline-work sum --ring-depth 4,16 --copy-method cached,non-temporal
  nearfar bench operators --virtual --joins 1,5,20 --report operators.html
  nearfar bench operators --virtual --profile geyer-rdma --rdma-threads 4")]
pub struct BenchOperatorsArgs {
    /// Bytes of the column that is summed and filtered, of near buffers that threads sum, and of the column that pipelines
    /// share, 32 MB in virtual time [default: 128MiB].
    #[arg(long, value_name = "BYTES")]
    pub column: Option<ByteSize>,
    /// Bytes of the joins' build sides [default: 1MiB,16MiB,256MiB].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub build: Vec<ByteSize>,
    /// Rows of the joins' probe side [default: 4194304].
    #[arg(long, value_name = "N")]
    pub probe_rows: Option<NonZeroU32>,
    /// Times that everything has its turn; over near and far memory a fifth of it [default: 15].
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroU32>,
    /// Model the far tier after a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "cxl-blades-4")]
    pub profile: String,
    /// Run in virtual time, and measure nothing.
    #[arg(long = "virtual")]
    pub is_virtual: bool,
    /// Threads that serve RDMA, of the profile geyer-rdma in virtual time; they poll, and take cores [default: 2].
    #[arg(long, value_name = "N", requires = "is_virtual")]
    pub rdma_threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub grid: OperatorGridArgs,
    /// Compare whole queries of the same columns with this engine too; it must be installed [possible values: duckdb].
    #[arg(long = "rival", value_name = "NAME", value_parser = duckdb, conflicts_with = "is_virtual")]
    pub rival: Option<Rival>,
    /// The interpreter of a rival that is a Python package.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Write what was found over near and far memory as one HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// What is varied of operators over near and far memory; every combination is run.
#[derive(Debug, Args)]
pub struct OperatorGridArgs {
    /// Numbers of threads that sum near buffers, and that join [default: half of the processors, and all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub threads: Vec<NonZeroUsize>,
    /// Numbers of further threads, which sum far buffers [default: 0,1,2,4,8].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub far_threads: Vec<usize>,
    /// Bytes of an integer of buffers that threads sum: 4 or 8 [default: 4].
    #[arg(long, value_name = "N", conflicts_with = "is_virtual")]
    pub integer_bytes: Option<usize>,
    /// Bytes of far buffers and of small columns, in percent of near buffers and of the large column
    /// [default: 10, in virtual time the ratio of bandwidths].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub far_share: Vec<f64>,
    /// Bytes of the large column of each joining thread, which is not varied in virtual time [default: 8MiB].
    #[arg(long, value_name = "BYTES", conflicts_with = "is_virtual")]
    pub large: Option<ByteSize>,
    /// Bytes of the small columns of joins, of which their tables are made, at most those of the large column, 8 MB in
    /// virtual time [default: the share of --far-share].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub table: Vec<ByteSize>,
    /// Numbers of joins one after the other [default: 1,5,20, in virtual time 1,2,5,10,20].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub joins: Vec<NonZeroUsize>,
    /// Numbers of pipelines that read one far column at the same time [default: 1,2,4,8].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub pipelines: Vec<NonZeroUsize>,
    /// What pipelines do with it; mixed: they sum, filter and probe in turn [possible values: sum, filter, probe, mixed;
    /// default: sum,mixed].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pipeline_work)]
    pub pipeline_work: Vec<PipelineWork>,
    /// How joins and pipelines reach far columns [possible values: sync, async, grouped; default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = access)]
    pub access: Vec<Access>,
    /// Numbers of threads that copy; "adaptive" for as many as are waited for, up to one for each processor, but not in
    /// virtual time [default: 5].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = copiers)]
    pub copiers: Vec<CopierCount>,
    /// Have copiers of joins take the place of so many of --threads, instead of coming on top of them.
    #[arg(long)]
    pub copiers_in_share: bool,
    /// Bytes of chunks that are copied [default: 256KiB, for joins in virtual time an eighth of a column].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub chunk: Vec<ByteSize>,
    /// Chunks of the rings through which pipelines read copies, at most 4096 [default: 16].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ring_depth: Vec<NonZeroUsize>,
    /// How copies are made; one that the machine does not have is unavailable [possible values: cached, non-temporal,
    /// movdir64b, idxd; default: cached].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = copy_method, conflicts_with = "is_virtual")]
    pub copy_method: Vec<CopyMethod>,
    /// Joins that are grouped: what they share is copied once, and the columns of the next group while they run
    /// [default: all].
    #[arg(long, value_name = "N")]
    pub group: Option<NonZeroUsize>,
}

fn duckdb(text: &str) -> Result<Rival, String> {
    let duckdb = Rival::DuckDb;
    let found = (text == duckdb.name()).then_some(duckdb);
    found.ok_or_else(|| format!("there is: {}", duckdb.name()))
}

fn copiers(text: &str) -> Result<CopierCount, String> {
    if text == "adaptive" {
        return Ok(CopierCount::Adaptive);
    }
    let count = text.parse::<NonZeroUsize>();
    let count = count.map_err(|error| format!("{error}; there is also: adaptive"))?;
    Ok(CopierCount::Fixed(count.get()))
}

fn copy_method(text: &str) -> Result<CopyMethod, String> {
    let found = CopyMethod::ALL.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| {
        format!(
            "there are: {}",
            CopyMethod::ALL.map(CopyMethod::name).join(", ")
        )
    })
}

fn pipeline_work(text: &str) -> Result<PipelineWork, String> {
    let found = PipelineWork::ALL.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| {
        format!(
            "there are: {}",
            PipelineWork::ALL.map(PipelineWork::name).join(", ")
        )
    })
}

fn access(text: &str) -> Result<Access, String> {
    match text {
        "sync" => Ok(Access::Synchronous),
        "async" => Ok(Access::Asynchronous),
        "grouped" => Ok(Access::Grouped),
        _ => Err("there are: sync, async, grouped".to_owned()),
    }
}

/// Main storage, operator memory or temporary tables far, against everything near.
///
/// Queries that scan, queries that live on hash tables and sorts, and a procedure over temporary
/// tables run over TPC-H's orders and lines with everything near and with one thing on a modelled far
/// tier, at the profile's bandwidth and at twice as much. Relative throughputs stand beside those that
/// ahn-2024 published for SAP HANA: below 1, far costs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench heap
  nearfar bench heap --sf 0.2 --profile cxl-card --runs 5 --format json > heap.jsonl")]
pub struct BenchHeapArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// Model the far tier after a built-in profile or a TOML file; `none` for the machine's own [default:
    /// cxl-blades-1 where the machine has no far tier].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Run on this machine's own far tier and then on the one of the profile, such as one that `nearfar calibrate` made of
    /// this machine, with its bandwidth, and print both with their ratio.
    #[arg(long, requires = "profile")]
    pub compare_model: bool,
    /// Timed runs of each query with each configuration.
    #[arg(long, value_name = "N", default_value = "3")]
    pub runs: NonZeroU32,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Concurrent queries over one far table, which they read each for itself or together.
///
/// So many sessions ask queries that scan TPC-H's largest table, which is far, in turns in which scans read far memory
/// each for itself and in such in which they read it together, as SET cooperative_scans says. Ratios are of the same
/// round: queries per second together over apart, and far bytes that a query reads together over apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench cooperative
  nearfar bench cooperative --sessions 2,4,8 --far-bandwidth 500MB/s
  nearfar bench cooperative --profile cxl-card --rounds 9 --format json > cooperative.jsonl")]
pub struct BenchCooperativeArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// Numbers of sessions.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4,8"
    )]
    pub sessions: Vec<NonZeroUsize>,
    /// For how long they ask each time.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "3")]
    pub seconds: Duration,
    /// Times that both ways have their turn with each number of sessions.
    #[arg(long, value_name = "N", default_value = "5")]
    pub rounds: NonZeroU32,
    /// Model the far tier after a built-in profile or a TOML file; `none` for the machine's own [default:
    /// cxl-blades-1 where the machine has no far tier].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Give the threads all of the modelled device, not their share of it.
    #[arg(long)]
    pub whole_device: bool,
    /// Most that all sessions together may move from far memory [default: no limit].
    #[arg(long, value_name = "BYTES/S")]
    pub far_bandwidth: Option<Bandwidth>,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// How fast merges are, and what they do to the queries beside them.
///
/// In every round rows are written and deleted, and a query runs over and over, first without and
/// then beside a merge of them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench merge
  nearfar bench merge --rows 10000000 --rounds 10 --format json > merge.jsonl")]
pub struct BenchMergeArgs {
    /// Rows of the table at first.
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub rows: u64,
    /// Rows that are written in every round.
    #[arg(long, value_name = "N", default_value_t = 400_000)]
    pub written_rows: u64,
    /// Rounds.
    #[arg(long, value_name = "N", default_value = "5")]
    pub rounds: NonZeroU32,
    /// Queries of a round without a merge.
    #[arg(long, value_name = "N", default_value = "100")]
    pub queries: NonZeroU32,
    #[command(flatten)]
    pub figures: FigureArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Inserts in memory, and with a data directory under each setting of `log_sync`.
///
/// One session that inserts row by row, sixteen of them, and one that inserts a thousand rows with each
/// statement. All take turns round by round; ratios are those of the same round to inserts in memory.
/// What a write to disk costs is that of the disk below which the data directories are made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench insert
  nearfar bench insert --directory /fast/disk --rounds 9 --format json > insert.jsonl")]
pub struct BenchInsertArgs {
    /// Times that each contestant has its turn.
    #[arg(long, value_name = "N", default_value = "5")]
    pub rounds: NonZeroU32,
    /// For how long each contestant inserts in each round.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "1.5")]
    pub seconds: Duration,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Make the data directories below this folder; they are removed in the end [default: the
    /// system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// How long a peer waits while others run statements that take long.
///
/// A server in a process of its own. For each kind of hostile statement (very many columns, elements of
/// an IN or rows of VALUES, common table expressions that double, patterns over long texts, joins, sorts, and
/// scans of far memory with and without a limit), a few sessions run it again and again under a limit of time,
/// and a peer asks small questions: its waits, and the longest that a hostile statement took.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench fairness
  nearfar bench fairness --profile cxl-blades-4
  nearfar bench fairness --sessions 8 --seconds 30 --format json > fairness.jsonl")]
pub struct BenchFairnessArgs {
    /// Sessions that run the hostile statement.
    #[arg(long, value_name = "N", default_value = "3")]
    pub sessions: NonZeroUsize,
    /// The limit of time of a hostile statement.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "1")]
    pub limit: Duration,
    /// For how long each kind is run.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "10")]
    pub seconds: Duration,
    /// Model the far memory of this profile; without, scans of far memory need a machine that has some.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// What scans may move from far memory where that is limited.
    #[arg(long, value_name = "BYTES/S", default_value = "200MB/s")]
    pub far_bandwidth: Bandwidth,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// TPC-H or TPC-DS over the nodes of a cluster on this machine, against one process.
///
/// All are processes of their own, and the threads of a cluster's workers together are as many as those of the one
/// process. Large tables are divided by key: of TPC-H all but the three smallest, of TPC-DS those of sales, returns and
/// the inventory. Each query runs on one process and on the cluster in turn; one that fails, or is answered otherwise
/// than by one process, is left out with the reason, and the program's code is 1. Ratios are the cluster's time over that
/// of one process: what a cluster costs where it can gain nothing.
///
/// With --simulate nothing is run: what limits a large cluster is modelled, with assumed nodes and network.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench cluster --sf 0.1
  nearfar bench cluster --suite tpcds --sf 0.1 --workers 1,3
  nearfar bench cluster --workers 1,2,4 --format json > cluster.jsonl
  nearfar bench cluster --simulate 1,10,100,1000")]
pub struct BenchClusterArgs {
    /// The benchmark.
    #[arg(long, value_name = "NAME", value_parser = suite, default_value = "tpch")]
    pub suite: Suite,
    /// Numbers of workers.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4"
    )]
    pub workers: Vec<NonZeroUsize>,
    /// Model a join on so many nodes in virtual time, and run nothing.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        conflicts_with_all = ["suite", "workers", "queries", "runs", "directory", "scale_factor", "threads"]
    )]
    pub simulate: Vec<NonZeroUsize>,
    /// Queries to run, such as 1,3-5,22 [default: all].
    #[arg(long, value_name = "LIST")]
    pub queries: Option<QueryList>,
    /// How often each query runs; the shortest time counts.
    #[arg(long, value_name = "N", default_value = "3")]
    pub runs: NonZeroUsize,
    /// Where files go for the time of the run [default: where temporary files go].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub scale: ScaleArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}

fn suite(text: &str) -> Result<Suite, String> {
    let suites = [Suite::TpcH, Suite::TpcDs];
    let found = suites.into_iter().find(|suite| suite.name() == text);
    found.ok_or_else(|| format!("there are: {}", suites.map(Suite::name).join(", ")))
}

/// Small transactions over the wire, beside PostgreSQL.
///
/// A server in a process of its own, and pgbench as its client: a query of a constant, a query, an insert
/// and an update of one row, each prepared, and TPC-B as pgbench has it. With --rival, PostgreSQL does the
/// same on this machine, turn by turn, with its settings for memory (fsync=off). Ratios are Nearfar's rate
/// over PostgreSQL's in the same round: above 1, Nearfar is faster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench oltp
  nearfar bench oltp --rival postgres --clients 1,4,16 --format json > oltp.jsonl
  nearfar bench oltp --rival postgres --durable --directory /disk")]
pub struct BenchOltpArgs {
    /// Numbers of clients.
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "1,16"
    )]
    pub clients: Vec<NonZeroUsize>,
    /// Scale of pgbench's tables: 100,000 accounts each.
    #[arg(long, value_name = "N", default_value = "1")]
    pub scale: NonZeroU32,
    /// Times that each server has its turn.
    #[arg(long, value_name = "N", default_value = "3")]
    pub rounds: NonZeroU32,
    /// For how long each time, in whole seconds.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "3")]
    pub seconds: Duration,
    /// Compare with this server too; it must be installed.
    #[arg(long, value_name = "NAME")]
    pub rival: Option<ServerRival>,
    /// Measure a server too that does nothing but answer: what client and connections take.
    #[arg(long)]
    pub ceiling: bool,
    /// Wait for the disk at each commit, in all databases; by default none does.
    #[arg(long)]
    pub durable: bool,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Write scripts, data and PostgreSQL's files below this folder; they are removed in the end [default: the
    /// system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Servers that Nearfar's is compared with.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ServerRival {
    /// PostgreSQL.
    Postgres,
}

/// A restart from a pool against loading the tables again.
///
/// TPC-H at a tenth of the scale factor and at the scale factor: a process that attaches a pool and
/// answers its first query, one that verifies all of it first, and processes that load the same tables
/// from Parquet files, from a data directory and, where it is installed, from a file of DuckDB.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench restart
  nearfar bench restart --sf 10 --runs 3 --directory /big/disk --format json > restart.jsonl")]
#[command(mut_arg("scale_factor", |arg| arg.help("Scale factor of the larger data: 1 is about 1 GB of text")))]
pub struct BenchRestartArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// Restarts of each kind and size.
    #[arg(long, value_name = "N", default_value = "5")]
    pub runs: NonZeroU32,
    /// Restarts of each kind and size before those, which do not count.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: u32,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Make the pool below this folder, on tmpfs or a DAX file system: about 0.7 GB per scale
    /// factor, removed in the end [default: /dev/shm].
    #[arg(long, value_name = "FOLDER")]
    pub pool_dir: Option<PathBuf>,
    /// Write all other files below this folder: about 3 GB per scale factor, removed in the end
    /// [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    /// The interpreter that has the Python package duckdb, if any has.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    #[command(flatten)]
    pub figures: FigureArgs,
}
