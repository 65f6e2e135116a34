//! Each mechanism left out.

use std::time::Duration;

use nearfar_index::placement::{
    Histogram, Mechanisms, PlacedTree, PlacementOptions, Placer, Thresholds, Tracking,
};
use nearfar_memory::TierId;

use super::support::{MIB, Watched, run};

const KEYS: u32 = 20_000;

fn without(change: impl FnOnce(&mut Mechanisms)) -> PlacementOptions {
    let mut options = PlacementOptions::default();
    change(&mut options.mechanisms);
    options
}

/// Runs five seconds with a hot region and returns the tree and the placer's last word, which is what it says of its parts.
fn outcome(options: PlacementOptions) -> (Watched, nearfar_index::placement::PlacementStatistics) {
    let (tree, statistics, _) = outcome_with_metadata(options);
    (tree, statistics)
}

fn outcome_with_metadata(
    options: PlacementOptions,
) -> (Watched, nearfar_index::placement::PlacementStatistics, u64) {
    let tree = Watched::new(&[300_000, 64 * MIB], KEYS);
    let placer = Placer::new(&tree, options).unwrap();
    run(&placer, Duration::from_secs(5), || {
        tree.read(8000..9000, 20)
    });
    let statistics = placer.statistics();
    let tiers = statistics.tiers.iter();
    let moves: Vec<_> = tiers.map(|tier| tier.moves).collect();
    assert_eq!(placer.moves(), moves);
    assert_eq!(placer.leaves_scanned_by(), statistics.leaves_scanned_by);
    assert_eq!(placer.busy(), statistics.busy);
    let metadata_bytes = placer.metadata_bytes();
    drop(placer);
    (tree, statistics, metadata_bytes)
}

#[test]
fn without_layers_new_nodes_go_near_as_long_as_there_is_room() {
    let (tree, _) = outcome(without(|mechanisms| mechanisms.is_layered = false));
    assert_eq!(tree.frontend().boundary(TierId::NEAR), u8::MAX);
}

#[test]
fn without_tracking_nothing_is_hot() {
    let (_, statistics) = outcome(without(|mechanisms| mechanisms.tracking = Tracking::Off));
    assert_eq!(
        statistics.histogram.leaves()[0],
        statistics.histogram.total_leaves()
    );
    assert_eq!(statistics.tiers[0].moves.promoted_nodes, 0);
}

#[test]
fn without_migration_nothing_moves() {
    let (tree, statistics) = outcome(without(|mechanisms| mechanisms.migrates = false));
    assert_eq!(statistics.tiers[0].moves, Default::default());
    assert!(statistics.passes > 0, "leaves are still counted");
    tree.check();
}

#[test]
fn metadata_are_histograms_and_what_was_queued() {
    let standing = without(|mechanisms| mechanisms.migrates = false);
    let (_, _, still) = outcome_with_metadata(standing);
    let (_, _, moving) = outcome_with_metadata(PlacementOptions::default());
    // Leaves and ways, on two tiers each.
    let histograms_bytes = 4 * size_of::<Histogram>() as u64;
    assert!(still > histograms_bytes, "{still}");
    assert!(moving > still, "{moving} {still}");
}

#[test]
fn without_the_histogram_thresholds_stay() {
    let fixed = without(|mechanisms| mechanisms.thresholds = Thresholds::Fixed);
    let (tree, statistics) = outcome(fixed);
    let parameters = statistics.tiers[0].parameters;
    assert_eq!((parameters.hot_rank, parameters.cold_rank), (128, 4));
    assert!(
        tree.share_on(TierId::NEAR, 8010..8990) > 0.99,
        "they are used often enough"
    );
}

#[test]
fn without_watermarks_parameters_stay() {
    let (_, statistics) = outcome(without(|mechanisms| mechanisms.has_watermarks = false));
    let parameters = statistics.tiers[0].parameters;
    assert_eq!((parameters.hot_percent, parameters.cold_percent), (5, 80));
    assert_eq!((statistics.strains, statistics.abundances), (0, 0));
    assert_eq!(
        statistics.usage.len(),
        50,
        "the used share is still sampled"
    );
}

#[test]
fn sampled_tracking_finds_the_same_leaves() {
    let options = PlacementOptions {
        mechanisms: Mechanisms {
            tracking: Tracking::Sampled(8),
            ..PlacementOptions::fitted().mechanisms
        },
        ..PlacementOptions::fitted()
    };
    let (tree, _) = outcome(options);
    assert!(tree.share_on(TierId::NEAR, 8010..8990) > 0.99);
}
