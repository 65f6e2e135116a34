//! Messages as bytes.

use std::fmt;

use nearfar_memory::rdma::Endpoint;

/// The version of the messages. Another one is refused.
pub const VERSION: u16 = 2;

/// What a client's first message begins with.
const MAGIC: [u8; 6] = *b"nfrdma";

/// Why a server does not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client's secret is another.
    WrongSecret,
    /// More memory than is offered, or left.
    TooLarge {
        /// What was asked for.
        requested_bytes: u64,
        /// What is left.
        available_bytes: u64,
    },
    /// One region more than a client may have.
    TooManyRegions {
        /// The most.
        max: u64,
    },
    /// One connection more than a client may have.
    TooManyLinks {
        /// The most.
        max: u64,
    },
    /// A region that the client does not have.
    UnknownRegion {
        /// Its number.
        region: u64,
    },
    /// The server's memory or device does not give it.
    Unavailable,
    /// There are as many clients as the server takes.
    Full,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongSecret => f.write_str("the secret is wrong"),
            Self::TooLarge {
                requested_bytes,
                available_bytes,
            } => write!(
                f,
                "{requested_bytes} bytes were asked for, but {available_bytes} bytes are left of what is offered"
            ),
            Self::TooManyRegions { max } => write!(f, "a client has {max} regions at most"),
            Self::TooManyLinks { max } => write!(f, "a client has {max} connections at most"),
            Self::UnknownRegion { region } => write!(f, "there is no region {region}"),
            Self::Unavailable => f.write_str("its memory or its device does not give it"),
            Self::Full => f.write_str("it has as many clients as it takes"),
        }
    }
}

/// Why a server ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has not renewed its lease in time.
    LeaseExpired,
    /// The server is stopping.
    Stopping,
    /// The client sent what no client sends.
    Misunderstood,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseExpired => "the lease was not renewed in time",
            Self::Stopping => "the server is stopping",
            Self::Misunderstood => "the server did not understand this client",
        })
    }
}

/// A message. [`super`] says who sends which when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A client begins.
    Hello {
        /// The client's version.
        version: u16,
        /// The client's random bytes.
        nonce: [u8; 32],
    },
    /// The server asks for a proof.
    Challenge {
        /// The server's version.
        version: u16,
        /// The server's random bytes.
        nonce: [u8; 32],
    },
    /// The client knows the secret.
    Proof {
        /// The authentication code.
        code: [u8; 32],
    },
    /// The server knows it too, and says its terms.
    Welcome {
        /// The authentication code, of the terms too.
        code: [u8; 32],
        /// Within which the client must be heard of again, in milliseconds.
        lease_ms: u32,
        /// Bytes that are offered to all clients together.
        offered_bytes: u64,
    },
    /// The client asks for memory.
    Allocate {
        /// How much.
        bytes: u64,
    },
    /// The client has memory.
    Allocated {
        /// The region's number.
        region: u64,
        /// The address of its first byte at the server.
        address: u64,
        /// The key to it.
        key: u32,
        /// What it takes there, in whole pages.
        bytes: u64,
    },
    /// The client needs a region no more.
    Free {
        /// The region's number.
        region: u64,
    },
    /// It is the server's again.
    Freed {
        /// The region's number.
        region: u64,
    },
    /// The client has made its end of a connection.
    Connect {
        /// The client's end.
        endpoint: Endpoint,
    },
    /// The server has made the other.
    Connected {
        /// The server's end.
        endpoint: Endpoint,
    },
    /// A connection has ended at the client.
    Disconnect {
        /// The queue of the server's end.
        queue: u32,
    },
    /// It has ended at the server too.
    Disconnected,
    /// The client is still there.
    Renew,
    /// The lease begins anew.
    Renewed,
    /// The client leaves.
    Bye,
    /// The server does not do what it was asked for.
    Refused(Refusal),
    /// The server ends the session.
    Ended(End),
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("a message of {bytes} bytes ends too early")]
    Short {
        /// Its bytes.
        bytes: usize,
    },
    /// It goes on behind its end.
    #[error("a message has {bytes} bytes too many")]
    Long {
        /// How many.
        bytes: usize,
    },
    /// A kind that there is not.
    #[error("there is no message of kind {kind}")]
    Kind {
        /// The first byte.
        kind: u8,
    },
    /// A first message of something else.
    #[error("this is no client of Nearfar")]
    Magic,
    /// A number that there is not.
    #[error("a number is out of its range")]
    Number,
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const CHALLENGE: u8 = 2;
    pub(super) const PROOF: u8 = 3;
    pub(super) const WELCOME: u8 = 4;
    pub(super) const ALLOCATE: u8 = 5;
    pub(super) const ALLOCATED: u8 = 6;
    pub(super) const FREE: u8 = 7;
    pub(super) const FREED: u8 = 8;
    pub(super) const CONNECT: u8 = 9;
    pub(super) const CONNECTED: u8 = 10;
    pub(super) const RENEW: u8 = 11;
    pub(super) const RENEWED: u8 = 12;
    pub(super) const BYE: u8 = 13;
    pub(super) const REFUSED: u8 = 14;
    pub(super) const ENDED: u8 = 15;
    pub(super) const DISCONNECT: u8 = 16;
    pub(super) const DISCONNECTED: u8 = 17;
}

