//! The list of what runs where.
//!
//! A test that needs a topology stands in its crate's integration tests, in the module
//! `testbed::TOPOLOGY`, and is ignored with the reason `needs the topology NAME: cargo xtask testbed
//! NAME`. A test of this module sees to it that this list has every such test, once.

/// A feature that is checked on a topology.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name of the topology.
    pub topology: &'static str,
    /// What is shown to work; a row of the table.
    pub feature: &'static str,
    pub work: Work,
    /// After so long it is killed. Guests are emulated: a second natively takes ten to thirty.
    pub limit_seconds: u64,
    /// Whether CI runs it.
    pub ci: bool,
}

/// What is done in the guest.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// These tests of the package's integration tests, in a process of their own.
    Tests {
        package: &'static str,
        tests: &'static [&'static str],
    },
    /// Shell lines, every one of which has to succeed, and what their output must hold.
    Command {
        command: &'static str,
        expected: &'static str,
    },
    /// Two tests of the package, each on a machine of its own: that of the first is killed once one of them has said so.
    Failover {
        package: &'static str,
        tests: [&'static str; 2],
    },
}

impl Check {
    /// A test's name within its binary.
    pub fn test_name(&self, test: &str) -> String {
        format!("testbed::{}::{test}", self.topology.replace('-', "_"))
    }

    /// Whether its package, its feature or one of its tests has `text` in its name.
    pub fn mentions(&self, text: &str) -> bool {
        let (package, tests) = match &self.work {
            Work::Tests { package, tests } => (*package, *tests),
            Work::Failover { package, tests } => (*package, &tests[..]),
            Work::Command { .. } => ("", &[][..]),
        };
        let names = tests.iter().chain([&package, &self.feature]);
        names.into_iter().any(|name| name.contains(text))
    }
}

/// As [`tests`], but not in CI.
const fn tests_apart(
    topology: &'static str,
    feature: &'static str,
    package: &'static str,
    names: &'static [&'static str],
) -> Check {
    Check {
        ci: false,
        ..tests(topology, feature, package, names)
    }
}

const fn tests(
    topology: &'static str,
    feature: &'static str,
    package: &'static str,
    tests: &'static [&'static str],
) -> Check {
    Check {
        topology,
        feature,
        work: Work::Tests { package, tests },
        limit_seconds: 120,
        ci: true,
    }
}

const TOPOLOGY: &str = "nearfar-topology";
const MEMORY: &str = "nearfar-memory";
const INDEX: &str = "nearfar-index";
const INDEX_BENCH: &str = "nearfar-index-bench";
const REGULATE: &str = "nearfar-regulate";
const RDMA: &str = "nearfar-rdma";
const PROGRAM: &str = "nearfar";

/// Rows of the table that several topologies have.
const DISCOVERY: &str = "discovery as configured";
const PLACEMENT: &str = "placement, page by page";
const MIGRATION: &str = "online migration";
const HEAPS: &str = "heaps and the thread-following allocator";
const TREES: &str = "trees and the migration of their nodes";
const EXHAUSTION: &str = "budgets against real exhaustion";
const DAX: &str = "DAX devices and files in memory";
const REMOTE: &str = "memory of another host over RDMA";

