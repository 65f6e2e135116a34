//! Processes that are started, pinned and placed, and never outlive the measurement.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearfar_memory::sys::{
    Ending, NodeSet, Policy, end_group, end_with_thread, pin_thread, place_thread,
};

/// Time between two looks at whether a process has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Time that a process has to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes of output that are read; what a process writes beyond is not looked at.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// Where a process runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// Its processors.
    pub cpus: Vec<u32>,
    /// The nodes that its memory comes from, evenly; none for the kernel's choice.
    pub nodes: Option<NodeSet>,
}

/// A process in a group of its own, with what it writes. It ends with this value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Keeps alive the thread that started it, with which it would end.
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    output: File,
    errors: File,
    began: Instant,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub elapsed: Duration,
    /// What it wrote to its output.
    pub output: String,
    /// What it wrote to its errors.
    pub errors: String,
}

impl Ended {
    /// Its last words, for a message: those among its errors, if there are any.
    pub(crate) fn words(&self) -> String {
        match self.errors.trim().is_empty() {
            true => last_words(&self.output),
            false => last_words(&self.errors),
        }
    }
}

impl Process {
    /// Starts `command` at its place. Its processors and the policy of its memory are those of the
    /// thread that starts it, which are inherited.
    pub(crate) fn start(mut command: Command, place: Place) -> io::Result<Self> {
        let (output, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?)
            .process_group(0);
        end_with_thread(&mut command, Ending::Kill);
        let (started, starts) = channel();
        let (release, released) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let spawned = inherit(&place).and_then(|()| command.spawn());
            let is_running = spawned.is_ok();
            // Nobody waits only if the other thread has panicked.
            let _ = started.send(spawned);
            if is_running {
                // Ends with an error when the process is dropped, which is what is waited for.
                let _ = released.recv();
            }
        });
        let began = Instant::now();
        let spawned = starts.recv().map_err(io::Error::other)?;
        Ok(Self {
            child: spawned?,
            keeper: Some((release, thread)),
            output,
            errors,
            began,
        })
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end; `None` if the user wanted to stop, which ends it.
    pub(crate) fn wait(mut self, stop: &AtomicBool) -> io::Result<Option<Ended>> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        };
        let elapsed = self.began.elapsed();
        // What it has left running in its group would disturb what comes next.
        let _ = end_group(self.child.id(), Ending::Kill);
        self.ended(status, elapsed).map(Some)
    }

    /// Asks it to end, and waits.
    pub(crate) fn end(mut self, ending: Ending) -> io::Result<Ended> {
        let status = self.ask(ending)?;
        let elapsed = self.began.elapsed();
        self.ended(status, elapsed)
    }

    fn ended(&mut self, status: ExitStatus, elapsed: Duration) -> io::Result<Ended> {
        Ok(Ended {
            status,
            elapsed,
            output: text(&mut self.output)?,
            errors: text(&mut self.errors)?,
        })
    }

    /// Asks its group to end, and kills it after a while.
    fn ask(&mut self, ending: Ending) -> io::Result<ExitStatus> {
        let group = self.child.id();
        let until = Instant::now() + GRACE;
        // The group is gone already where the process has ended.
        let _ = end_group(group, ending);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                let _ = end_group(group, Ending::Kill);
                return Ok(status);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let _ = end_group(group, Ending::Kill);
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // There is nobody to be told of an error.
            let _ = self.ask(Ending::Terminate);
        }
        if let Some((release, thread)) = self.keeper.take() {
            drop(release);
            let _ = thread.join();
        }
    }
}

/// Puts the calling thread where the processes that it starts are to be.
fn inherit(place: &Place) -> io::Result<()> {
    if !place.cpus.is_empty() {
        pin_thread(&place.cpus).map_err(io::Error::other)?;
    }
    match place.nodes {
        Some(nodes) => place_thread(&Policy::evenly(nodes)).map_err(io::Error::other),
        None => Ok(()),
    }
}

/// What a file holds, from its beginning.
fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The program of this name among the folders of `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| program.is_file())
}

/// The last lines of what a program wrote.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut said: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let first = said.len().saturating_sub(3);
    match said.split_off(first).join("; ") {
        words if words.is_empty() => "it says nothing".to_owned(),
        words => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, Place::default()).unwrap()
    }

    fn is_alive(process: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn what_a_process_writes_is_kept() {
        let ended = shell("echo out; echo err >&2; exit 3").wait(&AtomicBool::new(false));
        let ended = ended.unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!((&*ended.output, &*ended.errors), ("out\n", "err\n"));
        assert_eq!(last_words("\n a \nb\n\nc\nd\n"), "b; c; d");
        assert_eq!(last_words(" \n"), "it says nothing");
    }

    #[test]
    fn nothing_of_a_group_is_left() {
        for is_stopped in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("child");
            let script = format!(
                "sleep 100 & echo $! > {0}.part; mv {0}.part {0}; ",
                file.display()
            );
            let process = shell(&format!(
                "{script} {}",
                if is_stopped { "wait" } else { "" }
            ));
            while !file.exists() {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let stop = AtomicBool::new(is_stopped);
            assert_eq!(process.wait(&stop).unwrap().is_none(), is_stopped);
            let child = std::fs::read_to_string(&file).unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while is_alive(&child) && Instant::now() < until {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            assert!(!is_alive(&child), "{child} is left");
        }
    }

    #[test]
    fn a_process_runs_on_its_processors_only() {
        let cpu = *nearfar_memory::sys::allowed_cpus().unwrap().last().unwrap();
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        let place = Place {
            cpus: vec![cpu],
            nodes: None,
        };
        let process = Process::start(command, place).unwrap();
        let ended = process.wait(&AtomicBool::new(false)).unwrap().unwrap();
        assert!(
            ended.output.ends_with(&format!("\t{cpu}\n")),
            "{}",
            ended.output
        );
    }
}
