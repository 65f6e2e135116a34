//! What a file system has left (statvfs(3)).

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::SysError;

/// Bytes that an unprivileged process may still take of the file system that `path` lies on.
///
/// # Errors
/// `ENOENT` when there is no such path; `EINVAL` for one with a zero byte.
pub fn free_bytes(path: &Path) -> Result<u64, SysError> {
    let call = "statvfs";
    let text = CString::new(path.as_os_str().as_bytes());
    let errno = libc::EINVAL;
    let text = text.map_err(|_| SysError { call, errno })?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the call writes at most one such structure.
    if unsafe { libc::statvfs(text.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(SysError::last(call));
    }
    // SAFETY: the call succeeded, so it has written the structure.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

// Not under Miri, which has no such call.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_room_and_a_missing_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        let error = free_bytes(&folder.path().join("missing")).unwrap_err();
        assert_eq!((error.call, error.errno), ("statvfs", libc::ENOENT));
    }
}
