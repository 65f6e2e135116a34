//! A host whose memory is a tier.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nearfar_memory::rdma::{DeviceChoice, Domain, NearBuffer, RemoteSpan};
use nearfar_memory::{MemorySystem, Placement, Region, RegionOptions, TierId};

use super::control::Control;
use super::links::Links;
use super::region::RemoteRegion;
use super::state::HostState;
use crate::SYSFS;
use crate::error::RemoteError;
use crate::protocol::{Channel, Message, Side, introduce};
use crate::secret::Secret;

/// Within which a server must take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a client uses a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The RDMA device; by default one with the address that the host is reached from.
    pub device: Option<String>,
    /// The most connections, each of which one thread uses at a time: as many as copiers, and one for others.
    pub links: usize,
    /// How long no part of a transfer may be completed. A server that is gone is noticed sooner.
    pub timeout: Duration,
    /// Whether a thread renews the lease. Without, the caller does ([`RemoteHost::renew`]).
    pub renews: bool,
}

impl Default for HostOptions {
    /// Six connections, five seconds, and a thread that renews the lease.
    fn default() -> Self {
        Self {
            device: None,
            links: 6,
            timeout: Duration::from_secs(5),
            renews: true,
        }
    }
}

/// A host that offers memory, and this client's connections to it. Dropping it, and all regions there, leaves: the
/// server takes the memory back.
pub struct RemoteHost {
    name: String,
    way: Way,
    /// Of the session that holds now.
    inner: Mutex<Arc<Inner>>,
    reconnecting: Mutex<()>,
}

/// How the host is reached.
struct Way {
    system: Arc<MemorySystem>,
    tier: TierId,
    address: SocketAddr,
    secret: Secret,
    options: HostOptions,
}

/// What regions share: one session with the server.
pub(super) struct Inner {
    pub(super) links: Links,
    offered_bytes: u64,
    lease: Duration,
    keeper: Option<JoinHandle<()>>,
}

impl Inner {
    fn connect(way: &Way) -> Result<Self, RemoteError> {
        let Way {
            system,
            tier,
            address,
            secret,
            options,
        } = way;
        let state = Arc::new(HostState::new(address.to_string()));
        // Whatever is not the account of another host is refused before anything is sent.
        drop(
            system
                .take_remote(*tier, 0)
                .map_err(|error| state.refused(error))?,
        );
        // The same goes for a machine without a device; which one it is follows from the connection.
        let mut choice = DeviceChoice {
            name: options.device.clone(),
            local: None,
        };
        let open = |choice: &DeviceChoice| {
            let domain = Domain::open(choice, SYSFS.as_ref());
            domain.map_err(|error| state.refused(error))
        };
        drop(open(&choice)?);
        let unreachable = |source: io::Error| RemoteError::Unreachable {
            host: address.to_string(),
            source,
        };
        let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map_err(unreachable)?;
        let local = stream.local_addr().map_err(unreachable)?.ip();
        let failed = |source| RemoteError::Channel {
            host: address.to_string(),
            source,
        };
        let mut channel = Channel::new(stream, Side::Client).map_err(failed)?;
        let terms = introduce(&mut channel, secret);
        let terms = terms.map_err(|error| RemoteError::of_introduction(state.name(), error))?;
        choice.local = Some(local);
        let domain = open(&choice)?;
        let lease = Duration::from_millis(u64::from(terms.lease_ms));
        let control = Control::new(channel, Arc::clone(&state), lease, options.renews);
        let control = Arc::new(control);
        let keeper = control.keep().map_err(RemoteError::Thread)?;
        let links = Links::new(
            Arc::clone(system),
            domain,
            (state, control),
            options.links.max(1),
            options.timeout,
        );
        Ok(Self {
            links,
            offered_bytes: terms.offered_bytes,
            lease,
            keeper: Some(keeper),
        })
    }
}

impl RemoteHost {
    /// Connects to the server at `address`. What is taken there is counted on `tier` of `system`, which is of kind
    /// `rdma`; near buffers are counted on its near tier.
    ///
    /// # Errors
    /// [`RemoteError`], also where this machine has no RDMA.
    pub fn connect(
        system: &Arc<MemorySystem>,
        tier: TierId,
        address: SocketAddr,
        secret: &Secret,
        options: HostOptions,
    ) -> Result<Self, RemoteError> {
        let way = Way {
            system: Arc::clone(system),
            tier,
            address,
            secret: secret.clone(),
            options,
        };
        Ok(Self {
            name: address.to_string(),
            inner: Mutex::new(Arc::new(Inner::connect(&way)?)),
            way,
            reconnecting: Mutex::new(()),
        })
    }

