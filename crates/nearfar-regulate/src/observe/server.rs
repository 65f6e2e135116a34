//! What a Nearfar server counts itself, read again and again from its metrics (OpenMetrics 1.0, text format).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::metrics_page::{page, slow_bytes};
use crate::error::RegulateError;

/// Between an answer and the next question, and after none.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A server that is slowed to a fiftieth answers late.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// More than a server of many tiers, tables and nodes tells.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// A Nearfar server of a group, written `GROUP=HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupServer {
    /// The group that it runs in.
    pub group: String,
    /// Host and port of its metrics.
    pub address: String,
}

impl FromStr for GroupServer {
    type Err = RegulateError;

    fn from_str(text: &str) -> Result<Self, RegulateError> {
        let parsed = text.rsplit_once('=').and_then(|(group, address)| {
            let (host, port) = address.rsplit_once(':')?;
            let is_whole = !group.is_empty() && !host.is_empty();
            (is_whole && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| Self {
                group: group.to_owned(),
                address: address.to_owned(),
            })
        });
        parsed.ok_or_else(|| RegulateError::Server {
            server: text.to_owned(),
            problem: "write GROUP=HOST:PORT, such as batch=127.0.0.1:9187",
        })
    }
}

/// What a server has counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub(super) at_ms: f64,
    /// Bytes to and from all tiers that are not near.
    pub(super) slow_bytes: f64,
}

/// Reads the counters of a server on a thread of its own, so that one that answers late keeps nobody waiting. The
/// thread ends when the reader is dropped.
#[derive(Debug)]
pub(super) struct ServerReader {
    readings: Receiver<Result<Reading, String>>,
}

impl ServerReader {
    /// Reads from now on.
    pub(super) fn start(address: &str) -> Self {
        let (sender, readings) = mpsc::channel();
        let address = address.to_owned();
        thread::spawn(move || read_until_dropped(&address, &sender));
        Self { readings }
    }

    /// What was read since the last call, or why nothing was.
    pub(super) fn new_readings(&self) -> Vec<Result<Reading, String>> {
        self.readings.try_iter().collect()
    }
}

fn read_until_dropped(address: &str, readings: &Sender<Result<Reading, String>>) {
    let start = Instant::now();
    // A name is looked up again only after a failure.
    let mut found: Vec<SocketAddr> = Vec::new();
    loop {
        let read = read(address, &mut found);
        let pause = match &read {
            Ok(_) => PAUSE,
            Err(_) => PAUSE_AFTER_FAILURE,
        };
        let reading = read.map(|slow_bytes| Reading {
            at_ms: start.elapsed().as_secs_f64() * 1e3,
            slow_bytes,
        });
        if reading.is_err() {
            found.clear();
        }
        if readings.send(reading).is_err() {
            return;
        }
        thread::sleep(pause);
    }
}

/// What a server has counted until now; why it does not say.
fn read(address: &str, found: &mut Vec<SocketAddr>) -> Result<f64, String> {
    if found.is_empty() {
        let addresses = address.to_socket_addrs();
        found.extend(addresses.map_err(|error| error.to_string())?);
    }
    let answer = ask(address, found).map_err(|error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("no answer within {} s", ANSWER_WITHIN.as_secs())
        }
        _ => error.to_string(),
    })?;
    let answer = String::from_utf8(answer).map_err(|_| "its answer is no text".to_owned())?;
    slow_bytes(page(&answer)?)
}

/// The whole answer of a server. In version 1.0 of HTTP, it comes in one piece and ends with the connection.
fn ask(address: &str, found: &[SocketAddr]) -> io::Result<Vec<u8>> {
    let until = Instant::now() + ANSWER_WITHIN;
    let mut stream = connect(found, until)?;
    stream.set_write_timeout(Some(left(until)?))?;
    let question = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(bytes) => answer.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("its answer does not end"));
        }
    }
}

/// The first of the addresses that takes a connection; each has an equal part of the time that is left.
fn connect(found: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("its name has no address");
    for (index, address) in found.iter().enumerate() {
        let part = left(until)? / (found.len() - index) as u32;
        match TcpStream::connect_timeout(address, part.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_accepts_and_says_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let start = Instant::now();
        let reason = read(&address, &mut Vec::new()).unwrap_err();
        assert_eq!(reason, "no answer within 2 s");
        assert!(start.elapsed() < ANSWER_WITHIN * 3);
    }

    #[test]
    fn answers_without_end_are_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let writer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&[b'a'; 1 << 16]).is_ok() {}
        });
        let reason = read(&address, &mut Vec::new()).unwrap_err();
        assert_eq!(reason, "its answer does not end");
        writer.join().unwrap();
    }

    #[test]
    fn servers_are_written_with_their_group() {
        let of = |text: &str| text.parse::<GroupServer>();
        let server = of("a/b=c=[::1]:9187").unwrap();
        assert_eq!(server.group, "a/b=c");
        assert_eq!(server.address, "[::1]:9187");
        for bad in [
            "",
            "batch",
            "batch=",
            "=h:1",
            "batch=h",
            "batch=:1",
            "batch=h:0",
            "batch=h:x",
        ] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains("write GROUP=HOST:PORT"), "{error}");
        }
    }
}
