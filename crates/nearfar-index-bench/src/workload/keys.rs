//! The keys of a map under test.
//!
//! Every key has a number, in the order in which keys are loaded, and those beyond the loaded ones
//! are inserted later. Keys look random and are the same in every run.

use std::sync::OnceLock;

use crate::map::TestKey;
use crate::random::mix;

/// Which key is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The key of this number.
    Id(u64),
    /// The loaded key at this position in the order of keys.
    Position(u64),
}

/// Keys by number and by position.
pub trait KeySpace: Send + Sync + 'static {
    /// What maps take.
    type Key: TestKey + ?Sized;

    /// Loaded keys, at least one.
    fn count(&self) -> u64;

    /// No key has more bytes, loaded or inserted.
    fn key_bytes_max(&self) -> usize;

    /// A word from which [`KeySpace::resolve`] finds the key, whose bytes may be put into `arena`.
    fn token(&self, pick: Pick, arena: &mut Vec<u8>) -> u64;

    /// The key of a token.
    fn resolve<'t>(token: &'t u64, arena: &'t [u8]) -> &'t Self::Key;
}

/// Random integers of 8 bytes.
#[derive(Debug)]
pub struct Integers {
    count: u64,
    sorted: OnceLock<Vec<u64>>,
}

impl Integers {
    /// So many keys, at least one.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self {
            count: count.max(1),
            sorted: OnceLock::new(),
        }
    }

    fn sorted(&self) -> &[u64] {
        self.sorted.get_or_init(|| {
            let mut keys: Vec<u64> = (0..self.count).map(mix).collect();
            keys.sort_unstable();
            keys
        })
    }
}

impl KeySpace for Integers {
    type Key = u64;

    fn count(&self) -> u64 {
        self.count
    }

    fn key_bytes_max(&self) -> usize {
        size_of::<u64>()
    }

    fn token(&self, pick: Pick, _arena: &mut Vec<u8>) -> u64 {
        match pick {
            Pick::Id(id) => mix(id),
            Pick::Position(position) => self.sorted()[position as usize],
        }
    }

    #[inline]
    fn resolve<'t>(token: &'t u64, _arena: &'t [u8]) -> &'t u64 {
        token
    }
}

/// Length of a key in a token, whose other bits say where it begins.
const LENGTH_BITS: u32 = 16;

/// Appends a key; its token.
pub(super) fn put(arena: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
    let start = arena.len();
    write(arena);
    ((start as u64) << LENGTH_BITS) | (arena.len() - start) as u64
}

/// The key of a token of [`put`].
pub(super) fn resolve_bytes(token: u64, arena: &[u8]) -> &[u8] {
    let start = (token >> LENGTH_BITS) as usize;
    let length = (token & ((1 << LENGTH_BITS) - 1)) as usize;
    &arena[start..start + length]
}

/// Numbers of `count` keys in the order of the keys that `write` makes of them.
fn order(count: u64, write: impl Fn(u64, &mut Vec<u8>)) -> Vec<u32> {
    let mut arena = Vec::new();
    let mut keys: Vec<(u64, u32)> = (0..count)
        .map(|id| (put(&mut arena, |arena| write(id, arena)), id as u32))
        .collect();
    keys.sort_unstable_by(|a, b| resolve_bytes(a.0, &arena).cmp(resolve_bytes(b.0, &arena)));
    keys.into_iter().map(|(_, id)| id).collect()
}

/// The number of the key that is picked, of `count` that `write` makes; their order is computed when
/// it is asked for first, and kept in `known`.
fn id_of(
    pick: Pick,
    count: u64,
    known: &OnceLock<Vec<u32>>,
    write: impl Fn(u64, &mut Vec<u8>),
) -> u64 {
    match pick {
        Pick::Id(id) => id,
        Pick::Position(position) => {
            u64::from(known.get_or_init(|| order(count, write))[position as usize])
        }
    }
}

/// Random byte strings of one length, which is at least 8 bytes.
#[derive(Debug)]
pub struct Bytes {
    count: u64,
    length: usize,
    order: OnceLock<Vec<u32>>,
}

impl Bytes {
    /// The longest key.
    pub const LENGTH_MAX: usize = 4096;

    /// So many keys of `length` bytes, from 8 to [`Self::LENGTH_MAX`].
    ///
    /// # Panics
    /// With another length.
    #[must_use]
    pub fn new(count: u64, length: usize) -> Self {
        assert!((8..=Self::LENGTH_MAX).contains(&length), "{length} bytes");
        Self {
            count: count.max(1),
            length,
            order: OnceLock::new(),
        }
    }

    fn write(&self, id: u64, arena: &mut Vec<u8>) {
        let end = arena.len() + self.length;
        let mut word = mix(id);
        while arena.len() < end {
            let part = (end - arena.len()).min(8);
            arena.extend_from_slice(&word.to_be_bytes()[..part]);
            word = mix(word);
        }
    }
}

impl KeySpace for Bytes {
    type Key = [u8];

    fn count(&self) -> u64 {
        self.count
    }

    fn key_bytes_max(&self) -> usize {
        self.length
    }

