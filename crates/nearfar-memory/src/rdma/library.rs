//! Loading libibverbs.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use super::error::RdmaError;
use super::ffi::Calls;
use crate::sys::SysError;

/// The library's name with the version of its interface.
const NAME: &CStr = c"libibverbs.so.1";

/// The library's calls, loaded when they are first asked for.
///
/// # Errors
/// [`RdmaError::Unavailable`] where the library is not installed or lacks a call.
pub(super) fn calls() -> Result<&'static Calls, RdmaError> {
    static CALLS: OnceLock<Result<Calls, String>> = OnceLock::new();
    let calls = CALLS.get_or_init(|| Library::open()?.calls());
    calls.as_ref().map_err(|reason| RdmaError::Unavailable {
        reason: reason.clone(),
    })
}

/// The error of a call that returned this code, an error number; `Ok` for 0.
pub(super) fn checked(call: &'static str, code: c_int) -> Result<(), SysError> {
    match code {
        0 => Ok(()),
        errno => Err(SysError {
            call,
            errno: errno.abs(),
        }),
    }
}

/// The library, which stays loaded.
struct Library(*mut c_void);

impl Library {
    fn open() -> Result<Self, String> {
        if cfg!(miri) {
            return Err("Miri loads no libraries".to_owned());
        }
        // SAFETY: the name is a C string. The library's constructors only set up its own state.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            let why = "install rdma-core (libibverbs1 and ibverbs-providers on Debian)";
            return Err(format!(
                "{} cannot be loaded: {why}",
                NAME.to_string_lossy()
            ));
        }
        Ok(Self(handle))
    }

    /// A call of this name.
    ///
    /// # Safety
    /// `F` is a function pointer of the type that the library declares for `name`.
    unsafe fn call<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is of a library that stays loaded, and the name is a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            let name = name.to_string_lossy();
            return Err(format!("libibverbs has no {name}: it is too old"));
        }
        // SAFETY: an address that is not null, of a function of this type, as the caller says.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }

    fn calls(&self) -> Result<Calls, String> {
        // SAFETY: the fields of `Calls` have the types of verbs.h.
        unsafe {
            Ok(Calls {
                get_device_list: self.call(c"ibv_get_device_list")?,
                free_device_list: self.call(c"ibv_free_device_list")?,
                get_device_name: self.call(c"ibv_get_device_name")?,
                open_device: self.call(c"ibv_open_device")?,
                close_device: self.call(c"ibv_close_device")?,
                query_device: self.call(c"ibv_query_device")?,
                query_port: self.call(c"ibv_query_port")?,
                query_gid: self.call(c"ibv_query_gid")?,
                alloc_pd: self.call(c"ibv_alloc_pd")?,
                dealloc_pd: self.call(c"ibv_dealloc_pd")?,
                reg_mr: self.call(c"ibv_reg_mr")?,
                dereg_mr: self.call(c"ibv_dereg_mr")?,
                create_cq: self.call(c"ibv_create_cq")?,
                destroy_cq: self.call(c"ibv_destroy_cq")?,
                create_qp: self.call(c"ibv_create_qp")?,
                modify_qp: self.call(c"ibv_modify_qp")?,
                destroy_qp: self.call(c"ibv_destroy_qp")?,
                wc_status_str: self.call(c"ibv_wc_status_str")?,
            })
        }
    }
}
