//! Regulators that are killed at random points leave nothing behind.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_regulate::journal::Journal;
use nearfar_regulate::knob::{Bandwidth, Frequency, Knob, Pin, Quota};
use nearfar_regulate::machine::MachineFiles;

use crate::machines::{captured, content};

const KILLS: u64 = 200;
/// Names the tree to the process that is killed.
const VICTIM: &str = "NEARFAR_REGULATE_TREE";
/// Names the group to it.
const GROUP: &str = "NEARFAR_REGULATE_GROUP";

/// What is killed: it changes four knobs again and again, and ends now and then.
#[test]
#[ignore = "started by the test below"]
fn changes_until_it_is_killed() {
    let Ok(root) = env::var(VICTIM) else { return };
    let root = Path::new(&root);
    let machine = MachineFiles::below(root);
    let victim = Pin::processors_of(&machine, "service").unwrap();
    let knobs: [Box<dyn Knob>; 4] = [
        Box::new(Quota::find(&machine, "batch", 16).unwrap()),
        Box::new(Frequency::find(&machine, &[3]).unwrap()),
        Box::new(Bandwidth::find(&machine, "batch", None).unwrap()),
        Box::new(Pin::find(&machine, "batch", &victim).unwrap()),
    ];
    loop {
        let (mut journal, _) = Journal::recover(&root.join("journal"), &machine).unwrap();
        for granted in [0.5, 0.25, 0.75, 0.1, 1.0] {
            for knob in &knobs {
                for (path, content) in knob.changes(&machine, granted).unwrap() {
                    journal.change(&path, &content).unwrap();
                }
            }
        }
    }
}

#[test]
fn killed_at_random_points_it_leaves_the_machine_as_it_was() {
    let (folder, machine) = captured();
    let root = folder.path();
    let before = content(root);
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut restored = 0;
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kills::changes_until_it_is_killed", "--ignored"])
            .env(VICTIM, root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(kill | 1);
        thread::sleep(Duration::from_micros(2_000 + (random >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let (journal, found) = Journal::recover(&root.join("journal"), &machine).unwrap();
        restored += usize::from(!found.files.is_empty());
        assert_eq!(content(root), before, "kill {kill}");
        drop(journal);
    }
    // Most must have met it in the midst of its changes.
    assert!(restored > 20, "{restored} of {KILLS}");
}

/// What is killed on a real kernel: it changes a group's quota again and again.
#[test]
#[ignore = "started by the tests of the testbed"]
fn changes_a_quota_until_it_is_killed() {
    let Ok(group) = env::var(GROUP) else { return };
    let folder = env::var(VICTIM).unwrap();
    let machine = MachineFiles::below(Path::new("/"));
    let (mut journal, _) = Journal::recover(&Path::new(&folder).join("journal"), &machine).unwrap();
    let knob = Quota::find(&machine, &group, 1).unwrap();
    for granted in [0.5, 0.25, 0.75, 0.1].into_iter().cycle() {
        for (path, content) in knob.changes(&machine, granted).unwrap() {
            journal.change(&path, &content).unwrap();
        }
    }
}

/// Kills a regulator of the group's quota, whose journal is in `folder`, so long after its start, or, if it has to have
/// begun, after its first change.
pub fn killed_while_it_changes_a_quota(
    group: &str,
    folder: &Path,
    is_begun: bool,
    after: Duration,
) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "kills::changes_a_quota_until_it_is_killed",
            "--ignored",
        ])
        .env(VICTIM, folder)
        .env(GROUP, group)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while is_begun && !folder.join("journal/changes").exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it does not begin"
        );
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}
