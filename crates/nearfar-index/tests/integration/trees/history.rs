//! Histories of operations on a map, and an exact check that one operation after another explains
//! them (linearizability: Herlihy and Wing, TOPLAS 1990).
//!
//! Keys are objects of their own, and a history is linearizable if it is for each object alone
//! (their theorem 1). A batch, and a scan of an interval, are one read of each of their keys: neither
//! promises to see all keys at one moment.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use super::mix;
use super::subject::{Map, changed};

/// An operation on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Get,
    Insert(u64),
    GetOrInsert(u64),
    Update(u64),
    Remove,
}

impl Op {
    /// What one map does at one moment: the key's value after it, and what comes back.
    fn apply(self, value: Option<u64>) -> (Option<u64>, Option<u64>) {
        match self {
            Self::Get => (value, value),
            Self::Insert(new) => (Some(new), value),
            Self::GetOrInsert(new) => (value.or(Some(new)), value),
            Self::Update(by) => {
                let new = value.map(|old| changed(old, by));
                (new, new)
            }
            Self::Remove => (None, value),
        }
    }
}

/// An operation that has come back, with the moments before and after it.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub thread: usize,
    pub key: u64,
    pub op: Op,
    pub result: Option<u64>,
    pub invoked: u64,
    pub returned: u64,
}

/// Whether there is an order of the events of one key, which began with `value`, in which each takes
/// effect between its moments and gets what it got. Each thread does one thing at a time, so that
/// what is done so far is one number per thread: all such states are tried, once each (Wing and
/// Gong, JPDC 1993; Lowe, CCPE 2017).
pub fn is_linearizable(events: &[Event], value: Option<u64>) -> bool {
    let mut lanes: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
    for event in events {
        lanes.entry(event.thread).or_default().push(*event);
    }
    let mut lanes: Vec<Vec<Event>> = lanes.into_values().collect();
    for lane in &mut lanes {
        lane.sort_by_key(|event| event.invoked);
        assert!(lane.is_sorted_by(|one, next| one.returned < next.invoked));
    }
    let start = (vec![0; lanes.len()], value);
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some((heads, value)) = open.pop() {
        let next = |at: usize| lanes[at].get(heads[at]);
        let pending = (0..lanes.len()).filter_map(next);
        let Some(horizon) = pending.map(|event| event.returned).min() else {
            return true;
        };
        for at in 0..lanes.len() {
            // What began after another one had come back cannot go before it.
            let Some(event) = next(at).filter(|event| event.invoked < horizon) else {
                continue;
            };
            let (after, result) = event.op.apply(value);
            if result != event.result {
                continue;
            }
            let mut heads = heads.clone();
            heads[at] += 1;
            if seen.insert((heads.clone(), after)) {
                open.push((heads, after));
            }
        }
    }
    false
}

/// The events of a key whose history no order explains.
pub fn violation(events: &[Event], initial: impl Fn(u64) -> Option<u64>) -> Option<Vec<Event>> {
    let mut by_key: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_key.entry(event.key).or_default().push(*event);
    }
    let mut histories = by_key.into_iter();
    let broken = histories.find(|(key, events)| !is_linearizable(events, initial(*key)));
    broken.map(|(_, events)| events)
}

/// What threads do to a map.
#[derive(Debug, Clone)]
pub struct Load {
    pub threads: usize,
    /// Operations of each thread.
    pub steps: u64,
    /// Keys that they meet on.
    pub keys: Range<u64>,
    pub seed: u64,
}

/// One thread's part.
struct Recorder<'r, M> {
    map: &'r M,
    clock: &'r AtomicU64,
    thread: usize,
    keys: Range<u64>,
    events: Vec<Event>,
}

impl<M: Map> Recorder<'_, M> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    /// Does something to some keys, each of which has an event of its own.
    fn record(&mut self, op: Op, act: impl FnOnce(&M) -> Vec<(u64, Option<u64>)>) {
        let invoked = self.now();
        let results = act(self.map);
        let returned = self.now();
        let thread = self.thread;
        self.events
            .extend(results.into_iter().map(|(key, result)| Event {
                thread,
                key,
                op,
                result,
                invoked,
                returned,
            }));
    }

    /// A random operation; `id` makes its value unlike all others.
    fn step(&mut self, random: u64, id: u64) {
        let Range { start, end } = self.keys;
        let key = start + random % (end - start);
        match (random >> 32) % 16 {
            0..4 => self.record(Op::Get, |map| vec![(key, map.get(key))]),
            4..7 => self.record(Op::Insert(id), |map| {
                vec![(key, map.insert(key, id).unwrap())]
            }),
            7..9 => self.record(Op::GetOrInsert(id), |map| {
                vec![(key, map.get_or_insert(key, id).unwrap())]
            }),
            9..11 => self.record(Op::Update(id), |map| {
                vec![(key, map.update(key, id).unwrap())]
            }),
            11..14 => self.record(Op::Remove, |map| vec![(key, map.remove(key))]),
            14 => {
                let keys = [key, start + (random >> 8) % (end - start)];
                let keys = if keys[0] == keys[1] {
                    &keys[..1]
                } else {
                    &keys
                };
                self.record(Op::Get, |map| {
                    let values = map.get_batch(keys);
                    keys.iter().copied().zip(values).collect()
                });
            }
            _ => {
                let interval = key..(key + 5).min(end);
                self.record(Op::Get, |map| {
                    let is_back = random >> 40 & 1 == 0;
                    let found: BTreeMap<_, _> =
                        map.scan(interval.clone(), is_back).into_iter().collect();
                    interval
                        .map(|key| (key, found.get(&key).copied()))
                        .collect()
                });
            }
        }
    }
}

/// Has threads do random things to a map, and says what came of each; at last, every key is read.
pub fn record<M: Map>(map: &M, load: &Load) -> Vec<Event> {
    let clock = AtomicU64::new(0);
    let recorder = |thread| Recorder {
        map,
        clock: &clock,
        thread,
        keys: load.keys.clone(),
        events: Vec::new(),
    };
    let mut events = thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                let mut recorder = recorder(thread);
                scope.spawn(move || {
                    for step in 0..load.steps {
                        let id = (load.seed << 24) | ((thread as u64) << 20) | step;
                        recorder.step(mix(id), id);
                        if mix(!id).is_multiple_of(4) {
                            thread::yield_now();
                        }
                    }
                    recorder.events
                })
            })
            .collect();
        let events = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        events.collect::<Vec<_>>()
    });
    let mut last = recorder(load.threads);
    for key in load.keys.clone() {
        last.record(Op::Get, |map| vec![(key, map.get(key))]);
    }
    events.append(&mut last.events);
    events
}
