//! Arguments that mean the same in several commands.

use std::num::NonZeroU32;

use clap::Args;

use super::FigureFormat;

/// How figures are printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct FigureArgs {
    /// How to print.
    #[arg(long, value_enum, default_value_t = FigureFormat::Table)]
    pub format: FigureFormat,
}

/// How much data TPC-H has.
#[derive(Debug, Clone, Copy, Args)]
pub struct ScaleArgs {
    /// Scale factor: 1 is about 1 GB of text.
    #[arg(
        long = "sf",
        value_name = "SF",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub scale_factor: f64,
}

/// How many threads engines have that are compared.
#[derive(Debug, Clone, Copy, Args)]
pub struct ThreadArgs {
    /// Threads of every engine [default: the processors of this process].
    #[arg(long, value_name = "N", value_parser = super::threads)]
    threads: Option<NonZeroU32>,
}

impl ThreadArgs {
    /// Their number.
    pub fn count(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads
            .map_or_else(processors, |threads| threads.get() as usize)
    }
}
