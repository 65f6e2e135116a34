//! What a process does not get is an error, and ends nothing else.

use std::env;
use std::num::NonZeroUsize;
use std::process::Command;

use nearfar_kernels::copy::{
    Chunks, Copiers, CopyCancel, CopyError, CopyMethod, CopyOptions, MethodCopier, StagePart,
    staged, streamed, streamed_out,
};
use nearfar_kernels::{HashGroups, HashJoin, JoinError, JoinKind, JoinPlan, JoinTable, Partitions};
use nearfar_model::Native;

/// Address space of a process, in units of 1024 bytes: no join of 100 million rows fits, nor do ten stacks of threads.
const ADDRESS_SPACE_KB: &str = "400000";
/// Bytes of a stack. Where one does not fit, there is room for what threads map when they have begun, without which
/// the standard library ends the process.
const STACK_BYTES: &str = "50000000";

/// Runs a test of this file that is ignored, in a process of its own with a limit.
fn run_limited(test: &str) {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", ADDRESS_SPACE_KB])
        .arg(env::current_exe().unwrap())
        .args(["--ignored", "--test-threads", "1", "--exact"])
        .arg(format!("limits::{test}"))
        .env("RUST_BACKTRACE", "0")
        .env("RUST_MIN_STACK", STACK_BYTES)
        // Threads would take address space for heaps of their own.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let is_one = text.contains("test result: ok. 1 passed");
    assert!(output.status.success() && is_one, "{output:?}");
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn threads_that_are_not_to_be_had_are_an_error() {
    run_limited("copies_without_threads");
}

#[test]
#[ignore = "needs a limit"]
fn copies_without_threads() {
    let options = |copiers| CopyOptions {
        chunk_bytes: 64,
        copiers: Copiers::Fixed(NonZeroUsize::new(copiers).unwrap()),
    };
    let copier = MethodCopier::new(CopyMethod::Cached).unwrap();
    let (far, mut near) = (vec![1; 1000], vec![0; 1000]);
    let cancel = CopyCancel::default();
    let parts = vec![StagePart {
        from: &far,
        to: &mut near,
    }];
    let found = staged(
        parts,
        options(1000),
        &cancel,
        |_| copier,
        |_| panic!("no work"),
    );
    let of = |error: &CopyError| match error {
        CopyError::Thread {
            what,
            started,
            threads: 1000,
            ..
        } => (*what, *started > 0),
        other => panic!("{other}"),
    };
    assert_eq!(of(&found.unwrap_err()), ("copier", true));
    let consume = |chunks: &mut Chunks<'_, Vec<u8>>| while let Ok(Some(_)) = chunks.next_chunk() {};
    for (copiers, consumers, what) in [(1000, 1, "copier"), (1, 1000, "consumer")] {
        let buffers = vec![vec![0; 64]; 2];
        let consumers = vec![consume; consumers];
        let options = options(copiers);
        let found = streamed(&far, buffers, options, &cancel, |_| copier, consumers);
        assert_eq!(of(&found.unwrap_err()), (what, true));
    }
    let (mut far, buffers) = (vec![0; 64_000], vec![vec![0; 64]; 2]);
    let given = streamed_out(
        &mut far,
        buffers,
        options(1000),
        &cancel,
        |_| copier,
        |_| -> Result<(), CopyError> { panic!("no work") },
    );
    assert_eq!(of(&given.unwrap_err()), ("copier", true));
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn tables_that_do_not_fit_are_an_error() {
    run_limited("tables_without_memory");
}

#[test]
#[ignore = "needs a limit"]
fn tables_without_memory() {
    let rows = 30_000_000;
    let is_refused = |error: JoinError| {
        let JoinError::NoMemory { rows: of, bytes } = error else {
            panic!("{error}")
        };
        assert!(of == rows && bytes > 1 << 20, "{error}");
    };
    is_refused(JoinTable::with_room(rows, None).unwrap_err());
    let keys = vec![0_i32; rows];
    is_refused(JoinTable::build(&keys, None, &Native).unwrap_err());
    is_refused(Partitions::of(&keys, None, 4, &Native).unwrap_err());
    let plan = JoinPlan {
        partitions_log2: 4,
        ..JoinPlan::default()
    };
    let join = HashJoin::new(JoinKind::Inner, plan);
    let joined = join.run((&keys, None), (&keys, None), &Native, |_| panic!("no row"));
    is_refused(joined.unwrap_err());

    let mut groups = HashGroups::new();
    let refused = (0_i64..).find_map(|part| {
        let keys: Vec<i64> = (part * 8192..(part + 1) * 8192).collect();
        groups.add(&keys, &keys, &Native).err()
    });
    let refused = refused.unwrap();
    assert_eq!(refused.groups, groups.len());
    assert!(refused.bytes > 1 << 20, "{refused}");
}
