//! Programs in virtual time.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use nearfar_capi::*;

use crate::told;

const READS: usize = 4_000;
const BUFFER_BYTES: usize = 256 << 20;
/// Where no memory of this process is: the library reads none of it.
const BASE: usize = 1 << 40;

fn open() -> Handle {
    let mut model = 0;
    // SAFETY: the pointers are those of a constant and a variable.
    let status = unsafe { nearfar_model_open(c"cxl-blades-4".as_ptr(), &raw mut model) };
    assert_eq!(status, Status::Ok, "{}", told());
    model
}

fn buffer(tier: &'static CStr) -> ModelBuffer {
    ModelBuffer {
        address: BASE as *const c_void,
        bytes: BUFFER_BYTES,
        tier: tier.as_ptr(),
        devices: 0,
    }
}

fn run(
    model: Handle,
    tier: &'static CStr,
    threads: u32,
    program: unsafe extern "C" fn(u32, *mut c_void),
) -> ModelOutcome {
    // SAFETY: an outcome is numbers only.
    let mut outcome: ModelOutcome = unsafe { std::mem::zeroed() };
    let buffer = buffer(tier);
    // SAFETY: the pointers are those of variables, and the programs of this file take no context.
    let status = unsafe {
        nearfar_model_run(
            model,
            &raw const buffer,
            1,
            Some(program),
            null_mut(),
            threads,
            &raw mut outcome,
        )
    };
    assert_eq!(status, Status::Ok, "{}", told());
    outcome
}

/// Lines of the buffer in an order that no prefetcher follows.
fn lines(thread: u32) -> impl Iterator<Item = *const c_void> {
    let count = BUFFER_BYTES / 64;
    let line = move |index: usize| (index * 1_000_003 + thread as usize * 7_919) % count;
    (0..READS).map(move |index| (BASE + line(index) * 64) as *const c_void)
}

unsafe extern "C" fn chase(thread: u32, _context: *mut c_void) {
    for line in lines(thread) {
        assert_eq!(nearfar_model_depends(), Status::Ok);
        assert_eq!(nearfar_model_read(line, 8), Status::Ok);
    }
}

unsafe extern "C" fn gather(thread: u32, _context: *mut c_void) {
    for line in lines(thread) {
        assert_eq!(nearfar_model_read(line, 8), Status::Ok);
    }
}

unsafe extern "C" fn scatter(thread: u32, _context: *mut c_void) {
    for line in lines(thread) {
        assert_eq!(nearfar_model_write_non_temporal(line, 64), Status::Ok);
    }
}

#[test]
fn far_reads_take_longer_and_independent_ones_overlap() {
    let model = open();
    let (near, far) = (run(model, c"near", 1, chase), run(model, c"far", 1, chase));
    let ns = |outcome: &ModelOutcome| outcome.elapsed_ns / READS as f64;
    assert!((50.0..200.0).contains(&ns(&near)), "{near:?}");
    assert!(ns(&far) > 1.5 * ns(&near), "{far:?} {near:?}");
    let overlapped = run(model, c"far", 1, gather);
    assert!(ns(&overlapped) < ns(&far) / 4.0, "{overlapped:?} {far:?}");
    assert_eq!(nearfar_model_close(model), Status::Ok);
}

#[test]
fn counters_are_those_of_the_tiers_that_were_asked() {
    let model = open();
    let read = run(model, c"far", 2, gather);
    assert_eq!(read.load_bytes, 2 * 8 * READS as u64);
    assert_eq!((read.store_bytes, read.near), (0, ModelTraffic::default()));
    assert!(read.far.lines_read >= 2 * READS as u64, "{read:?}");
    assert_eq!(read.far.lines_written, 0);
    assert!(read.table_requests >= 2 * READS as u64 && read.table_occupancy_ns > 0.0);
    let written = run(model, c"near", 1, scatter);
    assert_eq!(written.near.lines_written, READS as u64);
    assert_eq!(written.store_bytes, 64 * READS as u64);
    assert_eq!(written.far, ModelTraffic::default());
    // The same programs give the same outcome.
    assert_eq!(run(model, c"far", 2, gather), read);
    assert_eq!(nearfar_model_close(model), Status::Ok);
}

/// What programs share: pieces of work that were taken, and whether each is done within a section.
struct Pool {
    taken: usize,
    is_within: bool,
}

