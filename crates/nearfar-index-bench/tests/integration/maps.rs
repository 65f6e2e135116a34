//! All maps do what a map does.

use std::collections::BTreeMap;

use nearfar_index_bench::map::{
    Contestant, EntryBytes, OrderedMap, PlatformMemory, Rival, Session, TestKey, Visitor,
    WORD_BYTES,
};
use nearfar_model::Native;
use proptest::prelude::*;

/// One operation on small keys, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u64),
    Get(u8),
    Update(u8, u64),
    Scan(u8, usize),
    Remove(u8),
}

/// Steps with removals, or with scans.
fn steps(with_removals: bool) -> impl Strategy<Value = Vec<Step>> {
    let last = move |key: u8, count: usize| match with_removals {
        true => Step::Remove(key),
        false => Step::Scan(key, count),
    };
    let step = prop_oneof![
        (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value >> 2)),
        any::<u8>().prop_map(Step::Get),
        (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Update(key, value >> 2)),
        (any::<u8>(), 1..20_usize).prop_map(move |(key, count)| last(key, count)),
    ];
    prop::collection::vec(step, 1..400)
}

struct Check<'c> {
    who: Contestant,
    steps: &'c [Step],
}

impl Check<'_> {
    /// Runs the steps on a map and on the oracle. Inserts are of new keys, updates and scans of keys
    /// that are there, as in every workload: not all crates do right by others.
    fn run<K: ?Sized, M: OrderedMap<K>>(&self, map: &M, key_of: impl Fn(u8, &mut dyn FnMut(&K))) {
        let mut oracle = BTreeMap::new();
        let mut session = map.session(&Native);
        let who = self.who;
        let mut batch = Vec::new();
        for step in self.steps {
            match *step {
                Step::Insert(key, value) if !oracle.contains_key(&key) => {
                    key_of(key, &mut |key| session.insert(key, value).unwrap());
                    oracle.insert(key, value);
                }
                Step::Update(key, value) if oracle.contains_key(&key) => {
                    key_of(key, &mut |key| {
                        assert!(session.update(key, value).unwrap(), "{who}")
                    });
                    oracle.insert(key, value);
                }
                Step::Get(key) => {
                    let expected = oracle.get(&key).copied();
                    // Twice, since what an earlier batch gave is to be forgotten.
                    for _ in 0..2 {
                        key_of(key, &mut |key| session.get_batch(&[key, key], &mut batch));
                        assert_eq!(batch, [expected, expected], "{who}");
                    }
                    key_of(key, &mut |key| {
                        assert_eq!(session.get(key), expected, "{who}")
                    });
                }
                Step::Scan(key, count) if oracle.contains_key(&key) => {
                    let expected = oracle.range(key..).take(count);
                    let expected = expected.fold((0, 0_u64), |(seen, sum), (_, value)| {
                        (seen + 1, sum.wrapping_add(*value))
                    });
                    key_of(key, &mut |key| {
                        let found = session.scan(key, count);
                        // Scans of this crate (0.9.5) begin in another leaf at times.
                        if who != Contestant::Rival(Rival::Masstree) {
                            assert_eq!(found, expected, "{who}");
                        }
                    });
                }
                Step::Insert(..) | Step::Update(..) | Step::Scan(..) => {}
                Step::Remove(key) => {
                    let expected = oracle.remove(&key).is_some();
                    key_of(key, &mut |key| {
                        assert_eq!(session.remove(key), expected, "{who}")
                    });
                }
            }
        }
    }
}

impl Visitor<u64> for Check<'_> {
    type Output = ();

    fn visit<M: OrderedMap<u64> + 'static>(self, map: M) {
        self.run(&map, |key, use_key| use_key(&(u64::from(key) << 50)));
    }
}

impl Visitor<[u8]> for Check<'_> {
    type Output = ();

    fn visit<M: OrderedMap<[u8]> + 'static>(self, map: M) {
        self.run(&map, |key, use_key| {
            use_key(format!("http://example.org/{key:03}").as_bytes());
        });
    }
}

fn check_all(steps: &[Step]) {
    for who in Contestant::ALL {
        for value_bytes in [WORD_BYTES, 100] {
            let check = || Check { who, steps };
            let bytes = EntryBytes {
                key_max: 64,
                value: value_bytes,
            };
            let opened = u64::open(who, bytes, &PlatformMemory, check());
            assert_eq!(opened.is_err(), who.refusal(true, bytes).is_some());
            let opened = <[u8]>::open(who, bytes, &PlatformMemory, check());
            assert_eq!(opened.is_err(), who.refusal(false, bytes).is_some());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_contestant_answers_what_workloads_ask(steps in steps(false)) {
        check_all(&steps);
    }

    #[test]
    fn removed_keys_are_gone(steps in steps(true)) {
        check_all(&steps);
    }
}
