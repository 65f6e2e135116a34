//! Devices that were opened, each with a protection domain.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::RwLock;

use super::error::RdmaError;
use super::ffi::{Calls, Context, Opaque};
use super::library::calls;
use super::port::Port;
use crate::sys::SysError;

/// Which device is opened.
#[derive(Debug, Clone, Default)]
pub struct DeviceChoice {
    /// The device of this name, such as `mlx5_0` or `rxe0`; any by default.
    pub name: Option<String>,
    /// An address of this host that its peers know: a port that has it comes first.
    pub local: Option<IpAddr>,
}

/// An open device with a protection domain: what is registered in one is out of reach for connections of another.
pub struct Domain {
    calls: &'static Calls,
    context: NonNull<Context>,
    pd: NonNull<Opaque>,
    device: String,
    port: Port,
    /// Near buffers by their first address, with their length and local key. Each is there as long as its memory is.
    near: RwLock<BTreeMap<usize, (usize, u32)>>,
}

// SAFETY: calls of verbs are thread-safe (verbs.h, and the manual page of ibv_open_device), the pointers are never
// changed, and the list is behind a lock.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl fmt::Debug for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Domain")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// The list of devices, which is freed when it is dropped; devices that were opened stay open.
struct Devices {
    calls: &'static Calls,
    list: NonNull<*mut Opaque>,
    count: usize,
}

impl Devices {
    fn list(calls: &'static Calls) -> Result<Self, RdmaError> {
        let mut count = 0;
        // SAFETY: the call writes the number of devices.
        let list = unsafe { (calls.get_device_list)(&raw mut count) };
        let list =
            NonNull::new(list).ok_or_else(|| no_list(SysError::last("ibv_get_device_list")))?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Self { calls, list, count })
    }

    /// Each device and its name.
    fn iter(&self) -> impl Iterator<Item = (*mut Opaque, String)> {
        (0..self.count).map(|index| {
            // SAFETY: the list has so many devices, and their names live as long as it does.
            unsafe {
                let device = *self.list.as_ptr().add(index);
                let name = CStr::from_ptr((self.calls.get_device_name)(device));
                (device, name.to_string_lossy().into_owned())
            }
        })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: the list is the library's and is not used again.
        unsafe { (self.calls.free_device_list)(self.list.as_ptr()) };
    }
}

/// A device that is closed when it is dropped.
struct Opened {
    calls: &'static Calls,
    context: NonNull<Context>,
}

impl Opened {
    /// Opens a device, and finds its best port.
    ///
    /// # Safety
    /// `device` is of a list of devices that is still there.
    unsafe fn with_port(
        calls: &'static Calls,
        device: *mut Opaque,
        name: &str,
        local: Option<IpAddr>,
        sysfs: &Path,
    ) -> Result<Option<(Self, Port)>, SysError> {
        // SAFETY: the caller says so.
        let context = unsafe { (calls.open_device)(device) };
        let context = NonNull::new(context).ok_or_else(|| SysError::last("ibv_open_device"))?;
        let opened = Self { calls, context };
        let folder = sysfs.join("class/infiniband").join(name);
        // SAFETY: the device is open.
        let port = unsafe { Port::best(calls, context, &folder, local)? };
        Ok(port.map(|port| (opened, port)))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it was opened, and nothing was made of it.
        unsafe { (self.calls.close_device)(self.context.as_ptr()) };
    }
}

impl Domain {
    /// Opens the best device: one whose port is active, and has the address that `choice` tells.
    ///
    /// `sysfs` is where the kernel tells of addresses, `/sys`.
    ///
    /// # Errors
    /// [`RdmaError::Unavailable`] where there is no library, no device of this name, or none with an active port;
    /// [`RdmaError::Verb`] where the device refuses, unless another one does not.
    pub fn open(choice: &DeviceChoice, sysfs: &Path) -> Result<Arc<Self>, RdmaError> {
        let calls = calls()?;
        let devices = Devices::list(calls)?;
        let mut best: Option<(Opened, String, Port)> = None;
        let mut names = Vec::new();
        let mut refused = None;
        for (device, name) in devices.iter() {
            names.push(name.clone());
            if choice.name.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            // SAFETY: the device is of the list, which is still there.
            let found = unsafe { Opened::with_port(calls, device, &name, choice.local, sysfs) };
            match found {
                Ok(Some((opened, port))) => {
                    if best.as_ref().is_none_or(|(.., best)| best.rank < port.rank) {
                        best = Some((opened, name, port));
                    }
                }
                Ok(None) => {}
                // Another device may do.
                Err(error) => {
                    tracing::debug!(%error, device = name, "a device is left out");
                    refused.get_or_insert(error);
                }
            }
        }
        let Some((opened, device, port)) = best else {
            return Err(match refused {
                Some(error) => error.into(),
                None => RdmaError::Unavailable {
                    reason: nothing_found(choice, &names),
                },
            });
        };
        // SAFETY: the device is open.
        let pd = unsafe { (calls.alloc_pd)(opened.context.as_ptr()) };
        let pd = NonNull::new(pd).ok_or_else(|| SysError::last("ibv_alloc_pd"))?;
        let context = opened.context;
        // The domain closes it.
        std::mem::forget(opened);
        Ok(Arc::new(Self {
            calls,
            context,
            pd,
            device,
            port,
            near: RwLock::default(),
        }))
    }

