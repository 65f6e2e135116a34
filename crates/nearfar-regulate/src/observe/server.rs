//! What a Nearfar server counts itself, read again and again from its metrics (OpenMetrics 1.0, text format).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_topology::NEAR;

use crate::error::RegulateError;

/// Between an answer and the next question, and after none.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A server that is slowed to a fiftieth answers late.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// More than a server of many tiers, tables and nodes tells.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes to and from tiers since the server was started.
const COUNTERS: [&str; 2] = [
    "nearfar_traffic_read_bytes_total",
    "nearfar_traffic_written_bytes_total",
];
/// The last line of a complete page.
const END: &str = "# EOF\n";

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

/// The page that an answer brings.
fn page(answer: &str) -> Result<&str, String> {
    let parts = answer
        .split_once("\r\n\r\n")
        .filter(|_| answer.starts_with("HTTP/1."));
    let (head, page) = parts.ok_or("it answers something else than HTTP")?;
    match head.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(page),
        status => Err(format!(
            "it answers with status {}",
            status.unwrap_or("none")
        )),
    }
}

/// The sum of what was read from and written to tiers that are not near.
fn slow_bytes(page: &str) -> Result<f64, String> {
    if !page.ends_with(END) {
        return Err("what it answers is not a whole page of metrics".to_owned());
    }
    let mut is_there = [false; COUNTERS.len()];
    let mut bytes = 0.0;
    for line in page.lines() {
        for (index, counter) in COUNTERS.iter().enumerate() {
            let Some(rest) = line
                .strip_prefix(counter)
                .filter(|rest| rest.starts_with('{'))
            else {
                continue;
            };
            let (tier, count) = tier_and_count(rest).ok_or_else(|| {
                let line: String = line.chars().take(120).collect();
                format!("{line:?} is no counter of a tier")
            })?;
            is_there[index] = true;
            bytes += if tier == NEAR { 0.0 } else { count };
        }
    }
    match is_there.iter().position(|is_there| !is_there) {
        Some(missing) => Err(format!(
            "it does not tell {}: is it a Nearfar server, and ready?",
            COUNTERS[missing]
        )),
        None => Ok(bytes),
    }
}

/// Tier and value of what follows a counter's name, such as `{tier="far",task="scan"} 4096.0`.
fn tier_and_count(text: &str) -> Option<(&str, f64)> {
    let mut rest = text.strip_prefix('{')?;
    let mut tier = None;
    loop {
        let (label, quoted) = rest.split_once("=\"")?;
        let end = closing_quote(quoted)?;
        if label == "tier" {
            tier = Some(&quoted[..end]);
        }
        rest = &quoted[end + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    let values = rest.strip_prefix('}')?;
    let count: f64 = values.split_ascii_whitespace().next()?.parse().ok()?;
    (count.is_finite() && count >= 0.0).then_some((tier?, count))
}

/// Where a quoted value ends; a backslash keeps what follows it.
fn closing_quote(quoted: &str) -> Option<usize> {
    let mut is_kept = false;
    quoted.bytes().position(|byte| {
        let closes = byte == b'"' && !is_kept;
        is_kept = byte == b'\\' && !is_kept;
        closes
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What a server told that had written and twice read a table on a tier `far`, shortened.
    const PAGE: &str = "\
# HELP nearfar_statements Statements that were begun.
# TYPE nearfar_statements counter
nearfar_statements_total 3
# HELP nearfar_tier_read_bytes Bytes that statements have read of tables on it
# TYPE nearfar_tier_read_bytes counter
nearfar_tier_read_bytes_total{tier=\"near\"} 0
nearfar_tier_read_bytes_total{tier=\"far\"} 24000000
# HELP nearfar_traffic_read_bytes Bytes read from it
# TYPE nearfar_traffic_read_bytes counter
nearfar_traffic_read_bytes_total{tier=\"near\",task=\"scan\"} 4096.0
nearfar_traffic_read_bytes_total{tier=\"far\",task=\"scan\"} 24000000.0
nearfar_traffic_read_bytes_total{tier=\"far\",task=\"point\"} 0.0
# HELP nearfar_traffic_written_bytes Bytes written to it
# TYPE nearfar_traffic_written_bytes counter
nearfar_traffic_written_bytes_total{tier=\"near\",task=\"load\"} 7.0
nearfar_traffic_written_bytes_total{tier=\"far\",task=\"load\"} 12000000.0
# HELP nearfar_traffic_waits How often a turn was waited for since traffic is limited
# TYPE nearfar_traffic_waits counter
nearfar_traffic_waits_total{tier=\"far\",task=\"scan\"} 5.0
# EOF
";

    fn answer(page: &str) -> String {
        let length = page.len();
        format!(
            "HTTP/1.0 200 OK\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
             content-length: {length}\r\n\r\n{page}"
        )
    }

    #[test]
    fn counters_of_tiers_that_are_not_near_are_added() {
        assert_eq!(slow_bytes(PAGE), Ok(36_000_000.0));
        let more = "nearfar_traffic_read_bytes_total{task=\"a\\\"},b\",tier=\"cxl\"} 1.5e3 1700000000\n# EOF\n";
        assert_eq!(slow_bytes(&PAGE.replace(END, more)), Ok(36_001_500.0));
    }

    #[test]
    fn pages_that_are_cut_or_of_others_are_refused_with_the_reason() {
        let of = |page: &str| slow_bytes(page).unwrap_err();
        for length in [0, 100, PAGE.len() - 1] {
            assert!(of(&PAGE[..length]).contains("not a whole page"));
        }
        assert!(of("up 1\n# EOF\n").contains("is it a Nearfar server, and ready?"));
        let reads = PAGE.replace("written", "read");
        assert!(of(&reads).contains("nearfar_traffic_written_bytes_total"));
        for bad in ["24000000.0", "task=\"scan\"} 24000000.0", "tier=\"far\""] {
            for with in ["", "-1", "NaN", "\""] {
                let page = PAGE.replace(bad, with);
                assert!(of(&page).contains("no counter of a tier"), "{page}");
            }
        }
    }

    #[test]
    fn only_whole_answers_have_a_page() {
        assert_eq!(page(&answer(PAGE)), Ok(PAGE));
        let missing = page("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert_eq!(missing, "it answers with status 404");
        for other in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-OpenSSH_9.2\r\n\r\n"] {
            assert!(page(other).unwrap_err().contains("something else"));
        }
    }

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
