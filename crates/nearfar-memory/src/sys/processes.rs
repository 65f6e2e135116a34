//! Processes that this one starts: where their pages come from (set_mempolicy(2)), and how they end
//! (kill(2), prctl(2)).

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Policy, SysError};

/// How a process is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As Ctrl-C asks.
    Interrupt,
    /// As a system that shuts down asks.
    Terminate,
    /// Without being asked.
    Kill,
}

impl Ending {
    fn signal(self) -> i32 {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Kill => libc::SIGKILL,
        }
    }
}

/// Sets where pages of the calling thread come from.
///
/// Before: nothing. After: pages that the thread touches first come from where `policy` says, also
/// those of threads and processes that it starts later, which keep the policy over execve(2).
///
/// # Errors
/// `EINVAL` when a node does not exist or the kernel does not know the policy, `EPERM` or `ENOSYS`
/// where a sandbox forbids the call.
#[cfg(not(miri))]
pub fn place_thread(policy: &Policy) -> Result<(), SysError> {
    let (mode, nodes, bits) = policy.arguments();
    // SAFETY: `nodes` points to at least `bits - 1` bits that live as long as `policy`; the call only
    // reads them.
    let code = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes, bits) };
    if code == 0 {
        Ok(())
    } else {
        Err(SysError::last("set_mempolicy"))
    }
}

/// Accepted and forgotten.
///
/// # Errors
/// None.
#[cfg(miri)]
pub fn place_thread(_policy: &Policy) -> Result<(), SysError> {
    Ok(())
}

/// Asks all processes of a group to end.
///
/// Before: `group` is one that this process has made, so that nobody else's process is in it.
///
/// # Errors
/// `ESRCH` when no process of the group is left.
pub fn end_group(group: u32, ending: Ending) -> Result<(), SysError> {
    let Some(group) = i32::try_from(group).ok().filter(|group| *group > 1) else {
        let (call, errno) = ("kill", libc::ESRCH);
        return Err(SysError { call, errno });
    };
    // SAFETY: the call takes no memory; the number is negative and not -1, so it names one group.
    match unsafe { libc::kill(-group, ending.signal()) } {
        0 => Ok(()),
        _ => Err(SysError::last("kill")),
    }
}

/// Has the process that `command` starts end in this way when the thread that starts it ends, also where that
/// is killed itself. Processes that it starts in turn do not.
pub fn end_with_thread(command: &mut Command, ending: Ending) {
    let signal = ending.signal();
    let set = move || {
        // SAFETY: the call takes no memory.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec, only a system call is made, which is safe for signals.
    unsafe { command.pre_exec(set) };
}

// Not under Miri, which starts no processes.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_group_ends_as_asked_and_no_other() {
        let mut command = Command::new("sleep");
        let mut child = command.arg("100").process_group(0).spawn().unwrap();
        end_group(child.id(), Ending::Terminate).unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "a signal ended it");
        for nobody in [0, 1, u32::MAX] {
            assert_eq!(
                end_group(nobody, Ending::Kill).unwrap_err().errno,
                libc::ESRCH
            );
        }
    }

    #[test]
    fn a_process_ends_with_the_thread_that_started_it() {
        // Not by an interrupt, which what a shell runs in the background ignores.
        for ending in [Ending::Terminate, Ending::Kill] {
            let starter = std::thread::spawn(move || {
                let mut command = Command::new("sleep");
                end_with_thread(command.arg("100"), ending);
                command.spawn().unwrap()
            });
            let mut child = starter.join().unwrap();
            let began = Instant::now();
            assert_eq!(child.wait().unwrap().signal(), Some(ending.signal()));
            assert!(began.elapsed() < Duration::from_secs(50));
        }
    }

    #[test]
    fn a_placed_thread_is_placed_alone() {
        let policy = || {
            let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").ok()?;
            Some(maps.lines().any(|line| line.contains(" bind:")))
        };
        let nodes = [0].into_iter().collect();
        let placed = std::thread::spawn(move || match place_thread(&Policy::Bind(nodes)) {
            Err(error) if error.is_unavailable() => None,
            other => {
                other.unwrap();
                policy()
            }
        });
        if let Some(is_bound) = placed.join().unwrap() {
            assert!(is_bound);
            assert_eq!(policy(), Some(false), "other threads are not placed");
        }
        let nowhere = [1000].into_iter().collect();
        assert!(place_thread(&Policy::Bind(nowhere)).is_err());
    }
}
