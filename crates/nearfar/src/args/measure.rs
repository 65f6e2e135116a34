//! `nearfar measure`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FigureArgs, InferenceArgs, InterferenceArgs, PagerankArgs};

/// Measure how fast memory is, access by access, as a specification describes.
///
/// Without a file or preset, the specification is a sequential read of the near tier; flags change
/// it. Several values of a flag, separated by commas, are a matrix. `docs/measure.md` describes
/// every field.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  nearfar measure --operation read,write --access 64,4096 --threads 1,2 --region-size 1GiB
  nearfar measure --preset latency --time 1s -o latency.jsonl
  nearfar measure my.toml --dry-run
  nearfar measure my.toml --profile cxl-blades-4 --virtual
  nearfar measure my.toml --profile mine.toml --compare-model
  nearfar measure interference --dry-run
  nearfar measure pagerank --placement far
  nearfar measure report latency.jsonl
  nearfar measure compare before.jsonl after.jsonl"
)]
pub struct MeasureArgs {
    /// What to do instead of measuring.
    #[command(subcommand)]
    pub action: Option<MeasureAction>,
    #[command(flatten)]
    pub run: MeasureRunArgs,
}

/// What can be done with results.
#[derive(Debug, Subcommand)]
pub enum MeasureAction {
    Interference(Box<InterferenceArgs>),
    Pagerank(PagerankArgs),
    Inference(InferenceArgs),
    /// Write a self-contained HTML page: heat maps, curves, percentiles and all figures.
    Report {
        /// Results of `nearfar measure`; several are one page, on which figures are named by them.
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// The page [default: the first results' name, ending in .html].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Set two results side by side.
    Compare {
        /// The first results.
        first: PathBuf,
        /// The second results; ratios are theirs over the first.
        second: PathBuf,
        /// Write a page too.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        #[command(flatten)]
        figures: FigureArgs,
    },
    /// List the built-in specifications, or print one.
    Presets {
        /// The one to print.
        name: Option<String>,
    },
}

/// What is measured.
#[derive(Debug, Args)]
pub struct MeasureRunArgs {
    /// A specification in TOML, or in YAML if it is named so.
    #[arg(value_name = "FILE", conflicts_with = "preset")]
    pub specification: Option<PathBuf>,
    /// A built-in specification: heatmap, devices, latency, split, loaded, interference or calibrate
    /// (`nearfar measure presets`).
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Add a modelled tier `far` after a built-in profile or a TOML file; with --virtual, the
    /// machine that is simulated.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Give the threads all of the modelled device, not their share of it.
    #[arg(long, requires = "profile")]
    pub whole_device: bool,
    /// Run in virtual time on the machine of the profile, not in the memory of this one.
    #[arg(
        id = "virtual",
        long,
        requires = "profile",
        conflicts_with_all = ["whole_device", "counters"]
    )]
    pub virtual_time: bool,
    /// Run in this machine's own memory and then in the model of the profile, such as one that `nearfar calibrate` made
    /// of this machine, and print both with their ratio.
    #[arg(
        long,
        requires = "profile",
        conflicts_with_all = ["virtual", "lines", "whole_device", "counters", "dry_run", "output", "resume"]
    )]
    pub compare_model: bool,
    /// Lines that the simulator follows per repetition, after a warm-up [default: as many as rates
    /// and percentiles need].
    #[arg(long, value_name = "N", requires = "virtual", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub lines: Option<u64>,
    /// Check the specification, print the plan, its memory and its time, and run nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Count hardware events with `perf`.
    #[arg(long)]
    pub counters: bool,
    /// Write results to this file as they come: JSON lines, or Parquet in the end if it is named so.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Go on with the results in the output file.
    #[arg(long, requires = "output")]
    pub resume: bool,
    #[command(flatten)]
    pub figures: FigureArgs,
    #[command(flatten)]
    pub fields: FieldArgs,
}