impl Message {
    /// The message as bytes, without its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bytes = Vec::with_capacity(64);
        let mut to = Writer(bytes);
        match *self {
            Self::Hello { version, nonce } => {
                let to = to.kind(kind::HELLO).put(&MAGIC);
                to.put(&version.to_le_bytes()).put(&nonce)
            }
            Self::Challenge { version, nonce } => {
                let to = to.kind(kind::CHALLENGE);
                to.put(&version.to_le_bytes()).put(&nonce)
            }
            Self::Proof { code } => to.kind(kind::PROOF).put(&code),
            Self::Welcome {
                code,
                lease_ms,
                offered_bytes,
            } => {
                let to = to.kind(kind::WELCOME).put(&code);
                to.put(&lease_ms.to_le_bytes()).number(offered_bytes)
            }
            Self::Allocate { bytes } => to.kind(kind::ALLOCATE).number(bytes),
            Self::Allocated {
                region,
                address,
                key,
                bytes,
            } => {
                let to = to.kind(kind::ALLOCATED).number(region).number(address);
                to.put(&key.to_le_bytes()).number(bytes)
            }
            Self::Free { region } => to.kind(kind::FREE).number(region),
            Self::Freed { region } => to.kind(kind::FREED).number(region),
            Self::Connect { endpoint } => to.kind(kind::CONNECT).endpoint(&endpoint),
            Self::Connected { endpoint } => to.kind(kind::CONNECTED).endpoint(&endpoint),
            Self::Disconnect { queue } => {
                let to = to.kind(kind::DISCONNECT);
                to.put(&queue.to_le_bytes())
            }
            Self::Disconnected => to.kind(kind::DISCONNECTED),
            Self::Renew => to.kind(kind::RENEW),
            Self::Renewed => to.kind(kind::RENEWED),
            Self::Bye => to.kind(kind::BYE),
            Self::Refused(refusal) => to.kind(kind::REFUSED).refusal(refusal),
            Self::Ended(end) => to.kind(kind::ENDED).put(&[match end {
                End::LeaseExpired => 1,
                End::Stopping => 2,
                End::Misunderstood => 3,
            }]),
        };
        to.0
    }

    /// The message of these bytes, all of them.
    ///
    /// # Errors
    /// [`Malformed`] for any bytes that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader { all: bytes, at: 0 };
        let message = Self::read(&mut from)?;
        match bytes.len() - from.at {
            0 => Ok(message),
            bytes => Err(Malformed::Long { bytes }),
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.take::<1>()?[0] {
            kind::HELLO => {
                if from.take()? != MAGIC {
                    return Err(Malformed::Magic);
                }
                Self::Hello {
                    version: u16::from_le_bytes(from.take()?),
                    nonce: from.take()?,
                }
            }
            kind::CHALLENGE => Self::Challenge {
                version: u16::from_le_bytes(from.take()?),
                nonce: from.take()?,
            },
            kind::PROOF => Self::Proof { code: from.take()? },
            kind::WELCOME => Self::Welcome {
                code: from.take()?,
                lease_ms: u32::from_le_bytes(from.take()?),
                offered_bytes: from.number()?,
            },
            kind::ALLOCATE => Self::Allocate {
                bytes: from.number()?,
            },
            kind::ALLOCATED => Self::Allocated {
                region: from.number()?,
                address: from.number()?,
                key: u32::from_le_bytes(from.take()?),
                bytes: from.number()?,
            },
            kind::FREE => Self::Free {
                region: from.number()?,
            },
            kind::FREED => Self::Freed {
                region: from.number()?,
            },
            kind::CONNECT => Self::Connect {
                endpoint: from.endpoint()?,
            },
            kind::CONNECTED => Self::Connected {
                endpoint: from.endpoint()?,
            },
            kind::DISCONNECT => Self::Disconnect {
                queue: u32::from_le_bytes(from.take()?),
            },
            kind::DISCONNECTED => Self::Disconnected,
            kind::RENEW => Self::Renew,
            kind::RENEWED => Self::Renewed,
            kind::BYE => Self::Bye,
            kind::REFUSED => Self::Refused(from.refusal()?),
            kind::ENDED => Self::Ended(match from.take::<1>()?[0] {
                1 => End::LeaseExpired,
                2 => End::Stopping,
                3 => End::Misunderstood,
                _ => return Err(Malformed::Number),
            }),
            kind => return Err(Malformed::Kind { kind }),
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn kind(&mut self, kind: u8) -> &mut Self {
        self.put(&[kind])
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.put(&number.to_le_bytes())
    }

    fn endpoint(&mut self, endpoint: &Endpoint) -> &mut Self {
        self.put(&endpoint.gid)
            .put(&endpoint.lid.to_le_bytes())
            .put(&endpoint.queue.to_le_bytes())
            .put(&endpoint.first_packet.to_le_bytes())
            .put(&[endpoint.mtu, endpoint.reads])
    }

    fn refusal(&mut self, refusal: Refusal) -> &mut Self {
        match refusal {
            Refusal::WrongSecret => self.put(&[1]),
            Refusal::TooLarge {
                requested_bytes,
                available_bytes,
            } => self
                .put(&[2])
                .number(requested_bytes)
                .number(available_bytes),
            Refusal::TooManyRegions { max } => self.put(&[3]).number(max),
            Refusal::TooManyLinks { max } => self.put(&[4]).number(max),
            Refusal::UnknownRegion { region } => self.put(&[5]).number(region),
            Refusal::Unavailable => self.put(&[6]),
            Refusal::Full => self.put(&[7]),
        }
    }
}

struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.all.len();
        let taken = self.all[self.at..].first_chunk::<N>();
        let taken = *taken.ok_or(Malformed::Short { bytes })?;
        self.at += N;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    fn endpoint(&mut self) -> Result<Endpoint, Malformed> {
        let endpoint = Endpoint {
            gid: self.take()?,
            lid: u16::from_le_bytes(self.take()?),
            queue: u32::from_le_bytes(self.take()?),
            first_packet: u32::from_le_bytes(self.take()?),
            mtu: self.take::<1>()?[0],
            reads: self.take::<1>()?[0],
        };
        match endpoint.is_sound() {
            true => Ok(endpoint),
            false => Err(Malformed::Number),
        }
    }

    fn refusal(&mut self) -> Result<Refusal, Malformed> {
        Ok(match self.take::<1>()?[0] {
            1 => Refusal::WrongSecret,
            2 => Refusal::TooLarge {
                requested_bytes: self.number()?,
                available_bytes: self.number()?,
            },
            3 => Refusal::TooManyRegions {
                max: self.number()?,
            },
            4 => Refusal::TooManyLinks {
                max: self.number()?,
            },
            5 => Refusal::UnknownRegion {
                region: self.number()?,
            },
            6 => Refusal::Unavailable,
            7 => Refusal::Full,
            _ => return Err(Malformed::Number),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        let numbers = (
            any::<[u8; 16]>(),
            any::<u16>(),
            0..1_u32 << 24,
            0..1_u32 << 24,
        );
        (numbers, 1..=5_u8, 1..=16_u8).prop_map(|((gid, lid, queue, first_packet), mtu, reads)| {
            Endpoint {
                gid,
                lid,
                queue,
                first_packet,
                mtu,
                reads,
            }
        })
    }

    fn refusal() -> impl Strategy<Value = Refusal> {
        prop_oneof![
            Just(Refusal::WrongSecret),
            any::<(u64, u64)>().prop_map(|(requested_bytes, available_bytes)| Refusal::TooLarge {
                requested_bytes,
                available_bytes
            }),
            any::<u64>().prop_map(|max| Refusal::TooManyRegions { max }),
            any::<u64>().prop_map(|max| Refusal::TooManyLinks { max }),
            any::<u64>().prop_map(|region| Refusal::UnknownRegion { region }),
            Just(Refusal::Unavailable),
            Just(Refusal::Full),
        ]
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<(u16, [u8; 32])>().prop_map(|(version, nonce)| Message::Hello { version, nonce }),
            any::<(u16, [u8; 32])>()
                .prop_map(|(version, nonce)| Message::Challenge { version, nonce }),
            any::<[u8; 32]>().prop_map(|code| Message::Proof { code }),
            any::<([u8; 32], u32, u64)>().prop_map(|(code, lease_ms, offered_bytes)| {
                Message::Welcome {
                    code,
                    lease_ms,
                    offered_bytes,
                }
            }),
            any::<u64>().prop_map(|bytes| Message::Allocate { bytes }),
            any::<(u64, u64, u32, u64)>().prop_map(|(region, address, key, bytes)| {
                Message::Allocated {
                    region,
                    address,
                    key,
                    bytes,
                }
            }),
            any::<u64>().prop_map(|region| Message::Free { region }),
            any::<u64>().prop_map(|region| Message::Freed { region }),
            endpoint().prop_map(|endpoint| Message::Connect { endpoint }),
            endpoint().prop_map(|endpoint| Message::Connected { endpoint }),
            any::<u32>().prop_map(|queue| Message::Disconnect { queue }),
            Just(Message::Disconnected),
            Just(Message::Renew),
            Just(Message::Renewed),
            Just(Message::Bye),
            refusal().prop_map(Message::Refused),
            (0..3_usize).prop_map(|end| {
                let ends = [End::LeaseExpired, End::Stopping, End::Misunderstood];
                Message::Ended(ends[end])
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(message in message()) {
            let bytes = message.encode();
            prop_assert!(bytes.len() <= super::super::MESSAGE_BYTES_MAX);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                prop_assert!(Message::decode(&bytes[..cut]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(Message::decode(&longer), Err(Malformed::Long { bytes: 1 }));
        }

        /// Whatever is read is written as it was: there is one spelling of each message.
        #[test]
        fn any_bytes_are_a_message_or_refused(
            kind in 0..20_u8,
            rest in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let bytes = [&[kind][..], &rest].concat();
            for length in 0..=bytes.len() {
                if let Ok(message) = Message::decode(&bytes[..length]) {
                    prop_assert_eq!(message.encode(), &bytes[..length]);
                }
            }
        }
    }
}
