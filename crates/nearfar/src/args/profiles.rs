//! `nearfar profiles`.

use clap::Args;

use super::FigureArgs;

/// List the built-in profiles of far memory, or show one with the source of each number.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar profiles
  nearfar profiles cxl-blades-1
  nearfar profiles ./my-machine.toml      check a profile of your own")]
pub struct ProfilesArgs {
    /// The profile to show: a built-in name or a TOML file.
    #[arg(value_name = "NAME|FILE")]
    pub profile: Option<String>,
    #[command(flatten)]
    pub figures: FigureArgs,
}
