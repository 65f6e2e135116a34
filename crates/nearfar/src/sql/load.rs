//! Files and generators become tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nearfar_sql::error::EngineError;
use nearfar_sql::load::{FileFormat, Load, Progress, file_plan, tpch};
use nearfar_table::placement::ColumnPlacements;

use super::runner::Runner;
use crate::exit::{Exit, Failed};
use crate::human::Elapsed;
use crate::message;
use crate::progress;

/// A file or folder that becomes a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    table: String,
    path: PathBuf,
    format: FileFormat,
}

/// The tables that `paths` stand for.
///
/// # Errors
/// A path that is not there or of no known format, a folder without such files, two paths of one
/// name.
pub fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut sources = Vec::new();
    for path in paths {
        for source in sources_of(path)? {
            if let Some(other) = by_name.insert(source.table.clone(), source.path.clone()) {
                let (table, other) = (&source.table, other.display());
                let message = format!(
                    "{} and {other} would both become table {table}: rename one",
                    source.path.display()
                );
                return Err(Failed::new(Exit::Input, message).into());
            }
            sources.push(source);
        }
    }
    Ok(sources)
}

fn sources_of(path: &Path) -> anyhow::Result<Vec<Source>> {
    let cannot_read = |error: std::io::Error| {
        let message = format!("cannot read {}: {error}", path.display());
        anyhow::Error::from(Failed::new(Exit::Input, message))
    };
    let is_folder = fs::metadata(path).map_err(cannot_read)?.is_dir();
    match source(path) {
        Ok(source) => return Ok(vec![source]),
        Err(error) if !is_folder => return Err(error),
        Err(_) => {}
    }
    let entries = fs::read_dir(path).map_err(cannot_read)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(cannot_read)?;
    paths.sort();
    let readable = paths
        .iter()
        .filter(|path| FileFormat::of_path(path).is_ok());
    let named = readable.filter_map(|path| match source(path) {
        Ok(source) => Some(source),
        Err(error) => {
            message::print(&format!("warning: skipped {error}"));
            None
        }
    });
    let sources: Vec<Source> = named.collect();
    if sources.is_empty() {
        let message = format!(
            "{} holds no .parquet, .csv, .arrow or .ipc file",
            path.display()
        );
        return Err(Failed::new(Exit::Input, message).into());
    }
    Ok(sources)
}

/// The table of one file, or of one folder that is named like a file.
fn source(path: &Path) -> anyhow::Result<Source> {
    let format = FileFormat::of_path(path)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let table = stem
        .ok_or_else(|| Failed::new(Exit::Input, format!("{}: not a UTF-8 name", path.display())))?
        .to_owned();
    let path = path.to_owned();
    Ok(Source {
        table,
        path,
        format,
    })
}

/// Loads every source.
pub async fn files(runner: &mut Runner, sources: Vec<Source>) -> anyhow::Result<()> {
    for Source {
        table,
        path,
        format,
    } in sources
    {
        let load = load(runner, &table);
        let (from, report) = (path.clone(), LoadReport::of(&load));
        let threads = runner.session().engine().threads();
        let work = async move {
            let (plan, context) = file_plan(&from, format, threads).await?;
            load.plan(plan, context.task_ctx()).await
        };
        let loaded = runner.work(work, report.text()).await?;
        let loaded = loaded.map_err(|error| name(error, &path))?;
        if loaded.schema().fields().is_empty() {
            let message = format!("{} has no columns: is it empty?", path.display());
            return Err(Failed::new(Exit::Input, message).into());
        }
        runner.session().register(loaded)?;
        report.done();
    }
    Ok(())
}

/// The error with the file that it is about. What is wrong with a file's content has many types.
fn name(error: EngineError, path: &Path) -> anyhow::Error {
    let is_named = matches!(
        error,
        EngineError::Unreadable { .. } | EngineError::UnknownFormat { .. }
    );
    let error = anyhow::Error::from(error);
    let cannot_load = format!("cannot load {}", path.display());
    match Exit::of(&error) {
        _ if is_named => error,
        Exit::Statement | Exit::Failure => {
            let text = format!("{cannot_load}: {}", message::of(&error));
            Failed::new(Exit::Input, text).into()
        }
        _ => error.context(cannot_load),
    }
}

/// Generates and loads the tables of TPC-H.
pub async fn tpch(runner: &mut Runner, scale_factor: f64) -> anyhow::Result<()> {
    if !(scale_factor > 0.0 && scale_factor <= 100_000.0) {
        let message = format!("scale factor {scale_factor} is not above 0 and at most 100000");
        return Err(Failed::new(Exit::Usage, message).into());
    }
    for table in tpch::TABLES {
        let load = load(runner, table);
        let report = LoadReport::of(&load);
        let threads = runner.session().engine().threads();
        let work = move || {
            let rows = tpch::rows(table, scale_factor, threads)?;
            load.batches(&rows.schema, rows.parts)
        };
        let loaded = runner.work_blocking(work, report.text()).await??;
        runner.session().register(loaded)?;
        report.done();
    }
    Ok(())
}

/// What is said of a load.
#[derive(Clone)]
struct LoadReport {
    table: String,
    progress: Arc<Progress>,
    started: Instant,
}

impl LoadReport {
    fn of(load: &Load) -> Self {
        let (table, progress) = (load.name.clone(), Arc::clone(&load.progress));
        Self {
            table,
            progress,
            started: Instant::now(),
        }
    }

    /// How far it has come, at any moment.
    fn text(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let report = self.clone();
        move || {
            let (rows, bytes) = (report.progress.rows(), report.progress.bytes());
            progress::loading(&report.table, rows, bytes, report.started.elapsed())
        }
    }

    /// Leaves a line behind, where a person sees it.
    fn done(&self) {
        if progress::is_shown() {
            let elapsed = self.started.elapsed();
            let amount = progress::amount(self.progress.rows(), self.progress.bytes(), elapsed);
            message::print(&format!(
                "loaded {}: {amount}, {}",
                self.table,
                Elapsed(elapsed)
            ));
        }
    }
}

fn load(runner: &Runner, table: &str) -> Load {
    let session = runner.session();
    let placement = session.settings().table_placement(false).clone();
    Load {
        storage: session.engine().storage().clone(),
        name: table.to_owned(),
        placements: ColumnPlacements::all(placement),
        progress: Arc::new(Progress::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_files_and_folders_like_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for file in ["b.csv", "a.parquet", "notes.txt"] {
            fs::write(at(file), "").expect("written");
        }
        fs::create_dir(at("c.arrow")).expect("made");
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let sources = sources(paths).expect("sources");
            sources.into_iter().map(|source| source.table).collect()
        };
        assert_eq!(names(&[folder.path().to_owned()]), ["a", "b", "c"]);
        assert_eq!(names(&[at("c.arrow")]), ["c"]);
    }

    #[test]
    fn what_cannot_become_a_table_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.csv"), "").expect("written");
        fs::write(at("a.parquet"), "").expect("written");
        fs::write(at("a.txt"), "").expect("written");
        fs::create_dir(at("empty")).expect("made");
        for (paths, told) in [
            (vec![at("none.csv")], "cannot read"),
            (vec![at("a.txt")], "names no format"),
            (vec![at("empty")], "holds no .parquet"),
            (
                vec![at("a.csv"), at("a.parquet")],
                "would both become table a",
            ),
        ] {
            let error = sources(&paths).expect_err(told);
            assert!(error.to_string().contains(told), "{error}");
            assert_eq!(Exit::of(&error), Exit::Input, "{error}");
        }
    }
}
