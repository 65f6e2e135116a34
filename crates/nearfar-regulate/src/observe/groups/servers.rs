//! Groups that are Nearfar servers, by what these count themselves (`nearfar_traffic_…` of their metrics).

use std::thread;
use std::time::{Duration, Instant};

use super::super::perf::FIRST;
use super::super::server::{GroupServer, Reading, ServerReader};
use super::{BYTES_PER_S, GroupObserver, GroupsSeen, LEAST_BYTES_PER_S, Sureness};
use crate::error::RegulateError;

/// Between two looks at what was read.
const GLANCE: Duration = Duration::from_millis(5);

/// Bytes that servers move to and from tiers that are not near, beside what another observer sees of the other groups,
/// and of these where a server does not tell.
pub struct ServerCounters<'a> {
    groups: usize,
    servers: Vec<Server>,
    beside: Option<Box<dyn GroupObserver + 'a>>,
    /// What people were not told yet.
    notes: Vec<String>,
}

struct Server {
    /// Position of its group.
    index: usize,
    named: GroupServer,
    reader: ServerReader,
    last: Option<Reading>,
    state: State,
}

/// What is known of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Nothing yet: a rate takes two readings.
    Unknown,
    /// Bytes per second.
    Known(f64),
    /// It does not tell, and why was told.
    Lost,
}

impl<'a> ServerCounters<'a> {
    /// Those of servers of these groups, of which the first rates are waited for, unless they take long: while
    /// nothing is known of one, others would be named in its place.
    ///
    /// # Errors
    /// [`RegulateError::Server`] for a server of no group, and for a second one of a group.
    pub fn start(
        groups: &[String],
        servers: &[GroupServer],
        beside: Option<Box<dyn GroupObserver + 'a>>,
    ) -> Result<Self, RegulateError> {
        let mut started: Vec<Server> = Vec::new();
        for named in servers {
            let of = |problem| RegulateError::Server {
                server: format!("{}={}", named.group, named.address),
                problem,
            };
            let index = groups.iter().position(|group| *group == named.group);
            let index = index.ok_or_else(|| of("there is no such group among the candidates"))?;
            if started.iter().any(|server| server.index == index) {
                return Err(of("the group has a server already"));
            }
            started.push(Server {
                index,
                named: named.clone(),
                reader: ServerReader::start(&named.address),
                last: None,
                state: State::Unknown,
            });
        }
        let mut counters = Self {
            groups: groups.len(),
            servers: started,
            beside,
            notes: Vec::new(),
        };
        counters.wait_for_first();
        Ok(counters)
    }

    fn wait_for_first(&mut self) {
        let start = Instant::now();
        let is_unknown = |server: &Server| server.state == State::Unknown;
        while self.servers.iter().any(is_unknown) && start.elapsed() < FIRST {
            thread::sleep(GLANCE);
            self.read_servers();
        }
    }

    /// Takes what servers have told meanwhile.
    fn read_servers(&mut self) {
        let beside = self.beside.as_ref().map(|beside| beside.sureness());
        let told = self
            .servers
            .iter_mut()
            .flat_map(|server| server.see(beside, self.groups));
        self.notes.extend(told);
    }

    /// Whether something tells of every group.
    pub fn sees_all(&self) -> bool {
        self.beside.is_some() || self.have_all()
    }

    fn have_all(&self) -> bool {
        self.servers.len() == self.groups
    }

    /// What the other observer sees, in bytes per second.
    fn look_beside(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let Some(beside) = &mut self.beside else {
            return Ok(GroupsSeen::nothing(self.groups, Sureness::Counted));
        };
        let mut seen = beside.look(now_ms)?;
        if beside.unit() != BYTES_PER_S {
            // What disturbs nobody is as little in both units.
            let bytes_per_s = LEAST_BYTES_PER_S / beside.least();
            seen.slow.iter_mut().for_each(|slow| *slow *= bytes_per_s);
        }
        Ok(seen)
    }
}

impl Server {
    /// Takes what was read; what people are to be told of it.
    fn see(&mut self, beside: Option<Sureness>, groups: usize) -> Vec<String> {
        let readings = self.reader.new_readings().into_iter();
        let told = readings.filter_map(|reading| self.take(reading, beside, groups));
        told.collect()
    }

