//! Running the program.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nearfar_topology::capture::Capture;
use tempfile::TempDir;

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output
                .status
                .code()
                .expect("the program was killed by a signal"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }
}

impl Ran {
    /// Checks that the run succeeded and said nothing but results.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (0, ""),
            "stdout: {}",
            self.stdout
        );
        self.stdout
    }

    /// Checks that the run succeeded, and told something of it beside its results.
    #[track_caller]
    pub fn succeeded_telling(self, told: &str) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        assert!(self.stderr.contains(told), "{}", self.stderr);
        self.stdout
    }

    /// Checks that the run ended with `code` and one message that holds all of `told`.
    #[track_caller]
    pub fn failed(&self, code: i32, told: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        let errors = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .count();
        assert_eq!(errors, 1, "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        for part in told {
            assert!(
                self.stderr.contains(part),
                "{part:?} is missing in {self:?}"
            );
        }
    }
}

/// The program, with an environment that is the same everywhere. On the testbed's machines it lies
/// elsewhere than where cargo put it, and `NEARFAR_PROGRAM` says where.
pub fn program() -> Command {
    let built = env!("CARGO_BIN_EXE_nearfar").into();
    let program = std::env::var_os("NEARFAR_PROGRAM").unwrap_or(built);
    let mut command = Command::new(program);
    environment(&mut command).stdin(Stdio::null());
    command
}

/// Variables that programs need to be found and to run, or that tools which watch them set.
const KEPT_VARIABLES: [&str; 7] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    "ASAN_OPTIONS",
    "TSAN_OPTIONS",
];

/// Gives `command` an environment that is the same everywhere.
pub fn environment(command: &mut Command) -> &mut Command {
    let kept = KEPT_VARIABLES.map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(kept)
}

/// Runs the program with these arguments.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ran {
    program().args(arguments).output().expect("started").into()
}

/// Runs the program with these arguments in `folder`.
pub fn run_in<A: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = A>) -> Ran {
    program()
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("started")
        .into()
}

/// Runs the program with these arguments and `text` on stdin.
pub fn run_with_input<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, text: &str) -> Ran {
    let mut command = program();
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    // A program that ends early closes the pipe.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    child.wait_with_output().expect("ended").into()
}

/// Runs one SQL script, as CSV.
pub fn csv(sql: &str) -> String {
    run(["sql", "--format", "csv", "-c", sql]).succeeded()
}

pub fn temp() -> TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

/// Names of the files in a folder, sorted.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("listed");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// The sysfs of a captured machine.
pub fn sysfs(fixture: &str) -> TempDir {
    let capture = workspace()
        .join("crates/nearfar-topology/tests/fixtures")
        .join(fixture)
        .join("sysfs.txt");
    let text = std::fs::read_to_string(&capture).expect("a fixture");
    let root = temp();
    Capture::parse(&text)
        .expect("a capture")
        .unpack(root.path())
        .expect("unpacked");
    root
}

/// The root of the repository, from the folder of the crate, where cargo runs its tests. It may be another than
/// where they were built.
pub fn workspace() -> PathBuf {
    Path::new("../..")
        .canonicalize()
        .expect("the root of the workspace")
}

/// Compares `text` with a file of this folder's `expected`. With `NEARFAR_BLESS` set, the file is
/// written instead.
#[track_caller]
pub fn expect_file(name: &str, text: &str) {
    let path = Path::new("tests/expected").join(name);
    if std::env::var_os("NEARFAR_BLESS").is_some() {
        std::fs::write(&path, text).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("a file of what is expected");
    assert_eq!(text, expected, "differs from {}", path.display());
}

/// A file system of a few MiB, unmounted at the end.
pub struct SmallDisk(PathBuf, Option<TempDir>);

impl SmallDisk {
    /// One in a folder of its own. `None`, said aloud, where it can't be mounted.
    pub fn mount(kib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disk = Self::mount_at(folder.path(), kib)?;
        disk.1 = Some(folder);
        Some(disk)
    }

    /// The same in a folder that is there.
    pub fn mount_at(folder: &Path, kib: u64) -> Option<Self> {
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        let mounted = mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder);
        if mounted.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder.to_owned(), None));
        }
        let skipped = "skipped: this process may not mount a file system";
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{skipped}\n"));
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
