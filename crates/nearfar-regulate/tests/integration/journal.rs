//! Locks, and what is restored, on trees of files.

use std::fs;

use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::{Frequency, Knob, Quota};
use nearfar_regulate::machine::MachineFiles;

use crate::machines::{QUOTA, captured, content, put};

#[test]
fn a_second_regulator_is_refused_and_a_garbled_journal_is_named() {
    let (folder, machine) = captured();
    let journal = folder.path().join("journal");
    let (first, _) = Journal::recover(&journal, &machine).unwrap();
    assert!(matches!(
        Journal::recover(&journal, &machine),
        Err(RegulateError::Busy { .. })
    ));
    drop(first);
    fs::write(journal.join("changes"), "not a journal\n").unwrap();
    assert!(matches!(
        Journal::recover(&journal, &machine),
        Err(RegulateError::Garbled { .. })
    ));
    // A line without its end belongs to a change that was not made.
    fs::write(journal.join("changes"), "{\"file\":\"/no").unwrap();
    assert!(
        Journal::recover(&journal, &machine)
            .unwrap()
            .1
            .files
            .is_empty()
    );
}

#[test]
fn two_regulators_of_a_group_are_refused_whatever_their_journals() {
    let (folder, machine) = captured();
    let path = folder.path().join("sys/fs/cgroup/batch/cpu.max");
    let of = |name: &str| {
        Journal::recover(&folder.path().join(name), &machine)
            .unwrap()
            .0
    };
    let (mut first, mut second) = (of("first"), of("second"));
    first.change(&path, "1000 100000\n").unwrap();
    let refused = second.change(&path, "2000 100000\n").unwrap_err();
    assert!(
        refused.to_string().contains("cgroup/batch: end it first"),
        "{refused}"
    );
    assert!(second.lock_group("batch").is_err());
    second.lock_group("plain").unwrap();
    // The group is one, although bandwidth has another folder.
    let mut third = of("third");
    third.lock_group("service").unwrap();
    let monitored = folder.path().join("sys/fs/resctrl/service/x");
    fs::write(&monitored, "1\n").unwrap();
    assert!(matches!(
        second.change(&monitored, "2\n"),
        Err(RegulateError::Busy { .. })
    ));
    // What a killed one has left is not restored below one that runs.
    let left = format!("{{\"file\":{path:?},\"content\":\"max 100000\\n\"}}\n");
    let place = folder.path().join("killed");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("changes"), left).unwrap();
    assert!(matches!(
        Journal::recover(&place, &machine),
        Err(RegulateError::Busy { .. })
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), "1000 100000\n");
    drop(first);
    assert_eq!(Journal::recover(&place, &machine).unwrap().1.files.len(), 1);
    second.change(&path, "2000 100000\n").unwrap();
}

#[test]
fn groups_within_a_regulated_one_and_around_it_are_refused() {
    let (folder, machine) = captured();
    for group in ["tenant/a/deep", "tenant/b", "other"] {
        put(
            folder.path(),
            &format!("sys/fs/cgroup/{group}/cpu.max"),
            "max 100000\n",
        );
    }
    let of = |name: &str| {
        Journal::recover(&folder.path().join(name), &machine)
            .unwrap()
            .0
    };
    let mut first = of("first");
    first.lock_group("tenant/a").unwrap();
    let mut second = of("second");
    for (group, holder) in [("tenant/a/deep", "tenant/a"), ("tenant", "tenant")] {
        let refused = second.lock_group(group).unwrap_err().to_string();
        let expected = format!("cgroup/{holder}: end it first");
        assert!(refused.contains(&expected), "{refused}");
    }
    // Groups beside each other are regulated side by side.
    second.lock_group("tenant/b").unwrap();
    second.lock_group("other").unwrap();
    // A file below a regulated group is as little to change.
    let deep = folder.path().join("sys/fs/cgroup/tenant/a/deep/cpu.max");
    assert!(matches!(
        second.change(&deep, "1000 100000\n"),
        Err(RegulateError::Busy { .. })
    ));
    drop(first);
    second.change(&deep, "1000 100000\n").unwrap();
    let mut third = of("third");
    assert!(third.lock_group("tenant/a").is_err());
    assert!(third.lock_group("tenant").is_err());
}

