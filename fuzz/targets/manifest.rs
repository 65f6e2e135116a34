//! What checkpoints, pools and the log say of tables, behind a frame whose checksum is right: forms of
//! segments, sketches, schemas, whole databases.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_durable::manifest::{
    Decoder, decode_database, decode_placements, decode_preload, decode_schema, decode_segment,
    decode_sketches, seal,
};
use nearfar_topology::Topology;

static SYSTEM: LazyLock<Arc<MemorySystem>> = LazyLock::new(|| {
    let topology = Topology::this_machine().expect("this machine");
    MemorySystem::new(&topology, &Budgets::new()).expect("its memory")
});

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_segment(bytes);
    let _ = decode_sketches(bytes);
    let _ = decode_segment(&seal(b"NFARSEGM", |out| out.raw(bytes)));
    let _ = decode_sketches(&seal(b"NFARSKET", |out| out.raw(bytes)));
    let _ = decode_schema(&mut Decoder::new(bytes));
    let _ = decode_preload(&mut Decoder::new(bytes));
    let _ = decode_placements(&mut Decoder::new(bytes), &SYSTEM);
    let _ = decode_database(&mut Decoder::new(bytes), &SYSTEM);
});