    /// Connects again if the host is lost, with the address and the secret of before. What was in its memory stays
    /// lost: regions of before keep failing.
    ///
    /// # Errors
    /// As [`Self::connect`]; the host is as lost as it was.
    pub fn reconnect(&self) -> Result<(), RemoteError> {
        let _turn = self
            .reconnecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.lost().is_none() {
            return Ok(());
        }
        let connected = Arc::new(Inner::connect(&self.way)?);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *inner, connected);
        drop(inner);
        // It may be the last to know that session, whose end is waited for.
        drop(before);
        Ok(())
    }

    /// The session that holds now.
    fn inner(&self) -> Arc<Inner> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&inner)
    }

    /// The host's name: its address, as errors have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tier that its memory is counted on.
    pub fn tier(&self) -> TierId {
        self.way.tier
    }

    /// The system that tier is of.
    pub fn system(&self) -> &Arc<MemorySystem> {
        &self.way.system
    }

    /// The name of the RDMA device of this machine that it is reached by.
    pub fn device(&self) -> String {
        self.inner().links.domain.device().to_owned()
    }

    /// Bytes that the host offers to all clients together.
    pub fn offered_bytes(&self) -> u64 {
        self.inner().offered_bytes
    }

    /// Within which the host must hear of this client.
    pub fn lease(&self) -> Duration {
        self.inner().lease
    }

    /// Why the host is lost to this client, if it is: its server is gone, or has ended the lease.
    pub fn lost(&self) -> Option<String> {
        self.inner().links.state.lost()
    }

    /// Renews the lease, for those who told that no thread should.
    ///
    /// # Errors
    /// [`RemoteError::Lost`].
    pub fn renew(&self) -> Result<(), RemoteError> {
        self.inner().links.control.renew()
    }

    /// Takes `bytes` of the host's memory, in whole pages of the host, all of them zero.
    ///
    /// # Errors
    /// [`RemoteError`]: the tier's budget, or what the host has left, does not suffice; the host is lost.
    pub fn allocate(&self, bytes: u64) -> Result<RemoteRegion, RemoteError> {
        let inner = self.inner();
        let Links {
            system,
            state,
            control,
            ..
        } = &inner.links;
        let wanted = bytes.max(1).checked_next_multiple_of(4096).unwrap_or(bytes);
        let charge = system.take_remote(self.way.tier, wanted);
        let charge = charge.map_err(|error| state.refused(error))?;
        let Message::Allocated {
            region,
            address,
            key,
            bytes: given_bytes,
        } = control.ask(&Message::Allocate { bytes })?
        else {
            return Err(control.unexpected());
        };
        // The host's pages may be larger than those that were charged.
        let Some(more) = given_bytes.checked_sub(wanted) else {
            return Err(control.unexpected());
        };
        let span = RemoteSpan { address, key };
        let region = RemoteRegion::new(Arc::clone(&inner), region, span, bytes, charge);
        let charge = system.take_remote(self.way.tier, more);
        // Where there is no room for them, the region is given back.
        Ok(region.charged_too(charge.map_err(|error| state.refused(error))?))
    }

    /// A near buffer that this host's bytes are read into, and written from, without a copy. It is counted on the near
    /// tier.
    ///
    /// # Errors
    /// [`RemoteError::Region`] where the near tier has no room, [`RemoteError::Rdma`] where the device refuses it.
    pub fn near_buffer(&self, bytes: usize) -> Result<NearBuffer, RemoteError> {
        let inner = self.inner();
        let Links {
            system,
            state,
            domain,
            ..
        } = &inner.links;
        let near = Placement::Bind(TierId::NEAR);
        let region = Region::allocate(system, bytes, &near, RegionOptions::default())?;
        NearBuffer::new(domain, region).map_err(|error| state.refused(error))
    }
}

impl std::fmt::Debug for RemoteHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteHost")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.links.control.end();
        if let Some(keeper) = self.keeper.take() {
            // It tells nobody anything any more.
            let _ = keeper.join();
        }
    }
}