#[test]
fn bandwidth_and_frequencies_have_one_regulator_each_on_a_machine() {
    let (folder, machine) = captured();
    put(
        folder.path(),
        "sys/fs/resctrl/other/schemata",
        "    MB:0=100;1=100\n",
    );
    put(
        folder.path(),
        "sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq",
        "3900000\n",
    );
    let path = |file: &str| folder.path().join(file);
    let of = |name: &str| {
        Journal::recover(&folder.path().join(name), &machine)
            .unwrap()
            .0
    };
    let (mut first, mut second) = (of("first"), of("second"));
    first.lock_bandwidth().unwrap();
    let refused = second.lock_bandwidth().unwrap_err().to_string();
    assert!(
        refused.contains("sys/fs/resctrl: end it first"),
        "{refused}"
    );
    let other = path("sys/fs/resctrl/other/schemata");
    assert!(second.change(&other, "MB:0=50;1=50\n").is_err());
    // Quotas and frequencies are others' to change meanwhile.
    second.lock_group("service").unwrap();
    second.lock_frequencies().unwrap();
    let frequency = path("sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq");
    assert!(matches!(
        first.change(&frequency, "800000\n"),
        Err(RegulateError::Busy { .. })
    ));
    second.change(&frequency, "800000\n").unwrap();
    second
        .change(
            &path("sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq"),
            "800000\n",
        )
        .unwrap();
    drop(first);
    second.change(&other, "MB:0=50;1=50\n").unwrap();
    // A machine without them has nothing to lock.
    let bare = tempfile::tempdir().unwrap();
    let (mut none, _) = Journal::recover(
        &bare.path().join("journal"),
        &MachineFiles::below(bare.path()),
    )
    .unwrap();
    none.lock_bandwidth().unwrap();
    none.lock_frequencies().unwrap();
}

#[test]
fn what_was_changed_before_a_reboot_is_not_written_after_it() {
    let (folder, machine) = captured();
    let boot = "proc/sys/kernel/random/boot_id";
    put(
        folder.path(),
        boot,
        "11111111-2222-3333-4444-555555555555\n",
    );
    let path = folder.path().join(QUOTA);
    let place = folder.path().join("journal");
    let left = |changes: &[u8]| {
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("changes"), changes).unwrap();
    };
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    journal.change(&path, "1000 100000\n").unwrap();
    let changes = fs::read(place.join("changes")).unwrap();
    drop(journal);
    // As after a kill: in the same boot it is restored.
    left(&changes);
    put(folder.path(), QUOTA, "1000 100000\n");
    let (_, restored) = Journal::recover(&place, &machine).unwrap();
    assert_eq!(restored.files, std::slice::from_ref(&path));
    assert_eq!(machine.read(QUOTA).unwrap(), "max 100000\n");
    // In the next one, the same file is somebody else's, and the journal ends.
    left(&changes);
    put(folder.path(), QUOTA, "7000 100000\n");
    put(
        folder.path(),
        boot,
        "66666666-7777-8888-9999-000000000000\n",
    );
    let (next, restored) = Journal::recover(&place, &machine).unwrap();
    assert!(
        restored.files.is_empty() && restored.vanished.is_empty(),
        "{restored:?}"
    );
    assert_eq!(restored.outlived, [path]);
    assert_eq!(machine.read(QUOTA).unwrap(), "7000 100000\n");
    assert!(!place.join("changes").exists());
    drop(next);
    // Where the kernel does not tell the boot, it is taken for the same one.
    left(&changes);
    fs::remove_file(folder.path().join(boot)).unwrap();
    let (_, restored) = Journal::recover(&place, &machine).unwrap();
    assert_eq!(restored.files.len(), 1);
}

#[test]
fn a_file_that_cannot_be_restored_leaves_no_other_throttled() {
    let (folder, machine) = captured();
    let before = content(folder.path());
    let place = folder.path().join("journal");
    let odd = folder.path().join("sys/fs/cgroup/batch/odd");
    fs::write(&odd, "1\n").unwrap();
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    let quota = Quota::find(&machine, "batch", 16).unwrap();
    let frequency = Frequency::find(&machine, &[3]).unwrap();
    let change = |journal: &mut Journal, knob: &dyn Knob| {
        for (path, content) in knob.changes(&machine, 0.5).unwrap() {
            journal.change(&path, &content).unwrap();
        }
    };
    // One before it and one behind it.
    change(&mut journal, &quota);
    journal.change(&odd, "2\n").unwrap();
    change(&mut journal, &frequency);
    assert_ne!(content(folder.path()), before);
    // Nobody writes to what has become a folder, not even root.
    let kept = folder.path().join("kept");
    fs::rename(&odd, &kept).unwrap();
    fs::create_dir(&odd).unwrap();
    let text = fs::read_to_string(place.join("changes")).unwrap();
    fs::write(place.join("changes"), of_nobody(&text)).unwrap();
    let failed = journal.restore().unwrap_err();
    assert!(
        matches!(&failed, RegulateError::File { path, .. } if *path == odd),
        "{failed}"
    );
    assert_eq!(content(folder.path()), before);
    // What could not be is kept for the next one.
    drop(journal);
    fs::remove_dir(&odd).unwrap();
    fs::rename(&kept, &odd).unwrap();
    let (_, restored) = Journal::recover(&place, &machine).unwrap();
    assert_eq!(restored.files.len(), 3);
    assert_eq!(fs::read_to_string(&odd).unwrap(), "1\n");
    assert!(!place.join("changes").exists());
}

