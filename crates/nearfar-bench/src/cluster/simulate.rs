//! What limits a cluster of many nodes, in virtual time: one join of `lineitem` and `orders`, as large as the cluster.
//!
//! A coordinator pins a state on all nodes, sends each task its plan one after another, and takes the tasks' results
//! one after another. Each node scans its share, sends rows to the node of their key while it does, and joins what has
//! come; with both tables divided by the key, nothing is sent. A node has all rows when the last one that sends some
//! has sent them. How long each task takes is drawn.
//!
//! What a limit costs is the time of the query less that of the same query, with the same numbers drawn, on a machine
//! that does not have the limit. Limits overlap, so that these do not add up. All figures are modelled, and the
//! numbers of [`Machine::assumed`] are assumptions.

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use crate::tpcc::random::Random;

/// Queries of each kind, whose numbers are drawn from seeds of their own.
const QUERIES: u64 = 25;
/// The scale factor of TPC-H for each node.
const SCALE_FACTOR_PER_NODE: f64 = 100.0;
/// Rows of `lineitem` and `orders` at scale factor 1, and the bytes of those columns that the join needs.
const LINEITEM: (f64, f64) = (6.0e6, 40.0);
const ORDERS: (f64, f64) = (1.5e6, 24.0);

/// A node and its network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Rows that all cores together scan and divide by key, in a second.
    pub scanned_rows_per_s: f64,
    /// Rows that all cores together join and aggregate, in a second.
    pub joined_rows_per_s: f64,
    /// What the network takes from a node, and brings to it, in a second.
    pub network_bytes_per_s: f64,
    /// The shortest time of a question and its answer, and the mean of what comes on top, exponentially distributed.
    pub round_trip_s: (f64, f64),
    /// What one plan, or one result, takes of the coordinator's processor.
    pub message_s: f64,
    /// The bytes of a plan, and of a task's result.
    pub message_bytes: f64,
    /// The coefficient of variation of a task's time, which is lognormal.
    pub variation: f64,
}

impl Machine {
    /// 32 cores, of which each scans 100 and joins 10 million rows in a second, at 25 Gbit/s. Measured of none.
    pub fn assumed() -> Self {
        Self {
            scanned_rows_per_s: 32.0 * 100.0e6,
            joined_rows_per_s: 32.0 * 10.0e6,
            network_bytes_per_s: 25.0e9 / 8.0,
            round_trip_s: (100.0e-6, 100.0e-6),
            message_s: 100.0e-6,
            message_bytes: 50.0e3,
            variation: 0.1,
        }
    }

    fn without(self, limit: Limit) -> Self {
        match limit {
            Limit::Network => Self {
                network_bytes_per_s: f64::INFINITY,
                ..self
            },
            Limit::Coordinator => Self {
                round_trip_s: (0.0, 0.0),
                message_s: 0.0,
                message_bytes: 0.0,
                ..self
            },
            Limit::Stragglers => Self {
                variation: 0.0,
                ..self
            },
        }
    }
}

/// What makes a query slower than its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Network,
    Coordinator,
    Stragglers,
}

const LIMITS: [(Limit, &str); 3] = [
    (Limit::Network, "cluster_simulated_network_s"),
    (Limit::Coordinator, "cluster_simulated_coordinator_s"),
    (Limit::Stragglers, "cluster_simulated_stragglers_s"),
];

/// Where the rows are that are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    /// On the node of another key.
    Shuffled,
    /// On the node of the join's key.
    InPlace,
}

impl Join {
    /// What a node sends to others.
    fn sent_bytes(self, nodes: usize) -> f64 {
        let own = LINEITEM.0 * LINEITEM.1 + ORDERS.0 * ORDERS.1;
        match self {
            Self::Shuffled => SCALE_FACTOR_PER_NODE * own * (1.0 - 1.0 / nodes as f64),
            Self::InPlace => 0.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shuffled => "shuffled",
            Self::InPlace => "in place",
        }
    }
}

/// A lognormal number whose mean is 1.
fn varied(random: &mut Random, variation: f64) -> f64 {
    let variance = (variation * variation).ln_1p();
    // Box and Muller's transformation (1958).
    let radius = (-2.0 * random.share().ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.share()).cos();
    (variance.sqrt() * normal - variance / 2.0).exp()
}

fn largest(times: impl IntoIterator<Item = f64>) -> f64 {
    times.into_iter().fold(0.0, f64::max)
}

/// The seconds that a query takes.
fn query_s(machine: &Machine, nodes: usize, join: Join, seed: u64) -> f64 {
    let mut random = Random::new(seed, 0);
    let rows = SCALE_FACTOR_PER_NODE * (LINEITEM.0 + ORDERS.0);
    let (shortest, more) = machine.round_trip_s;
    let pinned = largest((0..nodes).map(|_| shortest - more * random.share().ln()));
    let message_s = machine.message_s + machine.message_bytes / machine.network_bytes_per_s;
    let network_s = join.sent_bytes(nodes) / machine.network_bytes_per_s;
    let tasks: Vec<(f64, f64, f64)> = (0..nodes)
        .map(|task| {
            let begun = pinned + (task + 1) as f64 * message_s;
            let scan = rows / machine.scanned_rows_per_s * varied(&mut random, machine.variation);
            let joining = rows / machine.joined_rows_per_s * varied(&mut random, machine.variation);
            (begun, scan, joining)
        })
        .collect();
    // Nobody has all rows before the last one has sent its own.
    let complete = match join {
        Join::Shuffled => largest(
            tasks
                .iter()
                .map(|(begun, scan, _)| begun + scan.max(network_s)),
        ),
        Join::InPlace => 0.0,
    };
    let ends = tasks
        .iter()
        .map(|(begun, scan, joining)| (begun + scan + joining).max(complete));
    let mut ends: Vec<f64> = ends.collect();
    ends.sort_unstable_by(f64::total_cmp);
    ends.into_iter()
        .fold(0.0, |merged: f64, end| merged.max(end) + message_s)
}