    fn token(&self, pick: Pick, arena: &mut Vec<u8>) -> u64 {
        let write = |id, arena: &mut Vec<u8>| self.write(id, arena);
        let id = id_of(pick, self.count, &self.order, write);
        put(arena, |arena| self.write(id, arena))
    }

    #[inline]
    fn resolve<'t>(token: &'t u64, arena: &'t [u8]) -> &'t [u8] {
        resolve_bytes(*token, arena)
    }
}

/// Strings shaped as addresses of web pages: few hosts, each with many paths, so that neighbours
/// share long beginnings.
#[derive(Debug)]
pub struct Urls {
    count: u64,
    order: OnceLock<Vec<u32>>,
}

/// Pages of a host, on average.
const PAGES_PER_HOST: u64 = 50;

const WORDS: [&str; 32] = [
    "about", "archive", "article", "blog", "book", "city", "data", "event", "film", "forum",
    "game", "garden", "group", "help", "history", "home", "image", "item", "list", "market",
    "music", "news", "page", "people", "place", "product", "review", "science", "search", "sport",
    "travel", "world",
];
const ENDS: [&str; 6] = ["com", "com", "org", "net", "de", "co.uk"];
/// `https://www.` and `.co.uk`, a host of two words and a number, four words behind slashes, `?id=` and two numbers.
const URL_BYTES_MAX: usize = 12 + 6 + 2 * 7 + 4 * 8 + 4 + 3 * NUMBER_BYTES_MAX;

impl Urls {
    /// So many keys, at least one.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self {
            count: count.max(1),
            order: OnceLock::new(),
        }
    }

    fn write(&self, id: u64, arena: &mut Vec<u8>) {
        let word = |random: u64| WORDS[random as usize % WORDS.len()];
        let mut random = mix(id);
        let host = random % (self.count / PAGES_PER_HOST).max(1);
        let of_host = mix(host ^ 0x484F_5354);
        arena.extend_from_slice(b"https://www.");
        arena.extend_from_slice(word(of_host).as_bytes());
        arena.extend_from_slice(word(of_host >> 8).as_bytes());
        write_number(host, arena);
        arena.push(b'.');
        arena.extend_from_slice(ENDS[(of_host >> 16) as usize % ENDS.len()].as_bytes());
        random = mix(random);
        for _ in 0..1 + random % 4 {
            random = mix(random);
            arena.push(b'/');
            arena.extend_from_slice(word(random).as_bytes());
        }
        arena.extend_from_slice(b"?id=");
        write_number(mix(id) >> 24, arena);
        write_number(id, arena);
    }
}

/// The longest number in base 36.
pub(super) const NUMBER_BYTES_MAX: usize = 13;

/// Writes a number in base 36.
pub(super) fn write_number(mut number: u64, arena: &mut Vec<u8>) {
    loop {
        arena.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]);
        number /= 36;
        if number == 0 {
            return;
        }
    }
}

impl KeySpace for Urls {
    type Key = [u8];

    fn count(&self) -> u64 {
        self.count
    }

    fn key_bytes_max(&self) -> usize {
        URL_BYTES_MAX
    }

    fn token(&self, pick: Pick, arena: &mut Vec<u8>) -> u64 {
        let write = |id, arena: &mut Vec<u8>| self.write(id, arena);
        let id = id_of(pick, self.count, &self.order, write);
        put(arena, |arena| self.write(id, arena))
    }

    #[inline]
    fn resolve<'t>(token: &'t u64, arena: &'t [u8]) -> &'t [u8] {
        resolve_bytes(*token, arena)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use nearfar_index::Key;

    use super::*;

    /// Keys are distinct, none is longer than is said, and positions are the order of the loaded ones.
    pub(in crate::workload) fn check_keys<S: KeySpace>(keys: &S)
    where
        S::Key: ToOwned<Owned: Ord + std::fmt::Debug>,
    {
        let all = |picks: Vec<Pick>| -> Vec<<S::Key as ToOwned>::Owned> {
            let mut arena = Vec::new();
            let tokens: Vec<u64> = picks
                .into_iter()
                .map(|pick| keys.token(pick, &mut arena))
                .collect();
            let resolve = |token| S::resolve(token, &arena).to_owned();
            tokens.iter().map(resolve).collect()
        };
        let mut loaded = all((0..keys.count()).map(Pick::Id).collect());
        loaded.sort_unstable();
        assert_eq!(loaded, all((0..keys.count()).map(Pick::Position).collect()));
        loaded.extend(all((keys.count()..2 * keys.count())
            .map(Pick::Id)
            .collect()));
        let with_doubles = loaded.len();
        loaded.sort_unstable();
        loaded.dedup();
        assert_eq!(loaded.len(), with_doubles);
        let mut arena = Vec::new();
        for id in (0..2 * keys.count()).chain([u64::MAX]) {
            arena.clear();
            let token = keys.token(Pick::Id(id), &mut arena);
            let bytes = S::resolve(&token, &arena).key_bytes().as_ref().len();
            assert!(bytes <= keys.key_bytes_max(), "{bytes} bytes");
        }
    }

    #[test]
    fn keys_are_distinct_and_positions_are_their_order() {
        check_keys(&Integers::new(2000));
        check_keys(&Bytes::new(2000, 8));
        check_keys(&Bytes::new(2000, 37));
        check_keys(&Urls::new(2000));
    }
}