unsafe extern "C" fn take_turns(thread: u32, pool: *mut c_void) {
    let lock = BASE as *const c_void;
    let own = (BASE + (1 + thread as usize) * 4096) as *const c_void;
    // SAFETY: programs run one at a time, and the pool outlives the run.
    let pool = unsafe { &mut *pool.cast::<Pool>() };
    while pool.taken < READS {
        pool.taken += 1;
        assert_eq!(nearfar_model_compute(1_000_000), Status::Ok);
        if !pool.is_within {
            assert_eq!(nearfar_model_read(own, 8), Status::Ok);
        }
        assert_eq!(nearfar_model_critical_section(lock, 2), Status::Ok);
        assert_eq!(nearfar_model_wait(), Status::Ok);
    }
}

#[test]
fn programs_share_what_the_context_points_to() {
    let model = open();
    let us = |is_within| {
        let mut pool = Pool {
            taken: 0,
            is_within,
        };
        // SAFETY: an outcome is numbers only.
        let mut outcome: ModelOutcome = unsafe { std::mem::zeroed() };
        let program = Some(take_turns as unsafe extern "C" fn(u32, *mut c_void));
        // SAFETY: the pointers are those of variables, and the program takes such a context.
        let status = unsafe {
            let (context, outcome) = ((&raw mut pool).cast(), &raw mut outcome);
            nearfar_model_run(model, null(), 0, program, context, 4, outcome)
        };
        assert_eq!(status, Status::Ok, "{}", told());
        assert_eq!(pool.taken, READS);
        outcome.elapsed_ns / 1e3
    };
    // A microsecond each: four of them concurrently, but in a section one after the other.
    let (apart, within, least) = (us(false), us(true), READS as f64);
    assert!((least / 4.0..least / 2.0).contains(&apart), "{apart}");
    assert!((least..2.0 * least).contains(&within), "{within}");
    assert_eq!(nearfar_model_close(model), Status::Ok);
}

unsafe extern "C" fn lock_and_read(thread: u32, is_shared: *mut c_void) {
    // SAFETY: the context is a flag that outlives the run.
    let is_shared = unsafe { *is_shared.cast::<bool>() };
    let place = if is_shared { 0 } else { thread as usize };
    let lock = (BASE + place * 4096) as *const c_void;
    for _ in 0..READS {
        assert_eq!(nearfar_model_read(lock, 8), Status::Ok);
        assert_eq!(nearfar_model_validate(lock), Status::Ok);
        assert_eq!(nearfar_model_lock(lock), Status::Ok);
        assert_eq!(nearfar_model_compute(1_000_000), Status::Ok);
        assert_eq!(nearfar_model_write(lock, 8), Status::Ok);
        assert_eq!(nearfar_model_unlock(lock, true), Status::Ok);
    }
}

#[test]
fn lock_words_are_waited_for() {
    let model = open();
    let us = |mut is_shared: bool| {
        // SAFETY: an outcome is numbers only.
        let mut outcome: ModelOutcome = unsafe { std::mem::zeroed() };
        let program = Some(lock_and_read as unsafe extern "C" fn(u32, *mut c_void));
        // SAFETY: the pointers are those of variables, and the program takes such a context.
        let status = unsafe {
            let (context, outcome) = ((&raw mut is_shared).cast(), &raw mut outcome);
            nearfar_model_run(model, null(), 0, program, context, 4, outcome)
        };
        assert_eq!(status, Status::Ok, "{}", told());
        outcome.elapsed_ns / 1e3
    };
    let (apart, together, least) = (us(false), us(true), READS as f64);
    assert!((least..2.0 * least).contains(&apart), "{apart}");
    assert!((4.0 * least..8.0 * least).contains(&together), "{together}");
    assert_eq!(nearfar_model_close(model), Status::Ok);
}

unsafe extern "C" fn tell_nonsense(_thread: u32, _context: *mut c_void) {
    let address = BASE as *const c_void;
    for status in [
        nearfar_model_read(address, ACCESS_BYTES_MAX + 1),
        nearfar_model_write(usize::MAX as *const c_void, 64),
        nearfar_model_lock(usize::MAX as *const c_void),
        nearfar_model_critical_section(address, 0),
        nearfar_model_critical_section(address, SECTION_LINES_MAX + 1),
    ] {
        assert_eq!(status, Status::Argument, "{}", told());
    }
    assert_eq!(nearfar_model_prefetch(address, 0), Status::Ok);
}

