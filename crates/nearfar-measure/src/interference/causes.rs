//! Why something is lost, while a point runs: counters of mao-2025, table IV, functions of the kernel, and what the
//! processors under test have in the last level.
//!
//! What a machine lacks is unavailable with the reason, each for itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nearfar_memory::sys::Ending;
use nearfar_model::simulation::Explained;
use nearfar_topology::Known;
use nearfar_topology::perf::{Count, check_sapphire_rapids_events, counted_percent, parse};

use crate::access::CpuList;
use crate::process::{Place, Process};
use crate::results::{Kind, Metric};

/// Bytes of a line.
const LINE_BYTES: f64 = 64.0;

/// Kernel functions that are told.
const FUNCTIONS: usize = 10;

/// The group of resctrl that watches the processors under test. One that a killed run has left is taken over.
const RESCTRL_GROUP: &str = "mon_groups/nearfar-interference";

/// Counted by one `perf`, so that an event that is not known takes no others with it.
#[derive(Debug, Clone, Copy)]
struct Events {
    names: &'static [&'static str],
    /// On the processors under test only; else on all of the machine.
    of_processors: bool,
    figures: &'static [Figure],
}

/// A figure of counts.
#[derive(Debug, Clone, Copy)]
struct Figure {
    cause: &'static str,
    unit: &'static str,
    /// From counts in the order of the events, seconds, and processors under test.
    of: fn(&[f64], f64, usize) -> f64,
}

const ALL: [Events; 3] = [
    Events {
        names: &[
            "offcore_requests_outstanding.demand_data_rd",
            "offcore_requests.demand_data_rd",
            "offcore_requests_outstanding.l3_miss_demand_data_rd",
            "offcore_requests.l3_miss_demand_data_rd",
            "offcore_requests.all_requests",
        ],
        of_processors: true,
        figures: &[
            Figure {
                cause: "load L2 miss latency",
                unit: "cycles",
                of: |counts, _, _| counts[0] / counts[1],
            },
            Figure {
                cause: "load L3 miss latency",
                unit: "cycles",
                of: |counts, _, _| counts[2] / counts[3],
            },
            Figure {
                cause: "L3 access bandwidth per core",
                unit: "B/s",
                of: |counts, seconds, cpus| LINE_BYTES * counts[4] / seconds / cpus as f64,
            },
        ],
    },
    Events {
        names: &[
            "unc_cha_tor_occupancy.ia_miss",
            "unc_cha_tor_inserts.ia_miss",
        ],
        of_processors: false,
        figures: &[
            Figure {
                cause: "request table occupancy",
                unit: "1/s",
                of: |counts, seconds, _| counts[0] / seconds,
            },
            Figure {
                cause: "request table insertions",
                unit: "1/s",
                of: |counts, seconds, _| counts[1] / seconds,
            },
            // Little's law.
            Figure {
                cause: "mean time in the request table",
                unit: "uncore cycles",
                of: |counts, _, _| counts[0] / counts[1],
            },
        ],
    },
    Events {
        names: &[
            "unc_cxlcm_rxc_pack_buf_inserts.mem_data",
            "unc_cxlcm_txc_pack_buf_inserts.mem_data",
        ],
        of_processors: false,
        figures: &[
            Figure {
                cause: "CXL device to processor",
                unit: "1/s",
                of: |counts, seconds, _| counts[0] / seconds,
            },
            Figure {
                cause: "processor to CXL device",
                unit: "1/s",
                of: |counts, seconds, _| counts[1] / seconds,
            },
        ],
    },
];

/// What watches a point, from its begin on.
#[derive(Debug)]
pub(super) struct Watch {
    cpus: usize,
    counting: Vec<Result<Process, String>>,
    sampling: Result<Sampling, String>,
    occupancy: Result<Occupancy, String>,
}

#[derive(Debug)]
struct Sampling {
    process: Process,
    data: tempfile::NamedTempFile,
}

impl Watch {
    /// Watches what these processors do on the machine whose files lie below `root`.
    pub(super) fn start(cpus: &[u32], root: &Path) -> Self {
        let list = CpuList(cpus.to_vec()).to_string();
        Self {
            cpus: cpus.len(),
            counting: ALL
                .iter()
                .map(|events| start_counting(events, &list))
                .collect(),
            sampling: start_sampling(&list),
            occupancy: Occupancy::start(root, &list),
        }
    }

    /// Everything that was found; what was not, with the reason.
    pub(super) fn finish(self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (events, counting) in ALL.iter().zip(self.counting) {
            metrics.extend(events.metrics(counting.and_then(finish_counting), self.cpus));
        }
        let found = self.sampling.and_then(Sampling::finish);
        metrics.extend(functions(found));
        let occupancy = self.occupancy.and_then(|occupancy| occupancy.bytes());
        metrics.push(cause("last-level occupancy", occupancy, "B"));
        metrics
    }
}

