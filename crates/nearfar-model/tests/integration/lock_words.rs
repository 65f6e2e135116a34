//! Lock words and lines that cores write in turn.

use nearfar_model::simulation::{
    Access, AddressMap, Caches, Machine, Operation, Program, Simulation, TierName,
};
use nearfar_topology::Profile;

const TURNS: u64 = 1_000;
/// Core time of a turn beside what is tested. Longer than a round of the simulation, within which a core that has a
/// line keeps it.
const THINK_PS: u32 = 200_000;

fn machine() -> Machine {
    Machine::new(&Profile::builtin("cxl-card").unwrap()).unwrap()
}

/// The same operations so many times.
struct Again {
    operations: Vec<Operation>,
    next: u64,
}

impl Program for Again {
    fn next_operation(&mut self) -> Option<Operation> {
        let count = self.operations.len() as u64;
        let at = self.next;
        self.next += 1;
        (at < TURNS * count).then(|| self.operations[(at % count) as usize])
    }
}

/// Time of one turn of programs that each do the same again and again, over pages of a tier.
fn turn_ns(tier: TierName, programs: Vec<Vec<Operation>>) -> f64 {
    let machine = machine();
    let mut map = AddressMap::new();
    map.add(0, 1 << 20, machine.devices(tier, 1).unwrap());
    let programs = programs
        .into_iter()
        .map(|operations| {
            Box::new(Again {
                operations,
                next: 0,
            }) as Box<dyn Program>
        })
        .collect();
    let simulation = Simulation::new(&machine, map, programs, Caches::Simulated).unwrap();
    simulation.run().elapsed_ns / TURNS as f64
}

/// Core time, after which what was done before is waited for no longer.
fn think() -> Operation {
    let mut think = Operation::new(Access::Compute, 0, 0);
    think.compute_ps = THINK_PS;
    think
}

fn think_ns() -> f64 {
    f64::from(THINK_PS) / 1e3
}

fn word(access: Access, line: u64) -> Operation {
    Operation::new(access, line * 64, 8)
}

/// A write to a line under a lock word.
fn locked(lock: u64, line: u64, changed: bool) -> Vec<Operation> {
    let unlock = match changed {
        true => Access::Unlock,
        false => Access::UnlockUnchanged,
    };
    vec![
        think(),
        word(Access::Lock, lock),
        word(Access::Store, line),
        word(unlock, lock),
    ]
}

/// A read of a line without a lock, with all core time between.
fn optimistic(lock: u64, line: u64) -> Vec<Operation> {
    let mut read = word(Access::Load, line);
    read.depends = true;
    read.compute_ps = THINK_PS;
    vec![word(Access::Load, lock), read, word(Access::Validate, lock)]
}

#[test]
fn a_line_that_cores_write_in_turn_goes_from_one_to_the_other() {
    let fenced = |line| {
        let mut store = word(Access::Store, line);
        (store.fenced, store.compute_ps) = (true, THINK_PS);
        vec![store]
    };
    let apart_ns = turn_ns(TierName::Near, vec![fenced(0), fenced(64)]);
    let together_ns = turn_ns(TierName::Near, vec![fenced(0), fenced(0)]);
    let transfer_ns = 2.0 * machine().core.l3_hit_ns;
    assert!(apart_ns < think_ns() + 10.0, "{apart_ns}");
    let more_ns = together_ns - apart_ns;
    assert!(more_ns > 0.8 * transfer_ns, "{more_ns}");
    assert!(more_ns < 1.2 * transfer_ns, "{more_ns}");
}

#[test]
fn lines_that_are_only_read_stay_with_all() {
    let read = |line| {
        let mut load = word(Access::Load, line);
        (load.fenced, load.compute_ps) = (true, THINK_PS);
        vec![load]
    };
    let apart_ns = turn_ns(TierName::Near, vec![read(0), read(64)]);
    let together_ns = turn_ns(TierName::Near, vec![read(0), read(0)]);
    assert!(
        (together_ns - apart_ns).abs() < 1.0,
        "{apart_ns} {together_ns}"
    );
}

