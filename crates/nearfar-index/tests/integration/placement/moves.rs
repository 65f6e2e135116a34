//! What is moved where.

use std::time::Duration;

use nearfar_index::placement::{PlacedTree, PlacementOptions, Placer};
use nearfar_memory::TierId;
use proptest::prelude::*;

use super::support::{MIB, Watched, bins, run, tier};

const KEYS: u32 = 20_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A tree of about 4,400 nodes and 1.2 MB with room for a quarter of it near.
fn small() -> Watched {
    Watched::new(&[300_000, 64 * MIB], KEYS)
}

fn both() -> [PlacementOptions; 2] {
    [PlacementOptions::default(), PlacementOptions::fitted()]
}

#[test]
fn hot_leaves_end_near_and_cold_ones_far() {
    for options in both() {
        let tree = small();
        let placer = Placer::new(&tree, options).unwrap();
        let hot = KEYS / 2..KEYS / 2 + KEYS / 20;
        assert_eq!(tree.share_on(TierId::NEAR, hot.clone()), 0.0);
        run(&placer, seconds(10), || tree.read(hot.clone(), 20));
        assert!(tree.share_on(TierId::NEAR, hot) > 0.99);
        let statistics = placer.statistics();
        let near = &statistics.tiers[0];
        assert!(
            near.ledger.used_share() <= 0.95,
            "{}",
            near.ledger.used_share()
        );
        tree.check();
    }
}

#[test]
fn a_hot_region_that_moves_is_followed_within_six_seconds() {
    for options in both() {
        let tree = small();
        let placer = Placer::new(&tree, options).unwrap();
        let regions = [1, 7, 13].map(|part| KEYS / 20 * part..KEYS / 20 * (part + 1));
        for (turn, hot) in (0..).zip(regions) {
            run(&placer, seconds(20 * turn + 2), || {
                tree.read(hot.clone(), 20)
            });
            let soon = tree.share_on(TierId::NEAR, hot.clone());
            assert!(turn == 0 || soon > 0.84, "{soon} after two seconds");
            run(&placer, seconds(20 * turn + 6), || {
                tree.read(hot.clone(), 20)
            });
            let share = tree.share_on(TierId::NEAR, hot.clone());
            assert!(share > 0.99, "{share} after six seconds");
            run(&placer, seconds(20 * (turn + 1)), || {
                tree.read(hot.clone(), 20)
            });
        }
        tree.check();
    }
}

#[test]
fn fitted_leaves_make_room_whatever_abundance_has_made_of_levels() {
    let tree = small();
    let placer = Placer::new(&tree, PlacementOptions::fitted()).unwrap();
    run(&placer, seconds(5), || {});
    let height = u8::try_from(tree.height()).unwrap();
    assert_eq!(placer.statistics().tiers[0].parameters.demote_level, height);
    for (turn, part) in (1..).zip([2, 15, 8]) {
        let hot = KEYS / 10 * part / 2..KEYS / 10 * (part / 2 + 1);
        run(&placer, seconds(5 + 10 * turn), || {
            tree.read(hot.clone(), 20)
        });
        assert!(tree.share_on(TierId::NEAR, hot) > 0.99);
    }
}

/// Where no leaf is hotter than others, the nodes above them are: all of them fit near.
#[test]
fn ways_that_lukewarm_leaves_share_come_near() {
    let tree = small();
    let placer = Placer::new(&tree, PlacementOptions::fitted()).unwrap();
    let before = tree.share_with_near_parents();
    assert!(before < 0.9, "{before}");
    run(&placer, seconds(20), || tree.read(0..KEYS, 1));
    let after = tree.share_with_near_parents();
    assert!(after > 0.98, "{before}, then {after}");
    let used = placer.statistics().tiers[0].ledger.used_share();
    assert!(used <= 0.95, "{used}");
    tree.check();
}

#[test]
fn the_histogram_is_a_recount() {
    let tree = small();
    let placer = Placer::new(&tree, PlacementOptions::default()).unwrap();
    tree.read(100..500, 30);
    tree.read(0..KEYS, 1);
    placer.step(Duration::from_millis(500));
    let seen = placer.statistics();
    assert_eq!(bins(&seen.histogram), tree.recount(|uses, _| uses));
    assert_eq!(seen.histogram.total_leaves(), tree.leaves());
    // The cooler halves the leaves and shifts the bins alike.
    placer.step(Duration::from_millis(2000));
    assert_eq!(
        bins(&placer.statistics().histogram),
        tree.recount(|uses, _| uses)
    );
    assert_eq!(placer.statistics().passes, 2);
}

