//! Connections, and the transfers over them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::domain::Domain;
use super::error::RdmaError;
use super::memory::NearBuffer;
use super::port::Endpoint;
use super::queue_pair::{Direction, QueuePair, REQUESTS_MAX, Request};
use crate::region::Region;

/// Bytes of a request: several are under way in a long transfer.
const REQUEST_BYTES: usize = 256 << 10;
/// How often a thread looks for completions before it gives the processor to others.
const SPINS: u32 = 2000;
/// How often it does that before it sleeps.
const YIELDS: u32 = 200;
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(100);

/// Bytes of a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSpan {
    /// The address of the first, in the peer's address space.
    pub address: u64,
    /// The key that the peer has told.
    pub key: u32,
}

/// When a transfer is given up.
pub struct TransferLimits<'a> {
    /// How long no request may be completed.
    pub timeout: Duration,
    /// Why the peer is known to be gone, if it is.
    pub is_lost: &'a dyn Fn() -> Option<String>,
}

/// This host's end of a connection, over which one thread at a time reads and writes the peer's memory.
///
/// A failed transfer ends it: what the device was told is undone by destroying the queue pair before the call returns,
/// so that the caller's bytes are its own again.
#[derive(Debug)]
pub struct Link {
    pair: Option<QueuePair>,
    /// For bytes that are in no near buffer; declared after the queue pair, so that it is dropped later.
    staging: NearBuffer,
    domain: Arc<Domain>,
}

/// Requests that the device may be working on. Dropping it with some left, also in a panic, destroys the queue pair.
struct UnderWay<'a> {
    pair: &'a mut Option<QueuePair>,
    requests: usize,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.requests > 0 {
            *self.pair = None;
        }
    }
}

impl Link {
    /// An end whose peer is not known yet, and what the peer has to know. Bytes outside of near buffers go through
    /// `staging`.
    ///
    /// # Errors
    /// [`RdmaError`] where the device has no room; [`RdmaError::EmptyStaging`].
    pub fn new(domain: &Arc<Domain>, staging: Region) -> Result<(Self, Endpoint), RdmaError> {
        if staging.is_empty() {
            return Err(RdmaError::EmptyStaging);
        }
        let pair = QueuePair::new(domain, false)?;
        let endpoint = pair.endpoint();
        let link = Self {
            pair: Some(pair),
            staging: NearBuffer::new(domain, staging)?,
            domain: Arc::clone(domain),
        };
        Ok((link, endpoint))
    }

    /// Connects to the peer's end.
    ///
    /// # Errors
    /// [`RdmaError`], and the connection has ended.
    pub fn connect(&mut self, peer: &Endpoint) -> Result<(), RdmaError> {
        let mut pair = self.pair.take().ok_or_else(ended)?;
        pair.connect(peer)?;
        self.pair = Some(pair);
        Ok(())
    }

    /// Whether transfers can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.pair.is_some()
    }

    /// Reads the peer's bytes into all of `to`: directly where that is in a near buffer, else by way of the staging
    /// buffer.
    ///
    /// # Errors
    /// [`RdmaError`], and the connection has ended; what is in `to` means nothing.
    pub fn read(
        &mut self,
        from: RemoteSpan,
        to: &mut [u8],
        limits: &TransferLimits<'_>,
    ) -> Result<(), RdmaError> {
        let (address, bytes) = (to.as_mut_ptr().expose_provenance(), to.len());
        if let Some(key) = self.domain.near_key(address, bytes) {
            let pair = &mut self.pair;
            // SAFETY: `to` is in a near buffer of this domain, which its owner cannot drop or use while the slice is
            // borrowed, as it is until this call returns.
            return unsafe { transfer(pair, Direction::Read, (address, key), from, bytes, limits) };
        }
        let step = self.staging.as_ref().len();
        for (index, to) in to.chunks_mut(step).enumerate() {
            let from = from.behind(index * step);
            self.transfer_staged(Direction::Read, from, to.len(), limits)?;
            to.copy_from_slice(&self.staging.as_ref()[..to.len()]);
        }
        Ok(())
    }

    /// Writes all of `from` to the peer's bytes: directly where that is in a near buffer, else by way of the staging
    /// buffer. The peer's memory has them when the call returns.
    ///
    /// # Errors
    /// [`RdmaError`], and the connection has ended; any of the bytes may have been written.
    pub fn write(
        &mut self,
        to: RemoteSpan,
        from: &[u8],
        limits: &TransferLimits<'_>,
    ) -> Result<(), RdmaError> {
        let (address, bytes) = (from.as_ptr().expose_provenance(), from.len());
        if let Some(key) = self.domain.near_key(address, bytes) {
            let pair = &mut self.pair;
            // SAFETY: as in `read`; the device only reads the bytes, which nobody changes while they are borrowed.
            return unsafe { transfer(pair, Direction::Write, (address, key), to, bytes, limits) };
        }
        let step = self.staging.as_ref().len();
        for (index, from) in from.chunks(step).enumerate() {
            self.staging.as_mut()[..from.len()].copy_from_slice(from);
            let to = to.behind(index * step);
            self.transfer_staged(Direction::Write, to, from.len(), limits)?;
        }
        Ok(())
    }

    /// Moves so many bytes between the begin of the staging buffer and the peer.
    fn transfer_staged(
        &mut self,
        direction: Direction,
        remote: RemoteSpan,
        bytes: usize,
        limits: &TransferLimits<'_>,
    ) -> Result<(), RdmaError> {
        let staged = &mut self.staging.as_mut()[..bytes];
        let address = staged.as_mut_ptr().expose_provenance();
        let key = self.domain.near_key(address, bytes).ok_or_else(ended)?;
        let (pair, local) = (&mut self.pair, (address, key));
        // SAFETY: the staging buffer is this link's, which is borrowed until the call returns.
        unsafe { transfer(pair, direction, local, remote, bytes, limits) }
    }
}

