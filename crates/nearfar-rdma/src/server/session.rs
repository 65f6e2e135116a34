//! One client of a server.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_memory::rdma::{DeviceChoice, Domain, Endpoint, OfferedMemory, ServedLink};
use nearfar_memory::{Region, RegionOptions};

use super::Shared;
use super::book::{Door, Share};
use super::links::Links;
use crate::SYSFS;
use crate::protocol::{Answer, Channel, ChannelError, End, Message, Refusal, Side, Terms, answer};

/// How often a session that hears nothing looks whether it is to end.
const TURN: Duration = Duration::from_millis(100);
/// The least that is given; some of the server's tiers have larger pages.
const PAGE_BYTES: u64 = 4096;

/// The most regions of a client.
const REGIONS_MAX: usize = 1024;
/// The most connections of a client.
const LINKS_MAX: usize = 64;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// It has not proven that it knows the secret.
    Stranger,
    /// There was no place for it.
    Full,
    /// The client said so, or closed its connection.
    Gone,
    /// The server ended it.
    Ended(End),
}

/// Serves a client until it leaves, does not renew its lease, or the server stops. Then its connections end, and only
/// after that its memory is given back.
pub(super) fn serve_client(
    shared: &Shared,
    stream: TcpStream,
    door: Door,
) -> Result<Left, ChannelError> {
    stream.set_nonblocking(false)?;
    let local = stream.local_addr()?.ip();
    let mut channel = Channel::new(stream, Side::Server)?;
    let terms = Terms {
        lease_ms: shared.options.lease.as_millis() as u32,
        offered_bytes: shared.options.offered_bytes,
    };
    let is_stopping = || shared.is_stopping();
    let seat = || shared.book.seat();
    let answered = answer(&mut channel, &shared.secret, terms, &is_stopping, seat);
    let _seat = match answered {
        Ok(Answer::Welcomed(seat)) => seat,
        Ok(Answer::Refused | Answer::Stopping) => return Ok(Left::Stranger),
        Ok(Answer::Full) => return Ok(Left::Full),
        Err(error) => {
            tracing::debug!(%error, "a stranger is not understood");
            return Ok(Left::Stranger);
        }
    };
    drop(door);
    let mut holdings = Holdings {
        shared,
        choice: DeviceChoice {
            name: shared.options.device.clone(),
            local: Some(local),
        },
        links: Links::new(),
        regions: BTreeMap::new(),
        domain: None,
        next: 1,
    };
    let end = converse(shared, &mut channel, &mut holdings)?;
    // What the client could still reach is gone before it is told.
    drop(holdings);
    if let Left::Ended(end) = end {
        channel.send(&Message::Ended(end))?;
    }
    Ok(end)
}

fn converse(
    shared: &Shared,
    channel: &mut Channel,
    holdings: &mut Holdings<'_>,
) -> Result<Left, ChannelError> {
    let mut heard = Instant::now();
    loop {
        if shared.is_stopping() {
            return Ok(Left::Ended(End::Stopping));
        }
        let left = shared.options.lease.saturating_sub(heard.elapsed());
        if left.is_zero() {
            return Ok(Left::Ended(End::LeaseExpired));
        }
        let message = match channel.receive(TURN.min(left)) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(ChannelError::Closed | ChannelError::Broken(_)) => return Ok(Left::Gone),
            Err(error) => {
                tracing::warn!(%error, "a client is not understood");
                return Ok(Left::Ended(End::Misunderstood));
            }
        };
        let reply = match message {
            Message::Renew => Message::Renewed,
            Message::Allocate { bytes } => holdings.allocate(bytes),
            Message::Free { region } => holdings.free(region),
            Message::Connect { endpoint } => holdings.connect(&endpoint),
            Message::Disconnect { queue } => holdings.links.disconnect(queue),
            Message::Bye => return Ok(Left::Gone),
            _ => return Ok(Left::Ended(End::Misunderstood)),
        };
        // What was asked for may have taken longer than the lease.
        heard = Instant::now();
        channel.send(&reply)?;
    }
}

/// What a client has. Connections come first, so that they end before memory is given back.
struct Holdings<'a> {
    shared: &'a Shared,
    choice: DeviceChoice,
    links: Links<ServedLink>,
    regions: BTreeMap<u64, (OfferedMemory, Share)>,
    /// Of this client alone: no other's connections reach what is registered in it.
    domain: Option<Arc<Domain>>,
    next: u64,
}

impl Holdings<'_> {
    fn domain(&mut self) -> Result<Arc<Domain>, Refusal> {
        if let Some(domain) = &self.domain {
            return Ok(Arc::clone(domain));
        }
        let domain = Domain::open(&self.choice, SYSFS.as_ref());
        let domain = domain.map_err(|error| unavailable(&error))?;
        Ok(Arc::clone(self.domain.insert(domain)))
    }

    fn allocate(&mut self, bytes: u64) -> Message {
        self.try_allocate(bytes).unwrap_or_else(Message::Refused)
    }

    fn try_allocate(&mut self, bytes: u64) -> Result<Message, Refusal> {
        if self.regions.len() >= REGIONS_MAX {
            let max = REGIONS_MAX as u64;
            return Err(Refusal::TooManyRegions { max });
        }
        let too_large = |available_bytes| Refusal::TooLarge {
            requested_bytes: bytes,
            available_bytes,
        };
        let whole = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let whole = whole.unwrap_or(u64::MAX);
        let mut share = self.shared.book.take(whole).map_err(too_large)?;
        let length = usize::try_from(whole).map_err(|_| too_large(0))?;
        let domain = self.domain()?;
        let (system, placement) = (&self.shared.system, &self.shared.options.placement);
        let region = Region::allocate(system, length, placement, RegionOptions::default());
        let region = region.map_err(|error| unavailable(&error))?;
        let mapped_bytes = region.mapped_bytes() as u64;
        share.grow_to(mapped_bytes).map_err(too_large)?;
        let memory = OfferedMemory::new(&domain, region).map_err(|error| unavailable(&error))?;
        let region = self.next;
        self.next += 1;
        let allocated = Message::Allocated {
            region,
            address: memory.address(),
            key: memory.key(),
            bytes: mapped_bytes,
        };
        self.regions.insert(region, (memory, share));
        Ok(allocated)
    }

    fn free(&mut self, region: u64) -> Message {
        match self.regions.remove(&region) {
            Some(_) => Message::Freed { region },
            None => Message::Refused(Refusal::UnknownRegion { region }),
        }
    }

    fn connect(&mut self, peer: &Endpoint) -> Message {
        let domain = match self.domain() {
            Ok(domain) => domain,
            Err(refusal) => return Message::Refused(refusal),
        };
        self.links.connect(LINKS_MAX, || {
            let link = ServedLink::connect(&domain, peer);
            let link = link.map_err(|error| unavailable(&error))?;
            Ok((link.endpoint(), link))
        })
    }
}

/// The client is not told more of this host than that; who runs the server is.
fn unavailable(error: &dyn std::error::Error) -> Refusal {
    tracing::warn!(%error, "a client does not get what it asked for");
    Refusal::Unavailable
}
