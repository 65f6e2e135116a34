//! Regions that devices read and write.

use std::ffi::c_int;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::domain::Domain;
use super::error::RdmaError;
use super::ffi::{LOCAL_WRITE, MemoryRegion, REMOTE_READ, REMOTE_WRITE};
use super::library::checked;
use crate::region::Region;
use crate::sys::SysError;

/// A region that is registered: its pages stay where they are, and devices reach them.
struct Registered {
    domain: Arc<Domain>,
    registration: NonNull<MemoryRegion>,
    address: usize,
    bytes: usize,
    /// Dropped by `drop` alone, once the device has forgotten it.
    region: ManuallyDrop<Region>,
}

// SAFETY: the registration is changed by nobody, and deregistered by the drop alone; verbs are thread-safe.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    fn new(domain: &Arc<Domain>, mut region: Region, access: c_int) -> Result<Self, RdmaError> {
        let bytes = region.len();
        let start = region.as_mut_slice().as_mut_ptr();
        let calls = domain.calls();
        // SAFETY: all of the region's bytes are mapped, and stay so until `drop` has deregistered them.
        let registration = unsafe { (calls.reg_mr)(domain.pd(), start.cast(), bytes, access) };
        let registration = NonNull::new(registration).ok_or_else(|| RdmaError::Register {
            bytes,
            source: SysError::last("ibv_reg_mr"),
        })?;
        Ok(Self {
            domain: Arc::clone(domain),
            registration,
            address: start.expose_provenance(),
            bytes,
            region: ManuallyDrop::new(region),
        })
    }

    fn keys(&self) -> (u32, u32) {
        // SAFETY: the registration is the library's, which does not change these, until `drop`.
        unsafe {
            let registration = self.registration.as_ptr();
            ((*registration).lkey, (*registration).rkey)
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let calls = self.domain.calls();
        // SAFETY: it was registered, and nobody uses the registration after this.
        let code = unsafe { (calls.dereg_mr)(self.registration.as_ptr()) };
        match checked("ibv_dereg_mr", code) {
            // SAFETY: nobody sees the region after this.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.region) },
            // The device may still write to it: the memory is never given to anybody else.
            Err(error) => tracing::error!(%error, bytes = self.bytes, "memory stays registered"),
        }
    }
}

/// A region whose bytes another host reads and writes. Nobody here sees them: the device writes to them whenever its
/// peer wants.
pub struct OfferedMemory(Registered);

impl OfferedMemory {
    /// Registers a region for peers of the domain's connections. Its content is theirs.
    ///
    /// # Errors
    /// [`RdmaError::Register`].
    pub fn new(domain: &Arc<Domain>, region: Region) -> Result<Self, RdmaError> {
        let access = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;
        Registered::new(domain, region, access).map(Self)
    }

    /// The address of the first byte, for peers.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.address as u64
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The key by which peers reach it.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.0.keys().1
    }
}

impl fmt::Debug for OfferedMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OfferedMemory")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// A region of this host into which devices write what they read elsewhere, without a copy. Peers do not reach it.
///
/// As slices go, it is memory as any other: a device writes to it only within a call that borrows it.
pub struct NearBuffer(Registered);

impl NearBuffer {
    /// Registers a region for the domain's device.
    ///
    /// # Errors
    /// [`RdmaError::Register`].
    pub fn new(domain: &Arc<Domain>, region: Region) -> Result<Self, RdmaError> {
        let registered = Registered::new(domain, region, LOCAL_WRITE)?;
        domain.enter_near(registered.address, registered.bytes, registered.keys().0);
        Ok(Self(registered))
    }
}

impl AsRef<[u8]> for NearBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.region.as_slice()
    }
}

impl AsMut<[u8]> for NearBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.region.as_mut_slice()
    }
}

impl Drop for NearBuffer {
    fn drop(&mut self) {
        self.0.domain.forget_near(self.0.address);
    }
}

impl fmt::Debug for NearBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NearBuffer")
            .field("bytes", &self.0.bytes)
            .finish_non_exhaustive()
    }
}
