//! What is offered, and who has how much of it.

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

#[derive(Debug)]
struct Entries {
    usage: ServerUsage,
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
pub(super) struct Door(Book);

impl Book {
    pub(super) fn new(offered_bytes: u64, clients_max: usize) -> Self {
        let usage = ServerUsage {
            offered_bytes,
            used_bytes: 0,
            clients: 0,
            strangers: 0,
        };
        Self(Arc::new(Mutex::new(Entries { usage, clients_max })))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> ServerUsage {
        self.entries().usage
    }

    /// A place for one more stranger.
    pub(super) fn door(&self) -> Option<Door> {
        let mut entries = self.entries();
        let is_free = entries.usage.strangers < STRANGERS_MAX;
        entries.usage.strangers += usize::from(is_free);
        is_free.then(|| Door(self.clone()))
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

impl Drop for Share {
    fn drop(&mut self) {
        self.book.entries().usage.used_bytes -= self.bytes;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.entries().usage.strangers -= 1;
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
        let doors: Vec<Door> = (0..STRANGERS_MAX).map(|_| book.door().unwrap()).collect();
        assert!(book.door().is_none() && book.seat().is_some());
        drop(doors);
        assert_eq!(book.usage().strangers, 0);
    }
}
