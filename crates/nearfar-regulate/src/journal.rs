//! The journal: what was there before each change, so that it comes back however a regulator ends.
//!
//! A folder with two files. `lock` is held by the regulator that runs with it; folders of groups and processors that it
//! changes are locked too, so that two with journals of their own are not there either. `changes` has a line for each
//! file that was changed, written and synchronised before the change: its path, which file that was, and its content. A
//! line without its end belongs to a change that was not made. Restoring writes every file back, as far as it can, and
//! removes `changes` last, if all of them could be, so that restoring can be interrupted and repeated. A file that has
//! come by the path of one that is gone is left alone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::RegulateError;
use crate::machine::{
    Identity, MachineFiles, check_group, identity, of_file, overwrite, read, read_replaced,
};

/// Where groups are.
const GROUPS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/resctrl"];

/// One file as it was, or as far as it was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    content: String,
}

impl Before {
    /// Whether the file is there and another one now.
    fn is_replaced(&self) -> bool {
        is_another(&self.file, self.identity)
    }

    /// Writes what there was.
    fn give_back(&self) -> Result<(), RegulateError> {
        match overwrite(&self.file, &self.content) {
            // The kernel empties no cpuset that has tasks. To those, all processors of the group above are the same.
            Err(RegulateError::File { source, .. })
                if source.kind() == ErrorKind::StorageFull && self.is_no_cpuset() =>
            {
                let above = self.file.parent().and_then(Path::parent);
                let all = above.unwrap_or(&self.file).join("cpuset.cpus.effective");
                overwrite(&self.file, &read(&all)?)
            }
            other => other,
        }
    }

    /// Whether it is that of a group which had no processors of its own.
    fn is_no_cpuset(&self) -> bool {
        self.file.ends_with("cpuset.cpus") && self.content.trim().is_empty()
    }
}

/// Whether there is a file at the path, but not that one.
fn is_another(path: &Path, noted: Option<Identity>) -> bool {
    let pair = noted.zip(identity(path));
    pair.is_some_and(|(noted, found)| noted != found)
}

/// What restoring did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that have their content again.
    pub files: Vec<PathBuf>,
    /// Files that are gone, and with them what was changed: groups that ended, whether or not others have come by their
    /// names, or a reboot.
    pub vanished: Vec<PathBuf>,
}

/// The journal of the one regulator that runs with it.
#[derive(Debug)]
pub struct Journal {
    changes: PathBuf,
    file: Option<File>,
    /// Files that are in `changes`, each as it was found then.
    noted: BTreeMap<PathBuf, Option<Identity>>,
    /// Locked as long as the journal is open: its own file, and folders of the machine.
    lock: File,
    folders: BTreeMap<PathBuf, File>,
}

