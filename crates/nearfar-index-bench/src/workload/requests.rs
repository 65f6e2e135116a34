//! The requests of one thread.

use super::distribution::Drawer;
use super::keys::{KeySpace, Pick};
use super::spec::Workload;
use crate::random::{Random, mix};

/// What a request does with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Looks it up.
    Read,
    /// Overwrites its value.
    Update,
    /// Stores it.
    Insert,
    /// Reads so many keys from it on.
    Scan(u16),
    /// Looks it up and overwrites its value.
    ReadModifyWrite,
}

/// What a request does, without its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// A lookup.
    Read,
    /// A value that is overwritten.
    Update,
    /// A new key.
    Insert,
    /// Keys in order.
    Scan,
    /// A lookup, and the value overwritten.
    ReadModifyWrite,
}

impl ActionKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Update,
        Self::Insert,
        Self::Scan,
        Self::ReadModifyWrite,
    ];

    /// The word in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

impl Action {
    /// Its kind.
    #[must_use]
    pub const fn kind(self) -> ActionKind {
        match self {
            Self::Read => ActionKind::Read,
            Self::Update => ActionKind::Update,
            Self::Insert => ActionKind::Insert,
            Self::Scan(_) => ActionKind::Scan,
            Self::ReadModifyWrite => ActionKind::ReadModifyWrite,
        }
    }
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The key, see [`KeySpace::resolve`].
    pub token: u64,
    /// What is done.
    pub action: Action,
    /// Which of the keys that the key stands for is asked for (see [`Requests::standing_for`]); 0 where it stands for
    /// itself.
    pub which: u32,
}

/// Requests with the bytes of their keys, in their order.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The requests.
    pub requests: Vec<Request>,
    /// The bytes of their keys, for keys that are not words.
    pub arena: Vec<u8>,
}

impl Trace {
    /// Forgets all requests and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.arena.clear();
    }
}

/// Draws the requests of one of several threads.
#[derive(Debug, Clone)]
pub struct Requests {
    workload: Workload,
    keys: u64,
    drawer: Drawer,
    random: Random,
    thread: u64,
    threads: u64,
    fresh: u64,
    inserted: u64,
    drawn: u64,
    requested: u64,
}

impl Requests {
    /// The requests of `thread` of `threads` over so many loaded keys. Threads insert keys of their
    /// own, with numbers from `fresh` on, and the newest keys of a thread are those that it
    /// inserted.
    #[must_use]
    pub fn new(
        workload: &Workload,
        (keys, fresh): (u64, u64),
        (thread, threads): (u64, u64),
        seed: u64,
    ) -> Self {
        Self {
            workload: workload.clone(),
            keys,
            drawer: Drawer::new(workload.distribution, keys),
            random: Random::new(mix(seed ^ (thread << 32))),
            thread,
            threads,
            fresh,
            inserted: 0,
            drawn: 0,
            requested: 0,
        }
    }

    /// Lets each key stand for so many keys of neighbouring popularity: of a Zipfian distribution over
    /// that many times as many keys, the share of the requests that goes to a share of the keys is
    /// the same here.
    #[must_use]
    pub fn standing_for(mut self, keys_per_key: u64) -> Self {
        self.drawer = Drawer::standing_for(self.workload.distribution, self.keys, keys_per_key);
        self
    }

    /// The first number that this thread has not used for a key of its own.
    #[must_use]
    pub fn fresh_after(&self) -> u64 {
        self.own(self.inserted)
    }

    /// Lets the hot region begin elsewhere.
    pub fn move_hot_region(&mut self, start_share: f64) {
        self.drawer.move_hot_region(start_share);
    }

    /// Appends so many requests to `trace`.
    pub fn draw(&mut self, keys: &impl KeySpace, count: usize, trace: &mut Trace) {
        trace.requests.reserve(count);
        for _ in 0..count {
            let (pick, which, action) = self.next();
            let token = keys.token(pick, &mut trace.arena);
            let which = self.one_of_several(which);
            trace.requests.push(Request {
                token,
                action,
                which,
            });
        }
    }

    /// Which of the keys that a key stands for is meant: any, where no law tells.
    fn one_of_several(&mut self, which: Option<u64>) -> u32 {
        self.requested += 1;
        let any = || mix(self.requested << 8 ^ self.thread) % self.drawer.ranks_per_key();
        which.unwrap_or_else(any) as u32
    }

