//! Tiers on DAX devices, for which files in memory stand.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use nearfar_memory::pool::{Pool, PoolError, PoolOptions};
use nearfar_memory::{
    Budgets, DaxError, HeapError, HeapOptions, MemorySystem, OverBudget, PageSize, Placement,
    PlacementSpec, Region, RegionError, RegionOptions, TierHeap, TierId, TierKind, TierSpec,
    Verification,
};
use nearfar_topology::{Device, DeviceKind, Known, Topology};
use tempfile::NamedTempFile;

use super::{MIB, node};

const PAGE: usize = 2 << 20;
/// Where the test that is started apart finds the file that stands for a device.
const DEVICE_VARIABLE: &str = "NEARFAR_TEST_DAX_DEVICE";

/// A file in memory of so many pages of 2 MiB.
fn device(pages: usize) -> NamedTempFile {
    let file = NamedTempFile::new_in("/dev/shm").unwrap();
    file.as_file().set_len((pages * PAGE) as u64).unwrap();
    file
}

/// Near memory, memory beside it, and a device with a capacity of so many pages.
fn system_on(device: &Path, pages: usize) -> Arc<MemorySystem> {
    let capacity_bytes = (pages * PAGE) as u64;
    let tiers = vec![
        TierSpec::new("near", TierKind::LocalDram, [node()], 256 * MIB),
        TierSpec::new("far", TierKind::Modelled, [node()], 256 * MIB),
        TierSpec::dax("dax0.0", device, capacity_bytes),
    ];
    MemorySystem::from_specs(tiers, &Budgets::new()).unwrap()
}

fn dax(system: &MemorySystem) -> TierId {
    system.place("dax0.0").unwrap()
}

fn allocate(
    system: &Arc<MemorySystem>,
    bytes: usize,
    placement: &str,
    page_size: PageSize,
) -> Result<Region, RegionError> {
    let spec: PlacementSpec = placement.parse().unwrap();
    let options = RegionOptions {
        page_size,
        over_budget: OverBudget::Refuse,
    };
    Region::allocate(system, bytes, &spec.resolve(system).unwrap(), options)
}

fn on_device(system: &Arc<MemorySystem>, pages: usize) -> Result<Region, RegionError> {
    allocate(system, pages * PAGE, "dax0.0", PageSize::Base)
}

fn used_bytes(system: &MemorySystem) -> u64 {
    system.usage(dax(system)).used_bytes()
}

/// Bytes of the file that have memory.
fn backed_bytes(device: &NamedTempFile) -> u64 {
    use std::os::unix::fs::MetadataExt;
    device.as_file().metadata().unwrap().blocks() * 512
}

#[test]
fn a_region_lies_on_the_device_and_nowhere_else() {
    let device = device(8);
    let system = system_on(device.path(), 8);
    let mut region = allocate(&system, PAGE + 1, "dax0.0", PageSize::Base).unwrap();
    assert_eq!(
        (region.page_bytes(), region.mapped_bytes()),
        (PAGE, 2 * PAGE)
    );
    assert_eq!(used_bytes(&system), 2 * PAGE as u64);
    assert_eq!(region.verification(), Verification::ByMapping);
    region.verify().unwrap();
    assert!(region.as_slice().iter().all(|byte| *byte == 0));
    region.as_mut_slice()[PAGE..].fill(7);
    assert_eq!(fs::read(device.path()).unwrap()[PAGE], 7);
    assert_eq!(system.usage(TierId::NEAR).used_bytes(), 0);
    assert_eq!(
        region.tier_bytes(0..PAGE + 1)[dax(&system)],
        PAGE as u64 + 1
    );
}

#[test]
fn what_is_released_is_used_again_and_zero() {
    let device = device(4);
    let system = system_on(device.path(), 4);
    let fill = |region: &mut Region, byte| region.as_mut_slice().fill(byte);
    let mut regions: Vec<Region> = (0..4).map(|_| on_device(&system, 1).unwrap()).collect();
    regions.iter_mut().for_each(|region| fill(region, 9));
    // The second and the fourth: no two of the free pages are neighbours.
    drop((regions.remove(3), regions.remove(1)));
    assert_eq!(used_bytes(&system), 2 * PAGE as u64);
    let mut both = on_device(&system, 2).unwrap();
    assert!(both.as_slice().iter().all(|byte| *byte == 0));
    fill(&mut both, 5);
    both.verify().unwrap();
    assert!(
        regions
            .iter()
            .all(|region| region.as_slice().iter().all(|byte| *byte == 9))
    );
    drop((both, regions));
    assert_eq!(used_bytes(&system), 0);
    assert!(
        backed_bytes(&device) <= PAGE as u64,
        "the file has given its memory back"
    );
}

