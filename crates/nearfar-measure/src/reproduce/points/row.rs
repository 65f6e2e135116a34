//! What the columns of a line of points ask.

use std::str::FromStr;

use nearfar_plan::DeviceRange;

use super::point::{
    AccessOp, BoundRun, Experiment, InterferenceRun, LatencyOp, LatencyTier, Problem,
    ScanPlacement, SlotUse, Statistic,
};
use crate::reproduce::interplay::System;
use crate::reproduce::trees::{TreeRun, TreeWorkload};

/// Threads of tree experiments whose points do not tell theirs (section 5.5).
const TREE_THREADS: usize = 48;

/// Threads of experiments on bound shares (section 5.1).
const BOUND_THREADS: usize = 40;
/// Nodes of their trees, where points do not tell others.
const BOUND_NODE_BYTES: usize = 1024;

/// A line of a file, with the names of its columns.
pub(super) struct Row<'a> {
    pub(super) names: &'a [&'a str],
    pub(super) values: &'a [&'a str],
}

impl Row<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|column| *column == name)?;
        Some(self.values[index])
    }

    fn text(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| format!("{name}: is missing"))
    }

    pub(super) fn number(&self, name: &str, min: f64, max: f64) -> Result<f64, Problem> {
        let text = self.text(name)?;
        let value = f64::from_str(text).map_err(|_| format!("{name}: {text:?} is no number"))?;
        if !(min..=max).contains(&value) {
            return Err(format!("{name}: {text} is not from {min} to {max}"));
        }
        Ok(value)
    }

    fn count(&self, name: &str, min: u32, max: u32) -> Result<u32, Problem> {
        let value = self.number(name, f64::from(min), f64::from(max))?;
        if value.fract() != 0.0 {
            return Err(format!("{name}: {value} is no whole number"));
        }
        Ok(value as u32)
    }

    fn optional(&self, name: &str, otherwise: f64, max: f64) -> Result<f64, Problem> {
        self.get(name)
            .map_or(Ok(otherwise), |_| self.number(name, 0.0, max))
    }

    fn one_of<T: Copy>(&self, name: &str, allowed: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.text(name)?;
        let found = allowed.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = allowed.iter().map(|(word, _)| *word).collect();
            format!(
                "{name}: {text:?} is unknown; there are {}",
                words.join(", ")
            )
        })
    }

    pub(super) fn access(&self) -> Result<Experiment, Problem> {
        let op = self.one_of(
            "op",
            &[
                ("seq_read", AccessOp::SequentialRead),
                ("rand_read", AccessOp::RandomRead),
                ("seq_write", AccessOp::SequentialWrite),
                ("rand_write", AccessOp::RandomWrite),
                ("seq_ntwrite", AccessOp::SequentialNonTemporalWrite),
                ("rand_ntwrite", AccessOp::RandomNonTemporalWrite),
            ],
        )?;
        let access_bytes = self.count("access_size", 8, 8192)?;
        if !access_bytes.is_power_of_two() {
            return Err(format!("access_size: {access_bytes} is no power of two"));
        }
        Ok(Experiment::Access {
            op,
            devices: match self.get("devices") {
                Some(_) => self.count("devices", 0, 64)?,
                None => 1,
            },
            access_bytes,
            threads: self.count("threads", 1, 4096)? as usize,
            cxl_percent: self.optional("pct_in_cxl", 100.0, 100.0)?,
        })
    }

    pub(super) fn latency(&self) -> Result<Experiment, Problem> {
        let op = self.one_of(
            "op",
            &[
                ("seq_read", LatencyOp::SequentialRead),
                ("rand_read", LatencyOp::RandomRead),
                ("write_clwb", LatencyOp::WriteBack),
            ],
        )?;
        let tier = self.one_of(
            "tier",
            &[
                ("cpu", LatencyTier::Cpu),
                ("remote_cpu", LatencyTier::RemoteCpu),
                ("cxl", LatencyTier::Cxl),
            ],
        )?;
        let statistic = match self.text("percentile")? {
            "avg" => Statistic::Mean,
            _ => Statistic::Percentile(self.number("percentile", 0.0, 100.0)?),
        };
        Ok(Experiment::Latency {
            op,
            tier,
            statistic,
        })
    }

    pub(super) fn scan(&self) -> Result<Experiment, Problem> {
        let placement = match (self.get("placement"), self.get("devices")) {
            (Some(text), None) => scan_placement(text)?,
            (None, Some(_)) => ScanPlacement {
                column_devices: self.count("devices", 0, 64)?,
                position_devices: 0,
            },
            (Some(_), Some(_)) => {
                return Err("devices: placement already says how many".to_owned());
            }
            (None, None) => return Err("placement: is missing".to_owned()),
        };
        Ok(Experiment::Scan {
            selectivity_percent: self.number("selectivity_pct", 0.0, 100.0)?,
            placement,
            threads: self.count("threads", 1, 4096)? as usize,
            cxl_columns_percent: self.optional("pct_columns_in_cxl", 100.0, 100.0)?,
        })
    }

    pub(super) fn interference(&self) -> Result<Experiment, Problem> {
        let device = |name, words: &[&'static str]| {
            let words: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
            self.one_of(name, &words)
        };
        let background = device("background", &["MMEM", "CXL", "SSD"])?;
        let background_operations: &[&'static str] = match background {
            "SSD" => &["col1", "col2"],
            _ => &["ld", "st", "ntst"],
        };
        Ok(Experiment::Interference(InterferenceRun {
            system: self.one_of("system", &System::ALL.map(|system| (system.name(), system)))?,
            device: device("dut", &["MMEM", "CXL"])?,
            operation: device("dut_op", &["ld", "st", "ntst"])?,
            background,
            background_operation: device("bg_op", background_operations)?,
        }))
    }

    pub(super) fn price(&self) -> Result<Experiment, Problem> {
        let kind = one_line(self.text("type")?);
        let devices = match kind.strip_prefix("CPU Memory + ") {
            None if kind == "CPU Memory" => Ok(DeviceRange::exactly(0)),
            None => Err(String::new()),
            Some(devices) => {
                let devices = devices.trim_end_matches(" CXL Devices");
                let devices = devices.trim_end_matches(" CXL Device");
                devices.replace(" to ", "-").parse()
            }
        };
        let unknown = |_| {
            format!(
                "type: {kind:?} is unknown; there are CPU Memory, CPU Memory + n CXL Devices, \
                 CPU Memory + n to m CXL Devices"
            )
        };
        Ok(Experiment::Price {
            demand_gib: self.count("capacity_demand", 1, 1 << 30)?,
            devices: devices.map_err(unknown)?,
        })
    }

    fn threads_or(&self, otherwise: usize) -> Result<usize, Problem> {
        match self.get("threads") {
            Some(_) => Ok(self.count("threads", 1, 4096)? as usize),
            None => Ok(otherwise),
        }
    }

    fn node_bytes(&self) -> Result<usize, Problem> {
        let node_bytes = self.count("node_bytes", 256, 4096)? as usize;
        if !node_bytes.is_power_of_two() {
            return Err(format!("node_bytes: {node_bytes} is no power of two"));
        }
        Ok(node_bytes)
    }

    /// CXL devices of a tree; 0 for CPU memory.
    fn tree_devices(&self) -> Result<u32, Problem> {
        let placement = scan_placement(self.text("placement")?)?;
        if placement.column_devices != placement.position_devices {
            return Err("placement: trees have no columns; there are CPU, CXL-n".to_owned());
        }
        Ok(placement.column_devices)
    }

    pub(super) fn tree(&self) -> Result<Experiment, Problem> {
        Ok(Experiment::Tree(TreeRun {
            workload: self.one_of("workload", &TREE_WORKLOADS)?,
            devices: self.tree_devices()?,
            node_bytes: self.node_bytes()?,
            threads: self.threads_or(TREE_THREADS)?,
        }))
    }

    pub(super) fn bound_share(&self) -> Result<Experiment, Problem> {
        let slots = self.one_of(
            "kind",
            &[
                ("retiring", SlotUse::Retiring),
                ("bad_spec", SlotUse::BadSpeculation),
                ("frontend", SlotUse::FrontEnd),
                ("backend", SlotUse::BackEnd),
                ("bandwidth", SlotUse::Bandwidth),
                ("latency", SlotUse::Latency),
            ],
        )?;
        let threads = self.threads_or(BOUND_THREADS)?;
        let is_tree = self.one_of("bench", &[("scan", false), ("btree", true)])?;
        let run = if is_tree {
            BoundRun::Tree(TreeRun {
                workload: self.one_of("group", &TREE_WORKLOADS)?,
                devices: self.tree_devices()?,
                node_bytes: match self.get("node_bytes") {
                    Some(_) => self.node_bytes()?,
                    None => BOUND_NODE_BYTES,
                },
                threads,
            })
        } else {
            let group = self.text("group")?;
            let percent = group.strip_suffix('%').and_then(|text| text.parse().ok());
            let selectivity_percent = percent
                .filter(|percent| (0.0..=100.0).contains(percent))
                .ok_or_else(|| format!("group: {group:?} is no share such as 0.1%"))?;
            BoundRun::Scan {
                selectivity_percent,
                placement: scan_placement(self.text("placement")?)?,
                threads,
            }
        };
        Ok(Experiment::BoundShare { run, slots })
    }
}

const TREE_WORKLOADS: [(&str, TreeWorkload); 2] = [
    ("read95", TreeWorkload::Read95),
    ("write95", TreeWorkload::Write95),
];

/// A text with single blanks where it had several, or line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `CPU`, `CXL-n` or `ColumnsCXL-n` (weisgut-2025, section 5.2).
fn scan_placement(text: &str) -> Result<ScanPlacement, Problem> {
    let unknown = || format!("placement: {text:?} is unknown; there are CPU, CXL-n, ColumnsCXL-n");
    if text == "CPU" {
        return Ok(ScanPlacement {
            column_devices: 0,
            position_devices: 0,
        });
    }
    let (name, devices) = text.split_once('-').ok_or_else(unknown)?;
    let devices = devices
        .parse()
        .ok()
        .filter(|n| (1..=64).contains(n))
        .ok_or_else(unknown)?;
    let position_devices = match name {
        "CXL" => devices,
        "ColumnsCXL" => 0,
        _ => return Err(unknown()),
    };
    Ok(ScanPlacement {
        column_devices: devices,
        position_devices,
    })
}
