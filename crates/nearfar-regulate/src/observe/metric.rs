//! A number that a victim tells of itself, in a file or by a command.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::{Observer, Sureness};
use crate::error::RegulateError;

/// Readings of which the median tells what the victim has alone, if it is the best that there was.
const ALONE_READINGS: usize = 5;
/// Without a new number for so long, nothing is known any more.
const PATIENCE_MS: f64 = 10_000.0;
/// Between two runs of what takes its time.
const PAUSE: Duration = Duration::from_millis(100);
/// More than a file with a number has.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Each call gives the next number, or why there is none; `None` where there is nothing new since the last call.
pub type Readings<'a> = Box<dyn FnMut() -> Option<Result<f64, String>> + 'a>;

/// The number that `parse` finds in a file, whenever it has been written anew.
pub fn of_file<'a>(path: PathBuf, parse: impl Fn(&str) -> Option<f64> + 'a) -> Readings<'a> {
    let mut last: Option<(SystemTime, String)> = None;
    Box::new(move || {
        let told = |reason: String| Some(Err(format!("{}: {reason}", path.display())));
        let (written, text) = match read(&path) {
            Ok(read) => read,
            Err(error) => return told(error.to_string()),
        };
        if last.as_ref() == Some(&(written, text.clone())) {
            return None;
        }
        let found = parse(&text);
        let words: String = text.trim().chars().take(120).collect();
        last = Some((written, text));
        match found {
            Some(number) => Some(Ok(number)),
            None => told(format!(
                "there is no number where it is looked for: {words:?}"
            )),
        }
    })
}

/// When a file was written, and what it holds.
fn read(path: &PathBuf) -> std::io::Result<(SystemTime, String)> {
    let file = File::open(path)?;
    let written = fs::metadata(path)?.modified()?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok((written, text))
}

/// What `run` gives, again and again on a thread of its own, so that a command that takes its time keeps nobody
/// waiting. The thread ends when the readings are dropped.
pub fn in_background(
    mut run: impl FnMut() -> Result<f64, String> + Send + 'static,
) -> Readings<'static> {
    let (sender, readings) = mpsc::channel();
    thread::spawn(move || {
        while sender.send(run()).is_ok() {
            thread::sleep(PAUSE);
        }
    });
    Box::new(move || readings.try_recv().ok())
}

/// A victim's own number against what it has alone.
pub struct Metric<'a> {
    readings: Readings<'a>,
    lower_is_better: bool,
    alone: Alone,
    /// Given, or the time between the last two numbers.
    window_ms: Option<f64>,
    between_ms: f64,
    /// When the last number came, or, before there was one, when the first was looked for.
    last_at_ms: Option<f64>,
    has_told: bool,
}

/// What the victim has alone.
#[derive(Debug, Clone)]
enum Alone {
    Known(f64),
    /// The best of medians, and what the next one is of.
    Best(f64, VecDeque<f64>),
}

impl<'a> Metric<'a> {
    /// That of these readings, whose best median of five in a row is what the victim has alone.
    pub fn new(readings: Readings<'a>) -> Self {
        Self {
            readings,
            lower_is_better: false,
            alone: Alone::Best(f64::NAN, VecDeque::new()),
            window_ms: None,
            between_ms: 0.0,
            last_at_ms: None,
            has_told: false,
        }
    }

    /// One of which less is better, as of a latency.
    #[must_use]
    pub fn lower_is_better(mut self, lower_is_better: bool) -> Self {
        self.lower_is_better = lower_is_better;
        self
    }

    /// What the victim has alone.
    ///
    /// # Errors
    /// [`RegulateError::Goal`] for what is no positive number.
    pub fn alone(mut self, number: f64) -> Result<Self, RegulateError> {
        if !(number.is_finite() && number > 0.0) {
            return Err(RegulateError::Goal {
                what: "a number of a victim alone",
                value: number,
                allowed: "give a positive number",
            });
        }
        self.alone = Alone::Known(number);
        Ok(self)
    }

    /// Of how much time a number tells; the time since the number before where this is not given.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window_ms = Some(window.as_secs_f64() * 1e3);
        self
    }

    /// The mean of what is new; no number where nothing is.
    fn number(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let (mut sum, mut count, mut reason) = (0.0, 0_u32, None);
        while let Some(reading) = (self.readings)() {
            match reading {
                Ok(number) if number.is_finite() && number >= 0.0 => {
                    self.alone.see(number, self.lower_is_better);
                    sum += number;
                    count += 1;
                }
                Ok(number) => reason = Some(format!("{number} is no number of a service")),
                Err(problem) => reason = Some(problem),
            }
            if reason.is_some() {
                break;
            }
        }
        if count > 0 {
            let before_ms = self.last_at_ms.replace(now_ms).filter(|_| self.has_told);
            self.between_ms = before_ms.map_or(0.0, |before_ms| (now_ms - before_ms).max(0.0));
            self.has_told = true;
            return Ok(sum / f64::from(count));
        }
        let silent_ms = now_ms - *self.last_at_ms.get_or_insert(now_ms);
        // What never told anything is a mistake; else it may be written at this moment.
        let is_over = silent_ms > PATIENCE_MS || (reason.is_some() && !self.has_told);
        match is_over {
            true => Err(RegulateError::Metric {
                reason: reason.unwrap_or_else(|| {
                    format!("there was no new number for {} s", PATIENCE_MS * 1e-3)
                }),
            }),
            false => Ok(f64::NAN),
        }
    }
}

impl Alone {
    fn see(&mut self, number: f64, lower_is_better: bool) {
        let Self::Best(best, last) = self else { return };
        last.push_back(number);
        if last.len() < ALONE_READINGS {
            return;
        }
        let mut sorted: Vec<f64> = last.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted[ALONE_READINGS / 2];
        // What is no number is neither less nor more.
        *best = match lower_is_better {
            true => best.min(median),
            false => best.max(median),
        };
        last.pop_front();
    }

