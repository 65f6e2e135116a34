//! A `perf stat` that prints its counts every tenth of a second, for as long as somebody looks.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use nearfar_topology::perf::{Count, counted_percent, parse};

/// The interval of `perf`: it warns of its own cost below.
pub(super) const INTERVAL_MS: &str = "100";
/// Counts that are older say nothing.
const STALE_MS: f64 = 1_000.0;
/// How long the first counts are waited for.
pub(super) const FIRST: Duration = Duration::from_secs(3);

/// What was counted in one interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    pub(super) seconds: f64,
    pub(super) counts: Vec<Count>,
}

impl Interval {
    /// Least share of the time that an event of these was counted for, in per cent.
    pub(super) fn counted_percent(&self) -> f64 {
        counted_percent(&self.counts).unwrap_or(100.0)
    }
}

/// Puts lines together that are of one interval.
#[derive(Debug, Default)]
struct Intervals {
    began_s: f64,
    open: Vec<Count>,
}

impl Intervals {
    /// The interval that this line ends, since it belongs to the next one. One that ends before it begins, as after
    /// a clock that jumped, is dropped.
    fn push(&mut self, line: &str) -> Option<Interval> {
        let mut ended = None;
        for count in parse(line) {
            let Some(until_s) = count.until_s else {
                continue;
            };
            let open_s = self.open.first().and_then(|open| open.until_s);
            if let Some(open_s) = open_s.filter(|open_s| *open_s != until_s) {
                let seconds = open_s - self.began_s;
                let counts = std::mem::take(&mut self.open);
                self.began_s = open_s;
                ended = (seconds > 0.0).then_some(Interval { seconds, counts });
            }
            self.open.push(count);
        }
        ended
    }
}

/// A `perf` that is counting, until it is dropped.
#[derive(Debug)]
pub(super) struct Perf {
    child: Child,
    lines: Receiver<String>,
    intervals: Intervals,
    /// The interval that was waited for at the start, until somebody asks.
    first: Option<Interval>,
    /// The last interval, and when somebody saw that it had ended.
    last: Option<(f64, Interval)>,
    /// What it said that is no count.
    said: String,
}

impl Perf {
    /// Starts it, and waits for its first counts; why there are none.
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Ctrl-C is for the regulator, which ends it.
        command.process_group(0);
        let started = command.stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "perf is not installed".to_owned(),
            _ => format!("perf: {error}"),
        })?;
        let (sender, lines) = mpsc::channel();
        if let Some(errors) = child.stderr.take() {
            std::thread::spawn(move || {
                let mut read = BufReader::new(errors).lines().map_while(Result::ok);
                while read.next().is_some_and(|line| sender.send(line).is_ok()) {}
            });
        }
        let mut perf = Self {
            child,
            lines,
            intervals: Intervals::default(),
            first: None,
            last: None,
            said: String::new(),
        };
        perf.wait_for_first()?;
        Ok(perf)
    }

    /// Waits for all counts of an interval, or for those that there are when it ends.
    fn wait_for_first(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while self.first.is_none() {
            let left = FIRST.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.first = self.take(&line),
                Err(_) if self.intervals.open.is_empty() => return Err(self.reason()),
                Err(_) => break,
            }
        }
        let first = self.first.iter().flat_map(|first| &first.counts);
        let mut counts = first.chain(&self.intervals.open);
        match counts.find_map(|count| count.value.reason().filter(|why| why.contains("supported")))
        {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(()),
        }
    }

    /// The last interval that has ended, unless it is too old, as after a clock that jumped; why there will be no more.
    pub(super) fn latest(&mut self, now_ms: f64) -> Result<Option<&Interval>, String> {
        if let Some(interval) = self.ended_intervals()?.pop() {
            self.last = Some((now_ms, interval));
        }
        let is_fresh = |at_ms: f64| (0.0..=STALE_MS).contains(&(now_ms - at_ms));
        let last = self.last.as_ref().filter(|(at_ms, _)| is_fresh(*at_ms));
        Ok(last.map(|(_, interval)| interval))
    }

    /// The intervals that have ended since the last call.
    fn ended_intervals(&mut self) -> Result<Vec<Interval>, String> {
        let mut ended = Vec::from_iter(self.first.take());
        loop {
            match self.lines.try_recv() {
                Ok(line) => ended.extend(self.take(&line)),
                Err(TryRecvError::Empty) => return Ok(ended),
                Err(TryRecvError::Disconnected) => return Err(self.reason()),
            }
        }
    }

    fn take(&mut self, line: &str) -> Option<Interval> {
        let is_told = self.said.is_empty() && !line.trim().is_empty() && !line.starts_with('{');
        if is_told {
            self.said = line.trim().to_owned();
        }
        self.intervals.push(line)
    }

    fn reason(&self) -> String {
        match self.said.as_str() {
            "" => "perf counts nothing, and does not say why".to_owned(),
            said => format!("perf: {said}"),
        }
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(until_s: f64, value: f64) -> String {
        format!(
            "{{\"interval\" : {until_s}, \"counter-value\" : \"{value}\", \"event\" : \"e\", \
             \"pcnt-running\" : 50.00}}"
        )
    }

    #[test]
    fn lines_of_one_interval_are_put_together() {
        let mut intervals = Intervals::default();
        assert_eq!(intervals.push(&line(0.1, 1.0)), None);
        assert_eq!(intervals.push("# a warning"), None);
        assert_eq!(intervals.push(&line(0.1, 2.0)), None);
        let first = intervals.push(&line(0.3, 3.0)).unwrap();
        assert_eq!((first.seconds, first.counts.len()), (0.1, 2));
        assert_eq!(first.counted_percent(), 50.0);
        let second = intervals.push(&line(0.4, 4.0)).unwrap();
        assert!((second.seconds - 0.2).abs() < 1e-9);
        // A clock that jumps back: what ends before it begins is dropped, and the next one counts again.
        assert!(intervals.push(&line(0.2, 5.0)).is_some());
        assert_eq!(intervals.push(&line(0.25, 6.0)), None);
        assert!(intervals.push(&line(0.3, 7.0)).is_some());
    }

    #[test]
    fn what_perf_says_instead_of_counts_is_the_reason() {
        let of = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            Perf::start(shell).unwrap_err()
        };
        let refused = of("echo 'No permission to enable events' >&2; exit 255");
        assert_eq!(refused, "perf: No permission to enable events");
        let none = of(
            "echo '{\"interval\":0.1,\"counter-value\":\"<not supported>\",\"event\":\"e\"}' >&2",
        );
        assert_eq!(none, "perf: not supported");
        let second = of(
            "echo '{\"interval\":0.1,\"counter-value\":\"7\",\"event\":\"e\"}' >&2
             echo '{\"interval\":0.1,\"counter-value\":\"<not supported>\",\"event\":\"f\"}' >&2",
        );
        assert_eq!(second, "perf: not supported");
        let missing = Perf::start(Command::new("/nowhere/perf")).unwrap_err();
        assert_eq!(missing, "perf is not installed");
    }
}
