//! Settings of the kernel that are put back, whatever ends this process.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::KernelTieringError;
use crate::Keeper;

/// A file of the kernel's, what to write to it, and what to write when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) file: PathBuf,
    /// Nothing where something is written at the end alone.
    pub(super) value: Option<String>,
    /// By default what was there.
    pub(super) at_end: Option<String>,
}

impl Change {
    /// Until the end, `file` has `value`.
    pub(super) fn to(file: PathBuf, value: &str) -> Self {
        Self {
            file,
            value: Some(value.to_owned()),
            at_end: None,
        }
    }

    /// At the end, `value` is written to `file`.
    pub(super) fn at_end(file: PathBuf, value: &str) -> Self {
        Self {
            file,
            value: None,
            at_end: Some(value.to_owned()),
        }
    }
}

/// Changes that are in force until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Settings {
    /// Puts them back.
    _keeper: Keeper,
}

/// Writes, to each file that it is given, the value behind it, for a second again while that is refused: the kernel is busy
/// with what came before.
const PUT_BACK: &str = r#"failed=0
while [ $# -gt 1 ]; do
    tries=10
    until printf %s "$2" > "$1"; do
        if [ $tries -eq 0 ]; then
            failed=1
            break
        fi
        tries=$((tries - 1))
        sleep 0.1
    done
    shift 2
done
exit $failed"#;

impl Settings {
    /// Makes the changes, in their order; they are undone in the opposite one.
    pub(super) fn apply(changes: &[Change]) -> Result<Self, KernelTieringError> {
        let mut before = Vec::new();
        for change in changes.iter().rev() {
            let value = match &change.at_end {
                Some(value) => value.clone(),
                None => read(&change.file)?,
            };
            before.extend([change.file.clone().into_os_string(), value.into()]);
        }
        let keeper = Keeper::start("the kernel's settings for tiering", PUT_BACK, before, None);
        let settings = Self {
            _keeper: keeper.map_err(KernelTieringError::Keeper)?,
        };
        for change in changes {
            if let Some(value) = &change.value {
                write(&change.file, value)?;
            }
        }
        Ok(settings)
    }
}

/// The value of a file of the kernel's.
pub(super) fn read(file: &Path) -> Result<String, KernelTieringError> {
    let text = fs::read_to_string(file).map_err(|source| unopened(file, source))?;
    Ok(text.trim().to_owned())
}

/// Refuses a file of the kernel's that this process may not write.
pub(super) fn check_writable(file: &Path) -> Result<(), KernelTieringError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.map_err(|source| unopened(file, source))?;
    Ok(())
}

fn unopened(file: &Path, source: io::Error) -> KernelTieringError {
    let file = file.to_owned();
    match source.kind() {
        ErrorKind::PermissionDenied => KernelTieringError::NotAllowed { file },
        _ => KernelTieringError::Missing { file, source },
    }
}

/// Writes the value of a file of the kernel's.
pub(super) fn write(file: &Path, value: &str) -> Result<(), KernelTieringError> {
    fs::write(file, value).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => unopened(file, source),
        _ => KernelTieringError::Refused {
            file: file.to_owned(),
            value: value.to_owned(),
            source,
        },
    })
}

/// Writes the value of a file of the kernel's, for a second again while it is busy with what was written before.
pub(super) fn write_when_free(file: &Path, value: &str) -> Result<(), KernelTieringError> {
    for _ in 0..BUSY_TRIES {
        match write(file, value) {
            Err(KernelTieringError::Refused { source, .. })
                if source.kind() == ErrorKind::ResourceBusy =>
            {
                thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
    write(file, value)
}

/// How often it is tried again, and after which pause.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

// Not under Miri, which starts no processes.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_was_there_is_put_back_and_ends_come_in_the_opposite_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("mode"), "1\n").unwrap();
        fs::write(file("count"), "0").unwrap();
        let changes = [
            Change::to(file("mode"), "2"),
            Change {
                at_end: Some("it's off".to_owned()),
                ..Change::to(file("count"), "7")
            },
        ];
        let settings = Settings::apply(&changes).unwrap();
        assert_eq!(read(&file("mode")).unwrap(), "2");
        assert_eq!(read(&file("count")).unwrap(), "7");
        drop(settings);
        assert_eq!(read(&file("mode")).unwrap(), "1");
        assert_eq!(read(&file("count")).unwrap(), "it's off");
    }

    #[test]
    fn what_cannot_be_changed_leaves_all_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mode = folder.path().join("mode");
        fs::write(&mode, "1").unwrap();
        let missing = Change::to(folder.path().join("missing"), "2");
        let error = Settings::apply(&[Change::to(mode.clone(), "2"), missing]).unwrap_err();
        assert!(
            matches!(error, KernelTieringError::Missing { .. }),
            "{error}"
        );
        assert_eq!(read(&mode).unwrap(), "1");
        // A folder can be neither read nor written as a file.
        let refused = Change {
            at_end: Some("1".to_owned()),
            ..Change::to(folder.path().to_owned(), "2")
        };
        let error = Settings::apply(&[Change::to(mode.clone(), "2"), refused]).unwrap_err();
        assert!(
            matches!(error, KernelTieringError::Refused { .. }),
            "{error}"
        );
        assert_eq!(read(&mode).unwrap(), "1");
    }

    /// Names the folder of the test below to the process that it kills.
    const FOLDER: &str = "NEARFAR_TEST_SETTINGS";

    #[test]
    fn a_process_that_is_killed_leaves_all_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mode = folder.path().join("mode");
        fs::write(&mode, "1").unwrap();
        let name = "kernel_tiering::settings::tests::changes_a_setting_and_waits_for_its_end";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--ignored"]);
        let mut child = command.env(FOLDER, folder.path()).spawn().unwrap();
        let began = Instant::now();
        let until = |value| {
            while read(&mode).unwrap() != value {
                assert!(began.elapsed() < Duration::from_secs(50), "never {value}");
                thread::sleep(BUSY_PAUSE);
            }
        };
        until("2");
        child.kill().unwrap();
        child.wait().unwrap();
        until("1");
    }

    #[test]
    #[ignore = "started, and killed, by a_process_that_is_killed_leaves_all_as_it_was"]
    fn changes_a_setting_and_waits_for_its_end() {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        let _settings = Settings::apply(&[Change::to(folder.join("mode"), "2")]).unwrap();
        thread::sleep(Duration::from_secs(60));
    }
}
