//! A child process, from outside.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::child::{self, Kept};

/// After which a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A child process that is killed with its test.
pub struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    incoming: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    /// What it has said so far.
    pub lines: Vec<String>,
    errors: PathBuf,
}

impl Process {
    /// Starts a child, which takes what is kept over as it is told.
    pub fn start(kept: &Kept, seed: u64, take_over: &str, errors: &Path) -> Self {
        let this = std::env::current_exe().expect("this program");
        let places = [(child::DATA, &kept.data), (child::POOL, &kept.pool)];
        let places = places
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_ref()?)));
        let mut child = Command::new(this)
            .args(["--exact", child::TEST, "--nocapture"])
            .envs(places)
            .env(child::ORDER, format!("{seed} {take_over}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(errors).expect("a file"))
            .spawn()
            .expect("a child");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, incoming) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).unwrap_or(0) > 0 {
                // A line that is torn says nothing: what it was to say was acknowledged to nobody.
                if line.ends_with('\n') && sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self {
            orders: child.stdin.take(),
            child,
            incoming,
            reader: Some(reader),
            lines: Vec::new(),
            errors: errors.to_owned(),
        }
    }

    /// Waits until it says something that begins with `what`; false when it ends before.
    pub fn says(&mut self, what: &str) -> bool {
        loop {
            match self.incoming.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let is_it = line.starts_with(what);
                    self.lines.push(line);
                    if is_it {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => self.fail("it says nothing"),
            }
        }
    }

    /// The same of one that does not end by itself.
    pub fn wait_for(&mut self, what: &str) {
        if !self.says(what) {
            self.fail(what);
        }
    }

    /// Tells it to close what it has open, and to end.
    pub fn tell_to_end(&mut self) {
        let orders = self.orders.as_mut().expect("its input");
        // It may have ended by itself.
        let _ = orders.write_all(b"end\n");
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status();
        assert!(status.expect("kill").success());
    }

    /// Kills it, and says whether it had lived until then. All that it said is in its lines.
    pub fn kill(&mut self) -> bool {
        let ended = self.child.try_wait().expect("a child");
        self.child.kill().expect("killed");
        let status = self.child.wait().expect("ended");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("its lines");
        }
        self.lines.extend(self.incoming.try_iter());
        self.check(ended.unwrap_or(status));
        ended.is_none() && status.signal() == Some(9)
    }

    fn check(&self, status: ExitStatus) {
        let has_failed = self.lines.iter().any(|line| line.starts_with("@failed"));
        if has_failed || !(status.success() || status.signal() == Some(9)) {
            self.fail("it has failed");
        }
    }

    fn fail(&self, why: &str) -> ! {
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let last = self.lines.iter().rev().take(20).rev();
        let last: String = last.map(String::as_str).collect();
        panic!("a child of the crash test: {why}\n{last}\n{errors}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
