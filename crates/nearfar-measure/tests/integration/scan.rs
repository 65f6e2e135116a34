//! The scan kernel on virtual threads.

use nearfar_kernels::{Scan, Stores};
use nearfar_model::simulation::{Caches, Machine, Outcome, PlacedBuffer, TierName, VirtualProbe};
use nearfar_topology::Profile;

const LINES: u64 = 8_192;

/// Scans a column far, with its positions near; every value matches.
fn scan(stores: Stores) -> Outcome {
    let machine = Machine::new(&Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    // Whole lines, so that all positions go by whole lines too.
    let column = vec![[1_u32; 16]; LINES as usize];
    let mut positions = vec![[0_u32; 16]; LINES as usize + 1];
    let (column, positions) = (column.as_flattened(), positions.as_flattened_mut());
    let first = positions.as_ptr().addr().next_multiple_of(64) - positions.as_ptr().addr();
    let positions = &mut positions[first / 4..][..column.len()];
    let place = |range: std::ops::Range<*const u32>, tier| PlacedBuffer {
        addresses: range.start.addr()..range.end.addr(),
        cycle: machine.devices(tier, 1).unwrap(),
    };
    let buffers = [
        place(column.as_ptr_range(), TierName::Far),
        place(positions.as_ptr_range(), TierName::Near),
    ];
    let closure = |probe: &VirtualProbe| {
        let scan = Scan::new().with_stores(stores);
        let count = scan.less_than(column, 2, 0, positions, probe).unwrap();
        assert_eq!(count, column.len());
        assert!(
            (0..)
                .zip(&*positions)
                .all(|(index, position)| index == *position)
        );
    };
    machine
        .run_with(Caches::Streaming, &buffers, vec![closure])
        .unwrap()
}

#[test]
fn cached_stores_fetch_each_line_and_streaming_ones_do_not() {
    let (near, far) = (0, 1);
    let cached = scan(Stores::Cached);
    assert_eq!(cached.store_bytes, LINES * 64);
    assert!(
        (LINES..LINES + 64).contains(&cached.lines_read[near]),
        "{cached:?}"
    );
    let streaming = scan(Stores::Streaming);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(
            (streaming.lines_read[near], streaming.lines_written[near]),
            (0, LINES)
        );
    }
    for outcome in [cached, streaming] {
        // The column may begin within a line.
        assert!(
            (LINES..LINES + 64).contains(&outcome.lines_read[far]),
            "{outcome:?}"
        );
        assert_eq!(outcome.lines_written[far], 0);
    }
}
