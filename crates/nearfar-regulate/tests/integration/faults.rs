//! Disks that are full, rights that are missing, and controllers that go away: nothing is left throttled.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use tempfile::TempDir;

use crate::machines::{QUOTA, TREE, captured, content, put, regulator};

/// A file system in memory, unmounted at the end.
struct Disk(TempDir);

impl Disk {
    /// `None`, said aloud, where none can be mounted.
    fn mount(kib: u32) -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        if disk.run(
            "mount",
            &["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"],
        ) {
            return Some(disk);
        }
        let skipped = "skipped: this process may not mount a file system\n";
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
        None
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new(program);
        let ran = command.args(arguments).arg(self.0.path()).output();
        ran.is_ok_and(|output| output.status.success())
    }

    /// Takes all of its space.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.path().join("full")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.path().join("full")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.run("umount", &[]);
    }
}

#[test]
fn on_a_full_disk_nothing_is_changed_and_the_journal_stays_whole() {
    let Some(disk) = Disk::mount(64) else { return };
    let (folder, machine) = captured();
    let before = content(folder.path());
    let place = disk.0.path().join("journal");
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    let quota = folder.path().join(QUOTA);
    // There is room for this one, and for a part of the next.
    journal.change(&quota, "1000 100000\n").unwrap();
    disk.fill();
    let large = folder.path().join("sys/fs/cgroup/batch/large");
    fs::write(&large, "x".repeat(8192)).unwrap();
    let refused = journal.change(&large, "y\n").unwrap_err();
    assert!(
        matches!(&refused, RegulateError::Journal { source, .. }
            if source.kind() == std::io::ErrorKind::StorageFull),
        "{refused}"
    );
    assert!(refused.to_string().contains("so nothing is changed"));
    assert_eq!(fs::read_to_string(&large).unwrap().len(), 8192);
    // With room again, what follows is noted behind what was there.
    disk.empty();
    journal.change(&large, "y\n").unwrap();
    drop(journal);
    assert_eq!(fs::read_to_string(&large).unwrap().len(), 8192);
    assert_eq!(content(folder.path()), before);
}

#[test]
fn a_regulator_whose_disk_is_full_ends_and_leaves_the_machine_as_it_was() {
    let Some(disk) = Disk::mount(64) else { return };
    let (folder, machine) = captured();
    let before = content(folder.path());
    let (journal, _) = Journal::recover(&disk.0.path().join("journal"), &machine).unwrap();
    let mut regulator = regulator(&machine, Some(journal));
    disk.fill();
    let ended = regulator.step(0.0).unwrap_err();
    assert!(matches!(ended, RegulateError::Journal { .. }), "{ended}");
    assert!(regulator.end().unwrap().files.is_empty());
    assert_eq!(content(folder.path()), before);
}

#[test]
fn missing_rights_are_told_with_the_file() {
    // Whoever may write everything may not write to what is mounted for reading only.
    let disk = Disk::mount(256);
    let (own, _) = captured();
    let root = disk.as_ref().map_or(own.path(), |disk| disk.0.path());
    for (file, content) in TREE {
        put(root, file, content);
    }
    let quota = root.join(QUOTA);
    let is_denied = match &disk {
        Some(disk) => disk.run("mount", &["-o", "remount,ro"]),
        None => {
            fs::set_permissions(&quota, fs::Permissions::from_mode(0o444)).unwrap();
            fs::OpenOptions::new().write(true).open(&quota).is_err()
        }
    };
    if !is_denied {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let machine = nearfar_regulate::machine::MachineFiles::below(root);
    let (journal, _) = Journal::recover(&place.path().join("journal"), &machine).unwrap();
    let mut regulator = regulator(&machine, Some(journal));
    let denied = regulator.step(0.0).unwrap_err();
    assert!(
        matches!(&denied, RegulateError::Denied { path, right: "write" } if *path == quota),
        "{denied}"
    );
    assert!(denied.to_string().contains("no right to write"), "{denied}");
    assert!(
        denied.to_string().contains("or have the group delegated"),
        "{denied}"
    );
}

#[test]
fn a_controller_that_goes_away_ends_the_regulator() {
    let (folder, machine) = captured();
    let (journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    let mut regulator = regulator(&machine, Some(journal));
    regulator.step(0.0).unwrap();
    take_away(folder.path());
    let ended = regulator.step(50.0).unwrap_err();
    assert!(ended.to_string().contains("lost its controller"), "{ended}");
    let restored = regulator.end().unwrap();
    assert_eq!(restored.vanished, [folder.path().join(QUOTA)]);
    // What comes back is the kernel's own, and nothing of it is in a journal.
    put(folder.path(), QUOTA, "max 100000\n");
    let (_, left) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    assert!(left.files.is_empty());
}

/// What the kernel does with the files of a controller that the group above delegates no more.
fn take_away(root: &Path) {
    fs::remove_file(root.join(QUOTA)).unwrap();
    put(root, "sys/fs/cgroup/batch/cgroup.controllers", "memory\n");
}
