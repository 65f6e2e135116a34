//! `nearfar measure inference`.

use std::num::NonZeroU32;

use clap::Args;
use nearfar_memory::PlacementSpec;

use super::{FigureArgs, ThreadArgs};
use crate::human::ByteSize;

/// Stream weights that lie where a placement says, as a small language model does for each token.
///
/// Prints the time of a token. `nearfar measure interference --application-preset inference` has it beside others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar measure inference
  nearfar measure inference --weights 4GiB --placement far --threads 8
  nearfar measure inference --placement split:near=50%,far --format json")]
pub struct InferenceArgs {
    /// Bytes of all weights, in matrices of 16 MiB.
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    pub weights: ByteSize,
    /// Where they lie.
    #[arg(long, value_name = "PLACEMENT", default_value = "near")]
    pub placement: PlacementSpec,
    /// Tokens that are made one after the other.
    #[arg(long, value_name = "N", default_value = "8")]
    pub tokens: NonZeroU32,
    /// What decides the weights.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub figures: FigureArgs,
}
