//! What firmware and CXL devices declare, checked for plausibility.
//!
//! A node's access class (from HMAT, or derived by the kernel's CXL driver) and
//! a CXL region's own numbers are both read. A node's plausible number is taken
//! before a region's, since it is what the kernel orders its tiers by.
//!
//! Linux 6.12.107 adds the latency of a CXL link in picoseconds to sums kept in
//! nanoseconds: 17330 ns where 6.12.117 gives 332 ns for the same machine. Only a part
//! of the sum is wrong, so no factor mends it. CXL memory is therefore believed
//! to be no nearer than local memory and at most ten times as far (published
//! devices lie between 2 and 4 times); other numbers are unavailable, and say so.

use std::ops::RangeInclusive;

use super::nodes::{AccessClass, Node};
use crate::id_list::NodeId;
use crate::known::Known;
use crate::topology::Performance;

/// Latencies that memory can have, in nanoseconds.
const LATENCY_NS: RangeInclusive<f64> = 1.0..=10_000.0;
/// How many times as far as local memory CXL memory can be.
const CXL_FACTOR_MAX: f64 = 10.0;
/// Bandwidths that memory can have, in MiB/s: up to 16 TiB/s.
const BANDWIDTH_MIB_PER_S: RangeInclusive<f64> = 1.0..=16_777_216.0;
const MIB: f64 = 1_048_576.0;
/// Two declarations closer than this are the same, rounded differently.
const SAME_RATIO: f64 = 0.02;

/// What is declared of one node, and what was odd about it.
pub(super) struct Declared {
    pub performance: Performance,
    pub remarks: Vec<String>,
}

/// The access classes of `node` that hold for the CPUs of `viewpoint`.
pub(super) fn holding_for<'a>(
    classes: &'a [AccessClass],
    target: NodeId,
    viewpoint: NodeId,
    nodes: &[Node],
) -> Vec<&'a AccessClass> {
    let closest = is_closest(target, viewpoint, nodes);
    let holds = |class: &&AccessClass| match class.initiators.as_slice() {
        [] => closest,
        named => named.contains(&viewpoint),
    };
    classes.iter().filter(holds).collect()
}

/// Whether no other node with CPUs is closer to `target` than `viewpoint`, as far
/// as distances are told.
pub(super) fn is_closest(target: NodeId, viewpoint: NodeId, nodes: &[Node]) -> bool {
    let distance_from = |from: NodeId| {
        let from = nodes.iter().find(|node| node.id == from)?;
        from.distances.get(&target).copied()
    };
    let with_cpus = nodes.iter().filter(|node| !node.cpus.is_empty());
    let least = with_cpus.filter_map(|node| distance_from(node.id)).min();
    least.is_none() || distance_from(viewpoint) == least
}

/// Latencies that CXL memory can have, where that of local memory is known.
pub(super) fn cxl_latency_ns(local_ns: Option<f64>) -> RangeInclusive<f64> {
    local_ns.map_or(LATENCY_NS, |local_ns| local_ns..=CXL_FACTOR_MAX * local_ns)
}

/// Latencies that memory of any other kind can have.
pub(super) fn any_latency_ns() -> RangeInclusive<f64> {
    LATENCY_NS
}

/// What the classes, in their order of preference, declare.
///
/// `gap` says why nothing is declared where nothing is. No latency outside of
/// `possible_ns` is believed.
pub(super) fn choose(
    classes: &[&AccessClass],
    gap: &str,
    possible_ns: RangeInclusive<f64>,
) -> Declared {
    let mut chooser = Chooser {
        classes,
        gap,
        possible_ns,
        sources: Vec::new(),
        remarks: Vec::new(),
    };
    let read_latency_ns = chooser.latency("read_latency", |class| class.read_latency_ns);
    let write_latency_ns = chooser.latency("write_latency", |class| class.write_latency_ns);
    let read_bandwidth_bytes_per_s =
        chooser.bandwidth("read_bandwidth", |class| class.read_bandwidth_mib_per_s);
    let write_bandwidth_bytes_per_s =
        chooser.bandwidth("write_bandwidth", |class| class.write_bandwidth_mib_per_s);
    let source = match chooser.sources.is_empty() {
        true => Known::unavailable(gap.to_owned()),
        false => Known::Value(chooser.sources.join(", ")),
    };
    let performance = Performance {
        read_latency_ns,
        write_latency_ns,
        read_bandwidth_bytes_per_s,
        write_bandwidth_bytes_per_s,
        source,
    };
    Declared {
        performance,
        remarks: chooser.remarks,
    }
}

/// Chooses number by number, and keeps the sources used and what was odd.
struct Chooser<'a> {
    classes: &'a [&'a AccessClass],
    gap: &'a str,
    possible_ns: RangeInclusive<f64>,
    sources: Vec<String>,
    remarks: Vec<String>,
}

/// A number as found, and where.
struct Candidate<'a> {
    source: &'a str,
    value: f64,
}

