//! What a client sends: messages out of a stream, whole and passed over, and bodies of each kind.
#![no_main]
#![allow(dead_code, reason = "the files of the server are used in part")]

#[path = "../../crates/nearfar-server/src/wire/reader.rs"]
mod reader;
#[path = "../../crates/nearfar-server/src/wire/request.rs"]
mod request;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use reader::{ReadError, Reader};
use request::{Request, RequestKind, initial_response};

/// The result of a future that waits for nothing, as reading from a slice does.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a slice is never waited for"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes);
    loop {
        match now(reader.next()) {
            Ok(_) => {}
            Err(ReadError::TooLong {
                bytes, bytes_max, ..
            }) => assert!(bytes > bytes_max),
            Err(ReadError::Gone | ReadError::Malformed(_)) => break,
        }
    }
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    if let Some(kind) = RequestKind::of(*first) {
        let _ = Request::read(kind, Bytes::copy_from_slice(body));
    }
    let _ = initial_response(Bytes::copy_from_slice(body));
});
