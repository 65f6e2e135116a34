//! Who may read what the program writes, whatever the umask.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ran, environment, files_in, run, run_with_input, temp};

/// Runs the program with this umask.
fn run_with_umask(umask: &str, folder: &Path, arguments: &[&str]) -> Ran {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    environment(&mut command)
        .args(["-c", &script, env!("CARGO_BIN_EXE_nearfar")])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    command.output().expect("started").into()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("metadata").mode() & 0o777
}

/// All files and folders below a folder, and itself.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for name in files_in(folder) {
        let path = folder.join(name);
        match path.is_dir() {
            true => found.extend(all_below(&path)),
            false => found.push(path),
        }
    }
    found
}

const MAKE: &str = "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 1000); CHECKPOINT; \
                    INSERT INTO t VALUES (1)";

#[test]
fn nobody_else_reads_data_directories_and_pools() {
    for (umask, more, folder_mode, file_mode) in [
        ("000", None, 0o700, 0o600),
        ("077", Some("--group-access"), 0o750, 0o640),
    ] {
        let folder = temp();
        let arguments = [
            "sql",
            "--data",
            "data",
            "--pool",
            "pool",
            "--pool-bytes",
            "16MiB",
            "-c",
            MAKE,
        ];
        let arguments: Vec<&str> = arguments.into_iter().chain(more).collect();
        run_with_umask(umask, folder.path(), &arguments).succeeded();
        assert_eq!(mode(&folder.path().join("pool")), file_mode, "{umask}");
        let all = all_below(&folder.path().join("data"));
        assert!(all.len() > 6, "{all:?}");
        for path in all {
            let wanted = if path.is_dir() {
                folder_mode
            } else {
                file_mode
            };
            assert_eq!(mode(&path), wanted, "{umask} {}", path.display());
        }
        // The next start goes on as the first began, and closes a pool that was left open.
        let pool = folder.path().join("pool");
        fs::set_permissions(&pool, fs::Permissions::from_mode(0o666)).expect("set");
        let again = [
            "sql",
            "--data",
            "data",
            "--pool",
            "pool",
            "-c",
            "INSERT INTO t VALUES (2)",
        ];
        run_with_umask(umask, folder.path(), &again).succeeded();
        assert_eq!(mode(&pool) & 0o137, 0, "{umask}");
    }
}

#[test]
fn an_empty_folder_is_made_private_and_an_open_directory_is_refused() {
    let folder = temp();
    let data = folder.path().join("data");
    let text = data.to_str().expect("UTF-8");
    let chmod = |mode| fs::set_permissions(&data, fs::Permissions::from_mode(mode)).expect("set");
    fs::create_dir(&data).expect("made");
    chmod(0o755);
    run(["sql", "--data", text, "-c", MAKE]).succeeded();
    assert_eq!(mode(&data), 0o700);
    for open in [0o755, 0o707, 0o770, 0o701] {
        chmod(open);
        let refused = run(["sql", "--data", text, "-c", "SELECT 1"]);
        refused.failed(4, &["can be read or changed by others", "chmod it to 700"]);
    }
    chmod(0o750);
    run(["sql", "--data", text, "-c", "SELECT 1"]).succeeded();
}

#[test]
fn nothing_in_a_data_directory_is_written_through_links() {
    let folder = temp();
    let (data, mine) = (folder.path().join("data"), folder.path().join("mine"));
    let text = data.to_str().expect("UTF-8");
    run(["sql", "--data", text, "-c", MAKE]).succeeded();
    fs::write(&mine, "untouched").expect("written");
    let lock = data.join("LOCK");
    fs::remove_file(&lock).expect("removed");
    symlink(&mine, &lock).expect("linked");
    run(["sql", "--data", text, "-c", "SELECT 1"]).failed(4, &["LOCK"]);
    fs::remove_file(&lock).expect("removed");
    for number in 0..64 {
        let unfinished = data.join(format!("savepoint/unfinished-{number:016x}"));
        symlink(&mine, unfinished).expect("linked");
    }
    run([
        "sql",
        "--data",
        text,
        "-c",
        "INSERT INTO t VALUES (2); CHECKPOINT",
    ])
    .succeeded();
    let log = data.join("log");
    let wal = files_in(&log)
        .into_iter()
        .find(|name| name.ends_with(".wal"));
    let wal = log.join(wal.expect("a log"));
    fs::rename(&wal, data.join("moved")).expect("moved");
    symlink(data.join("moved"), &wal).expect("linked");
    run(["sql", "--data", text, "-c", "SELECT 1"]).failed(4, &["symbolic link"]);
    assert_eq!(fs::read_to_string(&mine).expect("read"), "untouched");
}

#[test]
fn a_full_disk_leaves_the_file_of_users_as_it_was() {
    let folder = temp();
    let file = folder.path().join("users");
    let path = file.to_str().expect("UTF-8");
    let add = |name: &str| ["serve", "user", "add", name, "--file", path].map(str::to_owned);
    run_with_input(add("ann"), "secret\n").succeeded();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
    // No file of this process may grow beyond 512 bytes, of which the file has most.
    let comment = format!("# {}\n", "x".repeat(400));
    let text = fs::read_to_string(&file).expect("read") + &comment;
    fs::write(&file, &text).expect("written");
    let script = "trap '' XFSZ; ulimit -f 1; printf 'secret\\n' | \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    environment(&mut command)
        .args(["-c", script, env!("CARGO_BIN_EXE_nearfar")])
        .args(add("bob"));
    let ran: Ran = command.output().expect("started").into();
    ran.failed(7, &["can't be written, and is as it was", "File too large"]);
    assert_eq!(fs::read_to_string(&file).expect("read"), text);
    assert_eq!(files_in(folder.path()), ["users"]);
    run_with_input(add("bob"), "secret\n").succeeded();
    assert_eq!(mode(&file), 0o640);
    let lines = fs::read_to_string(&file).expect("read");
    assert!(
        lines.starts_with(&text) && lines.contains("\nbob "),
        "{lines}"
    );
}

#[test]
fn what_a_killed_process_has_spilled_is_removed() {
    let folder = temp();
    let left = folder.path().join("nearfar-spill-0123456789abcdef");
    let others = folder.path().join("nearfar-spill-notes");
    for folder in [&left, &others] {
        fs::create_dir(folder).expect("made");
        fs::write(folder.join("LOCK"), "").expect("written");
        fs::write(folder.join("rows"), "rows").expect("written");
    }
    let spill = "SET memory_limit = '16MB'; \
                 SELECT count(*) AS n FROM (SELECT value, row_number() OVER (ORDER BY value % 1000, value) \
                 FROM generate_series(1, 1000000)) t";
    let mut command = crate::support::program();
    command.args(["sql", "--format", "csv", "--threads", "1", "-c", spill]);
    let ran: Ran = command
        .env("TMPDIR", folder.path())
        .output()
        .expect("started")
        .into();
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "n\n1000000\n"),
        "{ran:?}"
    );
    assert_eq!(files_in(folder.path()), ["nearfar-spill-notes"]);
}
