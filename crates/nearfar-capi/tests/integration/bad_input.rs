//! Null pointers, handles that were freed or are of another kind, and names that there are not.

use std::ptr::{null, null_mut};

use nearfar_capi::*;

use crate::told;

fn open() -> Handle {
    let mut system = 0;
    // SAFETY: the pointer is that of a variable.
    let status = unsafe { nearfar_system_open(null(), null(), 0, &raw mut system) };
    assert_eq!(status, Status::Ok, "{}", told());
    system
}

#[test]
fn a_handle_is_freed_once() {
    let system = open();
    assert_eq!(nearfar_system_close(system), Status::Ok);
    assert_eq!(nearfar_system_close(system), Status::BadHandle);
    assert!(told().contains("freed before"), "{}", told());
    assert_eq!(nearfar_system_close(0), Status::BadHandle);
}

#[test]
fn a_handle_of_another_kind_is_refused() {
    let system = open();
    assert_eq!(nearfar_tree_free(system), Status::BadHandle);
    assert_eq!(nearfar_heap_free(system), Status::BadHandle);
    assert_eq!(nearfar_region_free(system), Status::BadHandle);
    assert_eq!(nearfar_system_close(system), Status::Ok);
}

#[test]
fn null_is_refused() {
    let system = open();
    let mut handle = 0;
    // SAFETY: null is what is refused; the other pointers are those of variables and constants.
    unsafe {
        for status in [
            nearfar_system_open(null(), null(), 0, null_mut()),
            nearfar_system_open(null(), null(), 1, &raw mut handle),
            nearfar_tier_count(system, null_mut()),
            nearfar_tier(system, 0, null_mut()),
            nearfar_region_allocate(system, 1, null(), 0, &raw mut handle),
            nearfar_region_allocate(system, 1, c"near".as_ptr(), 0, null_mut()),
            nearfar_heap_create(system, null(), null(), &raw mut handle),
            nearfar_probe(system, c"near".as_ptr(), 1, 0, null_mut()),
            nearfar_tree_create(0, null(), 0, null_mut()),
        ] {
            assert_eq!(status, Status::NullPointer);
            assert!(told().contains("is null"), "{}", told());
        }
    }
    assert_eq!(nearfar_system_close(system), Status::Ok);
}

#[test]
fn names_that_there_are_not_are_told() {
    let system = open();
    let mut handle = 0;
    // SAFETY: the pointers are those of variables and constants.
    unsafe {
        let tier = c"no-such-tier".as_ptr();
        assert_eq!(
            nearfar_heap_create(system, tier, null(), &raw mut handle),
            Status::Name
        );
        assert!(told().contains("no-such-tier"), "{}", told());
        let status = nearfar_region_allocate(system, 1, c"sideways:".as_ptr(), 0, &raw mut handle);
        assert_eq!(status, Status::Name);
        let status = nearfar_region_allocate(system, 1, c"near".as_ptr(), 7, &raw mut handle);
        assert_eq!(status, Status::Argument);
        let profile = c"no-such-machine".as_ptr();
        assert_eq!(
            nearfar_system_open(profile, null(), 0, &raw mut handle),
            Status::Name
        );
    }
    assert_eq!(handle, 0);
    assert_eq!(nearfar_system_close(system), Status::Ok);
}

#[test]
fn a_budget_holds_and_a_block_of_others_is_refused() {
    let budget = Budget {
        tier: c"near".as_ptr(),
        bytes: 64 << 20,
    };
    let (mut system, mut region, mut heap) = (0, 0, 0);
    // SAFETY: the pointers are those of variables and constants.
    unsafe {
        assert_eq!(
            nearfar_system_open(null(), &raw const budget, 1, &raw mut system),
            Status::Ok
        );
        let near = c"near".as_ptr();
        let status = nearfar_region_allocate(system, 128 << 20, near, 0, &raw mut region);
        assert_eq!(status, Status::Memory, "{}", told());
        assert_eq!(
            nearfar_heap_create(system, near, null(), &raw mut heap),
            Status::Ok,
            "{}",
            told()
        );
        let mut other = 0_u64;
        let status = nearfar_heap_deallocate(heap, (&raw mut other).cast(), 8, 8);
        assert_eq!(status, Status::Argument);
        assert_eq!(
            nearfar_heap_deallocate(heap, null_mut(), 8, 8),
            Status::NullPointer
        );
        let mut block = null_mut();
        assert_eq!(
            nearfar_heap_allocate(heap, 8, 3, &raw mut block),
            Status::Argument
        );
        assert_eq!(
            nearfar_heap_allocate(heap, usize::MAX, 8, &raw mut block),
            Status::Argument
        );
    }
    assert_eq!(nearfar_heap_free(heap), Status::Ok);
    assert_eq!(nearfar_system_close(system), Status::Ok);
}