/// A figure, or why there is none.
fn cause(name: &str, value: Result<f64, String>, unit: &str) -> Metric {
    let metric = match value {
        Ok(value) if value.is_finite() => Metric::new("cause", value, unit, Kind::Measured),
        Ok(_) => Metric::unavailable("cause", "nothing was counted", unit, Kind::Measured),
        Err(reason) => Metric::unavailable("cause", &reason, unit, Kind::Measured),
    };
    metric.with("cause", name)
}

fn start_perf(arguments: &[&str]) -> Result<Process, String> {
    let mut perf = Command::new("perf");
    perf.args(arguments);
    Process::start(perf, Place::default()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "perf is not installed".to_owned(),
        _ => format!("perf: {error}"),
    })
}

fn start_counting(events: &Events, cpus: &str) -> Result<Process, String> {
    check_sapphire_rapids_events()?;
    let names = events.names.join(",");
    let mut arguments = vec!["stat", "-j", "-e", &names];
    match events.of_processors {
        true => arguments.extend(["-C", cpus]),
        false => arguments.push("-a"),
    }
    start_perf(&arguments)
}

/// What `perf stat` has counted, and for how many seconds.
fn finish_counting(process: Process) -> Result<(Vec<Count>, f64), String> {
    let ended = process
        .end(Ending::Interrupt)
        .map_err(|error| format!("perf: {error}"))?;
    let counts = parse(&ended.errors);
    match counts.is_empty() {
        true => Err(format!("perf: {}", ended.words())),
        false => Ok((counts, ended.elapsed.as_secs_f64())),
    }
}

impl Events {
    fn metrics(&self, found: Result<(Vec<Count>, f64), String>, cpus: usize) -> Vec<Metric> {
        let counted = found.and_then(|(counts, seconds)| {
            let values = self.names.iter().map(|name| value(&counts, name));
            let values = values.collect::<Result<Vec<f64>, String>>()?;
            Ok((values, counted_percent(&counts), seconds))
        });
        let of = |figure: &Figure| {
            let value = counted.as_ref().map_err(Clone::clone);
            let value = value.map(|(counts, _, seconds)| (figure.of)(counts, *seconds, cpus));
            let metric = cause(figure.cause, value, figure.unit);
            match counted {
                Ok((_, Some(percent), _)) => metric.with("counted_percent", percent),
                _ => metric,
            }
        };
        self.figures.iter().map(of).collect()
    }
}

/// The count of an event, over all units that have counted it.
fn value(counts: &[Count], name: &str) -> Result<f64, String> {
    let is_it = |count: &&Count| count.event.eq_ignore_ascii_case(name);
    let found: Vec<&Count> = counts.iter().filter(is_it).collect();
    if found.is_empty() {
        return Err(format!("perf has not counted {name}"));
    }
    let values = found.into_iter().map(|count| match &count.value {
        Known::Value(value) => Ok(*value),
        Known::Unavailable(reason) => Err(format!("{name}: {reason}")),
    });
    values.sum()
}

/// Samples by the clock, which every machine has.
fn start_sampling(cpus: &str) -> Result<Sampling, String> {
    let data =
        tempfile::NamedTempFile::new().map_err(|error| format!("no file for perf: {error}"))?;
    let path = data.path().to_string_lossy().into_owned();
    let arguments = [
        "record",
        "-q",
        "-C",
        cpus,
        "-e",
        "cpu-clock:k",
        "-F",
        "999",
        "-o",
        &path,
    ];
    let process = start_perf(&arguments)?;
    Ok(Sampling { process, data })
}

impl Sampling {
    /// Functions of the kernel with their share of all samples in it, in per cent.
    fn finish(self) -> Result<Vec<(String, f64)>, String> {
        let told = |error: io::Error| format!("perf: {error}");
        let recorded = self.process.end(Ending::Interrupt).map_err(told)?;
        let mut report = Command::new("perf");
        report.args([
            "report", "--stdio", "-q", "-g", "none", "--sort", "symbol", "-i",
        ]);
        let output = report.arg(self.data.path()).output().map_err(told)?;
        let found = symbols(&String::from_utf8_lossy(&output.stdout));
        match found.is_empty() {
            true => Err(format!(
                "perf has no samples of the kernel: {}",
                recorded.words()
            )),
            false => Ok(found),
        }
    }
}

