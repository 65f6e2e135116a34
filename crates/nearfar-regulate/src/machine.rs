//! The files of a machine, below a root that is a parameter: `/`, or where a captured tree lies.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::RegulateError;

/// The error of a file whose group has ended since it was opened (errno(3)); the number is the same on all machines.
const NO_DEVICE: i32 = 19;

/// A machine's files.
#[derive(Debug, Clone)]
pub struct MachineFiles {
    root: PathBuf,
}

impl MachineFiles {
    /// Those below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Whether they are those of the machine that this runs on.
    pub fn is_this_one(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A file of theirs.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// What a file holds.
    ///
    /// # Errors
    /// [`RegulateError::Vanished`], [`RegulateError::Denied`] or [`RegulateError::File`].
    pub fn read(&self, relative: &str) -> Result<String, RegulateError> {
        read(&self.path(relative))
    }
}

/// What a file holds.
pub(crate) fn read(path: &Path) -> Result<String, RegulateError> {
    fs::read_to_string(path).map_err(|source| of_file(path.to_owned(), "read", source))
}

/// What a file holds of what `content` replaces.
pub(crate) fn read_replaced(path: &Path, content: &str) -> Result<String, RegulateError> {
    let text = read(path)?;
    if !keeps_lines(path) {
        return Ok(text);
    }
    let is_replaced = |line: &&str| replacing(line, content).is_some();
    Ok(text.split_inclusive('\n').filter(is_replaced).collect())
}

/// Writes all of a file in one call, as the kernel's files ask for, or of one that keeps its other lines those of
/// `content`.
pub(crate) fn overwrite(path: &Path, content: &str) -> Result<(), RegulateError> {
    let of = |source| of_file(path.to_owned(), "write", source);
    let mut file = OpenOptions::new().write(true).open(path).map_err(of)?;
    // A captured tree's files have a length; those of the kernel have none, and refuse to be given one.
    let is_captured = file.metadata().map_err(of)?.len() > 0;
    let content = match is_captured && keeps_lines(path) {
        true => merged(&read(path)?, content),
        false => content.to_owned(),
    };
    file.write_all(content.as_bytes()).map_err(of)?;
    drop(file.set_len(content.len() as u64));
    Ok(())
}

/// Whether a file keeps the lines that are not written to it: those of resctrl's `schemata`, each of a resource.
fn keeps_lines(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "schemata")
}

/// The line of `content` that takes the place of another one.
fn replacing<'a>(line: &str, content: &'a str) -> Option<&'a str> {
    let resource = |line: &str| line.split(':').next().map(|name| name.trim().to_owned());
    let mut lines = content.lines();
    lines.find(|new| resource(new) == resource(line))
}

/// What a `schemata` becomes. A shorter line is moved to the right, as the kernel writes it, so that the length stays
/// the same, and a captured one is never there by halves.
fn merged(text: &str, content: &str) -> String {
    let of = |line: &str| match replacing(line, content) {
        Some(new) => format!("{:>width$}\n", new.trim(), width = line.len()),
        None => format!("{line}\n"),
    };
    text.lines().map(of).collect()
}

/// Device and number of a file.
pub(crate) type Identity = (u64, u64);

/// Which file a path leads to: another one after a group has ended and one of its name has come. None where there is
/// none.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Why a file could not be used.
pub(crate) fn of_file(path: PathBuf, right: &'static str, source: io::Error) -> RegulateError {
    if source.raw_os_error() == Some(NO_DEVICE) {
        return RegulateError::Vanished { path };
    }
    match source.kind() {
        ErrorKind::NotFound => RegulateError::Vanished { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            RegulateError::Denied { path, right }
        }
        _ => RegulateError::File { path, source },
    }
}

/// Refuses what would lead out of the groups' folder.
pub(crate) fn check_group(name: &str) -> Result<(), RegulateError> {
    let path = Path::new(name);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !is_plain {
        let name = name.to_owned();
        return Err(RegulateError::Group { name });
    }
    Ok(())
}

/// Refuses groups of which one is within another: what one is granted would be taken from the other too.
///
/// # Errors
/// [`RegulateError::Group`], [`RegulateError::Overlap`] with the two.
pub fn check_apart(groups: &[String]) -> Result<(), RegulateError> {
    for (index, inner) in groups.iter().enumerate() {
        check_group(inner)?;
        let others = groups.iter().enumerate().filter(|(at, _)| *at != index);
        let mut outers = others.map(|(_, outer)| outer);
        if let Some(outer) = outers.find(|outer| Path::new(inner).starts_with(outer)) {
            return Err(RegulateError::Overlap {
                inner: inner.clone(),
                outer: outer.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_of_schemata_stay_what_they_are() {
        let text = "    MB:0=100;1=100\n    L3:0=7fff;1=7fff\n";
        let lower = merged(text, "MB:0=50;1=50\n");
        assert_eq!(lower, "      MB:0=50;1=50\n    L3:0=7fff;1=7fff\n");
        let other = lower.replace("7fff", "00ff");
        let back = merged(&other, "    MB:0=100;1=100\n");
        assert_eq!(back, "    MB:0=100;1=100\n    L3:0=00ff;1=00ff\n");
    }

    #[test]
    fn groups_within_each_other_are_refused() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_apart(&names)
        };
        of(&["batch", "batches", "a/batch"]).unwrap();
        for names in [["a", "a/b"], ["a/b/c", "a"], ["a", "a/"]] {
            let refused = of(&names).unwrap_err();
            assert!(
                matches!(refused, RegulateError::Overlap { .. }),
                "{refused}"
            );
        }
        assert!(matches!(of(&["../a"]), Err(RegulateError::Group { .. })));
    }

    #[test]
    fn a_group_that_ends_while_its_file_is_open_has_vanished() {
        let of = |number| {
            of_file(
                PathBuf::from("/x"),
                "write",
                io::Error::from_raw_os_error(number),
            )
        };
        // ENODEV, ENOENT and EIO.
        assert!(matches!(of(19), RegulateError::Vanished { .. }));
        assert!(matches!(of(2), RegulateError::Vanished { .. }));
        assert!(matches!(of(5), RegulateError::File { .. }));
    }
}
