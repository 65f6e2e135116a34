//! The interactive shell.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

use futures::TryStreamExt;
use nearfar_sql::engine::{Session, StatementResult};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::runtime::Runtime;

use super::complete::{Names, ShellHelper};
use super::runner::Runner;
use super::script::Lines;
use crate::exit::{self, Exit};
use crate::message;

const PROMPT: &str = "nearfar> ";
/// Entries of the history that are kept.
const HISTORY_ENTRIES: usize = 10_000;

/// Reads and runs statements until the user leaves.
pub fn run(front: &Runtime, mut runner: Runner) -> anyhow::Result<Runner> {
    let names = Names::default();
    let mut editor = editor(&names)?;
    let mut history = History::open(&mut editor);
    message::print(&format!(
        "nearfar {}: statements end with a semicolon, \\? shows commands, \\q leaves",
        env!("CARGO_PKG_VERSION")
    ));
    loop {
        front.block_on(refresh(&names, &mut runner));
        let input = match editor.readline(PROMPT) {
            Ok(input) => input,
            // Ctrl-C clears the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        if input.trim().is_empty() {
            continue;
        }
        history.remember(&mut editor, &input);
        runner.forget_interrupts();
        match front.block_on(runner.script(None, Lines::of(&input))) {
            Ok(ended) if ended.is_break() => break,
            Ok(_) => {}
            Err(error) if exit::is_broken_pipe(&error) => return Err(error),
            Err(error) if Exit::of(&error) == Exit::Interrupted => {
                message::print("Cancelled.");
                runner.recover()?;
            }
            Err(error) => message::report(&error),
        }
    }
    Ok(runner)
}

type ShellEditor = Editor<ShellHelper, FileHistory>;

fn editor(names: &Names) -> anyhow::Result<ShellEditor> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)?
        .history_ignore_space(true)
        .completion_type(rustyline::CompletionType::List)
        // The prompt is for the user, wherever stdout goes.
        .behavior(rustyline::Behavior::PreferTerm)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(ShellHelper::new(Arc::clone(names))));
    Ok(editor)
}

/// What was typed before, and the file that it is kept in.
struct History {
    path: Option<PathBuf>,
}

impl History {
    fn open(editor: &mut ShellEditor) -> Self {
        let path = history_file();
        if let Some(path) = &path {
            // A first session has none.
            let _ = editor.load_history(path);
        }
        Self { path }
    }

    /// Keeps an input; warns of a file that cannot be written, once.
    fn remember(&mut self, editor: &mut ShellEditor, input: &str) {
        // An input that cannot be remembered can still be run.
        let _ = editor.add_history_entry(input);
        let Some(path) = &self.path else { return };
        if let Err(error) = append(editor, path) {
            let path = path.display();
            message::print(&format!(
                "warning: cannot save the history in {path}: {error}"
            ));
            self.path = None;
        }
    }
}

fn append(editor: &mut ShellEditor, path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(editor.append_history(path)?)
}

/// `nearfar/history` in the user's folder for state, as the XDG base directories have it.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("nearfar/history"))
}

/// Looks up the names of tables and columns for completions.
async fn refresh(names: &Mutex<Vec<String>>, runner: &mut Runner) {
    let session = runner.session().clone();
    let found = runner.work(look_up(session), String::new).await;
    // Completions that lack a name are no reason to disturb anyone.
    if let Ok(Ok(found)) = found {
        *names.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

async fn look_up(session: Session) -> anyhow::Result<Vec<String>> {
    const QUERY: &str = "
        SELECT table_name AS name FROM information_schema.columns
        WHERE table_schema <> 'information_schema'
        UNION SELECT column_name FROM information_schema.columns
        WHERE table_schema <> 'information_schema'";
    let mut names = Vec::new();
    for result in session.execute(QUERY).await? {
        if let StatementResult::Rows(mut rows) = result {
            while let Some(batch) = rows.try_next().await? {
                let column = arrow::array::AsArray::as_string_opt::<i32>(batch.column(0));
                let values = column
                    .into_iter()
                    .flat_map(|column| column.iter().flatten());
                names.extend(values.map(str::to_owned));
            }
        }
    }
    Ok(names)
}
