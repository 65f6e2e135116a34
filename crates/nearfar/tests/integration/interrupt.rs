//! Ctrl-C.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Ran, environment, files_in, program, temp};

/// Runs for hours.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                    WHERE a.a + b.b = -1";
const PATIENCE: Duration = Duration::from_secs(120);
/// Between looks at what a program does.
const GLANCE: Duration = Duration::from_millis(20);
/// After which Ctrl-C comes again, for one that came before there was anything to interrupt.
const AGAIN: Duration = Duration::from_secs(2);

/// A program that is killed when its test gives up, since it may run for hours.
struct Running {
    child: Child,
    /// Has the files `stdout` and `stderr`.
    said: TempDir,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let said = temp();
        let file = |name: &str| File::create(said.path().join(name)).expect("created");
        command.stdout(file("stdout")).stderr(file("stderr"));
        let child = command.spawn().expect("started");
        Self { child, said }
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.said.path().join(name)).expect("UTF-8")
    }

    /// Waits for a state that the program comes to by itself.
    #[track_caller]
    fn wait_until(&mut self, state: &str, holds: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().expect("a child");
            assert_eq!(ended, None, "ended before {state}: {}", self.said("stderr"));
            assert!(started.elapsed() < PATIENCE, "{state} did not come");
            std::thread::sleep(GLANCE);
        }
    }

    /// Interrupts the program until it ends.
    #[track_caller]
    fn interrupt(mut self) -> Ran {
        let started = Instant::now();
        let mut interrupted: Option<Instant> = None;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "still runs");
            if interrupted.is_none_or(|last| last.elapsed() > AGAIN) {
                interrupted = Some(Instant::now());
                let id = self.child.id().to_string();
                // The shell's own `kill`, because not every system has the program.
                let kill = ["-c", "kill -INT \"$0\"", &id];
                let status = Command::new("sh").args(kill).status();
                assert!(status.expect("a shell").success());
            }
            std::thread::sleep(GLANCE);
        };
        Ran {
            code: status.code().expect("not killed by the signal"),
            stdout: self.said("stdout"),
            stderr: self.said("stderr"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a program that may have ended already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn ctrl_c_ends_a_query() {
    let mut command = program();
    command.args(["sql", "--format", "csv", "-c", "SELECT 1 AS a", "-c", LONG]);
    let mut running = Running::start(&mut command);
    running.wait_until("the first result", |it| it.said("stdout") == "a\n1\n");
    std::thread::sleep(Duration::from_millis(500));
    running.interrupt().failed(130, &["interrupted"]);
}

#[test]
fn ctrl_c_ends_a_load_and_leaves_no_file() {
    let folder = temp();
    let mut command = program();
    command
        .args(["sql", "--tpch", "100", "-o", "rows.csv"])
        .current_dir(folder.path());
    let mut running = Running::start(&mut command);
    running.wait_until("the output", |_| !files_in(folder.path()).is_empty());
    std::thread::sleep(Duration::from_millis(500));
    running.interrupt().failed(130, &["interrupted"]);
    assert_eq!(files_in(folder.path()), [""; 0]);
}

#[test]
fn ctrl_c_ends_a_comparison_and_leaves_no_file() {
    let folder = temp();
    let mut command = program();
    command.args(["bench", "tpch", "--sf", "100", "--directory", "."]);
    command.current_dir(folder.path());
    let mut running = Running::start(&mut command);
    running.wait_until("the files", |_| !files_in(folder.path()).is_empty());
    std::thread::sleep(Duration::from_millis(500));
    running.interrupt().failed(130, &["interrupted"]);
    assert_eq!(files_in(folder.path()), [""; 0]);
}

#[test]
fn ctrl_c_ends_a_run_of_tpch() {
    let folder = temp();
    let mut command = program();
    command.args(["-v", "tpch", "--sf", "100"]);
    command.current_dir(folder.path());
    let mut running = Running::start(&mut command);
    running.wait_until("a table", |it| it.said("stderr").contains("loaded region"));
    let ran = running.interrupt();
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.stderr.ends_with("error: interrupted\n"), "{ran:?}");
    assert_eq!(files_in(folder.path()), [""; 0]);
}

/// Whether a program has taken Ctrl-C over (proc_pid_status(5), `SigCgt`).
fn hears_ctrl_c(running: &Running) -> bool {
    const INTERRUPT: u64 = 1 << (2 - 1);
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & INTERRUPT != 0)
}

