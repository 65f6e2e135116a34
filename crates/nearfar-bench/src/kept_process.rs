//! A process that ends with the one that has started it, however that ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use nearfar_memory::sys::{Ending, end_with_thread};

/// A process of a benchmark. When this is dropped, or this process is killed, it is asked to end.
#[derive(Debug)]
pub(crate) struct KeptProcess {
    /// It. Waiting for it is the owner's.
    pub child: Child,
    /// Dropped, it ends the thread that has started the process: the kernel tells the process of that.
    _keeper: Sender<()>,
}

impl KeptProcess {
    /// Starts `command`, which is to end as `ending` says.
    ///
    /// # Errors
    /// A program that can't be run.
    pub fn start(mut command: Command, ending: Ending) -> io::Result<Self> {
        end_with_thread(&mut command, ending);
        let (started, starts) = channel();
        let (keeper, kept) = channel::<()>();
        // Not the caller's thread, which may end before.
        thread::spawn(move || {
            let spawned = command.spawn();
            let is_running = spawned.is_ok();
            // Whoever waits has panicked otherwise.
            let _ = started.send(spawned);
            if is_running {
                // Ends with an error, when the sender is dropped.
                let _ = kept.recv();
            }
        });
        let child = starts.recv().map_err(io::Error::other)??;
        Ok(Self {
            child,
            _keeper: keeper,
        })
    }

    /// Asks it to end, as the end of this process would.
    #[cfg(test)]
    pub fn end(self) -> Child {
        self.child
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    #[test]
    fn a_process_outlives_the_thread_that_wanted_it_and_not_its_keeper() {
        let mut command = Command::new("sleep");
        command.arg("100");
        let started = thread::spawn(move || KeptProcess::start(command, Ending::Terminate));
        let mut kept = started.join().expect("a thread").expect("a process");
        thread::sleep(Duration::from_millis(50));
        assert!(kept.child.try_wait().expect("a process").is_none());
        let mut child = kept.end();
        let status = child.wait().expect("an end");
        assert_eq!(status.signal(), Some(15), "{status}");
        let missing = Command::new("/no/such/program");
        assert!(KeptProcess::start(missing, Ending::Kill).is_err());
    }
}
