//! The server's ends of a client's connections.

use std::collections::BTreeMap;

use nearfar_memory::rdma::Endpoint;

use crate::protocol::{Message, Refusal};

/// Ends of connections by the numbers of their queues, of which there is one at a time for each number.
#[derive(Debug)]
pub(super) struct Links<L>(BTreeMap<u32, L>);

impl<L> Links<L> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The answer to a client that wants one more of `max` connections, which `make` makes.
    pub(super) fn connect(
        &mut self,
        max: usize,
        make: impl FnOnce() -> Result<(Endpoint, L), Refusal>,
    ) -> Message {
        if self.0.len() >= max {
            return Message::Refused(Refusal::TooManyLinks { max: max as u64 });
        }
        match make() {
            Ok((endpoint, link)) => {
                self.0.insert(endpoint.queue, link);
                Message::Connected { endpoint }
            }
            Err(refusal) => Message::Refused(refusal),
        }
    }

    /// Ends the connection of this queue; there need not be one.
    pub(super) fn disconnect(&mut self, queue: u32) -> Message {
        self.0.remove(&queue);
        Message::Disconnected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(queue: u32) -> Result<(Endpoint, ()), Refusal> {
        let endpoint = Endpoint {
            gid: [1; 16],
            lid: 0,
            queue,
            first_packet: 0,
            mtu: 3,
            reads: 1,
        };
        Ok((endpoint, ()))
    }

    #[test]
    fn a_connection_that_has_ended_makes_room_for_another() {
        let mut links = Links::new();
        let is_connected = |reply| matches!(reply, Message::Connected { .. });
        for queue in 0..64 {
            assert!(is_connected(links.connect(64, || made(queue))));
        }
        let full = Message::Refused(Refusal::TooManyLinks { max: 64 });
        assert_eq!(links.connect(64, || made(64)), full);
        for queue in 64..300 {
            assert_eq!(links.disconnect(queue - 64), Message::Disconnected);
            assert!(is_connected(links.connect(64, || made(queue))));
            assert_eq!(links.connect(64, || made(queue + 1)), full);
        }
        assert_eq!(links.disconnect(7), Message::Disconnected, "long gone");
        assert_eq!(links.connect(64, || made(300)), full);
        let refused = Message::Refused(Refusal::Unavailable);
        links.disconnect(299);
        assert_eq!(links.connect(64, || Err(Refusal::Unavailable)), refused);
        assert!(is_connected(links.connect(64, || made(300))));
    }
}