#[test]
fn accesses_that_can_not_be_are_refused() {
    let model = open();
    let outcome = run(model, c"near", 1, tell_nonsense);
    assert_eq!((outcome.load_bytes, outcome.store_bytes), (0, 0));
    // This thread runs no program.
    assert_eq!(nearfar_model_read(null(), 8), Status::BadHandle);
    assert!(told().contains("no program"), "{}", told());
    assert_eq!(nearfar_model_wait(), Status::BadHandle);
    assert_eq!(nearfar_model_close(model), Status::Ok);
}

#[test]
fn runs_that_can_not_be_are_refused() {
    let model = open();
    // SAFETY: an outcome is numbers only.
    let mut outcome: ModelOutcome = unsafe { std::mem::zeroed() };
    let program = Some(gather as unsafe extern "C" fn(u32, *mut c_void));
    let mut try_run = |buffers: &[ModelBuffer], program: ModelProgram, threads| {
        let (first, count) = (buffers.as_ptr(), buffers.len());
        let outcome = &raw mut outcome;
        // SAFETY: the pointers are those of a slice and a variable, and the program takes no context.
        unsafe { nearfar_model_run(model, first, count, program, null_mut(), threads, outcome) }
    };
    let far = buffer(c"far");
    let nowhere = buffer(c"sideways");
    let many = ModelBuffer {
        devices: 1_000,
        ..far
    };
    let endless = ModelBuffer {
        bytes: usize::MAX,
        ..far
    };
    assert_eq!(try_run(&[far], None, 1), Status::NullPointer);
    assert_eq!(try_run(&[far], program, 0), Status::Argument);
    assert_eq!(try_run(&[far], program, 1_000), Status::Argument);
    assert_eq!(try_run(&[far, far], program, 1), Status::Argument);
    assert!(told().contains("overlap"), "{}", told());
    assert_eq!(try_run(&[nowhere], program, 1), Status::Name);
    assert_eq!(try_run(&[many], program, 1), Status::Name);
    assert_eq!(try_run(&[endless], program, 1), Status::Argument);
    assert_eq!(nearfar_model_close(model), Status::Ok);
    assert_eq!(nearfar_model_close(model), Status::BadHandle);
    let mut handle = 0;
    // SAFETY: the pointers are those of constants and a variable.
    unsafe {
        let status = nearfar_model_open(c"no-such-machine".as_ptr(), &raw mut handle);
        assert_eq!(status, Status::Name);
        let status = nearfar_model_open(null(), &raw mut handle);
        assert_eq!(status, Status::NullPointer);
    }
}

#[test]
fn profiles_are_listed_and_described() {
    let mut count = 0;
    let mut names = Vec::new();
    // SAFETY: the pointers are those of variables with room for what is said.
    unsafe {
        assert_eq!(nearfar_profile_count(&raw mut count), Status::Ok);
        for index in 0..count {
            let mut name = [0; NAME_BYTES];
            let status = nearfar_profile_name(index, name.as_mut_ptr(), name.len());
            assert_eq!(status, Status::Ok);
            names.push(
                CStr::from_ptr(name.as_ptr())
                    .to_str()
                    .expect("ASCII")
                    .to_owned(),
            );
        }
        let mut name = [0; NAME_BYTES];
        let status = nearfar_profile_name(count, name.as_mut_ptr(), name.len());
        assert_eq!(status, Status::Name);
    }
    assert!(names.contains(&"cxl-blades-4".to_owned()), "{names:?}");
    let model = open();
    let mut info = ModelInfo {
        cores: 0,
        threads_max: 0,
        near_devices: 0,
        far_devices: 0,
        remote_devices: 0,
        last_level_cache_bytes: 0,
    };
    // SAFETY: the pointer is that of a variable.
    let status = unsafe { nearfar_model_describe(model, &raw mut info) };
    assert_eq!(status, Status::Ok);
    assert_eq!(
        (info.cores, info.threads_max, info.far_devices),
        (24, 48, 4)
    );
    assert!(info.last_level_cache_bytes > 1 << 20);
    assert_eq!(nearfar_model_close(model), Status::Ok);
}
