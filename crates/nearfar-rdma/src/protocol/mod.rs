//! How clients and servers agree: small messages over TCP, read by a parser that takes nothing for granted.
//!
//! A message is its length in four bytes, little-endian, and so many bytes: a kind and its numbers. A server and a
//! client prove to each other that they know the secret, and never say it:
//!
//! ```text
//!   client                            server
//!   Hello    version, nonce C    ->
//!                                <-   Challenge  version, nonce S
//!   Proof    code                ->
//!                                <-   Welcome    code, lease, bytes
//!                                 or  Refused    a wrong secret, or no place for another client
//!
//!   said              the client's version, the server's version, C, S
//!   code of Proof     HMAC(secret, "nearfar rdma client", said)
//!   code of Welcome   HMAC(secret, "nearfar rdma server", said, lease, bytes)
//!   session key       HMAC(secret, "nearfar rdma session", said)
//!
//!   every message after Welcome ends with HMAC(session key, sender, number, message)
//!   sender            "c" for the client, "s" for the server
//! ```
//!
//! The client proves itself first. The session key is of both nonces, so that nobody else can put a message in, change
//! one, leave one out or repeat one.

mod channel;
mod handshake;
mod message;

pub(crate) use self::channel::{Channel, Side};
pub use self::channel::{ChannelError, MESSAGE_BYTES_MAX};
pub(crate) use self::handshake::{Answer, IntroductionError, Terms, answer, introduce};
pub use self::message::{End, Malformed, Message, Refusal, VERSION};