#[test]
fn who_wants_a_lock_waits_for_those_before() {
    let of = |cores: u64, is_shared: bool| {
        let programs = (0..cores).map(|core| {
            let lock = if is_shared { 0 } else { core * 64 };
            locked(lock, lock + 1, true)
        });
        turn_ns(TierName::Near, programs.collect())
    };
    let alone_ns = of(1, true);
    let transfer_ns = 2.0 * machine().core.l3_hit_ns;
    for cores in [2, 8, 28] {
        let (shared_ns, own_ns) = (of(cores, true), of(cores, false));
        assert!(own_ns < 1.05 * alone_ns, "{cores}: {own_ns}");
        // Each core gets the lock once in a turn, and its line from the one before.
        let at_least = (cores as f64 * transfer_ns).max(think_ns() + transfer_ns);
        assert!(
            shared_ns > 0.95 * at_least,
            "{cores}: {shared_ns} {at_least}"
        );
        assert!(
            shared_ns < 3.0 * at_least,
            "{cores}: {shared_ns} {at_least}"
        );
    }
}

#[test]
fn a_lock_is_held_until_what_was_written_under_it_is_there() {
    // New lines each turn, which come from memory before the lock is given back.
    let writer = |tier| {
        let programs = (0..2_u64).map(|core| {
            let lines = (0..64).flat_map(|turn| locked(0, 64 + core * 8192 + turn * 64, true));
            lines.collect::<Vec<_>>()
        });
        turn_ns(tier, programs.collect())
    };
    let (near_ns, far_ns) = (writer(TierName::Near), writer(TierName::Far));
    assert!(far_ns >= near_ns, "{near_ns} {far_ns}");
}

#[test]
fn readers_read_again_what_has_changed() {
    let reader = optimistic(0, 1);
    let beside = |writer: Vec<Operation>| turn_ns(TierName::Near, vec![reader.clone(), writer]);
    let alone_ns = turn_ns(TierName::Near, vec![reader.clone()]);
    let other_ns = beside(locked(64, 65, true));
    let unchanged_ns = beside(locked(0, 65, false));
    let changed_ns = beside(locked(0, 65, true));
    assert!(other_ns < 1.05 * alone_ns, "{alone_ns} {other_ns}");
    let transfer_ns = 2.0 * machine().core.l3_hit_ns;
    assert!(
        unchanged_ns < other_ns + 2.0 * transfer_ns,
        "{other_ns} {unchanged_ns}"
    );
    // Somebody writes once in nearly every turn, and often when all core time of the read is over.
    assert!(
        changed_ns > unchanged_ns + 0.3 * think_ns(),
        "{unchanged_ns} {changed_ns}"
    );
}

#[test]
fn locks_that_are_taken_in_any_order_stop_nobody() {
    let nested = |first: u64, second: u64| {
        vec![
            word(Access::Lock, first),
            word(Access::Lock, second),
            word(Access::Store, first + 1),
            word(Access::Unlock, second),
            word(Access::Unlock, first),
        ]
    };
    let of = || {
        let programs = (0..6).map(|core| nested(core * 64, (core + 1) % 6 * 64));
        turn_ns(TierName::Near, programs.collect())
    };
    let turn_ns = of();
    assert!(turn_ns > 0.0 && turn_ns < 10_000.0, "{turn_ns}");
    assert_eq!(turn_ns.to_bits(), of().to_bits(), "the same in every run");
}

#[test]
fn who_ends_with_a_lock_has_given_it_back() {
    let forgets = vec![word(Access::Lock, 0)];
    let waits = locked(0, 1, true);
    let turn_ns = turn_ns(TierName::Near, vec![forgets, waits]);
    assert!(turn_ns > 0.0, "{turn_ns}");
}