    fn take(
        &mut self,
        reading: Result<Reading, String>,
        beside: Option<Sureness>,
        groups: usize,
    ) -> Option<String> {
        let rate = match reading {
            Ok(reading) => match self.last.replace(reading) {
                Some(before) => rate(before, reading),
                None => return None,
            },
            Err(reason) => {
                self.last = None;
                Err(reason)
            }
        };
        let GroupServer { group, address } = &self.named;
        let was_lost = self.state == State::Lost;
        match rate {
            Ok(rate) => {
                self.state = State::Known(rate);
                was_lost.then(|| format!("{group} is counted by its server at {address} again"))
            }
            Err(reason) => {
                self.state = State::Lost;
                let instead = match beside {
                    Some(sureness) => format!("what it moves is {} until then", sureness.name()),
                    // A single one is the cause whatever it moves.
                    None if groups == 1 => "what it moves is not known until then".to_owned(),
                    None => "it is not slowed until then".to_owned(),
                };
                (!was_lost).then(|| {
                    format!(
                        "{group} is not counted by its server at {address}: {reason}; {instead}"
                    )
                })
            }
        }
    }
}

/// Bytes per second between two readings; why there are none.
fn rate(before: Reading, last: Reading) -> Result<f64, String> {
    let (bytes, ms) = (
        last.slow_bytes - before.slow_bytes,
        last.at_ms - before.at_ms,
    );
    match bytes >= 0.0 && ms > 0.0 {
        true => Ok(bytes / ms * 1e3),
        false => Err("its counters went back, as when it is started anew".to_owned()),
    }
}

impl GroupObserver for ServerCounters<'_> {
    fn tells(&self) -> String {
        let servers = self.servers.iter();
        let servers: Vec<String> = servers
            .map(|server| format!("{} at {}", server.named.group, server.named.address))
            .collect();
        let servers = servers.join(", ");
        match &self.beside {
            Some(beside) => format!(
                "bytes that the Nearfar servers of {servers} count to and from tiers that are not near, and of other groups {}",
                beside.tells()
            ),
            None => format!(
                "bytes that the Nearfar servers of {servers} count to and from tiers that are not near"
            ),
        }
    }

    fn sureness(&self) -> Sureness {
        match &self.beside {
            Some(beside) if !self.have_all() => beside.sureness(),
            _ => Sureness::Counted,
        }
    }

    fn unit(&self) -> &'static str {
        BYTES_PER_S
    }

    fn least(&self) -> f64 {
        LEAST_BYTES_PER_S
    }

    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let mut seen = self.look_beside(now_ms)?;
        self.read_servers();
        seen.notes.append(&mut self.notes);
        for server in &self.servers {
            let index = server.index;
            match server.state {
                State::Known(bytes_per_s) => {
                    seen.slow[index] = bytes_per_s;
                    seen.sureness[index] = Some(Sureness::Counted);
                }
                State::Lost if !seen.slow[index].is_finite() => seen.sureness[index] = None,
                State::Lost | State::Unknown => {}
            }
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ms: f64, slow_bytes: f64) -> Reading {
        Reading { at_ms, slow_bytes }
    }

    #[test]
    fn a_rate_takes_a_clock_and_counters_that_go_on() {
        let before = reading(100.0, 1e9);
        assert_eq!(rate(before, reading(200.0, 1.5e9)), Ok(5e9));
        assert_eq!(rate(before, reading(200.0, 1e9)), Ok(0.0));
        for last in [reading(200.0, 9e8), reading(100.0, 2e9)] {
            assert!(rate(before, last).unwrap_err().contains("went back"));
        }
    }

    #[test]
    fn servers_are_of_one_candidate_each() {
        let groups = ["batch".to_owned(), "tidy".to_owned()];
        let start = |servers: &[&str]| {
            let servers: Vec<GroupServer> =
                servers.iter().map(|one| one.parse().unwrap()).collect();
            ServerCounters::start(&groups, &servers, None)
        };
        assert!(!start(&["batch=127.0.0.1:1"]).unwrap().sees_all());
        assert!(
            start(&["batch=127.0.0.1:1", "tidy=127.0.0.1:2"])
                .unwrap()
                .sees_all()
        );
        let refused = |servers: &[&str]| start(servers).err().unwrap().to_string();
        assert!(refused(&["other=127.0.0.1:1"]).contains("no such group"));
        let twice = ["batch=127.0.0.1:1", "batch=127.0.0.1:2"];
        assert!(refused(&twice).contains("has a server already"));
    }
}
