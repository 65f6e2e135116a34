//! Statuses and messages, and the border that no panic crosses.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// A pointer is null that must not be.
    NullPointer = 1,
    /// A handle that there is not: freed before, of another kind, or 0.
    BadHandle = 2,
    /// An argument that makes no sense; a text that is not UTF-8.
    Argument = 3,
    /// A tier, profile or placement that there is not.
    Name = 4,
    /// Memory was refused: a budget, a full node.
    Memory = 5,
    /// Pages are not where they should be.
    Misplaced = 6,
    /// Something that this machine has not.
    Unavailable = 7,
    /// A key that is not there.
    NotFound = 8,
    /// A bug: a panic, which was stopped here.
    Panicked = 9,
    /// The caller has ended it.
    Stopped = 10,
}

/// A status with its message.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    /// A failure that says `message`.
    pub fn new(status: Status, message: impl ToString) -> Self {
        Self {
            status,
            message: message.to_string(),
        }
    }

    /// One that has this status, whatever the error says.
    pub fn of<E: ToString>(status: Status) -> impl Fn(E) -> Self {
        move |error| Self::new(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs what a function does, and keeps why it has failed.
pub fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    // What was half done is not used after a panic: handles of objects are given out at the end.
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        let message = format!("internal error: {}", text.unwrap_or("a panic"));
        Err(Failure::new(Status::Panicked, message))
    });
    match done {
        Ok(()) => Status::Ok,
        Err(Failure { status, message }) => {
            let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
            LAST.with(|last| *last.borrow_mut() = message);
            status
        }
    }
}

/// A pointer for a result.
///
/// # Safety
/// It is null, or points to a `T` that nobody else uses meanwhile.
pub unsafe fn result<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller says so.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// A text of the caller's.
///
/// # Safety
/// It is null, or points to a text that ends with a zero byte and is not changed meanwhile.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(pointer) };
    let not_utf8 = |_| Failure::new(Status::Argument, format!("{name} is not UTF-8"));
    text.to_str().map_err(not_utf8)
}

/// A text of the caller's, or none where it is null.
///
/// # Safety
/// It is null, or points to a text that ends with a zero byte and is not changed meanwhile.
pub unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Failure> {
    match pointer.is_null() {
        true => Ok(None),
        // SAFETY: the caller says so.
        false => unsafe { text(pointer, name) }.map(Some),
    }
}

/// An array of the caller's, which may be null if it is empty.
///
/// # Safety
/// It is null, or points to `count` values that are not changed meanwhile.
pub unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(name)),
        // SAFETY: the caller says so.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// An array for results, which may be null if it is empty.
///
/// # Safety
/// It is null, or points to `count` values that nobody else uses meanwhile.
pub unsafe fn results<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Failure> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(name)),
        // SAFETY: the caller says so.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) }),
    }
}

fn null(name: &str) -> Failure {
    Failure::new(Status::NullPointer, format!("{name} is null"))
}

/// The message of the last failure of this thread; empty where there was none. It is valid until the next
/// failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// The name of a status, such as `bad handle`.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_status_name(status: u32) -> *const c_char {
    let name = match status {
        0 => c"ok",
        1 => c"null pointer",
        2 => c"bad handle",
        3 => c"argument",
        4 => c"name",
        5 => c"memory",
        6 => c"misplaced",
        7 => c"unavailable",
        8 => c"not found",
        9 => c"panicked",
        10 => c"stopped",
        _ => c"unknown status",
    };
    name.as_ptr()
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> String {
        LAST.with(|last| last.borrow().to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_message() {
        let status = guarded(|| panic!("the tree has {} roots", 2));
        assert_eq!(status, Status::Panicked);
        assert_eq!(told(), "internal error: the tree has 2 roots");
        assert_eq!(guarded(|| panic!("with\0zero")), Status::Panicked);
        assert_eq!(told(), "internal error: with zero");
        let status = guarded(|| std::panic::panic_any(7_u8));
        assert_eq!(
            (status, told().as_str()),
            (Status::Panicked, "internal error: a panic")
        );
        // The thread goes on.
        assert_eq!(guarded(|| Ok(())), Status::Ok);
    }
}