impl Journal {
    /// Opens the journal in a folder, which is made if it is not there, and restores what an earlier
    /// regulator has left. What was restored is locked no longer than that.
    ///
    /// # Errors
    /// [`RegulateError::Busy`] while another regulator runs, [`RegulateError::Journal`] where the folder
    /// cannot be written, and what keeps files from being restored.
    pub fn recover(folder: &Path) -> Result<(Self, Restored), RegulateError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |source| RegulateError::Journal { path, source }
        };
        fs::create_dir_all(folder).map_err(of(folder))?;
        let path = folder.join("lock");
        let options = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let lock = options.map_err(of(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RegulateError::Busy { path }),
            Err(TryLockError::Error(source)) => {
                return Err(RegulateError::Journal { path, source });
            }
        }
        let mut journal = Self {
            changes: folder.join("changes"),
            file: None,
            noted: BTreeMap::new(),
            lock,
            folders: BTreeMap::new(),
        };
        let restored = journal.restore()?;
        journal.unlock_folders();
        Ok((journal, restored))
    }

    /// Locks a group, wherever the machine has it, until the journal is closed: before anybody reads what it has, which
    /// another regulator may have changed. What is changed is locked in any case.
    ///
    /// # Errors
    /// [`RegulateError::Busy`] while another regulator changes it, whatever its journal; [`RegulateError::Group`], and
    /// what keeps its folder from being read.
    pub fn lock_group(&mut self, machine: &MachineFiles, group: &str) -> Result<(), RegulateError> {
        check_group(group)?;
        for root in GROUPS {
            match self.lock_folder(&machine.path(root).join(group)) {
                Ok(()) | Err(RegulateError::Vanished { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The kernel forgets such a lock when the process ends, in whatever way.
    fn lock_folder(&mut self, folder: &Path) -> Result<(), RegulateError> {
        let of = |source| of_file(folder.to_owned(), "read", source);
        // Processors of one policy share its folder.
        let path = folder.canonicalize().map_err(of)?;
        if self.folders.contains_key(&path) {
            return Ok(());
        }
        let file = File::open(&path).map_err(of)?;
        match file.try_lock() {
            Ok(()) => {
                self.folders.insert(path, file);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(RegulateError::Busy { path }),
            Err(TryLockError::Error(source)) => Err(of(source)),
        }
    }

    fn unlock_folders(&mut self) {
        for file in std::mem::take(&mut self.folders).into_values() {
            // A process that was started meanwhile may have the file still, and with it the lock.
            drop(file.unlock());
        }
    }

    /// Writes `content` to a file of the machine, after its present content is in the journal.
    ///
    /// # Errors
    /// [`RegulateError::Journal`], after which nothing was changed; [`RegulateError::Busy`] while another regulator
    /// changes files beside it; [`RegulateError::Vanished`] also where another file has come by its path since it was
    /// changed first; what keeps the file from being read or written.
    pub fn change(&mut self, path: &Path, content: &str) -> Result<(), RegulateError> {
        match self.noted.get(path) {
            Some(noted) if is_another(path, *noted) => {
                let path = path.to_owned();
                return Err(RegulateError::Vanished { path });
            }
            Some(_) => {}
            None => {
                self.lock_folder(path.parent().unwrap_or(path))?;
                let found = identity(path);
                let before = read_replaced(path, content)?;
                self.note(path, found, before)?;
            }
        }
        overwrite(path, content)
    }

    fn note(
        &mut self,
        path: &Path,
        identity: Option<Identity>,
        content: String,
    ) -> Result<(), RegulateError> {
        let of = |source| RegulateError::Journal {
            path: self.changes.clone(),
            source,
        };
        let before = Before {
            file: path.to_owned(),
            identity,
            content,
        };
        let mut line = serde_json::to_vec(&before).map_err(|error| of(error.into()))?;
        line.push(b'\n');
        let file = match &mut self.file {
            Some(file) => file,
            empty => {
                let opened = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&self.changes);
                empty.insert(opened.map_err(of)?)
            }
        };
        let begin = file.metadata().map_err(of)?.len();
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // What a full disk has taken of the line would be in the way of the next one.
            drop(file.set_len(begin));
            return Err(of(error));
        }
        self.noted.insert(path.to_owned(), identity);
        Ok(())
    }

    /// Gives every file its content back.
    ///
    /// # Errors
    /// What first keeps a file from being written. All others are, and the journal keeps all of them.
    pub fn restore(&mut self) -> Result<Restored, RegulateError> {
        let (mut restored, mut failed) = (Restored::default(), None);
        let text = match fs::read_to_string(&self.changes) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(restored),
            Err(source) => {
                let path = self.changes.clone();
                return Err(RegulateError::Journal { path, source });
            }
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().rev() {
            if let Err(error) = self.restore_line(line, &mut restored) {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        fs::remove_file(&self.changes).map_err(|source| RegulateError::Journal {
            path: self.changes.clone(),
            source,
        })?;
        self.file = None;
        self.noted.clear();
        Ok(restored)
    }

    fn restore_line(&mut self, line: &str, restored: &mut Restored) -> Result<(), RegulateError> {
        let before: Before = serde_json::from_str(line).map_err(|_| RegulateError::Garbled {
            path: self.changes.clone(),
            content: line.chars().take(120).collect(),
            expected: "a line of a journal",
        })?;
        if before.is_replaced() {
            restored.vanished.push(before.file);
            return Ok(());
        }
        let folder = before.file.parent().unwrap_or(&before.file);
        let locked = self.lock_folder(folder);
        match locked.and_then(|()| before.give_back()) {
            Ok(()) => restored.files.push(before.file),
            Err(RegulateError::Vanished { .. }) => restored.vanished.push(before.file),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for Journal {
    /// What could not be restored stays in the journal for the next one.
    fn drop(&mut self) {
        drop(self.restore());
        self.unlock_folders();
        drop(self.lock.unlock());
    }
}
