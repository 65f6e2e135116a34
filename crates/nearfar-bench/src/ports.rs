//! Ports for servers that have to be told theirs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that Linux gives to whoever asks for any (`ip_local_port_range`, 32768 and more by default), since
/// another process may ask for some before the server has its own.
const PORTS: Range<u16> = 20_000..32_000;

/// Addresses of this machine that nobody listens on now, and others at each call.
pub fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let first = process::id().wrapping_mul(61);
    let mut listeners = Vec::new();
    for _ in PORTS {
        if listeners.len() == count {
            break;
        }
        let number = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (number % u32::from(PORTS.end - PORTS.start)) as u16;
        // Another one may have it.
        listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    if listeners.len() < count {
        let reason = format!(
            "no {count} ports from {} to {} are free",
            PORTS.start,
            PORTS.end - 1
        );
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    listeners.iter().map(TcpListener::local_addr).collect()
}
