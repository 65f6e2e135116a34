//! `nearfar regulate` and `nearfar bench regulate`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use nearfar_regulate::observe::GroupServer;
use nearfar_regulate::virtual_time::Scenario;
use nearfar_topology::IdList;

use super::FigureArgs;

/// Slow groups of tasks that take memory bandwidth from others, and undo it.
///
/// A victim is watched and a group slowed until the victim has its goal. Of several groups, those are slowed that
/// move most to the slow tier. Every change is noted before it is made, and undone when the command ends; after a
/// kill, by the next start or by `restore`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  nearfar regulate --group batch --threads 16 --dry-run
  nearfar regulate --group batch --near-latency-max 1.2
  nearfar regulate --group batch --knob bandwidth --watch traffic --victim service
  nearfar regulate --group batch --watch metric --metric-file /run/service/rate --goal 90
  nearfar regulate --group batch --group reports --format json
  nearfar regulate --group batch --group engine --nearfar engine=127.0.0.1:9187
  nearfar regulate --replay trace.csv --profile cxl-asic --format json
  nearfar regulate restore"
)]
pub struct RegulateArgs {
    /// What to do instead of regulating.
    #[command(subcommand)]
    pub action: Option<RegulateAction>,
    #[command(flatten)]
    pub run: RegulateRunArgs,
}

/// What can be done but regulating.
#[derive(Debug, Subcommand)]
pub enum RegulateAction {
    /// Give every file its content back that a regulator has changed and not restored.
    Restore {
        /// Where the regulator has its journal.
        #[arg(long, value_name = "FOLDER", default_value = JOURNAL)]
        journal: PathBuf,
        /// The machine that it regulated is the one whose files are below this folder.
        #[arg(long, value_name = "FOLDER", default_value = "/")]
        root: PathBuf,
    },
}

/// Where the journal is by default: gone after a reboot, as what it restores is.
const JOURNAL: &str = "/run/nearfar-regulate";

/// How to regulate.
#[derive(Debug, Args)]
pub struct RegulateRunArgs {
    /// The group to slow, below the root of the cgroups or of resctrl; given several times, those of them that move
    /// most to the slow tier.
    #[arg(
        long = "group",
        value_name = "NAME",
        required_unless_present = "replay"
    )]
    pub groups: Vec<String>,
    /// A group that is a Nearfar server and the address of its metrics, which count what it moves to slow tiers; may be
    /// given for each of several groups.
    #[arg(long = "nearfar", value_name = "GROUP=HOST:PORT")]
    pub servers: Vec<GroupServer>,
    /// What slows it.
    #[arg(long, value_enum, default_value_t = KnobName::Quota)]
    pub knob: KnobName,
    /// Processors that the tasks of each group keep busy, for a quota.
    #[arg(long, value_name = "N", value_parser = super::threads, default_value = "1")]
    pub threads: NonZeroU32,
    /// GB/s that the group moves in each domain of a last-level cache when nothing limits it: what a bandwidth is
    /// lowered from where its limits are absolute, as AMD's are.
    #[arg(long, value_name = "GB/S", value_parser = gb_per_s)]
    pub bandwidth: Option<f64>,
    /// Processors of the group's tasks, for the frequency, such as 3,4.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub processors: Vec<u32>,
    /// Processors of the victim, whose cores a group is moved away from, such as 0-3,8 [default: those of --victim].
    #[arg(long, value_name = "LIST", value_parser = processors)]
    pub victim_processors: Option<IdList>,
    /// How the victim is watched.
    #[arg(long, value_enum, default_value_t = WatchName::Latency)]
    pub watch: WatchName,
    /// The victim's group, to watch its traffic or pressure, or to move others away from its cores.
    #[arg(long, value_name = "NAME")]
    pub victim: Option<String>,
    #[command(flatten)]
    pub metric: VictimMetricArgs,
    /// Who decides.
    #[arg(long, value_enum, default_value_t = ControllerName::TierAware)]
    pub controller: ControllerName,
    /// What the victim shall have of its undisturbed speed, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    pub goal: f64,
    /// The goal as how many times as slow as at the start near memory may be, such as 1.2; with --watch latency.
    #[arg(long, value_name = "RATIO", value_parser = super::latency_max, conflicts_with = "goal")]
    pub near_latency_max: Option<f64>,
    /// What the group keeps of its speed whatever happens, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub floor: f64,
    /// Seconds until the end [default: until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = super::seconds)]
    pub seconds: Option<std::time::Duration>,
    /// How to print what is decided.
    #[arg(long, value_enum, default_value_t = DecisionFormat::Text)]
    pub format: DecisionFormat,
    /// Say what would be changed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Regulate the machine whose files are below this folder.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Where changes are noted.
    #[arg(long, value_name = "FOLDER", default_value = JOURNAL)]
    pub journal: PathBuf,
    /// Write what the groups ask for to this file in the end, as a trace for --replay.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Regulate in virtual time what this trace asks for: lines of `ms,share`, or, below `ms,NAME,NAME`, with a share for
    /// each group.
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub replay: Option<PathBuf>,
    /// The machine of a replay: a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", requires = "replay")]
    pub profile: Option<String>,
    /// Whom it disturbs.
    #[arg(
        long,
        value_name = "NAME",
        default_value = Scenario::NearLoads.name(),
        requires = "replay",
        value_parser = PossibleValuesParser::new(Scenario::ALL.map(Scenario::name))
            .try_map(|name| Scenario::of_name(&name).ok_or("no scenario")),
    )]
    pub scenario: Scenario,
}

