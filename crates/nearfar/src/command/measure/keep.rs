//! Where results go: to stdout, and to a file that can be gone on with.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use nearfar_measure::access::PlannedRun;
use nearfar_measure::access::resume::Kept;
use nearfar_measure::results::{Header, Metric, ResultsWriter, WriteError};

use super::parquet;
use crate::args::FigureFormat;
use crate::exit::{Exit, Failed};
use crate::output::figures;
use crate::output::file::Output;

/// Where results are to go.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// The file.
    pub output: Option<&'a Path>,
    /// Whether it is gone on with.
    pub resume: bool,
    /// How they are printed.
    pub format: FigureFormat,
}

/// The results of one execution.
pub struct Results {
    header: Header,
    metrics: Vec<Metric>,
    kept: Option<Kept>,
    file: Option<ResultsWriter<File>>,
    parquet: Option<PathBuf>,
    format: FigureFormat,
    has_output: bool,
}

impl Results {
    /// Opens the output file, and reads what it holds if it is to be gone on with. A Parquet file
    /// is written in the end; until then the lines lie beside it, in a file that ends in `.jsonl`.
    pub fn open(
        to: Destination<'_>,
        settings: &BTreeMap<String, String>,
        header: Header,
    ) -> anyhow::Result<Self> {
        let mut results = Self {
            header,
            metrics: Vec::new(),
            kept: None,
            file: None,
            parquet: None,
            format: to.format,
            has_output: to.output.is_some(),
        };
        let Some(output) = to.output else {
            return Ok(results);
        };
        let mut lines = output.to_owned();
        if output.extension().is_some_and(|ending| ending == "parquet") {
            results.parquet = Some(output.to_owned());
            lines.as_mut_os_string().push(".jsonl");
        }
        if to.resume && lines.exists() {
            let file = File::open(&lines).map_err(|error| cannot("read", &lines, &error))?;
            let kept = Kept::read(BufReader::new(file), settings)?;
            results.header = kept.header.clone();
            results.metrics.clone_from(&kept.metrics);
            results.kept = Some(kept);
        } else if !to.resume && output.exists() && !is_special(output) {
            let message = format!(
                "{} exists: go on with it by --resume, remove it, or name another file",
                output.display()
            );
            return Err(Failed::new(Exit::Output, message).into());
        }
        results.file = Some(results.begin(&lines)?);
        Ok(results)
    }

    /// Writes what is kept beside the file and puts it in its place; lines are added to it there.
    fn begin(&self, path: &Path) -> anyhow::Result<ResultsWriter<File>> {
        let mut part = path.to_owned();
        part.as_mut_os_string()
            .push(format!(".{}.part", std::process::id()));
        let target = if is_special(path) { path } else { &part };
        let begun = File::create(target)
            .map_err(WriteError::Io)
            .and_then(|file| {
                let mut writer = ResultsWriter::new(file, &self.header)?;
                self.metrics
                    .iter()
                    .try_for_each(|metric| writer.metric(metric))?;
                if target == part {
                    fs::rename(&part, path)?;
                }
                Ok(writer)
            });
        begun.map_err(|error| {
            // The failure to tell is the first one.
            let _ = fs::remove_file(&part);
            cannot("write", path, &error).into()
        })
    }

    /// Whether the results hold this run already.
    pub fn has(&self, run: &PlannedRun) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has(run))
    }

    /// Whether they hold the run of this name already.
    pub fn has_run(&self, id: &str) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has_run(id))
    }

    /// What they were taken with, and all figures there are.
    pub fn figures(&self) -> (&Header, &[Metric]) {
        (&self.header, &self.metrics)
    }

    /// Takes the figures of a run; they reach the file immediately.
    pub fn run(&mut self, metrics: &[Metric]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let written = metrics.iter().try_for_each(|metric| file.metric(metric));
            written.map_err(io::Error::other)?;
        }
        self.metrics.extend_from_slice(metrics);
        Ok(())
    }

    /// Prints what there is, for people by `table`, and writes a Parquet file.
    pub fn finish(
        self,
        table: impl FnOnce(&[Metric], &mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.parquet {
            let mut output = Output::create(path)?;
            parquet::write(&mut output, &self.header, &self.metrics)?;
            output.finish()?;
            let mut lines = path.clone();
            lines.as_mut_os_string().push(".jsonl");
            fs::remove_file(&lines).map_err(|error| cannot("remove", &lines, &error))?;
        }
        if self.has_output && self.format == FigureFormat::Json {
            return Ok(());
        }
        figures::print(self.format, &self.header, &self.metrics, table)
    }
}

/// Whether `path` is a device or a pipe, which a rename would replace.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> Failed {
    let exit = if what == "read" {
        Exit::Input
    } else {
        Exit::Output
    };
    Failed::new(exit, format!("cannot {what} {}: {why}", path.display()))
}
