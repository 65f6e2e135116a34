//! Strain and abundance.

use std::time::Duration;

use nearfar_index::placement::{
    PlacedTree, PlacementError, PlacementOptions, Placer, Watermarks, Worker,
};
use nearfar_memory::TierId;

use super::support::{MIB, Watched, run};

const KEYS: u32 = 20_000;
const TICK: Duration = Duration::from_millis(100);

/// A tree on one near tier that holds all of it, with a placer that has moved nothing yet, and
/// then a budget that leaves the tier `used` full.
fn strained(options: PlacementOptions, used: f64) -> (Watched, PlacementOptions) {
    let tree = Watched::new(&[64 * MIB, 64 * MIB], KEYS);
    let all_near = Placer::new(&tree, PlacementOptions::fitted()).unwrap();
    all_near.place_beforehand(|_| true);
    let near_bytes = tree.memory().ledger(TierId::NEAR).node_bytes as f64;
    tree.memory()
        .set_budget(TierId::NEAR, (near_bytes / used) as u64);
    (tree, options)
}

#[test]
fn strain_ends_below_the_high_watermark_and_goes_back_half_way() {
    let (tree, options) = strained(PlacementOptions::default(), 0.97);
    tree.read(0..KEYS, 8);
    tree.read(0..1000, 50);
    let placer = Placer::new(&tree, options).unwrap();
    let before = placer.statistics().tiers[0].parameters;
    placer.step(TICK);
    let near = placer.statistics().tiers[0].clone();
    assert!(!near.is_under_strain);
    assert!(
        near.ledger.used_share() <= 0.95,
        "{}",
        near.ledger.used_share()
    );
    assert!(near.ledger.used_share() > 0.80, "not too much was demoted");
    assert_eq!(placer.statistics().strains, 1);
    let after = near.parameters;
    assert!(after.demote_level <= before.demote_level);
    assert!(
        (80..=90).contains(&after.cold_percent),
        "half way from what was needed: {after:?}"
    );
    assert!(after.hot_percent <= before.hot_percent);
    tree.check();
}

/// The numbers of figure 13, taken step by step: nothing is cold, so that strain adjusts until the
/// share of cold leaves reaches the ones that are there.
#[test]
fn strain_adjusts_until_something_is_cold() {
    let (tree, options) = strained(PlacementOptions::default(), 0.97);
    // All leaves are used more than T_cold; 10 % of them less than the others.
    tree.read(0..KEYS, 8);
    tree.read(KEYS / 10..KEYS, 50);
    let options = PlacementOptions {
        hot_percent: 2,
        cold_percent: 7,
        ..options
    };
    let placer = Placer::new(&tree, options).unwrap();
    let before = placer.statistics().tiers[0].parameters;
    placer.step(TICK);
    let after = placer.statistics().tiers[0].parameters;
    // Three rounds go from 7 to 10 %, where the tenth becomes cold and its demotion relieves.
    // The mean of 10 and 7 is 8, that of 0 and 2 is 1.
    assert_eq!((after.cold_percent, after.hot_percent), (8, 1));
    let level_min = before.fast_levels / 2;
    let lowest = |level: u8| level.saturating_sub(3).max(level_min.min(level));
    let mean = |now: u8, before: u8| u8::midpoint(now, before);
    assert_eq!(
        after.fast_levels,
        mean(lowest(before.fast_levels), before.fast_levels)
    );
    assert_eq!(
        after.demote_level,
        mean(lowest(before.demote_level), before.demote_level)
    );
    assert!(
        tree.share_on(TierId::NEAR, KEYS / 10 + 100..KEYS) > 0.999,
        "the others stay"
    );
}

#[test]
fn a_demotion_counts_when_its_memory_is_free() {
    let (tree, options) = strained(PlacementOptions::default(), 0.90);
    tree.read(0..KEYS, 8);
    let placer = Placer::new(&tree, options).unwrap();
    let before = placer.statistics().tiers[0].parameters;
    let looking = tree.memory().enter();
    let near = tree.memory().ledger(TierId::NEAR);
    for _ in 0..near.budget_bytes / 16 / 4096 + 1 {
        tree.retire(4096, TierId::NEAR);
    }
    assert!(tree.memory().ledger(TierId::NEAR).used_share() > 0.95);
    placer.step(TICK);
    let waiting = placer.statistics().tiers[0].clone();
    assert!(
        waiting.is_under_strain,
        "a reader may still see what was retired"
    );
    assert_eq!(
        waiting.moves.demoted_nodes, 0,
        "more demotion would not help"
    );
    assert_eq!(waiting.parameters, before);
    drop(looking);
    placer.step(2 * TICK);
    let relieved = placer.statistics().tiers[0].clone();
    assert!(!relieved.is_under_strain);
    assert_eq!(
        (relieved.ledger.retired_bytes, relieved.moves.demoted_nodes),
        (0, 0)
    );
}

