//! Ports of devices, and the addresses by which queue pairs find each other.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::ptr::NonNull;

use super::ffi::{Calls, Context, DeviceAttributes, ETHERNET, Gid, PORT_ACTIVE, PortAttributes};
use super::library::checked;
use crate::sys::SysError;

/// The most reads of a queue pair that are under way.
const READS_MAX: i32 = 16;
/// The most entries of a table of addresses that are looked at.
const ADDRESSES_MAX: i32 = 256;

/// One end of a connection, as the other needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the port: for RoCE, an IPv6 address or an IPv4 address that is mapped into one.
    pub gid: [u8; 16],
    /// The port's identifier in an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// The number of the queue pair, 24 bits.
    pub queue: u32,
    /// The number of its first packet, 24 bits.
    pub first_packet: u32,
    /// The longest packet of the port, as verbs number them: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// Reads that it answers concurrently.
    pub reads: u8,
}

impl Endpoint {
    /// Whether another host may have said this: the numbers are within their bits.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let bits = |number: u32| number < 1 << 24;
        bits(self.queue)
            && bits(self.first_packet)
            && (1..=5).contains(&self.mtu)
            && (1..=READS_MAX as u8).contains(&self.reads)
    }
}

/// A port of an open device that connections go through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port {
    pub(super) number: u8,
    pub(super) lid: u16,
    pub(super) mtu: u8,
    pub(super) reads: u8,
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u8,
    /// Better ports have more.
    pub(super) rank: u8,
}

impl Port {
    /// The best port of an open device: one that is active, with the address `local` if there is one.
    ///
    /// # Safety
    /// `context` is of an open device.
    pub(super) unsafe fn best(
        calls: &Calls,
        context: NonNull<Context>,
        folder: &Path,
        local: Option<IpAddr>,
    ) -> Result<Option<Self>, SysError> {
        let mut device = DeviceAttributes::default();
        // SAFETY: the device is open, and the structure is as large as the library's.
        let code = unsafe { (calls.query_device)(context.as_ptr(), &raw mut device) };
        checked("ibv_query_device", code)?;
        let reads = device.max_qp_rd_atom.min(device.max_qp_init_rd_atom);
        let reads = reads.clamp(1, READS_MAX) as u8;
        let mut best: Option<Self> = None;
        for number in 1..=device.phys_port_cnt {
            let mut port = PortAttributes::default();
            // SAFETY: as above.
            let code = unsafe { (calls.query_port)(context.as_ptr(), number, &raw mut port) };
            checked("ibv_query_port", code)?;
            if port.state != PORT_ACTIVE {
                continue;
            }
            let folder = folder.join(format!("ports/{number}/gid_attrs/types"));
            for index in 0..port.gid_tbl_len.min(ADDRESSES_MAX) {
                let mut gid = Gid::default();
                // SAFETY: as above.
                let code =
                    unsafe { (calls.query_gid)(context.as_ptr(), number, index, &raw mut gid) };
                if code != 0 || gid.0 == [0; 16] {
                    continue;
                }
                let kind = fs::read_to_string(folder.join(index.to_string())).unwrap_or_default();
                let found = Self {
                    number,
                    lid: port.lid,
                    mtu: port.active_mtu.clamp(1, 5) as u8,
                    reads,
                    gid: gid.0,
                    gid_index: index as u8,
                    rank: rank(gid.0, &kind, local, port.link_layer == ETHERNET),
                };
                if best.is_none_or(|best| best.rank < found.rank) {
                    best = Some(found);
                }
            }
        }
        Ok(best)
    }
}

/// How well an address suits: the one that the host is known by comes first, then RoCE's second version, whose
/// packets are routed, then mapped IPv4 addresses.
fn rank(gid: [u8; 16], kind: &str, local: Option<IpAddr>, is_ethernet: bool) -> u8 {
    let address = Ipv6Addr::from(gid);
    let mapped = address.to_ipv4_mapped();
    let is_local = local.is_some_and(|local| match local {
        IpAddr::V4(local) => mapped == Some(local),
        IpAddr::V6(local) => address == local,
    });
    let is_second_version = is_ethernet && kind.trim() == "RoCE v2";
    8 * u8::from(is_local) + 4 * u8::from(is_second_version) + 2 * u8::from(mapped.is_some()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_the_host_is_known_by_come_first() {
        let gid = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let local = Some("10.0.0.1".parse().unwrap());
        let ranked = |text: &str, kind: &str| rank(gid(text), kind, local, true);
        let (v1, v2) = ("IB/RoCE v1\n", "RoCE v2\n");
        let ranks = [
            ranked("fe80::1", v1),
            ranked("10.0.0.9", v1),
            ranked("fe80::1", v2),
            ranked("10.0.0.9", v2),
            ranked("10.0.0.1", v1),
            ranked("10.0.0.1", v2),
        ];
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn endpoints_of_other_hosts_keep_to_their_bits() {
        let sound = Endpoint {
            gid: [1; 16],
            lid: 0,
            queue: 17,
            first_packet: 0xFF_FFFF,
            mtu: 3,
            reads: 16,
        };
        assert!(sound.is_sound());
        for wrong in [
            Endpoint {
                queue: 1 << 24,
                ..sound
            },
            Endpoint {
                first_packet: u32::MAX,
                ..sound
            },
            Endpoint { mtu: 0, ..sound },
            Endpoint { mtu: 6, ..sound },
            Endpoint { reads: 0, ..sound },
            Endpoint { reads: 17, ..sound },
        ] {
            assert!(!wrong.is_sound(), "{wrong:?}");
        }
    }
}