/// A flag for every field of a specification. A field of regions or tasks is set in all of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Specification")]
pub struct FieldArgs {
    /// A name for the results.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// How often every point of the matrix is run.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    repetitions: Vec<String>,
    /// How long one run takes.
    #[arg(
        long,
        value_name = "TIME",
        value_delimiter = ',',
        conflicts_with = "volume"
    )]
    time: Vec<String>,
    /// Bytes that every task accesses in one run, instead of a time.
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    volume: Vec<String>,
    /// Bytes that a thread takes from the queue at a time.
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    batch: Vec<String>,
    /// What decides the order of random accesses.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    seed: Vec<String>,
    /// off: the processor's own prefetchers are switched off while it runs.
    #[arg(long, value_name = "ON|OFF", value_delimiter = ',')]
    prefetchers: Vec<String>,
    /// Bytes of the regions.
    #[arg(
        long = "region-size",
        visible_alias = "size",
        value_name = "BYTES",
        value_delimiter = ','
    )]
    size: Vec<String>,
    /// Pages of the regions: huge or base.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pages: Vec<String>,
    /// Where regions lie; may be given several times.
    #[arg(long, value_name = "PLACEMENT")]
    placement: Vec<String>,
    /// read, write, write-nt, write-movdir64b, write-flush, chase, copy, copy-nt or copy-movdir64b.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    operation: Vec<String>,
    /// sequential or random.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pattern: Vec<String>,
    /// Bytes of one access: powers of two from 8 to 8192.
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    access: Vec<String>,
    /// Threads of every task.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads: Vec<String>,
    /// Processors of the threads, such as 0-3,8; auto or none.
    #[arg(long, value_name = "LIST")]
    pin: Option<String>,
    /// Regions that tasks access.
    #[arg(long, value_name = "NAMES")]
    region: Option<String>,
    /// The region that copies read.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Share of the accesses that are stores.
    #[arg(long, value_name = "SHARE", value_delimiter = ',')]
    writes: Vec<String>,
    /// Bytes per second that tasks do not exceed.
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    limit: Vec<String>,
    /// Of how many accesses one is timed.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    sample: Vec<String>,
    /// Whether tasks run until the others are done.
    #[arg(long, value_name = "BOOL")]
    background: Option<String>,
    /// Whether every access is waited for before the next one.
    #[arg(long, value_name = "BOOL")]
    fence: Option<String>,
    /// Reads of a chase between two looks at the clock.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    hops: Vec<String>,
    /// Any field by its path, such as task.reader.threads=4; several values separated by `|`.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
}

/// A field, its flag and its values.
pub type FieldFlag = (&'static str, String, Vec<String>);

impl FieldArgs {
    /// What was written: path, flag, values.
    pub fn written(&self) -> Vec<FieldFlag> {
        let one = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
        let flags = [
            ("name", "--name", one(&self.name)),
            ("repetitions", "--repetitions", self.repetitions.clone()),
            ("time", "--time", self.time.clone()),
            ("volume", "--volume", self.volume.clone()),
            ("batch", "--batch", self.batch.clone()),
            ("seed", "--seed", self.seed.clone()),
            ("prefetchers", "--prefetchers", self.prefetchers.clone()),
            ("size", "--region-size", self.size.clone()),
            ("pages", "--pages", self.pages.clone()),
            ("placement", "--placement", self.placement.clone()),
            ("operation", "--operation", self.operation.clone()),
            ("pattern", "--pattern", self.pattern.clone()),
            ("access", "--access", self.access.clone()),
            ("threads", "--threads", self.threads.clone()),
            ("pin", "--pin", one(&self.pin)),
            ("region", "--region", one(&self.region)),
            ("source", "--source", one(&self.source)),
            ("writes", "--writes", self.writes.clone()),
            ("limit", "--limit", self.limit.clone()),
            ("sample", "--sample", self.sample.clone()),
            ("background", "--background", one(&self.background)),
            ("fence", "--fence", one(&self.fence)),
            ("hops", "--hops", self.hops.clone()),
        ];
        let written = flags
            .into_iter()
            .filter(|(_, _, values)| !values.is_empty());
        written
            .map(|(path, flag, values)| (path, flag.to_owned(), values))
            .collect()
    }

    /// What `--set` says: each as it was written.
    pub fn set(&self) -> &[String] {
        &self.set
    }
}
