//! Errors of system calls.

use std::io;

/// A system call that failed: which one, and with which `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {}", io::Error::from_raw_os_error(*.errno))]
pub struct SysError {
    /// The call and, where it matters, its mode: `"mbind"`, `"madvise(MADV_POPULATE_WRITE)"`.
    pub call: &'static str,
    /// The error number that the kernel gave.
    pub errno: i32,
}

impl SysError {
    /// The error of the call that this thread just made.
    pub(crate) fn last(call: &'static str) -> Self {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno }
    }

    /// Whether a file system or a quota is used up.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.errno, libc::ENOSPC | libc::EDQUOT)
    }

    /// Whether the kernel, or a sandbox around this process, does not offer the call at all
    /// (as opposed to having refused these arguments).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::ENOSYS | libc::EOPNOTSUPP)
    }
}