    fn number(&self) -> f64 {
        match self {
            Self::Known(number) | Self::Best(number, _) => *number,
        }
    }
}

impl Observer for Metric<'_> {
    fn tells(&self) -> &'static str {
        "a number that the victim tells of itself, against what it has alone: its demand must not change"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError> {
        let (number, alone) = (self.number(now_ms)?, self.alone.number());
        let share = match self.lower_is_better {
            true => alone / number,
            false => number / alone,
        };
        Ok(if share > 1.0 { 1.0 } else { share })
    }

    fn window_ms(&self) -> f64 {
        self.window_ms.unwrap_or(self.between_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric of these readings, and what it says of the victim every 50 ms.
    fn shares(
        readings: Vec<Option<Result<f64, String>>>,
        of: fn(Metric<'_>) -> Metric<'_>,
    ) -> Vec<f64> {
        // Whoever looks asks until there is nothing new.
        let asked = readings.iter().cloned().flat_map(|reading| match reading {
            Some(reading) => vec![Some(reading), None],
            None => vec![None],
        });
        let asked: Vec<_> = asked.collect();
        let mut asked = asked.into_iter();
        let next = || asked.next().flatten();
        let mut metric = of(Metric::new(Box::new(next)));
        let looks = 0..readings.len();
        looks
            .map(|look| metric.victim(look as f64 * 50.0).unwrap())
            .collect()
    }

    #[test]
    fn a_number_is_set_against_the_best_median_of_five() {
        let numbers = [100.0, 101.0, 5_000.0, 99.0, 100.0, 50.0, 200.0];
        let found = shares(numbers.map(|number| Some(Ok(number))).into(), |metric| {
            metric
        });
        assert!(found[..4].iter().all(|share| share.is_nan()), "{found:?}");
        assert_eq!(found[4], 100.0 / 100.0);
        assert_eq!(found[5], 0.5);
        assert_eq!(found[6], 1.0);
    }

    #[test]
    fn what_the_victim_has_alone_may_be_given_and_less_may_be_better() {
        let number = |number: f64| Some(Ok(number));
        fn known(metric: Metric<'_>) -> Metric<'_> {
            metric.alone(200.0).unwrap()
        }
        fn latency(metric: Metric<'_>) -> Metric<'_> {
            metric.alone(10.0).unwrap().lower_is_better(true)
        }
        assert_eq!(
            shares(vec![number(50.0), None, number(0.0)], known)[0],
            0.25
        );
        let found = shares(vec![number(50.0), None, number(0.0)], known);
        assert!(found[1].is_nan() && found[2] == 0.0, "{found:?}");
        assert_eq!(
            shares(vec![number(40.0), number(5.0)], latency),
            [0.25, 1.0]
        );
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let none: Readings<'_> = Box::new(|| None);
            assert!(Metric::new(none).alone(wrong).is_err());
        }
    }

    #[test]
    fn who_never_told_a_number_is_told_so_and_who_falls_silent_ends_it() {
        let problem = || Some(Err("no such file".to_owned()));
        let mut never = Metric::new(Box::new(problem));
        let error = never.victim(0.0).unwrap_err().to_string();
        assert!(error.contains("no such file"), "{error}");
        let mut each = [Some(Ok(5.0))].into_iter();
        let mut silent = Metric::new(Box::new(move || each.next().unwrap_or_else(problem)));
        assert!(silent.victim(0.0).is_ok());
        assert!(silent.victim(9_000.0).unwrap().is_nan());
        assert!(
            silent
                .victim(10_050.0)
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
        let mut nothing = Metric::new(Box::new(|| None));
        assert!(nothing.victim(50.0).unwrap().is_nan());
        let error = nothing.victim(10_100.0).unwrap_err().to_string();
        assert!(error.contains("no new number for 10 s"), "{error}");
    }

    #[test]
    fn a_file_tells_a_number_each_time_that_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rate");
        let mut readings = of_file(path.clone(), |text| text.trim().parse().ok());
        assert!(readings().unwrap().unwrap_err().contains("rate"));
        fs::write(&path, "12.5\n").unwrap();
        assert_eq!(readings(), Some(Ok(12.5)));
        assert_eq!(readings(), None);
        fs::write(&path, "").unwrap();
        assert!(
            readings()
                .unwrap()
                .unwrap_err()
                .contains("there is no number")
        );
        assert_eq!(readings(), None);
        // The same number again is news.
        let again = File::create(&path).unwrap();
        std::io::Write::write_all(&mut &again, b"12.5\n").unwrap();
        again.set_modified(SystemTime::now() + PAUSE).unwrap();
        assert_eq!(readings(), Some(Ok(12.5)));
    }

    #[test]
    fn what_takes_its_time_is_read_in_the_background() {
        let mut count = 0.0;
        let mut readings = in_background(move || {
            count += 1.0;
            Ok(count)
        });
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(readings());
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(found, [Ok(1.0), Ok(2.0)]);
    }

    #[test]
    fn a_look_tells_of_the_time_since_the_number_before() {
        let number = || Some(Ok(7.0));
        let mut is_new = false;
        let mut metric = Metric::new(Box::new(|| {
            is_new = !is_new;
            if is_new { number() } else { None }
        }));
        metric.victim(0.0).unwrap();
        assert_eq!(metric.window_ms(), 0.0);
        metric.victim(400.0).unwrap();
        assert_eq!(metric.window_ms(), 400.0);
        let given = metric.window(Duration::from_secs(2));
        assert_eq!(given.window_ms(), 2_000.0);
    }
}
