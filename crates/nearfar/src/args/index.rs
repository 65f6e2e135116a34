//! `nearfar bench index`, which is `nearfar index bench` too.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use nearfar_index_bench::bench::{KeyForm, KeySource, Mode};
use nearfar_index_bench::map::Contestant;
use nearfar_index_bench::placed::{Policy, ScaleRule, Watermarks, watermarks};

use super::FigureArgs;

/// Tree indexes.
#[derive(Debug, Args)]
pub struct IndexArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: IndexAction,
}

/// What can be done with tree indexes.
#[derive(Debug, Subcommand)]
pub enum IndexAction {
    Bench(Box<BenchIndexArgs>),
}

/// Tree indexes under workloads: natively side by side with other crates' maps, or under placement
/// policies, on this machine's own tiers, with emulated far memory or in virtual time.
///
/// Natively, all maps are loaded, and each run goes over all of them in turn with the same requests;
/// all allocate from huge pages. A ratio is one of our trees' throughput over that of the best other
/// crate's: above 1, ours is faster. Natively with `--policy`, our trees are placed on this machine's near and far
/// memory, which it must have. Emulated, our trees run on this machine, whose threads
/// are delayed for the far memory of a profile. In virtual time, they run on the modelled cores of a
/// profile, whose caches are made smaller by as much as the tree is or, with `--scale none`, are as large as they are:
/// then short windows are simulated, and figures have an error (docs/index-benchmarks.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench index --workload ycsb-c --format json > index.jsonl
  nearfar bench index --tree art,congee --workload ycsb-a,ycsb-c --zipf 0,0.99 --threads 1
  nearfar bench index --workload ycsb-c --policy all-near,interleave,sidle --near-share 20
  nearfar bench index --mode emulated --workload ycsb-c --policy all-near,interleave,sidle
  nearfar bench index --mode virtual --profile cxl-card --workload hotspot-read-only \\
      --policy interleave,sidle,oracle --near-share 20 --report index.html
  nearfar bench index --mode virtual --scale none --tree masstree --workload hotspot-read-only \\
      --policy interleave,sidle,oracle --error 1")]
pub struct BenchIndexArgs {
    /// Run natively, emulated, or in virtual time [possible values: native, paced or emulated, virtual].
    #[arg(long, value_name = "MODE", default_value = "native")]
    pub mode: Mode,
    /// Maps that take part [default: all of this build, and under policies all of ours]. Other
    /// crates' maps are part of builds with the feature `rivals`.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tree: Vec<Contestant>,
    /// Workloads, one after the other [default: ycsb-c].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Replay this block trace instead: lines of device_id,opcode,offset,length,timestamp.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "keys"])]
    pub trace: Option<PathBuf>,
    /// Exponents of Zipfian distributions; 0 asks for all keys alike [default: 0.99].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub zipf: Vec<f64>,
    /// How many keys are loaded, or the lines of a file [default: 10000000, emulated or natively with policies 5000000, in
    /// virtual time 200000 or, with scale none, 180000000].
    #[arg(long, value_name = "N|file:PATH")]
    pub keys: Option<KeySource>,
    /// What keys are: integers, urls, or a number of random bytes.
    #[arg(long, value_name = "FORM", default_value = "integers")]
    pub key_form: KeyForm,
    /// Bytes of each value.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub value_bytes: usize,
    /// Numbers of threads, or of virtual cores [default: 1,2, emulated or natively with policies 1, in virtual time 28].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub threads: Vec<NonZeroUsize>,
    /// Native runs of each [default: 5]. Not with policies.
    #[arg(long, value_name = "N")]
    pub runs: Option<NonZeroUsize>,
    /// Operations of each thread in a native run [default: 2000000]. Not with policies.
    #[arg(long, value_name = "N")]
    pub operations: Option<NonZeroUsize>,
    /// Keys that are looked up together.
    #[arg(long, value_name = "N", default_value = "1")]
    pub batch: NonZeroUsize,
    /// Placement policies, or placements near, far and interleave:N:F [default: natively none, else
    /// all-near,interleave,sidle or, with scale none, interleave,sidle,oracle].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// Percent of the tree's bytes that may be near, under a policy [default: 20].
    #[arg(long, value_name = "PERCENT")]
    pub near_share: Option<u8>,
    /// The modelled machine: a built-in profile or a TOML file [default: cxl-card].
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// What is kept in proportion to the modelled machine's caches, in virtual time [default: bytes].
    #[arg(long, value_enum)]
    pub scale: Option<ScaleName>,
    /// With scale none, the percentage of error, at 95 % confidence, at which no more windows are simulated [default: 1].
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    pub error: Option<f64>,
    /// Milliseconds before figures are taken, under a policy [default: 5000, in virtual time 20 or, with scale none, 20000].
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub warm_up: Option<f64>,
    /// Milliseconds over which figures are taken, under a policy [default: 3000, in virtual time 10 or, with scale none,
    /// 2000].
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub measured: Option<f64>,
    /// Milliseconds after which the hot region moves by its own width, again and again.
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub shift: Option<f64>,
    /// Percentages of near memory between which the framework keeps its use [default: 85:95].
    #[arg(long, value_name = "LOW:HIGH", value_parser = watermarks)]
    pub watermarks: Option<Watermarks>,
    /// Milliseconds between two looks of the migration trigger [default: 500]. In virtual time, these and the others are
    /// of the machine before it is scaled.
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub trigger_ms: Option<f64>,
    /// Milliseconds between two turns of the cooler [default: 2000, with fitted 1000].
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub cooler_ms: Option<f64>,
    /// Milliseconds between two turns of the watermark maintainer [default: 100].
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub maintainer_ms: Option<f64>,
    /// Run under policies on this machine's own near and far memory, and then in virtual time with scale none on the
    /// profile, such as one that `nearfar calibrate` made of this machine, and print both with their ratio.
    #[arg(
        long,
        requires = "profile",
        conflicts_with_all = ["scale", "shift", "dry_run", "report"]
    )]
    pub compare_model: bool,
    /// Print what would be run, and run nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Write charts and tables to this HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// What is kept in proportion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScaleName {
    /// The number of keys.
    Keys,
    /// The bytes of the tree.
    Bytes,
    /// Nothing: tree and machine are as large as they are, and short windows are simulated.
    None,
}

impl From<ScaleName> for ScaleRule {
    fn from(name: ScaleName) -> Self {
        match name {
            ScaleName::Keys => Self::Keys,
            ScaleName::Bytes => Self::Bytes,
            ScaleName::None => Self::None,
        }
    }
}
