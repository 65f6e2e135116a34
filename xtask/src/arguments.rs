//! The arguments of `cargo xtask`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Nearfar's own tools")]
pub struct Cli {
    #[command(subcommand)]
    pub task: Task,
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run tests in virtual machines with several memory tiers
    #[command(after_help = "\
Exit codes: 0 all passed, 1 something failed, 69 the testbed cannot run on this machine; \
with a command, the command's own code.")]
    Testbed(TestbedArguments),
    /// Record the sysfs of the testbed's machines as fixtures of nearfar-topology
    CaptureSysfs(CaptureArguments),
}

#[derive(Debug, Args)]
pub struct TestbedArguments {
    /// Topologies whose checks are run; all by default
    #[arg(value_name = "TOPOLOGY")]
    pub topologies: Vec<String>,
    /// List topologies and what runs on each, and leave
    #[arg(long)]
    pub list: bool,
    /// Run only a part of the checks
    #[arg(long, value_enum)]
    pub subset: Option<Subset>,
    /// Run only checks whose package, feature or test has this in its name
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Boot this topology and run a command in it: a program of this machine, by its path, or one
    /// of the guest's
    #[arg(long = "topology", value_name = "TOPOLOGY", requires = "command", conflicts_with_all = ["topologies", "subset", "only"])]
    pub command_topology: Option<String>,
    /// The command of --topology and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "command_topology")]
    pub command: Vec<String>,
    /// Bring what the command leaves in its folder $OUT to this folder
    #[arg(long, value_name = "FOLDER", requires = "command_topology")]
    pub out: Option<PathBuf>,
    /// A file of this machine that the guest has as /programs/NAME; repeatable
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Boot this topology and open a shell in it
    #[arg(long, value_name = "TOPOLOGY", conflicts_with_all = ["topologies", "subset", "command_topology"])]
    pub shell: Option<String>,
    /// Seconds that a command of --topology may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub timeout: u64,
    #[command(flatten)]
    pub machine: MachineArguments,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How machines are run.
#[derive(Debug, Args)]
pub struct MachineArguments {
    /// What executes the guest's instructions
    #[arg(long, value_enum, default_value_t = AcceleratorChoice::Auto)]
    pub accelerator: AcceleratorChoice,
    /// Keep the folders with consoles, kernel logs and outputs, and say where they are
    #[arg(long)]
    pub keep: bool,
    /// Print the output of checks that pass too, and the command line of each machine
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Debug, Args)]
pub struct CaptureArguments {
    /// Topologies to record; all that are recorded as fixtures by default
    #[arg(value_name = "TOPOLOGY")]
    pub topologies: Vec<String>,
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// A part of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subset {
    /// What CI runs: at most six minutes on two cores
    Ci,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines and a table for people
    Text,
    /// One JSON object per check
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorChoice {
    /// KVM where a trial boot shows that it works, else software emulation
    Auto,
    /// Software emulation
    Tcg,
    /// The processor's own virtualisation
    Kvm,
}
