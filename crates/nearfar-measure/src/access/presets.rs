//! The experiments of weisgut-2025, section 4, and of mao-2025, section III, as specifications.

/// A specification that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it finds out.
    pub about: &'static str,
    /// It, in TOML.
    pub text: &'static str,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 7] = [
        Self {
            name: "heatmap",
            about: "throughput by access size and threads (weisgut-2025, section 4.2)",
            text: include_str!("presets/heatmap.toml"),
        },
        Self {
            name: "devices",
            about: "throughput over one to four far devices (weisgut-2025, section 4.3)",
            text: include_str!("presets/devices.toml"),
        },
        Self {
            name: "latency",
            about: "percentiles of the latency of single accesses (weisgut-2025, section 4.4)",
            text: include_str!("presets/latency.toml"),
        },
        Self {
            name: "split",
            about: "throughput by the share of pages far (weisgut-2025, section 4.5)",
            text: include_str!("presets/split.toml"),
        },
        Self {
            name: "loaded",
            about: "latency by bandwidth, for several mixes of reads and writes",
            text: include_str!("presets/loaded.toml"),
        },
        Self {
            name: "interference",
            about: "throughput beside others on the same or another tier (mao-2025, section III-B)",
            text: include_str!("presets/interference.toml"),
        },
        Self {
            name: "calibrate",
            about: "throughput that parameters of the simulator are fitted to",
            text: include_str!("presets/calibrate.toml"),
        },
    ];

    /// The preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Context, Document};
    use super::*;

    #[test]
    fn presets_are_specifications() {
        let context = Context {
            cpus: 48,
            rest_cpus: 48,
            tiers: vec!["near".to_owned(), "far".to_owned()],
        };
        for preset in Preset::ALL {
            let document = Document::parse(preset.name, preset.text).unwrap();
            let runs = document.expand(&context).unwrap();
            assert!(runs.len() > 4, "{}", preset.name);
        }
    }
}