#[test]
fn budgets_and_the_size_of_the_device_are_limits() {
    let device = device(2);
    // The tier is said to have more than the device has.
    let system = system_on(device.path(), 3);
    let tier = "dax0.0".to_owned();
    let over = on_device(&system, 4).unwrap_err();
    let (requested_bytes, budget_bytes) = (4 * PAGE as u64, 3 * PAGE as u64);
    assert_eq!(
        over,
        RegionError::OverBudget {
            tier: tier.clone(),
            requested_bytes,
            available_bytes: budget_bytes,
            budget_bytes,
        }
    );
    let full = on_device(&system, 3).unwrap_err();
    let source = DaxError::Full {
        path: device.path().to_owned(),
        requested_bytes: 3 * PAGE as u64,
        available_bytes: 2 * PAGE as u64,
        page_bytes: PAGE,
    };
    assert_eq!(full, RegionError::Dax { tier, source });
    assert_eq!(used_bytes(&system), 0);
    let all = on_device(&system, 2).unwrap();
    assert!(on_device(&system, 1).is_err());
    drop(all);
    on_device(&system, 2).unwrap();
}

#[test]
fn pages_take_turns_where_they_are_as_large_as_the_devices() {
    let device = device(8);
    let system = system_on(device.path(), 8);
    let refused =
        allocate(&system, 4 * PAGE, "interleave:near,dax0.0", PageSize::Base).unwrap_err();
    let expected = RegionError::DevicePages {
        tier: "dax0.0".into(),
        device: device.path().to_owned(),
        device_page_bytes: PAGE,
        page_bytes: 4096,
    };
    assert_eq!(refused, expected);
    let cases = [
        ("interleave:near,dax0.0", 5, vec![1, 3]),
        ("weighted:dax0.0=2,near=1", 6, vec![0, 1, 3, 4]),
        ("split:near=25%,dax0.0", 4, vec![1, 2, 3]),
        ("split:dax0.0=50%,far", 6, vec![0, 1, 2]),
    ];
    for (placement, pages, on_device) in cases {
        let mut region = allocate(&system, pages * PAGE, placement, PageSize::Huge).unwrap();
        for (page, bytes) in region.as_mut_slice().chunks_mut(PAGE).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == 0), "{placement}");
            bytes.fill(page as u8 + 1);
        }
        let content = fs::read(device.path()).unwrap();
        let mut there: Vec<usize> = content.chunks(PAGE).map(|page| page[0].into()).collect();
        there.retain(|byte| *byte > 0);
        let expected: Vec<usize> = on_device.iter().map(|page| page + 1).collect();
        assert_eq!(there, expected, "{placement}");
        let bytes = region.tier_bytes(0..region.len());
        assert_eq!(bytes[dax(&system)], (on_device.len() * PAGE) as u64);
        assert_eq!(used_bytes(&system), (on_device.len() * PAGE) as u64);
        let verification = region.verification();
        assert_ne!(
            verification,
            Verification::Verified,
            "the kernel does not tell"
        );
        region
            .verify()
            .or_else(|error| match verification {
                // A sandbox may forbid to ask for the pages near.
                Verification::Unverified { .. } => Ok(()),
                _ => Err(error),
            })
            .unwrap();
    }
    assert_eq!(used_bytes(&system), 0);
}

#[test]
fn nothing_goes_to_a_device_that_does_not_name_it() {
    let device = device(8);
    let system = system_on(device.path(), 200);
    assert_eq!(system.tier("far").unwrap().index(), 1);
    let options = RegionOptions {
        over_budget: OverBudget::Spill,
        ..RegionOptions::default()
    };
    let far = Placement::Bind(system.tier("far").unwrap());
    let bytes = 300 * MIB as usize;
    let refused = Region::allocate(&system, bytes, &far, options).unwrap_err();
    assert!(
        matches!(refused, RegionError::OverBudget { .. }),
        "{refused}"
    );
    let region = Region::allocate(&system, PAGE, &far, options).unwrap();
    let moved = region.migrate(&Placement::Bind(dax(&system)), OverBudget::Refuse);
    let fixed = RegionError::DeviceFixed {
        tier: "dax0.0".into(),
    };
    assert_eq!(moved.unwrap_err(), fixed);
    let there = on_device(&system, 1).unwrap();
    assert_eq!(there.migrate(&far, OverBudget::Refuse).unwrap_err(), fixed);
    there.verify().unwrap();
}

