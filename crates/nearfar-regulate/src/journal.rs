//! The journal: what was there before each change, so that it comes back however a regulator ends.
//!
//! A folder with two files. `lock` is held by the regulator that runs with it; folders of groups and processors that it
//! changes are locked too, so that two with journals of their own are not there either: a group's alone, those above it
//! shared, and of resctrl and of the processors' frequencies all together. `changes` has a line for each file that was
//! changed, written and synchronised before the change: its path, which file that was, in which boot of the machine, and
//! its content. A line without its end belongs to a change that was not made. Restoring writes every file back, as far as
//! it can, and removes `changes` last, if all of them could be, so that restoring can be interrupted and repeated. A file
//! that has come by the path of one that is gone is left alone, and so is all that was changed in an earlier boot.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::RegulateError;
use crate::machine::{
    Identity, MachineFiles, check_group, identity, of_file, overwrite, read, read_replaced,
};

/// Where groups are within each other.
const CGROUPS: &str = "sys/fs/cgroup";
/// Limits of bandwidth, which cores and domains share.
const RESCTRL: &str = "sys/fs/resctrl";
/// Frequencies, which processors share.
const PROCESSORS: &str = "sys/devices/system/cpu";
/// Another one for each boot of the kernel (kernel documentation, sysctl/kernel: random).
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// One file as it was, or as far as it was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    /// Of the boot in which it was that, where the kernel tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    content: String,
}

impl Before {
    /// Whether the file is there and another one now.
    fn is_replaced(&self) -> bool {
        is_another(&self.file, self.identity)
    }

    /// Whether the machine was booted since then. What the kernel does not tell is taken for the same boot.
    fn is_outlived(&self, boot: Option<&str>) -> bool {
        let pair = self.boot.as_deref().zip(boot);
        pair.is_some_and(|(noted, found)| noted != found)
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

/// Which boot of a machine this is.
fn boot(machine: &MachineFiles) -> Option<String> {
    let text = machine.read(BOOT_ID).ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// What is not there needs no lock.
fn if_there(locked: Result<(), RegulateError>) -> Result<(), RegulateError> {
    match locked {
        Err(RegulateError::Vanished { .. }) => Ok(()),
        other => other,
    }
}

/// What restoring did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that have their content again.
    pub files: Vec<PathBuf>,
    /// Files that are gone, and with them what was changed: groups that ended, whether or not others have come by their
    /// names.
    pub vanished: Vec<PathBuf>,
    /// Files that were changed before the machine was booted the last time. Nothing is left of the changes, and what
    /// these files hold now is not for this journal to write.
    pub outlived: Vec<PathBuf>,
}

/// A folder that is locked, so that nobody else has it, or only shared with others who want it shared.
#[derive(Debug)]
struct Held {
    file: File,
    is_shared: bool,
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
    folders: BTreeMap<PathBuf, Held>,
    machine: MachineFiles,
    /// Which boot this is, where the kernel tells it.
    boot: Option<String>,
}

impl Journal {
    /// Opens the journal in a folder, which is made if it is not there, and restores what an earlier
    /// regulator of the machine has left. What was restored is locked no longer than that.
    ///
    /// # Errors
    /// [`RegulateError::Busy`] while another regulator runs, [`RegulateError::Journal`] where the folder
    /// cannot be written, and what keeps files from being restored.
    pub fn recover(
        folder: &Path,
        machine: &MachineFiles,
    ) -> Result<(Self, Restored), RegulateError> {
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
            machine: machine.clone(),
            boot: boot(machine),
        };
        let restored = journal.restore()?;
        journal.unlock_folders();
        Ok((journal, restored))
    }

    /// Locks a group, wherever the machine has it, until the journal is closed: before anybody reads what it has, which
    /// another regulator may have changed. What is changed is locked in any case.
    ///
    /// # Errors
    /// [`RegulateError::Busy`] while another regulator changes it, a group within it or one that it is within, whatever
    /// its journal; [`RegulateError::Group`], and what keeps its folder from being read.
    pub fn lock_group(&mut self, group: &str) -> Result<(), RegulateError> {
        check_group(group)?;
        for root in [CGROUPS, RESCTRL] {
            let folder = self.machine.path(root).join(group);
            if_there(self.lock_folder(&folder))?;
        }
        Ok(())
    }

    /// Locks the limits of bandwidth of all groups: a core or a domain that several share has the least of their limits.
    ///
    /// # Errors
    /// [`RegulateError::Busy`] while another regulator changes any of them, and what keeps their folder from being read.
    pub fn lock_bandwidth(&mut self) -> Result<(), RegulateError> {
        if_there(self.hold(&self.machine.path(RESCTRL), false))
    }

    /// Locks the frequencies of all processors: those of one package can depend on each other.
    ///
    /// # Errors
    /// As [`Self::lock_bandwidth`].
    pub fn lock_frequencies(&mut self) -> Result<(), RegulateError> {
        if_there(self.hold(&self.machine.path(PROCESSORS), false))
    }

    /// Locks what a change of this file reaches.
    fn lock_file(&mut self, path: &Path) -> Result<(), RegulateError> {
        if path.starts_with(self.machine.path(RESCTRL)) {
            self.lock_bandwidth()?;
        }
        if path.starts_with(self.machine.path(PROCESSORS)) {
            self.lock_frequencies()?;
        }
        self.lock_folder(path.parent().unwrap_or(path))
    }

    /// Locks a folder, and, shared, the cgroups that it is within.
    fn lock_folder(&mut self, folder: &Path) -> Result<(), RegulateError> {
        let root = self.machine.path(CGROUPS);
        let is_within = |above: &&Path| above.starts_with(&root);
        for above in folder.ancestors().skip(1).take_while(is_within) {
            self.hold(above, true)?;
        }
        self.hold(folder, false)
    }

    /// The kernel forgets such a lock when the process ends, in whatever way.
    fn hold(&mut self, folder: &Path, is_shared: bool) -> Result<(), RegulateError> {
        let of = |source| of_file(folder.to_owned(), "read", source);
        // Processors of one policy share its folder.
        let path = folder.canonicalize().map_err(of)?;
        match self.folders.get(&path) {
            Some(held) if is_shared || !held.is_shared => return Ok(()),
            // One process that has a folder twice is in its own way.
            Some(held) => drop(held.file.unlock()),
            None => {}
        }
        let file = File::open(&path).map_err(of)?;
        let tried = match is_shared {
            true => file.try_lock_shared(),
            false => file.try_lock(),
        };
        match tried {
            Ok(()) => {
                self.folders.insert(path, Held { file, is_shared });
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(RegulateError::Busy { path }),
            Err(TryLockError::Error(source)) => Err(of(source)),
        }
    }

    fn unlock_folders(&mut self) {
        for held in std::mem::take(&mut self.folders).into_values() {
            // A process that was started meanwhile may have the file still, and with it the lock.
            drop(held.file.unlock());
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
                self.lock_file(path)?;
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
            boot: self.boot.clone(),
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
        if before.is_outlived(self.boot.as_deref()) {
            restored.outlived.push(before.file);
            return Ok(());
        }
        if before.is_replaced() {
            restored.vanished.push(before.file);
            return Ok(());
        }
        let locked = self.lock_file(&before.file);
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
