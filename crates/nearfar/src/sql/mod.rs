//! `nearfar sql`: files become tables, and statements come from a shell, the command line or
//! scripts.

mod complete;
mod diagnosis;
mod load;
mod meta;
mod runner;
mod script;
mod shell;

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use nearfar_sql::engine::Engine;
use nearfar_topology::Profile;

pub use self::load::{Source, sources};
use self::runner::{Display, Runner};
use self::script::Lines;
use crate::args::{RowFormat, SqlArgs};
use crate::exit::{Exit, Failed};
use crate::human::TierBudget;
use crate::interrupt::Interrupts;
use crate::machine::{self, Kept};
use crate::message;
use crate::output::file::Output;

/// Runs the command.
pub fn run(args: &SqlArgs) -> anyhow::Result<()> {
    let sources = load::sources(&args.files)?;
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    let mut machine = args.machine.clone();
    if let Some(bytes) = args.near_budget {
        let tier = nearfar_topology::NEAR.to_owned();
        machine.budgets.push(TierBudget {
            tier,
            bytes: bytes.0,
        });
    }
    let kept = Kept {
        data: args.data.options(),
        pool: args.pool.options(args.data.access()),
    };
    let options = machine::engine_options(&machine, profile, kept)?;
    let engine = machine::engine_with_hosts(options, &args.hosts)?;
    let display = Display {
        format: args.format,
        timing: args.timing,
        max_rows: 0,
        is_interactive: false,
    };
    let front = machine::front()?;
    let mut runner = front.block_on(async {
        // Before there is a file, which Ctrl-C must not leave behind.
        let interrupts = Interrupts::listen()?;
        let output = match &args.output {
            Some(path) => Output::create(path)?,
            None => Output::stdout(),
        };
        let mut runner = Runner::open(&engine, interrupts, output, display)?;
        if let Some(name) = &args.tablespace {
            runner.set("default_tablespace", name).await?;
        }
        load::files(&mut runner, sources).await?;
        if let Some(scale_factor) = args.tpch {
            load::tpch(&mut runner, scale_factor).await?;
        }
        anyhow::Ok(runner)
    })?;
    if !args.command.is_empty() || !args.file.is_empty() {
        // Whether scripts end by themselves or with \q makes no difference here.
        let _ = front.block_on(scripts(args, &mut runner))?;
    } else if std::io::stdin().is_terminal() {
        runner.display.max_rows = args.max_rows;
        runner.display.is_interactive = true;
        tell_where_tables_are(&engine);
        runner = shell::run(&front, runner)?;
    } else {
        let _ = front.block_on(runner.script(None, Lines::of_stdin()))?;
    }
    runner.finish()?;
    machine::publish_at_end(&engine)
}

/// Says at the start of a shell whether tables outlive it.
fn tell_where_tables_are(engine: &Engine) {
    message::print(&match (engine.data_directory(), engine.pool()) {
        (Some(directory), _) => format!("Tables are kept in {}.", directory.display()),
        (None, Some(pool)) => format!(
            "Tables are kept in the pool {}: what was not merged yet when the process is killed is lost.",
            pool.path().display()
        ),
        (None, None) => {
            "Everything is in memory only, and gone when the shell ends: --data DIR keeps it."
                .to_owned()
        }
    });
}

/// Tables that are there before the first statement.
pub struct Tables<'a> {
    pub sources: Vec<Source>,
    /// The scale factor of TPC-H, if that is wanted.
    pub tpch: Option<f64>,
    /// Where they go.
    pub tablespace: Option<&'a str>,
}

impl Tables<'_> {
    /// Loads them, until Ctrl-C.
    pub async fn load(self, engine: &Arc<Engine>) -> anyhow::Result<()> {
        let display = Display {
            format: RowFormat::Table,
            timing: false,
            max_rows: 0,
            is_interactive: false,
        };
        let interrupts = Interrupts::listen()?;
        let mut runner = Runner::open(engine, interrupts, Output::stdout(), display)?;
        if let Some(name) = self.tablespace {
            runner.set("default_tablespace", name).await?;
        }
        load::files(&mut runner, self.sources).await?;
        if let Some(scale_factor) = self.tpch {
            load::tpch(&mut runner, scale_factor).await?;
        }
        Ok(())
    }
}

/// Runs what the command line says; breaks at `\q`.
async fn scripts(args: &SqlArgs, runner: &mut Runner) -> anyhow::Result<ControlFlow<()>> {
    for command in &args.command {
        if runner.script(None, Lines::of(command)).await?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    for file in &args.file {
        let name = file.display().to_string();
        if runner.script(Some(&name), read(file)?).await?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The lines of a script file.
fn read(path: &Path) -> anyhow::Result<Lines> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failed::new(Exit::Input, error.to_string()))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Lines::of(&text))
}