/// Everything that runs in guests.
pub const CHECKS: &[Check] = &[
    tests(
        "one-node",
        DISCOVERY,
        TOPOLOGY,
        &["one_node_is_near_and_nothing_is_far"],
    ),
    Check {
        topology: "one-node",
        feature: "NVMe disk and fio",
        work: Work::Command {
            command: "modprobe nvme
until [ -b /dev/nvme0n1 ]; do sleep 0.1; done
fio --name=smoke --filename=/dev/nvme0n1 --ioengine=libaio --direct=1 --rw=randrw --bs=4k \
    --iodepth=8 --size=16M --verify=crc32c --output-format=json",
            expected: "\"error\" : 0",
        },
        limit_seconds: 60,
        ci: true,
    },
    Check {
        topology: "one-node",
        feature: "SoftRoCE",
        work: Work::Command {
            command: "modprobe virtio_net
modprobe crc32_generic
modprobe rdma_rxe
modprobe ib_uverbs
ip link set eth0 up
ip addr add 10.0.0.1/24 dev eth0
rdma link add rxe0 type rxe netdev eth0
ibv_rc_pingpong -d rxe0 -g 1 -n 100 &
sleep 1
ibv_rc_pingpong -d rxe0 -g 1 -n 100 10.0.0.1
wait",
            expected: "100 iters in",
        },
        limit_seconds: 60,
        ci: true,
    },
    tests(
        "one-node",
        REMOTE,
        RDMA,
        &[
            "operators_over_remote_columns_give_the_same_answers",
            "what_was_not_offered_is_refused",
            "leases_end_and_memory_comes_back",
            "threads_share_connections_and_regions",
            "hostile_peers_harm_nobody_else",
            "a_server_that_stops_is_lost_by_its_name",
            "damaged_columns_are_noticed",
            "more_connections_are_given_up_than_a_client_may_have",
        ],
    ),
    // Apart, so that each process ends within its time on a machine that has other work.
    tests(
        "one-node",
        REMOTE,
        RDMA,
        &[
            "copiers_write_columns_behind_a_producer",
            "columns_of_which_not_all_was_written_are_none",
            "writes_by_copiers_end_when_they_are_cancelled_or_their_server_is_gone",
        ],
    ),
    tests(
        "one-node",
        "nearfar memory",
        PROGRAM,
        &[
            "memory_is_served_tried_and_taken_back",
            "a_server_that_is_killed_is_told_by_its_name",
        ],
    ),
    tests(
        "one-node",
        "nearfar measure interference",
        PROGRAM,
        &["storage_and_memory_are_measured_beside_each_other"],
    ),
    tests(
        "one-node",
        "limits of control groups",
        MEMORY,
        &["the_limit_of_a_control_group_is_kept_and_kills_nobody"],
    ),
    tests(
        "one-node",
        "quotas and pins of a regulator, undone after kills",
        REGULATE,
        &[
            "a_quota_slows_its_group_until_the_regulator_ends",
            "a_group_is_moved_off_the_victims_core_and_back",
            "a_controller_that_goes_away_ends_the_regulator_and_leaves_no_quota",
            "a_regulator_that_is_killed_leaves_no_quota",
        ],
    ),
    tests(
        "far-node",
        DISCOVERY,
        TOPOLOGY,
        &[
            "tiers_are_as_firmware_declares_them",
            "the_kernels_own_tiers_have_the_same_order",
        ],
    ),
    tests(
        "far-node",
        PLACEMENT,
        MEMORY,
        &[
            "every_page_of_every_placement_lies_where_it_says",
            "the_nodes_own_counts_agree",
            "the_discovered_tiers_can_be_used_by_name",
        ],
    ),
    tests(
        "far-node",
        "weighted interleave, the kernel's and by page runs",
        MEMORY,
        &["the_kernels_weighted_interleave_and_page_runs_agree"],
    ),
    tests(
        "far-node",
        "huge pages",
        MEMORY,
        &["reserved_huge_pages_are_used_where_the_tier_has_them"],
    ),
    tests(
        "far-node",
        EXHAUSTION,
        MEMORY,
        &[
            "a_full_node_refuses_and_kills_nobody",
            "a_migration_to_a_full_node_leaves_all_as_it_was",
        ],
    ),
    tests(
        "far-node",
        MIGRATION,
        MEMORY,
        &["regions_move_between_nodes_while_they_are_read"],
    ),
    tests(
        "far-node",
        HEAPS,
        MEMORY,
        &[
            "what_a_thread_allocates_lies_on_its_tier",
            "a_tier_heap_lies_on_its_node",
        ],
    ),
    Check {
        limit_seconds: 400,
        ..tests_apart(
            "far-node",
            TREES,
            INDEX,
            &[
                "every_page_of_a_tree_lies_on_the_node_of_its_tier",
                "a_placer_moves_hot_leaves_to_the_near_node",
            ],
        )
    },
    tests_apart(
        "far-node",
        "nearfar bench index",
        INDEX_BENCH,
        &["trees_are_measured_under_every_policy_of_nodes"],
    ),
    Check {
        limit_seconds: 400,
        ..tests_apart(
            "far-node",
            "the kernel's own placement beside it",
            INDEX_BENCH,
            &["the_kernel_places_pages_of_trees_and_is_as_before_afterwards"],
        )
    },
    tests(
        "far-node",
        "causes and victims of a regulator",
        REGULATE,
        &[
            "of_two_groups_the_one_that_computes_in_far_memory_is_slowed",
            "a_victim_is_seen_by_its_pressure_and_by_latency",
        ],
    ),
    Check {
        limit_seconds: 300,
        ..tests(
            "far-node",
            "nearfar regulate, from a victim's number to a quota and back",
            PROGRAM,
            &["a_victim_has_its_speed_back_and_a_killed_regulator_is_undone"],
        )
    },
    tests(
        "far-node",
        "nearfar measure interference",
        PROGRAM,
        &["storage_and_both_tiers_are_measured_beside_each_other"],
    ),
    tests(
        "far-node",
        "nearfar tiers",
        PROGRAM,
        &["both_tiers_are_shown_as_declared_and_probed"],
    ),
    tests(
        "far-node",
        "nearfar tpch",
        PROGRAM,
        &["tpch_is_measured_with_its_data_on_the_second_node"],
    ),
    Check {
        limit_seconds: 400,
        ..tests_apart(
            "far-node",
            "benchmarks beside the model",
            PROGRAM,
            &["benchmarks_on_the_second_node_are_compared_with_the_model"],
        )
    },
    tests(
        "far-node",
        "SQL tablespaces",
        PROGRAM,
        &[
            "tablespaces_are_nodes",
            "operator_memory_can_lie_on_the_second_node",
        ],
    ),
    tests(
        "two-sockets",
        DISCOVERY,
        TOPOLOGY,
        &[
            "nodes_of_one_class_are_one_tier",
            "the_second_socket_sees_what_is_declared_for_it",
        ],
    ),
    tests(
        "two-sockets",
        PLACEMENT,
        MEMORY,
        &[
            "the_nodes_of_a_tier_share_its_pages_evenly",
            "single_nodes_of_a_tier_are_places_and_are_charged_to_it",
        ],
    ),
    tests(
        "two-sockets",
        MIGRATION,
        MEMORY,
        &["regions_move_to_both_nodes_and_back"],
    ),
    tests(
        "two-sockets",
        HEAPS,
        MEMORY,
        &["a_heap_on_two_nodes_uses_both"],
    ),
    Check {
        limit_seconds: 900,
        ..tests_apart(
            "two-sockets",
            TREES,
            INDEX,
            &[
                "every_page_of_a_tree_on_three_tiers_lies_on_a_node_of_its_tier",
                "a_placer_moves_hot_leaves_from_tier_to_tier",
            ],
        )
    },
    tests(
        "cxl-node",
        DISCOVERY,
        TOPOLOGY,
        &[
            "a_region_is_a_tier_with_its_devices",
            "a_latency_is_the_link_s_or_is_not_believed",
        ],
    ),
    tests(
        "cxl-node",
        PLACEMENT,
        MEMORY,
        &["every_page_of_every_placement_lies_where_it_says"],
    ),
    tests(
        "cxl-node",
        MIGRATION,
        MEMORY,
        &["regions_move_between_nodes_while_they_are_read"],
    ),
    tests("cxl-node", HEAPS, MEMORY, &["a_heap_can_lie_in_cxl_memory"]),
    Check {
        limit_seconds: 400,
        ..tests_apart(
            "cxl-node",
            TREES,
            INDEX,
            &[
                "every_page_of_a_tree_lies_on_the_node_of_its_tier",
                "a_placer_moves_hot_leaves_to_the_near_node",
            ],
        )
    },
    tests(
        "cxl-dax",
        DISCOVERY,
        TOPOLOGY,
        &["a_dax_device_is_a_tier_that_is_mapped_by_its_name"],
    ),
    tests(
        "cxl-dax",
        DAX,
        MEMORY,
        &[
            "a_dax_device_keeps_what_was_written_to_it",
            "regions_and_heaps_lie_on_the_device",
        ],
    ),
    tests(
        "pmem",
        DISCOVERY,
        TOPOLOGY,
        &["only_what_is_a_dax_device_is_a_tier"],
    ),
    tests(
        "pmem",
        DAX,
        MEMORY,
        &[
            "a_file_in_persistent_memory_needs_no_flush",
            "a_dax_device_of_persistent_memory_needs_no_flush",
            "memory_that_ends_with_the_machine_is_not_called_durable",
        ],
    ),
    Check {
        topology: "two-hosts",
        feature: "a host is killed, another takes over",
        work: Work::Failover {
            package: MEMORY,
            tests: [
                "a_host_publishes_until_it_is_killed",
                "the_other_host_finds_all_that_was_published",
            ],
        },
        limit_seconds: 120,
        ci: true,
    },
    Check {
        topology: "two-hosts",
        feature: "one copy of replicated tables for two hosts",
        work: Work::Failover {
            package: PROGRAM,
            tests: [
                "a_node_keeps_its_tables_in_the_common_memory_until_its_host_is_killed",
                "the_other_node_reads_them_there",
            ],
        },
        limit_seconds: 400,
        ci: true,
    },
    Check {
        topology: "two-hosts",
        feature: "a server's host is killed, another server takes over",
        work: Work::Failover {
            package: PROGRAM,
            tests: [
                "a_server_keeps_its_tables_in_the_common_memory_until_its_host_is_killed",
                "a_server_that_stands_by_on_the_other_host_takes_over",
            ],
        },
        limit_seconds: 400,
        ci: true,
    },
    Check {
        topology: "rdma-hosts",
        feature: REMOTE,
        work: Work::Failover {
            package: RDMA,
            tests: [
                "a_host_offers_memory_until_it_is_killed",
                "operators_use_the_other_host_and_fail_by_its_name",
            ],
        },
        limit_seconds: 120,
        ci: true,
    },
    Check {
        topology: "rdma-hosts",
        feature: "SQL over columns of another host",
        work: Work::Failover {
            package: PROGRAM,
            tests: [
                "the_program_serves_memory_until_its_host_is_killed",
                "queries_scan_the_other_host_and_fail_by_its_name",
            ],
        },
        limit_seconds: 300,
        ci: true,
    },
    tests(
        "odd-nodes",
        DISCOVERY,
        TOPOLOGY,
        &[
            "a_socket_without_memory_is_no_tier_but_has_cpus",
            "a_node_that_goes_offline_is_no_tier_until_it_is_back",
        ],
    ),
    tests(
        "odd-nodes",
        EXHAUSTION,
        MEMORY,
        &["a_node_that_keeps_pages_back_is_full_and_kills_nobody"],
    ),
    tests(
        "odd-nodes",
        "nodes without memory or offline",
        MEMORY,
        &[
            "a_tier_on_a_socket_without_memory_is_an_error",
            "a_region_notices_that_its_node_went_offline",
        ],
    ),
];