    fn next(&mut self) -> (Pick, Option<u64>, Action) {
        if let Some(trace) = &self.workload.replay {
            let index = (self.drawn * self.threads + self.thread) % trace.requests.len() as u64;
            let (key, is_write) = trace.requests[index as usize];
            self.drawn += 1;
            let action = if is_write {
                Action::Update
            } else {
                Action::Read
            };
            return (Pick::Id(u64::from(key)), None, action);
        }
        let action = self.action();
        if action == Action::Insert {
            let id = self.own(self.inserted);
            self.inserted += 1;
            return (Pick::Id(id), None, action);
        }
        let newest = |back: u64| match self.inserted.checked_sub(back + 1) {
            Some(own) => self.own(own),
            None => self.keys - 1 - (back - self.inserted).min(self.keys - 1),
        };
        let mut random = self.random.clone();
        let (pick, which) = self.drawer.draw(&mut random, newest);
        self.random = random;
        (pick, which, action)
    }

    /// The number of this thread's own key of this index.
    fn own(&self, index: u64) -> u64 {
        self.fresh + index * self.threads + self.thread
    }

    fn action(&mut self) -> Action {
        let mix = self.workload.mix;
        let mut percent = self.random.below(100) as u8;
        let kinds = [
            (mix.read, Action::Read),
            (mix.update, Action::Update),
            (mix.insert, Action::Insert),
            (mix.read_modify_write, Action::ReadModifyWrite),
        ];
        for (share, action) in kinds {
            if percent < share {
                return action;
            }
            percent -= share;
        }
        let keys = self.random.below(u64::from(self.workload.scan_keys_max)) + 1;
        Action::Scan(keys as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workload::Integers;

    #[test]
    fn kinds_come_in_their_shares() {
        let workload = Workload::named("ycsb-e").unwrap();
        let keys = Integers::new(1000);
        let mut trace = Trace::default();
        Requests::new(&workload, (1000, 1000), (0, 1), 1).draw(&keys, 20_000, &mut trace);
        let inserts = trace
            .requests
            .iter()
            .filter(|request| request.action == Action::Insert);
        let share = inserts.count() as f64 / 20_000.0;
        assert!((share - 0.05).abs() < 0.01, "{share}");
        let lengths: HashSet<u16> = trace
            .requests
            .iter()
            .filter_map(|request| match request.action {
                Action::Scan(length) => Some(length),
                _ => None,
            })
            .collect();
        assert!(lengths.len() == 100 && !lengths.contains(&0) && lengths.contains(&100));
    }

    /// Two requests for one of two keys are for the same of those that it stands for about as often as they would be
    /// among all of them.
    #[test]
    fn requests_tell_which_of_several_keys_they_mean() {
        let keys = Integers::new(1000);
        for (name, meetings) in [("hotspot-read-only", 0.01..0.03), ("ycsb-c", 0.01..0.2)] {
            let workload = Workload::named(name).unwrap();
            let mut trace = Trace::default();
            let requests = Requests::new(&workload, (1000, 1000), (0, 1), 1).standing_for(50);
            requests.clone().draw(&keys, 20_000, &mut trace);
            assert!(trace.requests.iter().all(|request| request.which < 50));
            let pairs = trace.requests.chunks_exact(2);
            let meets = pairs.filter(|pair| pair[0].which == pair[1].which).count();
            let share = meets as f64 / 10_000.0;
            assert!(meetings.contains(&share), "{name}: {share}");
            let mut alone = Trace::default();
            Requests::new(&workload, (1000, 1000), (0, 1), 1).draw(&keys, 1_000, &mut alone);
            assert!(alone.requests.iter().all(|request| request.which == 0));
        }
    }

    /// What a thread reads as the newest was loaded, or inserted by itself before.
    #[test]
    fn nothing_is_read_before_it_was_inserted() {
        let workload = Workload::named("read-latest").unwrap();
        let keys = Integers::new(500);
        let mut arena = Vec::new();
        let mut known: HashSet<u64> = (0..500)
            .map(|id| keys.token(Pick::Id(id), &mut arena))
            .collect();
        let mut trace = Trace::default();
        Requests::new(&workload, (500, 500), (1, 3), 1).draw(&keys, 10_000, &mut trace);
        for request in &trace.requests {
            if request.action == Action::Insert {
                assert!(known.insert(request.token), "a key is inserted once");
            } else {
                assert!(known.contains(&request.token));
            }
        }
    }
}
