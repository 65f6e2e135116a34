//! What is offered, and who has how much of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a server offers and what is taken of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerUsage {
    /// Bytes that are offered to all clients together.
    pub offered_bytes: u64,
    /// Bytes that clients have, in whole pages.
    pub used_bytes: u64,
    /// Clients that have proven that they know the secret.
    pub clients: usize,
    /// Connections whose peers have not.
    pub strangers: usize,
}

/// The most connections whose peers have not proven anything, so that they take no client's place.
const STRANGERS_MAX: usize = 64;

/// The most of them that come from one address, so that it does not take the places of all others.
const STRANGERS_PER_ADDRESS: usize = 8;

#[derive(Debug)]
struct Entries {
    usage: ServerUsage,
    strangers: BTreeMap<IpAddr, usize>,
    clients_max: usize,
}

/// The account of a server. Every change is made under one lock, whole.
#[derive(Debug, Clone)]
pub(super) struct Book(Arc<Mutex<Entries>>);

/// Bytes that a client has; dropping it gives them back.
#[derive(Debug)]
pub(super) struct Share {
    book: Book,
    bytes: u64,
}

/// A client's place; dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Seat(Book);

/// The place of a connection whose peer has not proven anything yet.
#[derive(Debug)]
pub(super) struct Door {
    book: Book,
    address: IpAddr,
}

impl Book {
    pub(super) fn new(offered_bytes: u64, clients_max: usize) -> Self {
        let usage = ServerUsage {
            offered_bytes,
            used_bytes: 0,
            clients: 0,
            strangers: 0,
        };
        Self(Arc::new(Mutex::new(Entries {
            usage,
            strangers: BTreeMap::new(),
            clients_max,
        })))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> ServerUsage {
        self.entries().usage
    }

    /// A place for one more stranger from this address.
    pub(super) fn door(&self, address: IpAddr) -> Option<Door> {
        // IPv4 addresses are one and the same to a socket that listens for both.
        let address = address.to_canonical();
        let mut entries = self.entries();
        let theirs = entries.strangers.get(&address).copied().unwrap_or(0);
        if entries.usage.strangers >= STRANGERS_MAX || theirs >= STRANGERS_PER_ADDRESS {
            return None;
        }
        entries.usage.strangers += 1;
        entries.strangers.insert(address, theirs + 1);
        let book = self.clone();
        Some(Door { book, address })
    }

    /// A place for one more client.
    pub(super) fn seat(&self) -> Option<Seat> {
        let mut entries = self.entries();
        let is_free = entries.usage.clients < entries.clients_max;
        entries.usage.clients += usize::from(is_free);
        is_free.then(|| Seat(self.clone()))
    }

    /// So many bytes, or how many are left.
    pub(super) fn take(&self, bytes: u64) -> Result<Share, u64> {
        let mut entries = self.entries();
        let left = entries.usage.offered_bytes - entries.usage.used_bytes;
        if bytes > left {
            return Err(left);
        }
        entries.usage.used_bytes += bytes;
        let book = self.clone();
        Ok(Share { book, bytes })
    }
}

impl Share {
    /// Has it be as many bytes as these, or tells how many there are for it.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), u64> {
        let more = bytes.saturating_sub(self.bytes);
        let mut taken = self.book.take(more).map_err(|left| left + self.bytes)?;
        self.bytes += std::mem::take(&mut taken.bytes);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.book.entries().usage.used_bytes -= self.bytes;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut entries = self.book.entries();
        entries.usage.strangers -= 1;
        if let Entry::Occupied(mut theirs) = entries.strangers.entry(self.address) {
            *theirs.get_mut() -= 1;
            if *theirs.get() == 0 {
                theirs.remove();
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.entries().usage.clients -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_was_offered_and_all_comes_back() {
        let book = Book::new(100, 2);
        let one = book.take(60).unwrap();
        assert_eq!(book.take(41).unwrap_err(), 40);
        assert_eq!(book.take(u64::MAX).unwrap_err(), 40);
        let two = book.take(40).unwrap();
        assert_eq!(book.usage().used_bytes, 100);
        drop(one);
        assert_eq!(book.take(61).unwrap_err(), 60);
        drop(two);
        let mut grown = book.take(10).unwrap();
        grown.grow_to(50).unwrap();
        grown.grow_to(40).unwrap();
        assert_eq!(book.usage().used_bytes, 50);
        assert_eq!(grown.grow_to(101), Err(100));
        assert_eq!(book.usage().used_bytes, 50);
        drop(grown);
        assert_eq!(book.usage().used_bytes, 0);
    }

    #[test]
    fn there_are_so_many_seats() {
        let book = Book::new(1, 2);
        let seats = [book.seat().unwrap(), book.seat().unwrap()];
        assert!(book.seat().is_none());
        drop(seats);
        assert!(book.seat().is_some());
        assert_eq!(book.usage().clients, 0);
    }

    #[test]
    fn one_address_does_not_take_the_places_of_all_strangers() {
        let book = Book::new(1, 2);
        let address = |last: usize| IpAddr::from([10, 0, 0, last as u8]);
        let many = |last| (0..STRANGERS_PER_ADDRESS).map(move |_| address(last));
        let mut doors: Vec<Door> = many(1).map(|one| book.door(one).unwrap()).collect();
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert!(book.door(address(1)).is_none() && book.door(mapped).is_none());
        let others = STRANGERS_MAX / STRANGERS_PER_ADDRESS;
        let rest = (2..=others).flat_map(many);
        doors.extend(rest.map(|one| book.door(one).unwrap()));
        assert!(book.door(address(100)).is_none() && book.seat().is_some());
        doors.swap_remove(0);
        doors.push(book.door(address(1)).unwrap());
        drop(doors);
        assert_eq!(book.usage().strangers, 0);
        assert!(book.entries().strangers.is_empty());
    }
}