#[test]
fn a_discovered_device_is_used_if_that_is_allowed() {
    let mut topology = Topology::this_machine().unwrap();
    let mut tier = topology.tiers[0].clone();
    (tier.name, tier.kind, tier.allocatable) = ("dax77.0".into(), TierKind::Dax, false);
    tier.nodes.clear();
    tier.devices = vec![Device {
        name: "dax77.0".into(),
        kind: DeviceKind::Dax,
        size_bytes: Known::Value(1 << 30),
        resource: Known::unavailable("not told"),
        driver: Known::Value("device_dax".into()),
    }];
    tier.capacity_bytes = Known::Value(1 << 30);
    topology.tiers.push(tier);
    let refused = |budgets: &Budgets| {
        let system = MemorySystem::new(&topology, budgets).unwrap();
        let placement = Placement::Bind(system.place("dax77.0").unwrap());
        let options = RegionOptions::default();
        let heap = TierHeap::new(
            &system,
            system.place("dax77.0").unwrap(),
            HeapOptions::default(),
        );
        match (Region::allocate(&system, PAGE, &placement, options), heap) {
            (
                Err(RegionError::Dax { source, .. }),
                Err(HeapError::Dax {
                    source: of_heap, ..
                }),
            ) => {
                assert_eq!(source, of_heap);
                source
            }
            other => panic!("{other:?}"),
        }
    };
    let path = PathBuf::from("/dev/dax77.0");
    let no_budget = DaxError::NoBudget { path: path.clone() };
    assert_eq!(refused(&Budgets::new()), no_budget);
    assert_eq!(refused(&Budgets::new().with("near", 1 << 20)), no_budget);
    for budgets in [
        Budgets::new().with_devices(),
        Budgets::new().with("dax77.0", 1 << 29),
    ] {
        let tried = refused(&budgets);
        assert!(
            matches!(&tried, DaxError::Open { path: tried, .. } if *tried == path),
            "{tried}"
        );
    }
}

#[test]
fn a_device_has_one_owner() {
    let device = device(4);
    let (first, second) = (system_on(device.path(), 4), system_on(device.path(), 4));
    let region = on_device(&first, 1).unwrap();
    let in_use = DaxError::InUse {
        path: device.path().to_owned(),
        owner_pid: Some(std::process::id()),
    };
    let refused = |system| match on_device(system, 1).unwrap_err() {
        RegionError::Dax { source, .. } => source,
        other => panic!("{other}"),
    };
    assert_eq!(refused(&second), in_use);
    let pool = Pool::create(device.path(), (4 * PAGE) as u64, PoolOptions::default());
    assert!(matches!(pool, Err(PoolError::InUse { .. })), "{pool:?}");
    drop(region);
    assert_eq!(refused(&second), in_use, "until the first system is gone");
    drop(first);
    on_device(&second, 1).unwrap();
}

#[test]
fn a_pool_is_not_overwritten() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::create(&path, (4 * PAGE) as u64, PoolOptions::default()).unwrap());
    let system = system_on(&path, 4);
    let refused = on_device(&system, 1).unwrap_err();
    let source = DaxError::HoldsPool { path: path.clone() };
    let tier = "dax0.0".to_owned();
    assert_eq!(refused, RegionError::Dax { tier, source });
    drop(system);
    Pool::attach(&path, PoolOptions::default()).unwrap();
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let system = system_on(Path::new("/dev/nearfar-none"), 4);
    let error = on_device(&system, 1).unwrap_err();
    let RegionError::Dax { source, .. } = error else {
        panic!("{error}")
    };
    let text = source.to_string();
    assert!(
        text.contains("/dev/nearfar-none") && text.contains("daxctl list"),
        "{text}"
    );
}

/// A process that has a region on `device`, and its output behind the line that says so.
fn owner_apart(device: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dax::owns_a_device", "--ignored", "--nocapture"])
        .env(DEVICE_VARIABLE, device)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("owner ") {
        line.clear();
        assert!(
            output.read_line(&mut line).unwrap() > 0,
            "the owner has ended"
        );
    }
    (child, output)
}