#[test]
fn leaves_are_looked_at_part_by_part() {
    let tree = small();
    let options = PlacementOptions {
        leaves_per_wakeup_max: Some(100),
        ..PlacementOptions::default()
    };
    let placer = Placer::new(&tree, options).unwrap();
    tree.read(0..KEYS, 3);
    let mut before = 0;
    while placer.statistics().passes == 0 {
        placer.step(placer.next_wakeup());
        let looked = placer.statistics().leaves_scanned;
        assert!(
            looked - before <= 200,
            "the trigger's part and the cooler's"
        );
        before = looked;
    }
    let seen = placer.statistics().histogram;
    assert_eq!(seen.total_leaves(), tree.leaves());
}

#[test]
fn a_rate_holds_migration_back() {
    let tree = small();
    let options = PlacementOptions {
        migration_bytes_per_second_max: Some(10_000),
        ..PlacementOptions::fitted()
    };
    let placer = Placer::new(&tree, options).unwrap();
    let hot = KEYS / 2..KEYS / 2 + KEYS / 20;
    run(&placer, seconds(5), || tree.read(hot.clone(), 20));
    let moves = placer.statistics().tiers[0].moves;
    let bytes = moves.promoted_bytes + moves.demoted_bytes;
    assert!((30_000..60_000).contains(&bytes), "{bytes} in five seconds");
}

#[test]
fn with_three_tiers_the_hottest_go_nearest_and_all_moves_keep_the_boundary() {
    for options in both() {
        let tree = Watched::new(&[150_000, 300_000, 64 * MIB], KEYS);
        let placer = Placer::new(&tree, options).unwrap();
        let (hottest, hot) = (2000..2500, 10_000..13_000);
        run(&placer, seconds(30), || {
            tree.read(hottest.clone(), 20);
            tree.read(hot.clone(), 4);
        });
        assert!(tree.share_on(TierId::NEAR, hottest) > 0.99);
        let farthest = tree.share_on(tier(2), hot);
        assert!(
            farthest < 0.02,
            "{farthest} of the hot leaves are left far {:?} {:?} {:?}",
            placer.options().ranking,
            placer.statistics().tiers,
            placer.statistics().refusals
        );
        tree.check();
    }
}

#[test]
fn memory_is_flat_over_many_rounds() {
    let tree = small();
    let placer = Placer::new(&tree, PlacementOptions::default()).unwrap();
    let total = || -> u64 {
        let ledgers = [0, 1].map(|index| placer.tree().tree.memory.ledger(tier(index)));
        ledgers.iter().map(|ledger| ledger.used_bytes()).sum()
    };
    let bytes = total();
    for round in 0..60 {
        let part = round % 19;
        let hot = KEYS / 20 * part..KEYS / 20 * (part + 1);
        run(&placer, seconds(u64::from(round) + 1), || {
            tree.read(hot.clone(), 5)
        });
        assert_eq!(total(), bytes, "what was retired is free again");
    }
    let moves = placer.statistics().tiers[0].moves;
    assert!(moves.demoted_nodes > 3000, "{moves:?}");
    tree.check();
}

#[derive(Debug, Clone)]
enum Step {
    Read { first: u32, keys: u32, times: u32 },
    Insert { key: u32 },
    Wait { milliseconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..1900_u32, 1..100_u32, 1..40_u32).prop_map(|(first, keys, times)| Step::Read {
            first,
            keys,
            times
        }),
        any::<u32>().prop_map(|key| Step::Insert { key }),
        (1..1500_u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// After every single migration the boundary holds and no budget is exceeded (see `Watched`),
    /// whatever the tiers and the load are.
    #[test]
    fn whatever_happens_the_tree_stays_whole(
        near_bytes in prop::collection::vec(5_000_u64..100_000, 1..4),
        is_fitted: bool,
        part in prop::option::of(1_usize..200),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut budgets = near_bytes;
        budgets.push(64 * MIB);
        let tree = Watched::new(&budgets, 2000);
        let mut options = both()[usize::from(is_fitted)].clone();
        options.leaves_per_wakeup_max = part;
        let placer = Placer::new(&tree, options).unwrap();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Read { first, keys, times } => tree.read(first..first + keys, times),
                Step::Insert { key } => {
                    tree.tree.insert(key | 1, 0).unwrap();
                }
                Step::Wait { milliseconds } => {
                    now += Duration::from_millis(milliseconds);
                    placer.step(now);
                }
            }
        }
        tree.check();
    }
}
