//! Captured machines: no text leads out of the folder that a capture is unpacked in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_topology::IdList;
use nearfar_topology::Topology;
use nearfar_topology::capture::Capture;

fuzz_target!(|text: &str| {
    let _ = IdList::parse(text);
    let Ok(capture) = Capture::parse(text) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("sysfs");
    std::fs::create_dir(&inner).expect("a folder");
    if capture.unpack(&inner).is_ok() {
        let _ = Topology::discover(&inner);
    }
    let others = std::fs::read_dir(folder.path()).expect("listed");
    assert_eq!(others.count(), 1, "something was written beside the folder");
});
