//! CXL memory as a DAX device.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use nearfar_memory::sys::{Durability, SharedMapping};

const BYTES: usize = 16 << 20;

#[test]
#[ignore = "needs the topology cxl-dax: cargo xtask testbed cxl-dax"]
fn a_dax_device_keeps_what_was_written_to_it() {
    let open = |bytes| SharedMapping::open(Path::new("/dev/dax0.0"), bytes, Durability::Flush);
    let (here, there) = (open(BYTES).unwrap(), open(BYTES).unwrap());
    for (index, word) in here.words().iter().enumerate().step_by(64) {
        word.store(index as u64 * 31, Relaxed);
    }
    drop(here);
    let again = open(BYTES).unwrap();
    for (index, (one, other)) in there
        .words()
        .iter()
        .zip(again.words())
        .enumerate()
        .step_by(64)
    {
        let expected = index as u64 * 31;
        assert_eq!(
            (one.load(Relaxed), other.load(Relaxed)),
            (expected, expected)
        );
    }
    let error = open(4096).unwrap_err();
    assert_eq!(
        (error.call, error.errno),
        ("mmap", libc::EINVAL),
        "smaller than its alignment"
    );
}
