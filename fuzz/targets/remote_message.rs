//! What comes over the control connection to memory of another host: each message is read or refused, and what is read
//! is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_rdma::protocol::{MESSAGE_BYTES_MAX, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(message.encode(), bytes);
    }
});
