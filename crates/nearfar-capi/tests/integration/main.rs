//! The header beside the crate, what the functions refuse, and figures.
#![allow(unsafe_code, reason = "the functions of C are called as C calls them")]

use std::ffi::CStr;

mod bad_input;
mod header;
mod measure;
mod model;

/// What the last failure of this thread has told.
fn told() -> String {
    // SAFETY: the library says that it is a text.
    let text = unsafe { CStr::from_ptr(nearfar_capi::nearfar_last_error()) };
    text.to_string_lossy().into_owned()
}