#[test]
fn promotion_stands_still_under_strain() {
    let (tree, options) = strained(PlacementOptions::default(), 0.90);
    let placer = Placer::new(&tree, options).unwrap();
    placer.place_beforehand(|leaf| leaf.key >= tree.key(KEYS / 2));
    let near_bytes = tree.memory().ledger(TierId::NEAR).node_bytes;
    tree.memory().set_budget(TierId::NEAR, near_bytes * 10 / 9);
    let looking = tree.memory().enter();
    tree.retire(4000, TierId::NEAR);
    while tree.memory().ledger(TierId::NEAR).used_share() <= 0.95 {
        tree.retire(4000, TierId::NEAR);
    }
    let promoted = || placer.statistics().tiers[0].moves.promoted_nodes;
    let before = promoted();
    let hot = 1000..1400;
    run(&placer, 20 * TICK, || tree.read(hot.clone(), 200));
    assert_eq!(promoted(), before);
    drop(looking);
    run(&placer, 30 * TICK, || tree.read(hot.clone(), 200));
    assert!(promoted() > before);
}

#[test]
fn abundance_adjusts_once_per_wakeup() {
    let tree = Watched::new(&[MIB, 64 * MIB], KEYS);
    let placer = Placer::new(&tree, PlacementOptions::default()).unwrap();
    let before = placer.statistics().tiers[0].parameters;
    placer.step(TICK);
    placer.step(2 * TICK);
    let after = placer.statistics().tiers[0].parameters;
    let height = u8::try_from(tree.height()).unwrap();
    assert_eq!(after.hot_percent, before.hot_percent + 2);
    assert_eq!(after.cold_percent, before.cold_percent - 2);
    assert_eq!(
        after.fast_levels,
        (before.fast_levels + 2).min(height.max(before.fast_levels))
    );
    assert_eq!(tree.frontend().boundary(TierId::NEAR), after.fast_levels);
    assert_eq!(
        placer.statistics().tiers[0].moves.demoted_nodes,
        0,
        "nothing moves immediately"
    );
}

#[test]
fn strain_that_cannot_be_relieved_ends_all_the_same() {
    let (tree, options) = strained(PlacementOptions::default(), 0.97);
    let placer = Placer::new(&tree, options).unwrap();
    tree.memory().set_budget(TierId::NEAR, 1000);
    placer.step(TICK);
    let near = placer.statistics().tiers[0].clone();
    assert!(near.is_under_strain);
    assert_eq!(
        (near.parameters.hot_percent, near.parameters.cold_percent),
        (0, 100)
    );
    // Leaves are not looked at again and again where nothing has changed.
    let looked = placer.statistics().leaves_scanned;
    for (worker, of_worker) in placer.statistics().leaves_scanned_by {
        let expected = if worker == Worker::Maintainer {
            looked
        } else {
            0
        };
        assert_eq!(of_worker, expected, "{worker}");
    }
    for turn in 2..5 {
        placer.step(turn * TICK);
    }
    assert_eq!(placer.statistics().leaves_scanned, looked);
    tree.memory().set_budget(TierId::NEAR, 64 * MIB);
    tree.check();
}

#[test]
fn budgets_that_cannot_work_are_refused() {
    let refusal = |budgets: &[u64]| {
        let tree = Watched::new(budgets, 1000);
        Placer::new(&tree, PlacementOptions::default())
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(
        refusal(&[0, MIB]),
        PlacementError::NoBudget { tier: TierId::NEAR }
    );
    assert_eq!(refusal(&[MIB]), PlacementError::OneTier);
    let small = refusal(&[300, MIB]);
    assert!(
        matches!(
            small,
            PlacementError::RootDoesNotFit {
                usable_bytes: 285,
                ..
            }
        ),
        "{small}"
    );
    let tree = Watched::new(&[MIB, MIB], 10);
    let options = PlacementOptions {
        watermarks: Watermarks {
            low: 0.96,
            high: 0.95,
        },
        ..PlacementOptions::default()
    };
    let crossed = Placer::new(&tree, options).map(|_| ()).unwrap_err();
    assert!(matches!(crossed, PlacementError::WatermarksCrossed { .. }));
}
