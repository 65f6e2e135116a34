//! Runs statements and writes their rows.

use std::io::Write;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use nearfar_sql::engine::{Engine, Loading, RowStream, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::{Statement, statements};
use nearfar_table::transaction::CommitGate;
use nearfar_topology::units::Bytes;

use super::diagnosis::Source;
use super::meta::Meta;
use super::script::{Lines, Pending, Piece};
use crate::args::RowFormat;
use crate::exit::{Exit, Failed};
use crate::human::Elapsed;
use crate::interrupt::Interrupts;
use crate::machine::Workers;
use crate::message;
use crate::output::file::Output;
use crate::output::rows::RowWriter;
use crate::progress::{self, Spinner};

/// Scripts that may be within each other; one that includes itself would go on until the stack ends.
const INCLUDES_MAX: usize = 32;

/// How results are shown.
#[derive(Debug, Clone)]
pub struct Display {
    pub format: RowFormat,
    pub timing: bool,
    /// Rows of a text table that are printed; 0 for all.
    pub max_rows: usize,
    /// Whether a person waits for every statement.
    pub is_interactive: bool,
}

/// A session and where its results go.
pub struct Runner {
    session: Session,
    workers: Workers,
    interrupts: Interrupts,
    output: Output,
    /// Results in `output`.
    results: usize,
    /// Scripts that run within each other.
    includes: usize,
    pub display: Display,
}

impl Runner {
    /// A new session of `engine`, whose work `interrupts` end.
    pub fn open(
        engine: &Arc<Engine>,
        interrupts: Interrupts,
        output: Output,
        display: Display,
    ) -> anyhow::Result<Self> {
        let session = engine.session();
        session.tell_places();
        Ok(Self {
            session,
            workers: Workers::start(engine)?,
            interrupts,
            output,
            results: 0,
            includes: 0,
            display,
        })
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Sets a setting of the session.
    pub async fn set(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let (session, value) = (self.session.clone(), value.replace('\'', "''"));
        let statement = format!("SET {name} = '{value}'");
        self.work(
            async move { session.execute(&statement).await },
            String::new,
        )
        .await??;
        Ok(())
    }

    /// Runs `work` where queries run, until its end or Ctrl-C, and shows `text` meanwhile.
    pub async fn work<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> anyhow::Result<T> {
        let task = self.workers.spawn(work)?;
        let _spinner = Spinner::new(text);
        self.interrupts.during(task.join()).await?
    }

    /// The same for work that blocks its thread.
    pub async fn work_blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> anyhow::Result<T> {
        let task = self.workers.spawn_blocking(work)?;
        let _spinner = Spinner::new(text);
        self.interrupts.during(task.join()).await?
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub fn forget_interrupts(&mut self) {
        self.interrupts.forget();
    }

    /// Makes room for what comes after work that was given up and may not have noticed yet.
    pub fn recover(&mut self) -> anyhow::Result<()> {
        self.workers.renew()
    }

    /// Runs a script to its end or to its first error; breaks at `\q`.
    pub async fn script(
        &mut self,
        name: Option<&str>,
        mut lines: Lines,
    ) -> anyhow::Result<ControlFlow<()>> {
        let mut pending = Pending::default();
        while let Some(line) = self.interrupts.during(lines.next()).await?? {
            for piece in pending.push(&line) {
                if self.piece(name, piece).await?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        match pending.take() {
            Some(rest) => self.piece(name, rest).await,
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Runs a script that another one includes.
    ///
    /// # Errors
    /// Those of the script; that it is included too deep.
    pub async fn include(&mut self, name: &str, lines: Lines) -> anyhow::Result<ControlFlow<()>> {
        if self.includes == INCLUDES_MAX {
            let message = format!("{name}: more than {INCLUDES_MAX} scripts within each other");
            return Err(Failed::new(Exit::Statement, message).into());
        }
        self.includes += 1;
        let ended = self.script(Some(name), lines).await;
        self.includes -= 1;
        ended
    }

    async fn piece(&mut self, name: Option<&str>, piece: Piece) -> anyhow::Result<ControlFlow<()>> {
        match piece {
            Piece::Statements { text, line } => {
                let source = Source {
                    name,
                    line,
                    text: &text,
                };
                let statements = self.session.read_recent(&text);
                for statement in statements.map_err(|error| source.explain(error))? {
                    self.statement(&source, statement).await?;
                }
                Ok(ControlFlow::Continue(()))
            }
            Piece::Meta(command) => {
                let meta: Meta = command.parse()?;
                // Boxed, because a script may include another.
                Box::pin(meta.run(self)).await
            }
        }
    }

    async fn statement(&mut self, source: &Source<'_>, statement: Statement) -> anyhow::Result<()> {
        let (started, read) = (Instant::now(), self.bytes_read());
        let result = self
            .start(statement)
            .await?
            .map_err(|error| source.explain(error))?;
        match result {
            StatementResult::Command(tag) if self.display.is_interactive => {
                message::print(&tag.to_string());
            }
            StatementResult::Command(_) => {}
            StatementResult::Rows(rows) => {
                let display = self.display.clone();
                self.claim_output(display.format)?;
                let (out, interrupts) = (&mut self.output, &mut self.interrupts);
                let written = write(rows, source, out, interrupts, &display).await;
                written.map_err(|error| self.output.explain(error))?;
                self.output.with(Output::flush)?;
            }
        }
        if self.display.timing {
            self.print_timing(started.elapsed(), &read);
        }
        Ok(())
    }

    /// Runs a query of the shell's own and prints its rows on stdout, as a table.
    pub async fn show(&mut self, sql: &str) -> anyhow::Result<u64> {
        let mut count = 0;
        let mut output = Output::stdout();
        let display = Display {
            format: RowFormat::Table,
            ..self.display.clone()
        };
        let source = Source {
            name: None,
            line: 1,
            text: sql,
        };
        for statement in statements(sql)? {
            let result = self
                .start(statement)
                .await?
                .map_err(|error| source.explain(error))?;
            if let StatementResult::Rows(rows) = result {
                let interrupts = &mut self.interrupts;
                let written = write(rows, &source, &mut output, interrupts, &display).await;
                count += written.map_err(|error| output.explain(error))?;
            }
        }
        output.finish()?;
        Ok(count)
    }

    /// Runs a statement until it is done or has its first rows; shows what it loads meanwhile.
    async fn start(
        &mut self,
        statement: Statement,
    ) -> anyhow::Result<Result<StatementResult, EngineError>> {
        let (session, loading) = (self.session.clone(), self.session.clone());
        let progress = move || loading.loading().map(describe).unwrap_or_default();
        let gate = Arc::<CommitGate>::default();
        let behind = Arc::clone(&gate);
        let work = async move { session.run_behind(&behind, &statement, &[]).await };
        let mut task = pin!(self.workers.spawn(work)?.join());
        let _spinner = Spinner::new(progress);
        match self.interrupts.during(&mut task).await {
            Err(interrupted) if gate.close() => Err(interrupted),
            // A commit that has begun is waited for: it must not be reported as given up.
            Err(_) => match task.await? {
                Ok(_) => {
                    let message = "interrupted while the change was committed: it is kept";
                    Err(Failed::new(Exit::Interrupted, message).into())
                }
                failed => Ok(failed),
            },
            Ok(done) => done,
        }
    }

    /// Makes sure that the output can take another result.
    fn claim_output(&mut self, format: RowFormat) -> anyhow::Result<()> {
        if format == RowFormat::Parquet && self.results > 0 {
            let message = "a Parquet file holds the rows of one query, and there is a second one";
            return Err(Failed::new(Exit::Usage, message).into());
        }
        self.results += 1;
        Ok(())
    }

    /// Sends results elsewhere; those of before are complete.
    pub fn redirect(&mut self, output: Output) -> anyhow::Result<()> {
        self.results = 0;
        std::mem::replace(&mut self.output, output).finish()
    }

    /// Completes the output.
    pub fn finish(self) -> anyhow::Result<()> {
        self.output.finish()
    }

    fn bytes_read(&self) -> Vec<(String, u64)> {
        let engine: &Arc<Engine> = self.session.engine();
        let tiers = engine.system().tiers();
        tiers
            .map(|(id, tier)| (tier.name.clone(), engine.costs().bytes_read(id)))
            .collect()
    }

    fn print_timing(&self, elapsed: Duration, before: &[(String, u64)]) {
        let now = self.bytes_read();
        let read = now
            .iter()
            .zip(before)
            .filter(|((_, now), (_, before))| now > before);
        let read = read.map(|((name, now), (_, before))| format!("{name} {}", Bytes(now - before)));
        let read: Vec<String> = read.collect();
        let read = if read.is_empty() {
            String::new()
        } else {
            format!("; read {}", read.join(", "))
        };
        message::print(&format!("Time: {}{read}", Elapsed(elapsed)));
    }
}

/// Writes rows as they come; returns how many.
async fn write(
    mut rows: RowStream,
    source: &Source<'_>,
    out: &mut Output,
    interrupts: &mut Interrupts,
    display: &Display,
) -> anyhow::Result<u64> {
    let schema = Arc::clone(rows.schema());
    let mut writer = RowWriter::new(out, display.format, &schema, display.max_rows)?;
    while let Some(batch) = interrupts.during(rows.next()).await? {
        writer.batch(&batch.map_err(|error| source.explain(error))?)?;
    }
    writer.finish()
}

fn describe(loading: Loading) -> String {
    let (rows, bytes) = (loading.rows(), loading.bytes());
    progress::loading(&loading.table, rows, bytes, loading.elapsed())
}