#[test]
fn ctrl_c_ends_what_computes_without_looking_up() {
    for arguments in [
        &["bench", "scan", "--rounds", "1000000", "--column", "64MiB"][..],
        &["reproduce", "all"],
        &[
            "bench", "index", "--mode", "native", "--keys", "1000000", "--runs", "100000",
        ],
        &[
            "bench",
            "index",
            "--mode",
            "virtual",
            "--keys",
            "1000000",
            "--measured",
            "3000000",
        ],
        &[
            "index",
            "bench",
            "--mode",
            "paced",
            "--keys",
            "1000000",
            "--measured",
            "3000000",
        ],
    ] {
        let mut command = program();
        command.args(arguments);
        let mut running = Running::start(&mut command);
        running.wait_until("Ctrl-C being heard", hears_ctrl_c);
        std::thread::sleep(Duration::from_millis(500));
        let ran = running.interrupt();
        assert_eq!(ran.code, 130, "{arguments:?}: {ran:?}");
        assert!(
            ran.stderr.ends_with("error: interrupted\n"),
            "{arguments:?}: {ran:?}"
        );
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn ctrl_c_ends_a_script_that_waits_for_input() {
    let mut command = program();
    command
        .args(["sql", "--format", "csv"])
        .stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut input = running.child.stdin.take().expect("a pipe");
    input.write_all(b"SELECT 1 AS a;\n").expect("written");
    // A statement runs as soon as it is there.
    running.wait_until("its result", |it| it.said("stdout") == "a\n1\n");
    running.interrupt().failed(130, &[]);
}

/// The shell on a terminal of its own, by the program `script` of util-linux.
struct Terminal {
    child: Child,
    input: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(home: &Path) -> Option<Self> {
        // With `exec`, since Ctrl-C reaches a shell that waits too, and some then end with it.
        let shell = "exec \"$NEARFAR_UNDER_TEST\" sql --tpch 0.001";
        let mut command = Command::new("script");
        environment(&mut command).args(["-qec", shell, "/dev/null"]);
        command.env("SHELL", "/bin/sh");
        command.env("NEARFAR_UNDER_TEST", env!("CARGO_BIN_EXE_nearfar"));
        command.env("TERM", "xterm").env("XDG_STATE_HOME", home);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.ok()?;
        let input = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                seen.lock().expect("not poisoned").push_str(&text);
            }
        });
        Some(Self {
            child,
            input,
            screen,
        })
    }

    fn send(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("written");
        self.input.flush().expect("flushed");
    }

    /// Whether a text is there; everything up to it is then forgotten.
    fn shows(&self, text: &str) -> bool {
        let mut screen = self.screen.lock().expect("not poisoned");
        let found = screen.find(text);
        if let Some(at) = found {
            screen.drain(..at + text.len());
        }
        found.is_some()
    }

    /// Waits for a text, and forgets everything up to it.
    #[track_caller]
    fn wait_for(&self, text: &str) {
        let started = Instant::now();
        while !self.shows(text) {
            assert!(
                started.elapsed() < PATIENCE,
                "{text:?} did not come: {:?}",
                self.screen.lock().expect("not poisoned")
            );
            std::thread::sleep(GLANCE);
        }
    }

    /// Presses Ctrl-C until a text comes: the shell may not run the query yet, and forgets what was
    /// pressed before.
    #[track_caller]
    fn interrupt_until(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            self.send("\x03");
            let pressed = Instant::now();
            while pressed.elapsed() < AGAIN {
                if self.shows(text) {
                    return;
                }
                std::thread::sleep(GLANCE);
            }
            assert!(started.elapsed() < PATIENCE, "{text:?} did not come");
        }
    }

    #[track_caller]
    fn wait_until_ended(&mut self) -> std::process::ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "still runs");
            std::thread::sleep(GLANCE);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program in it gets a hangup.
        end(&mut self.child);
    }
}

#[test]
fn the_shell_survives_ctrl_c() {
    let home = temp();
    let Some(mut terminal) = Terminal::open(home.path()) else {
        return;
    };
    terminal.wait_for("nearfar> ");
    terminal.send("SELECT 6 *\r7 AS answer;\r");
    terminal.wait_for("42");
    terminal.wait_for("(1 row)");
    terminal.wait_for("nearfar> ");
    terminal.send(&format!("{LONG};\r"));
    terminal.wait_for("= -1;");
    std::thread::sleep(Duration::from_millis(500));
    terminal.interrupt_until("Cancelled.");
    terminal.wait_for("nearfar> ");
    terminal.send("SELECT garbage\x03");
    terminal.wait_for("nearfar> ");
    terminal.send("SELECT count(*) + 995 FROM region;\r");
    terminal.wait_for("1000");
    terminal.wait_for("nearfar> ");
    terminal.send("CREATE TABLE t AS SELECT nonsense;\r");
    terminal.wait_for("error: ");
    terminal.wait_for("nearfar> ");
    terminal.send("\x04");
    let status = terminal.wait_until_ended();
    assert!(status.success(), "{status}");
    let history = fs::read_to_string(home.path().join("nearfar/history")).expect("a history");
    assert!(history.contains("FROM region;"), "{history}");
}
