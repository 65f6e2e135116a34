//! The scan kernel on virtual threads.

use nearfar_kernels::{Scan, Stores, words, words_mut};
use nearfar_model::simulation::{Caches, Machine, Outcome, PlacedBuffer, TierName, VirtualProbe};
use nearfar_topology::Profile;

const LINES: usize = 8_192;
const BYTES: usize = 64 * LINES;

/// Memory that begins at a page, as that of regions does.
fn pages(memory: &mut Vec<u8>) -> &mut [u8] {
    memory.resize(BYTES + 4096, 1);
    let first = memory.as_ptr().align_offset(4096);
    &mut memory[first..first + BYTES]
}

/// Scans a column far, with its positions near; every value matches.
fn scan(stores: Stores) -> Outcome {
    let machine = Machine::new(&Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let (mut column, mut positions) = (Vec::new(), Vec::new());
    let (column, positions) = (pages(&mut column), pages(&mut positions));
    let place = |memory: &[u8], tier| PlacedBuffer {
        addresses: memory.as_ptr().addr()..memory.as_ptr().addr() + memory.len(),
        cycle: machine.devices(tier, 1).unwrap(),
    };
    let buffers = [
        place(column, TierName::Far),
        place(positions, TierName::Near),
    ];
    let (column, positions) = (words(column).unwrap(), words_mut(positions).unwrap());
    let closure = |probe: &VirtualProbe| {
        let scan = Scan::new().with_stores(stores);
        let count = scan
            .less_than(column, u32::MAX, 0, positions, probe)
            .unwrap();
        assert_eq!(count, column.len());
        let mut expected = (0..).zip(&*positions);
        assert!(expected.all(|(index, position)| index == *position));
    };
    machine
        .run_with(Caches::Streaming, &buffers, vec![closure])
        .unwrap()
}

#[test]
fn cached_stores_fetch_each_line_and_streaming_ones_do_not() {
    let (near, far, lines) = (0, 1, LINES as u64);
    // Prefetchers bring a line twice here and there.
    let about_all = lines..lines + lines / 100;
    let cached = scan(Stores::Cached);
    assert_eq!(cached.store_bytes, BYTES as u64);
    assert!(about_all.contains(&cached.lines_read[near]), "{cached:?}");
    let streaming = scan(Stores::Streaming);
    if cfg!(target_arch = "x86_64") {
        let near = (streaming.lines_read[near], streaming.lines_written[near]);
        assert_eq!(near, (0, lines), "{streaming:?}");
    }
    for outcome in [cached, streaming] {
        assert!(about_all.contains(&outcome.lines_read[far]), "{outcome:?}");
        assert_eq!(outcome.lines_written[far], 0);
    }
}