#[cfg(test)]
mod tests_of_the_list {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use super::*;
    use crate::build::workspace;
    use crate::topology::{ALL, find};

    /// The tests of the packages' `testbed` modules, by package, topology and name; each is checked
    /// for its reason.
    fn tests_in_crates() -> BTreeSet<(String, String, String)> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(workspace().unwrap().join("crates")).unwrap() {
            let folder = entry.unwrap().path();
            let package = folder.file_name().unwrap().to_str().unwrap().to_owned();
            for topology in &ALL {
                let file = folder
                    .join("tests/integration/testbed")
                    .join(format!("{}.rs", topology.name.replace('-', "_")));
                let text = fs::read_to_string(&file).unwrap_or_default();
                let name = topology.name;
                let reason = format!(
                    "#[ignore = \"needs the topology {name}: cargo xtask testbed {name}\"]"
                );
                for after in text.split("#[test]\n").skip(1) {
                    let (first, rest) = after.split_once('\n').unwrap();
                    assert_eq!(first, reason, "{}", file.display());
                    let test = rest.strip_prefix("fn ").unwrap().split('(').next().unwrap();
                    found.insert((package.clone(), name.to_owned(), test.to_owned()));
                }
            }
        }
        found
    }

    #[test]
    fn every_test_that_needs_a_topology_is_listed_once() {
        let mut listed: BTreeMap<(String, String, String), u32> = BTreeMap::new();
        for check in CHECKS {
            let (package, tests) = match &check.work {
                Work::Tests { package, tests } => (package, *tests),
                Work::Failover { package, tests } => (package, &tests[..]),
                Work::Command { .. } => continue,
            };
            for test in tests {
                let key = (*package).to_owned();
                let key = (key, check.topology.to_owned(), (*test).to_owned());
                *listed.entry(key).or_default() += 1;
            }
        }
        assert!(listed.values().all(|count| *count == 1), "{listed:?}");
        let listed: BTreeSet<_> = listed.into_keys().collect();
        let in_crates = tests_in_crates();
        let only_listed: Vec<_> = listed.difference(&in_crates).collect();
        let not_listed: Vec<_> = in_crates.difference(&listed).collect();
        assert!(only_listed.is_empty(), "in no crate: {only_listed:?}");
        assert!(not_listed.is_empty(), "not in the list: {not_listed:?}");
    }

    /// Rows of the table in `docs/testbed.md`: each feature with its numbers, as far as there are any.
    fn rows_of_the_document() -> BTreeMap<String, BTreeMap<String, usize>> {
        let file = workspace().unwrap().join("docs/testbed.md");
        let text = fs::read_to_string(file).unwrap();
        let lines = text
            .lines()
            .skip_while(|line| !line.starts_with("| feature |"));
        let mut rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect::<Vec<_>>()
        });
        let head = rows.next().unwrap();
        let of = |row: Vec<&str>| {
            let numbers = head.iter().zip(&row).skip(1);
            let numbers = numbers.filter(|(_, number)| !number.is_empty());
            let numbers =
                numbers.map(|(name, number)| ((*name).to_owned(), number.parse().unwrap()));
            (row[0].to_owned(), numbers.collect())
        };
        rows.skip(1).map(of).collect()
    }

    #[test]
    fn the_document_has_every_feature_with_its_number_of_tests() {
        let mut listed: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for check in CHECKS {
            let tests = match &check.work {
                Work::Tests { tests, .. } => tests.len(),
                Work::Failover { tests, .. } => tests.len(),
                Work::Command { .. } => 1,
            };
            let row = listed.entry(check.feature.to_owned()).or_default();
            *row.entry(check.topology.to_owned()).or_default() += tests;
        }
        assert_eq!(rows_of_the_document(), listed);
    }

    #[test]
    fn every_topology_is_known_and_has_work() {
        for check in CHECKS {
            find(check.topology).unwrap();
        }
        for topology in &ALL {
            let mut checks = CHECKS
                .iter()
                .filter(|check| check.topology == topology.name);
            assert!(
                checks.any(|check| check.ci),
                "{} has no work in CI",
                topology.name
            );
        }
    }
}