/// Lines of `perf report` such as `12.99%  [k] clear_page_erms`.
fn symbols(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter_map(|line| {
        let (percent, rest) = line.trim().split_once('%')?;
        let mut words = rest.split_whitespace();
        let name = words
            .find(|word| *word == "[k]")
            .and_then(|_| words.next())?;
        Some((name.to_owned(), percent.trim().parse().ok()?))
    });
    lines.take(FUNCTIONS).collect()
}

fn functions(found: Result<Vec<(String, f64)>, String>) -> Vec<Metric> {
    let name = "kernel_function_percent";
    match found {
        Err(reason) => vec![Metric::unavailable(name, &reason, "%", Kind::Measured)],
        Ok(found) => {
            let of = |(function, percent): (String, f64)| {
                Metric::new(name, percent, "%", Kind::Measured).with("function", function)
            };
            found.into_iter().map(of).collect()
        }
    }
}

/// A group of resctrl that only watches; removed in the end.
#[derive(Debug)]
struct Occupancy {
    group: PathBuf,
}

impl Occupancy {
    fn start(root: &Path, cpus: &str) -> Result<Self, String> {
        let resctrl = root.join("sys/fs/resctrl");
        let group = resctrl.join(RESCTRL_GROUP);
        if !resctrl.join("mon_groups").exists() {
            return Err("there is no /sys/fs/resctrl/mon_groups: resctrl is not mounted, or monitors nothing".to_owned());
        }
        let failed = |error: io::Error| format!("{}: {error}", group.display());
        match fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let occupancy = Self {
            group: group.clone(),
        };
        fs::write(group.join("cpus_list"), cpus).map_err(failed)?;
        Ok(occupancy)
    }

    /// Bytes in all last levels.
    fn bytes(&self) -> Result<f64, String> {
        let folder = self.group.join("mon_data");
        let told =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let entries = fs::read_dir(&folder).map_err(|error| told(&folder, &error))?;
        let mut bytes = 0.0;
        for entry in entries {
            let file = entry
                .map_err(|error| told(&folder, &error))?
                .path()
                .join("llc_occupancy");
            let text = fs::read_to_string(&file).map_err(|error| told(&file, &error))?;
            let here: f64 = text.trim().parse().map_err(|_| told(&file, &text.trim()))?;
            bytes += here;
        }
        Ok(bytes)
    }
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        // One that stays does nothing, and is taken over by the next run.
        let _ = fs::remove_dir(&self.group);
    }
}