    /// The device's name.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn calls(&self) -> &'static Calls {
        self.calls
    }

    pub(super) fn context(&self) -> *mut Context {
        self.context.as_ptr()
    }

    pub(super) fn pd(&self) -> *mut Opaque {
        self.pd.as_ptr()
    }

    pub(super) fn port(&self) -> &Port {
        &self.port
    }

    /// Enters a near buffer, whose memory stays where it is until [`Self::forget_near`].
    pub(super) fn enter_near(&self, address: usize, bytes: usize, key: u32) {
        self.near.write().insert(address, (bytes, key));
    }

    pub(super) fn forget_near(&self, address: usize) {
        self.near.write().remove(&address);
    }

    /// The local key of the near buffer that all of these bytes lie in.
    pub(super) fn near_key(&self, address: usize, bytes: usize) -> Option<u32> {
        let near = self.near.read();
        let (start, (length, key)) = near.range(..=address).next_back()?;
        let offset = address - start;
        let is_within = offset <= *length && bytes <= length - offset;
        is_within.then_some(*key)
    }
}

/// Why there is no list of devices: the library may be there without its part of the kernel.
fn no_list(error: SysError) -> RdmaError {
    if !error.is_unavailable() {
        return error.into();
    }
    let reason = format!("the kernel's modules are not loaded (modprobe ib_uverbs): {error}");
    RdmaError::Unavailable { reason }
}

/// Why there is no port.
fn nothing_found(choice: &DeviceChoice, names: &[String]) -> String {
    match (&choice.name, names) {
        (_, []) => "this machine has no RDMA device (rdma link show)".to_owned(),
        (Some(name), _) if !names.contains(name) => {
            format!("there is no device {name:?}, but {}", names.join(", "))
        }
        _ => format!(
            "no port of {} is active and has an address",
            choice.name.as_ref().unwrap_or(&names.join(", "))
        ),
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: queue pairs and registrations hold the domain, so that none is left.
        unsafe {
            (self.calls.dealloc_pd)(self.pd.as_ptr());
            (self.calls.close_device)(self.context.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let named = |name: &str| DeviceChoice {
            name: Some(name.to_owned()),
            local: None,
        };
        let any = DeviceChoice::default();
        let names = ["rxe0".to_owned(), "rxe1".to_owned()];
        assert!(nothing_found(&any, &[]).contains("no RDMA device"));
        assert_eq!(
            nothing_found(&named("mlx5_0"), &names),
            "there is no device \"mlx5_0\", but rxe0, rxe1"
        );
        assert_eq!(
            nothing_found(&named("rxe0"), &names),
            "no port of rxe0 is active and has an address"
        );
        assert!(nothing_found(&any, &names).contains("rxe0, rxe1"));
    }

    #[test]
    fn a_machine_without_rdma_says_so() {
        // Where there is a device, a name that none has is as good.
        let choice = DeviceChoice {
            name: Some("none".to_owned()),
            local: None,
        };
        let error = Domain::open(&choice, Path::new("/sys")).unwrap_err();
        let is_told = matches!(error, RdmaError::Unavailable { .. });
        assert!(is_told, "{error}");
    }

    #[test]
    fn a_library_without_the_kernel_s_modules_is_no_rdma() {
        let list = |errno| {
            let call = "ibv_get_device_list";
            no_list(SysError { call, errno }).to_string()
        };
        let told = list(libc::ENOSYS);
        assert!(told.starts_with("RDMA is unavailable: the kernel's modules"));
        assert!(list(libc::ENOMEM).starts_with("ibv_get_device_list failed"));
    }
}
