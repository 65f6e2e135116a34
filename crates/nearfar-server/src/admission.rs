//! Who is let in: strangers, which have not said who they are yet, and sessions.
//!
//! Both are bounded, apart from each other: connections that say nothing take no places of clients
//! that know a password. Where there are too many strangers, one of the address that has most of them
//! makes room, so that an address gets others out only if it has fewer than they.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where a connection comes from: one address, or the network that one machine has all addresses of
/// (IPv6, 64 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(IpAddr);

impl Origin {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        const NETWORK: u128 = !(u64::MAX as u128);
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        })
    }
}

/// Connections that have not said who they are.
#[derive(Debug)]
pub struct Strangers {
    most: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// The oldest first.
    by_number: BTreeMap<u64, (Origin, Arc<Notify>)>,
}

impl Strangers {
    /// None yet, and at most so many.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            entries: Mutex::default(),
        })
    }

    /// Enters one. Where there are too many, the oldest of the address that has most is sent away.
    pub fn enter(self: &Arc<Self>, from: Origin) -> Stranger {
        let sent_away = Arc::new(Notify::new());
        let mut entries = self.entries.lock();
        if entries.by_number.len() >= self.most {
            entries.send_one_away();
        }
        let number = entries.next;
        entries.next += 1;
        let entry = (from, Arc::clone(&sent_away));
        entries.by_number.insert(number, entry);
        Stranger {
            from,
            number,
            sent_away,
            all: Arc::clone(self),
        }
    }
}

impl Entries {
    fn send_one_away(&mut self) {
        let mut counts = HashMap::<Origin, usize>::new();
        for (from, _) in self.by_number.values() {
            *counts.entry(*from).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let mut entries = self.by_number.iter();
        let oldest = entries.find(|(_, (from, _))| counts.get(from) == Some(&most));
        let oldest = oldest.map(|(number, _)| *number);
        if let Some((_, sent_away)) = oldest.and_then(|number| self.by_number.remove(&number)) {
            sent_away.notify_one();
        }
    }
}

/// A connection that has not said who it is, for as long as this is there.
#[derive(Debug)]
pub struct Stranger {
    from: Origin,
    number: u64,
    sent_away: Arc<Notify>,
    all: Arc<Strangers>,
}

impl Stranger {
    /// Where it comes from.
    pub fn from(&self) -> Origin {
        self.from
    }

    /// Ends when it has to make room for another.
    pub async fn sent_away(&self) {
        self.sent_away.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.entries.lock().by_number.remove(&self.number);
    }
}

/// Clients that are known.
#[derive(Debug)]
pub struct Sessions {
    most: usize,
    count: AtomicUsize,
}

impl Sessions {
    /// None yet, and at most so many.
    pub fn new(most: usize) -> Arc<Self> {
        let count = AtomicUsize::new(0);
        Arc::new(Self { most, count })
    }

    /// A place, if one is free.
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let taken = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < self.most).then_some(count + 1)
            });
        taken.is_ok().then(|| Place(Arc::clone(self)))
    }
}

/// The place of a session, for as long as this is there.
#[derive(Debug)]
pub struct Place(Arc<Sessions>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    fn is_sent_away(stranger: &Stranger) -> bool {
        stranger.sent_away().now_or_never().is_some()
    }

    #[test]
    fn who_has_most_makes_room() {
        let strangers = Strangers::new(3);
        let quiet = strangers.enter(origin("10.0.0.1"));
        let flood: Vec<Stranger> = (0..2)
            .map(|_| strangers.enter(origin("10.0.0.2")))
            .collect();
        let third = strangers.enter(origin("10.0.0.3"));
        assert!(!is_sent_away(&quiet) && is_sent_away(&flood[0]));
        let fourth = strangers.enter(origin("10.0.0.4"));
        assert!(is_sent_away(&quiet), "all have one, and it is the oldest");
        assert!(
            ![&flood[1], &third, &fourth]
                .map(is_sent_away)
                .contains(&true)
        );
        drop((flood, third));
        let fifth = strangers.enter(origin("10.0.0.5"));
        let sixth = strangers.enter(origin("10.0.0.6"));
        assert!(![&fourth, &fifth, &sixth].map(is_sent_away).contains(&true));
    }

    #[test]
    fn a_network_is_one_origin() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
    }

    #[test]
    fn places_are_free_again() {
        let sessions = Sessions::new(1);
        let place = sessions.enter().expect("a place");
        assert!(sessions.enter().is_none());
        drop(place);
        assert!(sessions.enter().is_some());
    }
}