/// A journal as regulators of before wrote it, which does not tell which files there were.
fn of_nobody(changes: &str) -> String {
    let of = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line.as_object_mut().unwrap().remove("identity").is_some());
        format!("{line}\n")
    };
    changes.lines().map(of).collect()
}

#[test]
fn what_was_only_restored_is_locked_no_longer() {
    let (folder, machine) = captured();
    let path = folder.path().join("sys/fs/cgroup/batch/cpu.max");
    let place = folder.path().join("killed");
    fs::create_dir(&place).unwrap();
    let left = format!("{{\"file\":{path:?},\"content\":\"5000 100000\\n\"}}\n");
    fs::write(place.join("changes"), left).unwrap();
    let (_first, restored) = Journal::recover(&place, &machine).unwrap();
    assert_eq!(restored.files, std::slice::from_ref(&path));
    let (mut second, _) = Journal::recover(&folder.path().join("second"), &machine).unwrap();
    second.lock_group("batch").unwrap();
    second.change(&path, "2000 100000\n").unwrap();
}

#[test]
fn another_file_at_the_same_path_is_neither_changed_nor_given_what_was_before() {
    let (folder, machine) = captured();
    let batch = folder.path().join("sys/fs/cgroup/batch");
    let path = batch.join("cpu.max");
    let place = folder.path().join("journal");
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    journal.change(&path, "1000 100000\n").unwrap();
    // Kept, so that its number is not given to another one.
    fs::rename(&batch, folder.path().join("ended")).unwrap();
    put(
        folder.path(),
        "sys/fs/cgroup/batch/cpu.max",
        "7000 100000\n",
    );
    let refused = journal.change(&path, "2000 100000\n");
    assert!(
        matches!(refused, Err(RegulateError::Vanished { .. })),
        "{refused:?}"
    );
    // As after a kill.
    let changes = fs::read(place.join("changes")).unwrap();
    let restored = journal.restore().unwrap();
    assert_eq!(restored.vanished, std::slice::from_ref(&path));
    drop(journal);
    fs::write(place.join("changes"), changes).unwrap();
    let (_, restored) = Journal::recover(&place, &machine).unwrap();
    assert!(restored.files.is_empty() && restored.vanished == [path.clone()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "7000 100000\n");
}

#[test]
fn processors_of_one_policy_are_changed_together() {
    let (folder, machine) = captured();
    let cpus = folder.path().join("sys/devices/system/cpu");
    fs::create_dir_all(cpus.join("cpu7")).unwrap();
    std::os::unix::fs::symlink("../cpu3/cpufreq", cpus.join("cpu7/cpufreq")).unwrap();
    let frequency = Frequency::find(&machine, &[3, 7]).unwrap();
    let (mut journal, _) = Journal::recover(&folder.path().join("journal"), &machine).unwrap();
    for (path, content) in frequency.changes(&machine, 0.5).unwrap() {
        journal.change(&path, &content).unwrap();
    }
    assert_eq!(journal.restore().unwrap().files.len(), 2);
}

#[test]
fn nothing_is_changed_that_cannot_be_noted() {
    let (folder, machine) = captured();
    let path = folder.path().join("sys/fs/cgroup/batch/cpu.max");
    let place = folder.path().join("journal");
    let (mut journal, _) = Journal::recover(&place, &machine).unwrap();
    // A folder where the journal should be: as on a disk that takes nothing.
    fs::create_dir(place.join("changes")).unwrap();
    let changed = journal.change(&path, "1000 100000\n");
    assert!(
        matches!(changed, Err(RegulateError::Journal { .. })),
        "{changed:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "max 100000\n");
}
