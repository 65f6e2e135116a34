//! The command line of Nearfar. It reads arguments, calls the libraries, and writes what they
//! return: it holds no logic of its own.
#![forbid(unsafe_code)]

mod args;
mod command;
mod exit;
mod human;
mod interrupt;
mod machine;
mod memory_hosts;
mod message;
mod output;
mod progress;
mod sql;

use std::process::ExitCode;

use clap::Parser;
use nearfar_bench::tpch::Suite;
use nearfar_memory::NearfarAllocator;
use nearfar_sql::foreign::is_caught_here;
use tracing::level_filters::LevelFilter;

use crate::args::{Cli, Command};
use crate::exit::Exit;

/// Sends what a query allocates to the tier that operator memory is on. The near tier is served by
/// what `nearfar-memory` finds best for the machine (see [`nearfar_memory::NearHeap`]).
#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

fn main() -> ExitCode {
    quiet_about_caught_panics();
    let cli = Cli::parse();
    log_to_stderr(cli.verbose);
    let exit = match run(&cli.command) {
        Ok(()) => Exit::Success,
        Err(error) if exit::is_broken_pipe(&error) => Exit::Success,
        Err(error) => {
            message::report(&error);
            Exit::of(&error)
        }
    };
    ExitCode::from(exit.code())
}

/// A panic that becomes an error is told as that.
fn quiet_about_caught_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_caught_here() {
            usual(panic);
        }
    }));
}

fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Tiers(args) => command::tiers::run(args),
        Command::Profiles(args) => command::profiles::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Serve(args) => command::serve::run(args),
        Command::Tpch(args) => command::tpch::run(Suite::TpcH, &args.run),
        Command::Tpcds(args) => command::tpch::run(Suite::TpcDs, &args.run),
        Command::Bench(args) => command::bench::run(args),
        Command::Index(args) => command::bench::run_index(args),
        Command::Measure(args) => command::measure::run(args),
        Command::Regulate(args) => command::regulate::run(args),
        Command::Reproduce(args) => command::reproduce::run(args),
        Command::Calibrate(args) => command::calibrate::run(args),
        Command::Plan(args) => command::plan::run(args),
        Command::Memory(args) => command::memory::run(args),
    }
}

fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(false)
        .without_time()
        .init();
}

/// The arguments of this process, for the headers of results.
fn command_line() -> Vec<String> {
    let arguments = std::env::args_os().skip(1);
    arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}