/// Where the requests of a group are in the model: `place_ns` by place, and `table_entries`.
pub(super) fn of_model(found: &Explained, whose: &str) -> Vec<Metric> {
    let modelled = |name: &str, value, unit: &str| {
        Metric::new(name, value, unit, Kind::Modelled).with("whose", whose)
    };
    let places = [
        ("fill buffers", found.fill_buffers_ns),
        ("L2 queue", found.l2_queue_ns),
        ("request table", found.table_ns),
        ("link", found.link_ns),
        ("device", found.device_ns),
    ];
    let places = places.into_iter();
    let places =
        places.map(|(place, value)| modelled("place_ns", value, "ns").with("place", place));
    let entries = modelled("table_entries", found.entries, "count");
    places.chain([entries]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(event: &str, value: f64) -> Count {
        Count::new(event, Known::Value(value), "")
    }

    fn value_of(metrics: &[Metric], name: &str) -> Option<f64> {
        let is_it = |metric: &&Metric| metric.dimensions.get("cause") == Some(&name.into());
        metrics
            .iter()
            .find(is_it)
            .and_then(|metric| metric.value.get())
    }

    #[test]
    fn figures_follow_from_counts() {
        let names = ALL[0].names;
        let counts: Vec<Count> = names
            .iter()
            .zip([3_000.0, 10.0, 800.0, 4.0, 1_000.0])
            .map(|(name, value)| count(&name.to_uppercase(), value))
            .collect();
        let metrics = ALL[0].metrics(Ok((counts, 2.0)), 4);
        assert_eq!(value_of(&metrics, "load L2 miss latency"), Some(300.0));
        assert_eq!(value_of(&metrics, "load L3 miss latency"), Some(200.0));
        let bandwidth = value_of(&metrics, "L3 access bandwidth per core");
        assert_eq!(bandwidth, Some(8_000.0));
        // Two boxes have counted, and are one table.
        let tor = [
            ("unc_cha_tor_occupancy.ia_miss", 600.0),
            ("unc_cha_tor_inserts.ia_miss", 10.0),
        ];
        let tor = [tor, tor].concat();
        let tor: Vec<Count> = tor
            .into_iter()
            .map(|(name, value)| count(name, value))
            .collect();
        let metrics = ALL[1].metrics(Ok((tor, 2.0)), 1);
        assert_eq!(value_of(&metrics, "request table insertions"), Some(10.0));
        assert_eq!(
            value_of(&metrics, "mean time in the request table"),
            Some(60.0)
        );
    }

    #[test]
    fn figures_of_counts_that_were_scaled_say_so() {
        let counts = ALL[1].names.iter().zip([66.7, 33.3]);
        let counts = counts.map(|(name, percent)| Count {
            counted_percent: Some(percent),
            ..count(name, 10.0)
        });
        let metrics = ALL[1].metrics(Ok((counts.collect(), 1.0)), 1);
        let told = metrics
            .iter()
            .map(|metric| &metric.dimensions["counted_percent"]);
        assert!(told.eq([&33.3, &33.3, &33.3]), "{metrics:?}");
        // Of what was not counted, there is nothing to say.
        let none = ALL[1].metrics(Err("no perf".to_owned()), 1);
        assert!(!none[0].dimensions.contains_key("counted_percent"));
    }

    #[test]
    fn what_was_not_counted_has_its_reason() {
        let reasons = |found| {
            let metrics = ALL[2].metrics(found, 1);
            let reasons = metrics
                .iter()
                .map(|metric| metric.value.reason().unwrap_or("").to_owned());
            reasons.collect::<Vec<_>>()
        };
        assert_eq!(reasons(Err("no perf".to_owned())), ["no perf", "no perf"]);
        let of_one = reasons(Ok((vec![count(ALL[2].names[0], 1.0)], 1.0)));
        assert!(
            of_one.iter().all(|reason| reason.contains("txc_pack_buf")),
            "{of_one:?}"
        );
        let nothing: Vec<Count> = ALL[0].names.iter().map(|name| count(name, 0.0)).collect();
        let metrics = ALL[0].metrics(Ok((nothing, 1.0)), 1);
        assert_eq!(metrics[0].value.reason(), Some("nothing was counted"));
    }

    #[test]
    fn functions_are_read_from_the_report() {
        let text = "\n    12.99%  [k] clear_page_erms      -      -\n     7.79%  [k] copyout.isra.0  - -\nnone\n";
        let expected = [
            ("clear_page_erms".to_owned(), 12.99),
            ("copyout.isra.0".to_owned(), 7.79),
        ];
        assert_eq!(symbols(text), expected);
        let metrics = functions(Ok(symbols(text)));
        assert_eq!(metrics[1].dimensions["function"], "copyout.isra.0");
        assert_eq!(
            functions(Err("none".to_owned()))[0].value.reason(),
            Some("none")
        );
    }

    #[test]
    fn occupancy_is_that_of_all_last_levels() {
        let root = tempfile::tempdir().unwrap();
        let none = Occupancy::start(root.path(), "0-1").unwrap_err();
        assert!(none.contains("not mounted"), "{none}");
        let group = root.path().join("sys/fs/resctrl").join(RESCTRL_GROUP);
        for (domain, bytes) in [("mon_L3_00", "4194304\n"), ("mon_L3_01", "2097152\n")] {
            let folder = group.join("mon_data").join(domain);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("llc_occupancy"), bytes).unwrap();
        }
        let occupancy = Occupancy::start(root.path(), "0-1").unwrap();
        assert_eq!(fs::read_to_string(group.join("cpus_list")).unwrap(), "0-1");
        assert_eq!(occupancy.bytes(), Ok(6_291_456.0));
        fs::write(
            group.join("mon_data/mon_L3_01/llc_occupancy"),
            "Unavailable\n",
        )
        .unwrap();
        assert!(occupancy.bytes().unwrap_err().contains("Unavailable"));
    }

    #[test]
    fn a_group_of_ones_own_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let groups = root.path().join("sys/fs/resctrl/mon_groups");
        fs::create_dir_all(&groups).unwrap();
        let occupancy = Occupancy::start(root.path(), "0").unwrap();
        let group = occupancy.group.clone();
        assert!(group.exists());
        // The kernel's own files go with a group.
        fs::remove_file(group.join("cpus_list")).unwrap();
        drop(occupancy);
        assert!(!group.exists());
    }

    #[test]
    fn this_machine_tells_each_figure_or_its_reason() {
        let metrics = Watch::start(&[0], Path::new("/")).finish();
        let figures: usize = ALL.iter().map(|events| events.figures.len()).sum();
        let causes = metrics.iter().filter(|metric| metric.metric == "cause");
        assert_eq!(causes.count(), figures + 1);
        let is_told =
            |metric: &Metric| metric.value.is_known() || metric.value.reason() != Some("");
        assert!(metrics.iter().all(is_told), "{metrics:?}");
        assert!(
            metrics
                .iter()
                .any(|metric| metric.metric == "kernel_function_percent")
        );
    }
}