/// The figures of clusters of so many nodes.
pub fn simulated(machine: &Machine, nodes: &[usize]) -> Vec<Metric> {
    let mut figures = Vec::new();
    for join in [Join::Shuffled, Join::InPlace] {
        let alone = median(machine, 1, join, |_, time| time);
        for nodes in nodes.iter().copied() {
            let mut add = |name: &str, value: f64, unit: &str| {
                let metric = Metric::new(name, value, unit, Kind::Modelled);
                figures.push(metric.with("nodes", nodes).with("join", join.name()));
            };
            let time = median(machine, nodes, join, |_, time| time);
            add("cluster_simulated_query_s", time, "s");
            add("cluster_simulated_efficiency", alone / time, "ratio");
            add(
                "cluster_simulated_sent_bytes",
                join.sent_bytes(nodes) * nodes as f64,
                "bytes",
            );
            for (limit, name) in LIMITS {
                let ideal = machine.without(limit);
                let cost = |seed, time| time - query_s(&ideal, nodes, join, seed);
                add(name, median(machine, nodes, join, cost), "s");
            }
        }
    }
    figures
}

/// The median of what `figure` makes of a query's seed and time.
fn median(machine: &Machine, nodes: usize, join: Join, figure: impl Fn(u64, f64) -> f64) -> f64 {
    let times = (0..QUERIES).map(|seed| figure(seed, query_s(machine, nodes, join, seed)));
    Summary::of(times).map_or(0.0, |summary| summary.median)
}

/// What was simulated, for the header of results.
pub fn simulated_configuration(machine: &Machine, nodes: &[usize]) -> Value {
    json!({
        "nodes": nodes,
        "sf_per_node": SCALE_FACTOR_PER_NODE,
        "scanned_rows_per_s": machine.scanned_rows_per_s,
        "joined_rows_per_s": machine.joined_rows_per_s,
        "network_bytes_per_s": machine.network_bytes_per_s,
        "round_trip_s": [machine.round_trip_s.0, machine.round_trip_s.1],
        "message_s": machine.message_s,
        "message_bytes": machine.message_bytes,
        "variation": machine.variation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without any limit but its work.
    fn ideal() -> Machine {
        LIMITS
            .into_iter()
            .fold(Machine::assumed(), |machine, (limit, _)| {
                machine.without(limit)
            })
    }

    #[test]
    fn without_limits_a_query_takes_its_work_on_any_number_of_nodes() {
        let rows = SCALE_FACTOR_PER_NODE * (LINEITEM.0 + ORDERS.0);
        let machine = ideal();
        let work = rows / machine.scanned_rows_per_s + rows / machine.joined_rows_per_s;
        for (nodes, join) in [
            (1, Join::Shuffled),
            (100, Join::Shuffled),
            (100, Join::InPlace),
        ] {
            let time = query_s(&machine, nodes, join, 1);
            assert!(
                (time - work).abs() < 1e-9,
                "{nodes} nodes: {time} s, not {work}"
            );
        }
    }

    #[test]
    fn a_network_that_is_slower_than_the_work_sets_the_pace() {
        let machine = Machine {
            network_bytes_per_s: 1.0e9,
            ..ideal()
        };
        // (600e6 rows × 40 B + 150e6 × 24 B) × 99 % at 1 GB/s.
        let time = query_s(&machine, 100, Join::Shuffled, 1);
        assert!((time - 27.324).abs() < 1e-6, "{time}");
        let time = query_s(&machine, 100, Join::InPlace, 1);
        assert!(time < 3.0, "{time}");
    }

    #[test]
    fn the_slowest_of_many_is_as_far_off_as_order_statistics_say() {
        // The largest of 100 normal numbers is expected 2.51 standard deviations above their mean (Tippett, 1925).
        let slowest = (0..1000).map(|seed| {
            let mut random = Random::new(seed, 0);
            largest((0..100).map(|_| varied(&mut random, 0.01)))
        });
        let mean = slowest.sum::<f64>() / 1000.0;
        assert!((mean - 1.0251).abs() < 0.001, "{mean}");
    }

    #[test]
    fn each_message_waits_for_the_one_before() {
        let machine = Machine {
            message_s: 0.01,
            ..ideal()
        };
        // The last plan goes out after 100 messages, and one result comes behind it.
        let waited =
            query_s(&machine, 100, Join::InPlace, 1) - query_s(&ideal(), 100, Join::InPlace, 1);
        assert!((waited - 1.01).abs() < 1e-9, "{waited}");
    }

    #[test]
    fn all_figures_are_modelled_and_the_same_each_time() {
        let figures = simulated(&Machine::assumed(), &[1, 100]);
        assert_eq!(figures, simulated(&Machine::assumed(), &[1, 100]));
        assert_eq!(figures.len(), 2 * 2 * 6);
        assert!(figures.iter().all(|figure| figure.kind == Kind::Modelled));
    }
}