impl<'a> Chooser<'a> {
    fn candidates(&self, field: impl Fn(&AccessClass) -> Option<u64>) -> Vec<Candidate<'a>> {
        let found = self.classes.iter().filter_map(|class| {
            Some(Candidate {
                source: &class.source,
                value: field(class)? as f64,
            })
        });
        found.collect()
    }

    fn used(&mut self, source: &str) {
        if !self.sources.iter().any(|known| known == source) {
            self.sources.push(source.to_owned());
        }
    }

    fn latency(&mut self, name: &str, field: impl Fn(&AccessClass) -> Option<u64>) -> Known<f64> {
        let found = self.candidates(field);
        let taken = found
            .iter()
            .find(|found| self.possible_ns.contains(&found.value));
        let Some(taken) = taken else {
            return self.implausible(&found, name, "ns", &self.possible_ns);
        };
        self.used(taken.source);
        let differs = |other: &&Candidate| (other.value / taken.value - 1.0).abs() > SAME_RATIO;
        for other in found.iter().filter(differs) {
            self.remarks.push(format!(
                "{} gives {name} as {} ns; taken is {}'s {} ns",
                other.source, other.value, taken.source, taken.value
            ));
        }
        Known::Value(taken.value)
    }

    fn bandwidth(&mut self, name: &str, field: impl Fn(&AccessClass) -> Option<u64>) -> Known<f64> {
        let found = self.candidates(field);
        if let Some(taken) = found
            .iter()
            .find(|found| BANDWIDTH_MIB_PER_S.contains(&found.value))
        {
            self.used(taken.source);
            return Known::Value(taken.value * MIB);
        }
        self.implausible(&found, name, "MiB/s", &BANDWIDTH_MIB_PER_S)
    }

    fn implausible(
        &self,
        found: &[Candidate],
        name: &str,
        unit: &str,
        possible: &RangeInclusive<f64>,
    ) -> Known<f64> {
        let Some(Candidate { source, value }) = found.first() else {
            return Known::unavailable(self.gap.to_owned());
        };
        let (min, max) = (possible.start(), possible.end());
        let cause = match value > max && unit == "ns" {
            true => "; some kernels, such as Linux 6.12.107, add picoseconds to it",
            false => "",
        };
        Known::unavailable(format!(
            "{source} gives {name} as {value} {unit}, possible here is {min} to {max}{cause}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(source: &str, latency_ns: u64, bandwidth_mib_per_s: u64) -> AccessClass {
        AccessClass {
            source: source.to_owned(),
            initiators: Vec::new(),
            read_latency_ns: Some(latency_ns),
            write_latency_ns: None,
            read_bandwidth_mib_per_s: Some(bandwidth_mib_per_s),
            write_bandwidth_mib_per_s: None,
        }
    }

    fn choose_cxl(classes: &[&AccessClass]) -> Declared {
        choose(classes, "gap", cxl_latency_ns(Some(100.0)))
    }

    #[test]
    fn a_nodes_plausible_latency_is_taken_before_a_regions() {
        let (node, region) = (
            class("node1/access0", 250, 1),
            class("region0/access1", 332, 1),
        );
        let declared = choose_cxl(&[&node, &region]);
        assert_eq!(declared.performance.read_latency_ns, Known::Value(250.0));
        assert_eq!(
            declared.performance.source,
            Known::Value("node1/access0".to_owned())
        );
        let remark =
            "region0/access1 gives read_latency as 332 ns; taken is node1/access0's 250 ns";
        assert_eq!(declared.remarks, [remark]);
    }

    #[test]
    fn a_regions_plausible_latency_is_taken_before_a_nodes_implausible_one() {
        let (node, region) = (
            class("node1/access0", 17_330, 1),
            class("region0/access1", 332, 1),
        );
        let declared = choose_cxl(&[&node, &region]);
        assert_eq!(declared.performance.read_latency_ns, Known::Value(332.0));
        assert!(
            declared.remarks[0].starts_with("node1/access0 gives"),
            "{:?}",
            declared.remarks
        );
        assert_eq!(
            declared.performance.write_latency_ns,
            Known::unavailable("gap")
        );
    }

    #[test]
    fn latencies_that_cxl_memory_cannot_have_are_unavailable() {
        for latency_ns in [0, 99, 1001, 17_330, 4_294_967_295] {
            let region = class("region0/access1", latency_ns, 1);
            let performance = choose_cxl(&[&region]).performance;
            let reason = performance.read_latency_ns.reason().unwrap();
            let expected = format!(
                "region0/access1 gives read_latency as {latency_ns} ns, possible here is 100 to 1000"
            );
            assert!(reason.starts_with(&expected), "{reason}");
            assert_eq!(reason.contains("picoseconds"), latency_ns > 1000);
            assert!(performance.read_bandwidth_bytes_per_s.is_known());
        }
    }

    #[test]
    fn a_bandwidth_of_zero_is_unavailable() {
        let node = class("node1/access0", 250, 0);
        let performance = choose(&[&node], "gap", any_latency_ns()).performance;
        assert!(!performance.read_bandwidth_bytes_per_s.is_known());
    }
}