/// The number that a victim tells of itself, for --watch metric.
#[derive(Debug, Args)]
pub struct VictimMetricArgs {
    /// The file that the victim writes its number to again and again, of which more is better.
    #[arg(long, value_name = "FILE", conflicts_with = "metric_command")]
    pub metric_file: Option<PathBuf>,
    /// A command line, for sh, that prints the victim's number and ends; it is run again and again.
    #[arg(long, value_name = "COMMAND")]
    pub metric_command: Option<String>,
    /// What in the file or in the output is the number: a regular expression, whose first group it is [default: all that
    /// there is].
    #[arg(long, value_name = "REGEX")]
    pub metric_pattern: Option<String>,
    /// Whether less of it is better, as of a latency.
    #[arg(long)]
    pub lower_is_better: bool,
    /// The number that the victim has alone [default: the best median of five in a row].
    #[arg(long, value_name = "NUMBER")]
    pub metric_alone: Option<f64>,
    /// Of how many seconds a number tells [default: those since the number before].
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub metric_window: Option<std::time::Duration>,
}

impl VictimMetricArgs {
    /// Whether a number was named.
    pub fn is_named(&self) -> bool {
        self.metric_file.is_some() || self.metric_command.is_some()
    }
}

/// How to print what is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DecisionFormat {
    /// For people: causes, and files that are changed.
    Text,
    /// For programs: one JSON object per line, for each decision that changes something.
    Json,
}

/// What slows a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KnobName {
    /// `cpu.max` of cgroup v2.
    Quota,
    /// `scaling_max_freq` of its processors.
    Frequency,
    /// `MB` of resctrl, or `SMBA` where slow memory has limits of its own.
    Bandwidth,
    /// `cpuset.cpus` of cgroup v2: away from the victim's cores.
    Pin,
}

fn processors(text: &str) -> Result<IdList, String> {
    let list = IdList::parse(text).filter(|list| !list.is_empty());
    list.ok_or_else(|| "write a list of processors such as 0-3,8".to_owned())
}

fn gb_per_s(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok();
    let found = found.filter(|gb_per_s| gb_per_s.is_finite() && *gb_per_s > 0.0);
    found.ok_or_else(|| "write a number of GB/s such as 20".to_owned())
}

/// How a victim is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WatchName {
    /// Latency of near memory, by a chain of dependent reads.
    Latency,
    /// Bytes of the victim's group, by resctrl.
    Traffic,
    /// Memory pressure of the victim's group.
    Pressure,
    /// A number that the victim tells of itself.
    Metric,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControllerName {
    /// Cuts as soon as the goal is missed, and finds the limit from below.
    TierAware,
    /// The loop of mao-2025.
    Published,
}

/// Controllers in virtual time.
///
/// A victim of near memory is disturbed by non-temporal stores to far memory after a second. What the
/// victim gets back, what that costs and how soon it comes are set beside what was published, for quota, frequency and
/// bandwidth. Then an innocent group is there too, with and without counters that tell which of the two is the cause.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench regulate --virtual
  nearfar bench regulate --virtual --report regulation.html
  nearfar bench regulate --virtual --profile cxl-agilex --format json")]
pub struct BenchRegulateArgs {
    /// In virtual time, which is the only one that there is.
    #[arg(long = "virtual", required = true)]
    pub virtual_time: bool,
    /// The machine: a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "cxl-asic")]
    pub profile: String,
    /// Write a report with the curves, as one HTML page, to this file.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub figures: FigureArgs,
}
