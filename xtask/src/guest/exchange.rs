//! The folders that a machine and the host have in common.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::job::Job;

/// The folders of one machine.
#[derive(Debug, Clone)]
pub struct Exchange {
    folder: PathBuf,
}

impl Exchange {
    /// Lays out `folder` for `job`.
    pub fn create(folder: &Path, topology: &str, setup: &str, job: &Job) -> Result<Self> {
        let exchange = Self {
            folder: folder.to_owned(),
        };
        let written = exchange.guest_folder();
        for step in 0..job.steps.len() {
            fs::create_dir_all(written.join(format!("steps/{step}")))?;
        }
        fs::create_dir_all(written.join("out"))?;
        fs::create_dir_all(exchange.programs())?;
        fs::write(written.join("setup"), setup)?;
        fs::write(written.join("job"), job.script(topology))?;
        for (name, file) in &job.programs {
            pass(file, &exchange.programs().join(name))
                .with_context(|| format!("cannot pass {} to the guest", file.display()))?;
        }
        Ok(exchange)
    }

    /// Files that the guest reads.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    /// The folder that both write.
    pub fn guest_folder(&self) -> PathBuf {
        self.folder.join("exchange")
    }

    /// What the guest left in `$OUT`.
    pub fn out(&self) -> PathBuf {
        self.guest_folder().join("out")
    }

    /// Where the guest's console goes.
    pub fn console(&self) -> PathBuf {
        self.folder.join("console")
    }

    /// Where qemu's own messages go.
    pub fn messages(&self) -> PathBuf {
        self.folder.join("qemu-messages")
    }

    /// Whether the memory is set up and the job has begun.
    pub fn is_ready(&self) -> bool {
        self.guest_folder().join("ready").exists()
    }

    /// Why the memory could not be set up.
    pub fn setup_failure(&self) -> Option<String> {
        fs::read_to_string(self.guest_folder().join("setup-failed")).ok()
    }

    /// The exit code of a step that has ended.
    pub fn exit_code(&self, step: usize) -> Option<i32> {
        let text = fs::read_to_string(self.step_file(step, "exit")).ok()?;
        text.trim().parse().ok()
    }

    /// A file of a step: `stdout` or `stderr`.
    pub fn step_file(&self, step: usize, name: &str) -> PathBuf {
        self.guest_folder().join(format!("steps/{step}/{name}"))
    }

    /// What a step has written so far.
    pub fn output(&self, step: usize, name: &str) -> String {
        let bytes = fs::read(self.step_file(step, name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the guest's kernel died of code that it was changing while another processor ran it:
    /// it does so with breakpoints, and the emulator may run one after the kernel has forgotten it.
    /// Real processors do not.
    pub fn died_of_the_emulator(&self) -> bool {
        let console = fs::read(self.console()).unwrap_or_default();
        String::from_utf8_lossy(&console).contains("Oops: int3")
    }

    /// The end of the console and of the kernel's log, for a report of what went wrong.
    pub fn last_words(&self) -> String {
        let parts = [
            ("qemu", self.messages()),
            ("console", self.console()),
            ("kernel log", self.guest_folder().join("dmesg")),
        ];
        let mut text = String::new();
        for (name, file) in parts {
            let content = fs::read(file).unwrap_or_default();
            let content = String::from_utf8_lossy(&content);
            let lines: Vec<&str> = content.lines().filter(|line| !line.is_empty()).collect();
            if lines.is_empty() {
                continue;
            }
            let tail = &lines[lines.len().saturating_sub(LAST_LINES)..];
            text += &format!("--- the end of the {name}\n{}\n", tail.join("\n"));
        }
        text
    }
}

const LAST_LINES: usize = 40;

/// Passes a file on, without a copy where the file systems allow.
fn pass(file: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(file, target) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        Err(_) => fs::copy(file, target).map(drop),
        Ok(()) => Ok(()),
    }
}
