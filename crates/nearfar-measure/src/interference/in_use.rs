//! Who else has a file or a device open (proc(5), `/proc/PID/fd`).

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A process that has it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) process: u32,
    pub(super) name: String,
}

/// Processes but this one that have it open, by their numbers, as far as the kernel tells this process.
pub(super) fn users(proc: &Path, wanted: &Metadata) -> Vec<User> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.retain(|number| *number != std::process::id());
    numbers.sort_unstable();
    let has_it = |number: &u32| {
        let open = fs::read_dir(proc.join(format!("{number}/fd")));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|entry| fs::metadata(entry.path()).is_ok_and(|found| is_same(&found, wanted)))
    };
    let user = |process: u32| {
        let name = fs::read_to_string(proc.join(format!("{process}/comm")));
        let name = name.map_or_else(|_| String::new(), |name| name.trim_end().to_owned());
        User { process, name }
    };
    numbers.into_iter().filter(has_it).map(user).collect()
}

/// Whether both are one file, or one device by whatever name.
fn is_same(found: &Metadata, wanted: &Metadata) -> bool {
    match wanted.file_type().is_block_device() {
        true => found.file_type().is_block_device() && found.rdev() == wanted.rdev(),
        false => (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn processes_that_have_a_file_open_are_found_by_what_they_have_open() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&file, "a").unwrap();
        fs::write(&other, "b").unwrap();
        let proc = folder.path().join("proc");
        for (process, open) in [("30", &other), ("7", &file), ("12", &file)] {
            fs::create_dir_all(proc.join(process).join("fd")).unwrap();
            symlink(open, proc.join(process).join("fd/3")).unwrap();
        }
        fs::write(proc.join("7/comm"), "database\n").unwrap();
        fs::create_dir_all(proc.join("sys/fd")).unwrap();
        symlink(&file, proc.join("sys/fd/3")).unwrap();
        let found = users(&proc, &fs::metadata(&file).unwrap());
        let expected = [(7, "database"), (12, "")].map(|(process, name)| User {
            process,
            name: name.to_owned(),
        });
        assert_eq!(found, expected);
        assert_eq!(
            users(&folder.path().join("none"), &fs::metadata(&file).unwrap()),
            []
        );
    }

    #[test]
    fn a_process_that_reads_a_file_is_found_on_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "a").unwrap();
        let wanted = fs::metadata(&path).unwrap();
        assert_eq!(users(Path::new("/proc"), &wanted), []);
        // This process has it open too, and is no other.
        let input = fs::File::open(&path).unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(input.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let began = Instant::now();
        let mut found = users(Path::new("/proc"), &wanted);
        // Until it runs, it has the name of this program.
        while found.first().is_none_or(|user| user.name != "sleep")
            && began.elapsed() < Duration::from_secs(20)
        {
            thread::sleep(Duration::from_millis(5));
            found = users(Path::new("/proc"), &wanted);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let process = child.id();
        assert_eq!(
            found,
            [User {
                process,
                name: "sleep".to_owned()
            }]
        );
    }
}
