//! Policies to compare with.

use std::time::Duration;

use nearfar_index::placement::{
    Mechanisms, PlacedTree, PlacementOptions, Placer, Selection, Watermarks,
};
use nearfar_memory::TierId;

use super::support::{MIB, Watched, run};

const KEYS: u32 = 10_000;

#[test]
fn an_oracle_places_what_it_is_told() {
    let tree = Watched::new(&[200_000, 64 * MIB], KEYS);
    let placer = Placer::new(&tree, PlacementOptions::default()).unwrap();
    let keys = tree.key(3000)..tree.key(3500);
    placer.place_beforehand(|leaf| keys.contains(&leaf.key));
    assert_eq!(tree.share_on(TierId::NEAR, 3010..3500), 1.0);
    assert_eq!(tree.share_on(TierId::NEAR, 3510..KEYS), 0.0);
    tree.check();
    let keys = tree.key(8000)..tree.key(8500);
    placer.place_beforehand(|leaf| keys.contains(&leaf.key));
    assert_eq!(
        tree.share_on(TierId::NEAR, 3010..3500),
        0.0,
        "no longer hot"
    );
    assert_eq!(tree.share_on(TierId::NEAR, 8010..8500), 1.0);
    tree.check();
}

#[test]
fn chance_moves_leaves_and_finds_hot_ones_only_by_chance() {
    let tree = Watched::new(&[100_000, 64 * MIB], KEYS);
    let options = PlacementOptions {
        selection: Selection::Random { one_in: 100 },
        mechanisms: Mechanisms {
            has_watermarks: false,
            ..Mechanisms::default()
        },
        ..PlacementOptions::default()
    };
    let placer = Placer::new(&tree, options).unwrap();
    run(&placer, Duration::from_secs(10), || {
        tree.read(3000..3500, 2);
        tree.read(0..KEYS, 1);
    });
    let moves = placer.statistics().tiers[0].moves;
    assert!(
        moves.promoted_nodes > 100 && moves.demoted_nodes > 100,
        "{moves:?}"
    );
    let near = tree.memory().ledger(TierId::NEAR);
    assert!(near.used_share() <= 1.0);
    tree.check();
}

#[test]
fn watermarks_of_one_tier_are_its_own() {
    let tree = Watched::new(&[100_000, 200_000, 64 * MIB], KEYS);
    let middle = nearfar_memory::TierId::from_index(1).unwrap();
    let options = PlacementOptions {
        tier_watermarks: vec![(
            middle,
            Watermarks {
                low: 0.3,
                high: 0.5,
            },
        )],
        ..PlacementOptions::fitted()
    };
    let placer = Placer::new(&tree, options).unwrap();
    run(&placer, Duration::from_secs(10), || {
        tree.read(1000..8000, 4)
    });
    let statistics = placer.statistics();
    assert!(statistics.tiers[0].ledger.used_share() > 0.7);
    let share = statistics.tiers[1].ledger.used_share();
    assert!(share <= 0.5, "{share}");
    tree.check();
}
