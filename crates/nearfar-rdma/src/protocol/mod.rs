//! How clients and servers agree: small messages over TCP, read by a parser that takes nothing for granted.
//!
//! A message is its length in four bytes, little-endian, and so many bytes: a kind and its numbers. A server and a
//! client prove to each other that they know the secret, and never say it:
//!
//! ```text
//!   client                                    server
//!   Hello      version, nonce C      ->
//!                                    <-       Challenge  version, nonce S
//!   Proof      HMAC(secret, C, S)    ->
//!                                    <-       Welcome    HMAC(secret, C, S), lease, bytes
//!   every message after that ends with HMAC(session key, direction, number, message)
//! ```
//!
//! The session key is derived from the secret and both nonces, so that nobody else can put a message in, leave one out
//! or repeat one.

mod channel;
mod handshake;
mod message;

pub(crate) use self::channel::{Channel, Side};
pub use self::channel::{ChannelError, MESSAGE_BYTES_MAX};
pub(crate) use self::handshake::{Answer, IntroductionError, Terms, answer, introduce};
pub use self::message::{End, Malformed, Message, Refusal, VERSION};
