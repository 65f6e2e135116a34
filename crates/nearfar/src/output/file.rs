//! Where output goes: stdout, or a file that is there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};

use nearfar_measure::report::Report;

use crate::exit::{Exit, Failed};

/// An open output. A file is written beside its final place and put there by [`Output::finish`];
/// one that is dropped before leaves nothing behind. Devices and pipes are written to directly.
pub struct Output {
    writer: BufWriter<Target>,
    part: Option<Part>,
    name: String,
    /// The first failure, which writers on top may pass on as mere text.
    failure: Option<(io::ErrorKind, String)>,
}

enum Target {
    Stdout(Stdout),
    File(File),
}

impl Output {
    /// The standard output of the process.
    pub fn stdout() -> Self {
        Self::new(
            Target::Stdout(io::stdout()),
            None,
            "to standard output".to_owned(),
        )
    }

    /// The file at `path`.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let opened = if path.is_dir() {
            // It would be found out when the file is put into its place, after all the work.
            Err(io::ErrorKind::IsADirectory.into())
        } else if is_special(path) {
            File::options()
                .write(true)
                .open(path)
                .map(|file| (file, None))
        } else {
            Part::beside(path).map(|(file, part)| (file, Some(part)))
        };
        match opened {
            Ok((file, part)) => Ok(Self::new(Target::File(file), part, name)),
            Err(error) => Err(cannot_write(&name, &error.to_string())),
        }
    }

    fn new(target: Target, part: Option<Part>, name: String) -> Self {
        let writer = BufWriter::with_capacity(64 << 10, target);
        Self {
            writer,
            part,
            name,
            failure: None,
        }
    }

    /// Whether this is the user's terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.writer.get_ref(), Target::Stdout(stdout) if stdout.is_terminal())
    }

    /// What went wrong when a writer on top of this output gave `error`.
    pub fn explain(&mut self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        match self.failure.take() {
            Some((io::ErrorKind::BrokenPipe, _)) => {
                io::Error::from(io::ErrorKind::BrokenPipe).into()
            }
            Some((_, text)) => cannot_write(&self.name, &text),
            None => error.into(),
        }
    }

    /// Lets `write` write, and says what went wrong.
    pub fn with<E: Into<anyhow::Error>>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> anyhow::Result<()> {
        write(self).map_err(|error| self.explain(error))
    }

    /// Writes what is buffered, and puts a file into its place.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.with(|output| output.flush())?;
        if let (Some(part), Target::File(file)) = (&mut self.part, self.writer.get_ref()) {
            let placed = file.sync_all().and_then(|()| part.put_in_place());
            placed.map_err(|error| cannot_write(&self.name, &error.to_string()))?;
        }
        Ok(())
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
            && self.failure.is_none()
        {
            self.failure = Some((error.kind(), error.to_string()));
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.writer.flush();
        self.note(flushed)
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

/// A file that is still being written, under another name than its own.
struct Part {
    part: PathBuf,
    path: PathBuf,
    is_placed: bool,
}

impl Part {
    fn beside(path: &Path) -> io::Result<(File, Self)> {
        // A link stays a link: what it leads to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut name = OsString::from(path.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let file = File::create(&part)?;
        let is_placed = false;
        Ok((
            file,
            Self {
                part,
                path,
                is_placed,
            },
        ))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        fs::rename(&self.part, &self.path)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_placed {
            // The failure to tell is the one that led here, not that of tidying up.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Whether `path` is a device, a pipe or a socket, which a rename would replace.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

fn cannot_write(name: &str, why: &str) -> anyhow::Error {
    Failed::new(Exit::Output, format!("cannot write {name}: {why}")).into()
}

/// Writes a report to the file at `path`.
pub fn save_page(page: &Report, path: &Path) -> anyhow::Result<()> {
    let mut output = Output::create(path)?;
    output.with(|output| output.write_all(page.to_html().as_bytes()))?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_finished() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.csv");
        let mut output = Output::create(&path).expect("created");
        output.write_all(b"a\n").expect("written");
        assert!(!path.exists());
        output.finish().expect("finished");
        assert_eq!(fs::read(&path).expect("read"), b"a\n");

        let mut given_up = Output::create(&path).expect("created");
        given_up.write_all(b"b\n").expect("written");
        drop(given_up);
        assert_eq!(fs::read(&path).expect("read"), b"a\n");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let mut output = Output::create(full).expect("opened");
        output.write_all(b"x").expect("buffered");
        let error = output.finish().expect_err("a full device");
        assert_eq!(Exit::of(&error), Exit::Output);
        assert!(
            error.to_string().starts_with("cannot write /dev/full: "),
            "{error}"
        );
        assert!(is_special(full));
    }
}
