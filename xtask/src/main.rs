//! `cargo xtask`: what developers and CI run beside cargo's own commands.
//!
//! - `testbed` boots small virtual machines with several memory tiers and runs tests in them.
//! - `capture-sysfs` records fixtures of `nearfar-topology` in those machines.
#![forbid(unsafe_code)]
// A tool's output is for the terminal it runs in.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod build;
mod capture;
mod exit;
mod guest;
mod image;
mod packages;
mod suite;
mod testbed;
mod topology;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Cli, Task};

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Testbed(arguments) => testbed::run(&arguments),
        Task::CaptureSysfs(arguments) => capture::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        exit::of(&error)
    })
}