#[test]
#[ignore = "started in a process of its own by a_killed_owner_leaves_no_lock"]
fn owns_a_device() {
    let device = PathBuf::from(std::env::var_os(DEVICE_VARIABLE).unwrap());
    let system = system_on(&device, 4);
    let _region = on_device(&system, 1).unwrap();
    // A child, which lives longer than this process.
    let mut sleeper = Command::new("sleep")
        .arg("20")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(std::io::stdout(), "owner of a child {}", sleeper.id()).unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_killed_owner_leaves_no_lock() {
    let device = device(4);
    let (mut owner, _output) = owner_apart(device.path());
    let system = system_on(device.path(), 4);
    let refused = on_device(&system, 1).unwrap_err();
    let source = DaxError::InUse {
        path: device.path().to_owned(),
        owner_pid: Some(owner.id()),
    };
    let tier = "dax0.0".to_owned();
    assert_eq!(refused, RegionError::Dax { tier, source });
    owner.kill().unwrap();
    owner.wait().unwrap();
    on_device(&system, 4).unwrap();
}

#[test]
fn a_heap_takes_its_part_of_the_device() {
    let device = device(64);
    let system = system_on(device.path(), 64);
    let tier = dax(&system);
    let options = HeapOptions {
        reserve_bytes: Some(64 * MIB as usize),
        ..HeapOptions::default()
    };
    let heap = TierHeap::new(&system, tier, options).unwrap();
    assert_eq!(system.usage(tier).heap_bytes, 64 * MIB);
    let mut vector = allocator_api2::vec::Vec::new_in(heap.clone());
    vector.extend((0..1_000_000_u64).map(|number| number ^ 0x5A5A));
    assert!(heap.contains(vector.as_ptr().cast()));
    let needle: Vec<u8> = vector[500_000..500_100]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let content = fs::read(device.path()).unwrap();
    let mut windows = content.windows(needle.len()).step_by(8);
    let has = windows.any(|bytes| bytes == needle);
    assert!(has, "the block lies on the device");
    assert_eq!(
        system.usage(tier).heap_live_bytes,
        (vector.capacity() * 8) as u64
    );
    // What the heap has not reserved is left for regions.
    let region = on_device(&system, 32).unwrap();
    assert!(on_device(&system, 1).is_err());
    let second = TierHeap::new(&system, tier, options).unwrap_err();
    assert!(matches!(second, HeapError::Arena { .. }), "{second}");
    drop((vector, heap, region));

    // Its part goes to the next heap, zero where that is asked for.
    let heap = TierHeap::new(&system, tier, options).unwrap();
    assert_eq!(system.usage(tier).heap_bytes, 64 * MIB);
    for _ in 0..3 {
        use allocator_api2::alloc::{Allocator, Layout};
        let layout = Layout::from_size_align(8 << 20, 64).unwrap();
        let block = heap.allocate_zeroed(layout).unwrap();
        // SAFETY: the block is live, has so many bytes, and nobody else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(block.cast::<u8>().as_ptr(), 8 << 20) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.fill(0xA5);
        // SAFETY: the block came from this heap with this layout.
        unsafe { heap.deallocate(block.cast(), layout) };
    }
    let too_large = HeapOptions {
        reserve_bytes: Some(1 << 30),
        ..options
    };
    let error = TierHeap::new(&system, tier, too_large).unwrap_err();
    assert!(matches!(error, HeapError::Arena { .. }), "{error}");
}

#[test]
fn heaps_that_do_not_say_how_much_follow_each_other() {
    let device = device(32);
    let system = system_on(device.path(), 31);
    let tier = dax(&system);
    for _ in 0..3 {
        let heap = TierHeap::new(&system, tier, HeapOptions::default()).unwrap();
        let mut vector = allocator_api2::vec::Vec::new_in(heap);
        vector.extend(0..10_000_u64);
        // The budget of 62 MiB in whole arenas' units.
        assert_eq!(system.usage(tier).heap_bytes, 32 * MIB);
    }
}

#[test]
fn what_is_spilled_from_a_device_has_the_pages_that_were_asked_for() {
    let device = device(1);
    let system = system_on(device.path(), 1);
    let _all = on_device(&system, 1).unwrap();
    let options = RegionOptions {
        page_size: PageSize::Base,
        over_budget: OverBudget::Spill,
    };
    let full = Placement::Bind(dax(&system));
    let spilled = Region::allocate(&system, 5000, &full, options).unwrap();
    assert_eq!(
        spilled.placement(),
        Placement::Bind(system.place("far").unwrap())
    );
    assert_eq!((spilled.page_bytes(), spilled.mapped_bytes()), (4096, 8192));
}
