use std::sync::atomic::AtomicBool;

use super::*;

#[repr(align(4096))]
struct Page([u8; 1 << 15]);

const SIZES: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

fn writes() -> impl Iterator<Item = Operation> {
    Operation::ALL
        .into_iter()
        .filter(|operation| operation.writes() && !operation.copies())
}

#[test]
fn writes_touch_what_they_should_and_nothing_else() {
    for operation in writes() {
        for access_bytes in SIZES {
            if operation.unavailable(access_bytes).is_some() {
                continue;
            }
            let kernel = Kernel::new(operation, access_bytes);
            for count in [1, 2, 3] {
                let mut page = Page([0; 1 << 15]);
                let target = Target::new(&mut page.0);
                let pattern = Pattern::Sequential;
                let first_bytes = access_bytes;
                kernel.run(
                    &target,
                    &Accesses {
                        pattern,
                        first_bytes,
                        count,
                        access_bytes,
                        seed: 0,
                    },
                );
                fence();
                let end = access_bytes * (count + 1);
                let is_written = |byte: &u8| *byte != 0;
                assert!(
                    page.0[access_bytes..end].iter().all(is_written),
                    "{operation} {access_bytes}"
                );
                assert!(
                    !page.0[..access_bytes].iter().any(is_written),
                    "{operation} {access_bytes}"
                );
                assert!(
                    !page.0[end..].iter().any(is_written),
                    "{operation} {access_bytes}"
                );
            }
        }
    }
}

#[test]
fn accesses_that_are_waited_for_go_to_the_same_places() {
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let kernel = Kernel::new(Operation::Write, 64);
        let accesses = Accesses {
            pattern,
            first_bytes: 128,
            count: 50,
            access_bytes: 64,
            seed: 7,
        };
        type Run = fn(&Kernel, &Target<'_>, &Accesses);
        let written = |run: Run| {
            let mut page = Page([0; 1 << 15]);
            run(&kernel, &Target::new(&mut page.0), &accesses);
            fence();
            page.0
        };
        let plain = written(Kernel::run);
        assert!(plain == written(Kernel::run_fenced), "{pattern:?}");
        assert!(plain == written(Kernel::run_dependent), "{pattern:?}");
    }
}

#[test]
fn random_writes_reach_every_place() {
    for operation in writes() {
        for access_bytes in SIZES {
            if operation.unavailable(access_bytes).is_some() {
                continue;
            }
            let mut page = Page([0; 1 << 15]);
            let target = Target::new(&mut page.0);
            let count = 20 * (1 << 15) / access_bytes;
            let pattern = Pattern::Random;
            let accesses = Accesses {
                pattern,
                first_bytes: 0,
                count,
                access_bytes,
                seed: 7,
            };
            Kernel::new(operation, access_bytes).run(&target, &accesses);
            fence();
            assert!(
                page.0.iter().all(|byte| *byte != 0),
                "{operation} {access_bytes}"
            );
        }
    }
}

#[test]
fn reads_change_nothing() {
    let mut page = Page([0x5A; 1 << 15]);
    for access_bytes in SIZES {
        let target = Target::new(&mut page.0);
        let kernel = Kernel::new(Operation::Read, access_bytes);
        assert!(kernel.unit_bytes() <= access_bytes);
        for pattern in [Pattern::Sequential, Pattern::Random] {
            let count = (1 << 15) / access_bytes;
            kernel.run(
                &target,
                &Accesses {
                    pattern,
                    first_bytes: 0,
                    count,
                    access_bytes,
                    seed: 3,
                },
            );
        }
        sampled(&kernel, Operation::Read, &target, 0);
        assert!(page.0.iter().all(|byte| *byte == 0x5A));
    }
}

#[test]
fn impossible_sizes_have_a_reason() {
    assert!(
        Operation::Chase
            .unavailable(64)
            .unwrap()
            .contains("8 bytes")
    );
    assert!(
        Operation::WriteDirect
            .unavailable(32)
            .unwrap()
            .contains("64 bytes")
    );
    assert_eq!(Operation::Read.unavailable(8), None);
}

#[test]
fn a_chain_is_one_cycle_over_all_lines() {
    for lines in [1, 2, 3, 5, 64, 100, 511, 512] {
        let mut page = Page([0; 1 << 15]);
        let chain = Chain::build(&mut page.0[..lines * 64], 9, &AtomicBool::new(false)).unwrap();
        let mut seen = vec![false; lines];
        let mut at = chain.start(0.5);
        for _ in 0..lines {
            at = chain.hop(at);
            assert!(
                !std::mem::replace(&mut seen[at / 64], true),
                "{at} of {lines} twice"
            );
        }
        assert!(seen.into_iter().all(|seen| seen));
        assert_eq!(chain.follow(at, lines), at);
        assert_eq!(chain.sampled(at).0, chain.hop(at));
    }
}

#[test]
fn time_passes() {
    let ticks = Ticks::calibrate();
    assert!(ticks.ns(1_000_000) > 1_000.0, "{ticks:?}");
    assert_eq!(ticks.ns(0), 0.0);
}

#[test]
fn copies_take_what_they_should_and_change_nothing_else() {
    for operation in Operation::ALL.into_iter().filter(|one| one.copies()) {
        for access_bytes in SIZES {
            if operation.unavailable(access_bytes).is_some() {
                continue;
            }
            let kernel = CopyKernel::new(operation, access_bytes);
            let mut source = Page([0; 1 << 15]);
            for (index, byte) in source.0.iter_mut().enumerate() {
                *byte = (index % 251) as u8 + 1;
            }
            let expected = source.0;
            let mut page = Page([0; 1 << 15]);
            let accesses = Accesses {
                pattern: Pattern::Sequential,
                first_bytes: access_bytes,
                count: 2,
                access_bytes,
                seed: 0,
            };
            kernel.run(
                &Target::new(&mut source.0),
                &Target::new(&mut page.0),
                &accesses,
            );
            fence();
            let copied = access_bytes..3 * access_bytes;
            assert_eq!(
                page.0[copied.clone()],
                expected[copied.clone()],
                "{operation}"
            );
            let others = page.0[..copied.start].iter().chain(&page.0[copied.end..]);
            assert!(
                others.copied().all(|byte| byte == 0),
                "{operation} {access_bytes}"
            );
            assert_eq!(source.0, expected, "{operation} changes its source");
        }
    }
}

#[test]
fn random_copies_store_what_the_source_has_somewhere() {
    let mut source = Page([7; 1 << 15]);
    let mut page = Page([0; 1 << 15]);
    let accesses = Accesses {
        pattern: Pattern::Random,
        first_bytes: 0,
        count: 4_000,
        access_bytes: 64,
        seed: 5,
    };
    let kernel = CopyKernel::new(Operation::Copy, 64);
    kernel.run(
        &Target::new(&mut source.0),
        &Target::new(&mut page.0),
        &accesses,
    );
    assert!(
        page.0.iter().all(|byte| *byte == 7),
        "every line is reached"
    );
}
