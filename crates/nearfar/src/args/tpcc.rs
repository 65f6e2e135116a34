//! `nearfar bench tpcc` and `htap`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use nearfar_bench::tpcc::{TpccOptions, Way};

use super::bench::ServerRival;
use super::{FigureArgs, ThreadArgs};

/// TPC-C over the wire and in this process, beside PostgreSQL.
///
/// The five transactions with the specification's mix and inputs, and its consistency conditions before and after.
/// Over the wire, terminals have a server in a process of its own and prepared statements; in process, transactions
/// are functions in Rust over the engine's sessions. With --rival, PostgreSQL does the same with the same client on
/// this machine, turn by turn. Ratios are Nearfar's new orders per minute over PostgreSQL's in the same round: above
/// 1, Nearfar is faster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench tpcc
  nearfar bench tpcc --rival postgres --warehouses 4 --terminals 8 --format json > tpcc.jsonl
  nearfar bench tpcc --durable --kills 3 --way wire --directory /fast/disk

The exit code is 8 when a consistency condition does not hold, or a kill has lost an order.")]
pub struct BenchTpccArgs {
    #[command(flatten)]
    pub terminals: TerminalArgs,
    /// For how long each database runs before, which does not count.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "3")]
    pub warmup: Duration,
    /// Let input take the specification's time to be keyed in, and output to be thought about.
    #[arg(long)]
    pub think_times: bool,
    /// Kill Nearfar's server so many times while terminals run, start it again, and look for the orders that were
    /// acknowledged.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub kills: u32,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Transactions and analysis over the same tables, each alone and both together.
///
/// The terminals of `nearfar bench tpcc` beside analysts, who ask 12 questions of TPC-H's kind over its tables, each
/// in a transaction that reads one state of all of them. What is kept is each side's rate beside the other over its
/// rate alone; freshness is for how long the oldest order had been acknowledged that a query did not see when it
/// began. With --rival, PostgreSQL does the same with the same client on this machine, turn by turn.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar bench htap
  nearfar bench htap --rival postgres --way wire --analysts 2 --format json > htap.jsonl

The exit code is 8 when a consistency condition does not hold, a query has read more than one state, or systems give
different answers.")]
pub struct BenchHtapArgs {
    #[command(flatten)]
    pub terminals: TerminalArgs,
    /// Concurrent analysts.
    #[arg(long, value_name = "N", default_value = "1")]
    pub analysts: NonZeroUsize,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// TPC-C's terminals and databases.
#[derive(Debug, Args)]
pub struct TerminalArgs {
    /// Warehouses, about 80 MB each.
    #[arg(long, value_name = "N", default_value = "2")]
    pub warehouses: NonZeroU32,
    /// Concurrent terminals, spread over the warehouses.
    #[arg(long, value_name = "N", default_value = "8")]
    pub terminals: NonZeroUsize,
    /// How Nearfar is reached, each way with a database of its own.
    #[arg(
        long = "way",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "wire,in-process"
    )]
    pub ways: Vec<TpccWay>,
    /// Times that each database has its turn.
    #[arg(long, value_name = "N", default_value = "3")]
    pub rounds: NonZeroU32,
    /// For how long each time, and each part of it.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "10")]
    pub seconds: Duration,
    /// Wait for the disk at each commit, in all databases.
    #[arg(long)]
    pub durable: bool,
    /// Have one of N items and customers only: for tries, not for results.
    #[arg(long, value_name = "N", default_value = "1")]
    pub shrink: NonZeroU32,
    /// The seed of rows and inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare with this server too; it must be installed.
    #[arg(long, value_name = "NAME")]
    pub rival: Option<ServerRival>,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Write data directories and PostgreSQL's files below this folder; they are removed in the end [default: the
    /// system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
}

impl TerminalArgs {
    /// What is run, without think times, kills and a time that does not count.
    pub fn options(&self) -> anyhow::Result<TpccOptions> {
        let directory = self.directory.clone();
        Ok(TpccOptions {
            program: std::env::current_exe().context("cannot find this program's file")?,
            threads: self.threads.count(),
            warehouses: self.warehouses.get(),
            shrink: self.shrink.get(),
            terminals: self.terminals.get(),
            rounds: self.rounds.get(),
            turn: self.seconds,
            warmup: Duration::ZERO,
            thinks: false,
            ways: self.ways.iter().map(|way| (*way).into()).collect(),
            beside_postgres: self.rival.is_some(),
            durable: self.durable,
            kills: 0,
            seed: self.seed,
            directory: directory.unwrap_or_else(std::env::temp_dir),
        })
    }
}

/// Ways to reach Nearfar.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TpccWay {
    /// Over PostgreSQL's protocol.
    Wire,
    /// Within this process.
    InProcess,
}

impl From<TpccWay> for Way {
    fn from(way: TpccWay) -> Self {
        match way {
            TpccWay::Wire => Self::Wire,
            TpccWay::InProcess => Self::InProcess,
        }
    }
}
