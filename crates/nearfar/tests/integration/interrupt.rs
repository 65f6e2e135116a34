//! Ctrl-C.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Ran, files_in, program, temp};

/// Runs for hours.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                    WHERE a.value + b.value = -1";
const PATIENCE: Duration = Duration::from_secs(60);

fn interrupt(child: &Child) {
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill is there").success());
}

#[test]
fn ctrl_c_ends_a_query() {
    let mut command = program();
    command.args(["sql", "--format", "csv", "-c", "SELECT 1 AS a", "-c", LONG]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while line != "a\n1\n" {
        assert_ne!(
            stdout.read_line(&mut line).expect("read"),
            0,
            "ended early: {line}"
        );
    }
    std::thread::sleep(Duration::from_millis(500));
    let interrupted = Instant::now();
    interrupt(&child);
    let ran: Ran = child.wait_with_output().expect("ended").into();
    ran.failed(130, &["interrupted"]);
    assert!(
        interrupted.elapsed() < PATIENCE / 2,
        "{:?}",
        interrupted.elapsed()
    );
}

#[test]
fn ctrl_c_ends_a_load_and_leaves_no_file() {
    let folder = temp();
    let mut command = program();
    command
        .args(["sql", "--tpch", "100", "-o", "rows.csv"])
        .current_dir(folder.path());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    while files_in(folder.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&child);
    let ran: Ran = child.wait_with_output().expect("ended").into();
    ran.failed(130, &["interrupted"]);
    assert_eq!(files_in(folder.path()), [""; 0]);
}

#[test]
fn ctrl_c_ends_a_script_that_waits_for_input() {
    let mut command = program();
    command
        .args(["sql", "--format", "csv"])
        .stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"SELECT 1 AS a;\n").expect("written");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    // A statement runs as soon as it is there.
    stdout.read_line(&mut String::new()).expect("read");
    interrupt(&child);
    let ran: Ran = child.wait_with_output().expect("ended").into();
    ran.failed(130, &[]);
}

/// The shell on a terminal of its own, by the program `script` of util-linux.
struct Terminal {
    child: Child,
    input: std::process::ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(home: &std::path::Path) -> Option<Self> {
        // With `exec`, since Ctrl-C reaches a shell that waits too, and some then end with it.
        let shell = format!("exec {} sql --tpch 0.001", env!("CARGO_BIN_EXE_nearfar"));
        let mut command = Command::new("script");
        command.args(["-qec", &shell, "/dev/null"]);
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

    /// Waits for a text, and forgets everything up to it.
    #[track_caller]
    fn wait_for(&self, text: &str) {
        let started = Instant::now();
        loop {
            let mut screen = self.screen.lock().expect("not poisoned");
            if let Some(at) = screen.find(text) {
                screen.drain(..at + text.len());
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{text:?} did not come: {screen:?}"
            );
            drop(screen);
            std::thread::sleep(Duration::from_millis(20));
        }
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
    std::thread::sleep(Duration::from_millis(700));
    terminal.send("\x03");
    terminal.wait_for("Cancelled.");
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
    let status = terminal.child.wait().expect("ended");
    assert!(status.success(), "{status}");
    let history = std::fs::read_to_string(home.path().join("nearfar/history")).expect("a history");
    assert!(history.contains("FROM region;"), "{history}");
}