impl RemoteSpan {
    /// The bytes that lie so many bytes behind these.
    #[must_use]
    pub fn behind(self, bytes: usize) -> Self {
        let address = self.address.wrapping_add(bytes as u64);
        Self { address, ..self }
    }
}

fn ended() -> RdmaError {
    RdmaError::Ended {
        reason: "a transfer over it has failed".to_owned(),
    }
}

/// Moves `bytes` bytes, several requests at a time, and waits for all of them.
///
/// # Safety
/// The local bytes are registered in the domain of `pair` under their key, and nobody else accesses them, or for a
/// write, changes them, until the call returns.
unsafe fn transfer(
    pair: &mut Option<QueuePair>,
    direction: Direction,
    (local_address, local_key): (usize, u32),
    remote: RemoteSpan,
    bytes: usize,
    limits: &TransferLimits<'_>,
) -> Result<(), RdmaError> {
    let mut under_way = UnderWay { pair, requests: 0 };
    let mut posted = 0;
    let mut last = Instant::now();
    let mut turns = 0;
    while posted < bytes || under_way.requests > 0 {
        while posted < bytes && under_way.requests < REQUESTS_MAX {
            let length = REQUEST_BYTES.min(bytes - posted);
            let request = Request {
                direction,
                local_address: (local_address + posted) as u64,
                local_key,
                remote_address: remote.behind(posted).address,
                remote_key: remote.key,
                bytes: length as u32,
            };
            // Before the call: one that fails leaves it open what the device has taken.
            under_way.requests += 1;
            let pair = under_way.pair.as_mut().ok_or_else(ended)?;
            // SAFETY: the caller says so of the bytes; `under_way` waits for the completions or drops the queue pair.
            unsafe { pair.post(&request)? };
            posted += length;
        }
        let pair = under_way.pair.as_mut().ok_or_else(ended)?;
        let completed = pair.poll()?;
        if completed > 0 {
            under_way.requests -= completed.min(under_way.requests);
            (last, turns) = (Instant::now(), 0);
            continue;
        }
        if let Some(reason) = (limits.is_lost)() {
            return Err(RdmaError::Ended { reason });
        }
        if last.elapsed() > limits.timeout {
            let timeout = limits.timeout;
            return Err(RdmaError::TimedOut { timeout });
        }
        wait(turns);
        turns += 1;
    }
    Ok(())
}

/// Waits a little, longer the more often there was nothing.
fn wait(turns: u32) {
    match turns {
        0..SPINS => std::hint::spin_loop(),
        _ if turns < SPINS + YIELDS => std::thread::yield_now(),
        _ => std::thread::sleep(NAP),
    }
}

/// The end of a connection over which a peer reads and writes memory that is offered in its domain. Nothing has to be
/// done for it: the device answers. Dropping it ends the connection.
#[derive(Debug)]
pub struct ServedLink(QueuePair);

impl ServedLink {
    /// Connects to the end that a peer has made.
    ///
    /// # Errors
    /// [`RdmaError`] where the device has no room or the peer's address is out of reach.
    pub fn connect(domain: &Arc<Domain>, peer: &Endpoint) -> Result<Self, RdmaError> {
        let mut pair = QueuePair::new(domain, true)?;
        pair.connect(peer)?;
        Ok(Self(pair))
    }

    /// What the peer has to know.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.0.endpoint()
    }
}
