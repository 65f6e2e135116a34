//! What is done when a process ends, however it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A process that waits until this is dropped, or until the process that has it ends, be it killed, and then runs a script.
/// Dropping waits for that, and warns where it fails.
#[derive(Debug)]
pub struct Keeper {
    shell: Child,
    what: &'static str,
}

/// Waits for the end of its input. What a terminal sends to stop a program is not for it.
const WAIT: &str = "trap '' INT TERM HUP\ncat > /dev/null\n";

impl Keeper {
    /// Starts a shell that will run `script` with these arguments, to put back `what` was changed. Until then it keeps
    /// `held` open, such as a file that is locked for the time.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        what: &'static str,
        script: &str,
        arguments: impl IntoIterator<Item = A>,
        held: Option<File>,
    ) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{WAIT}{script}"), "sh"]);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(held.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null());
        // In a group of its own, which Ctrl-C does not reach.
        let shell = command.process_group(0).spawn()?;
        Ok(Self { shell, what })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let ended = self.shell.wait();
        if !ended.is_ok_and(|status| status.success()) {
            tracing::warn!("{} are not all as they were", self.what);
        }
    }
}
