//! Numbers of bytes: what is read is written and read again as the same number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_topology::units::{Bytes, parse_bytes, parse_bytes_with_unit};

fuzz_target!(|text: &str| {
    let bytes = parse_bytes(text);
    if let Some(with_unit) = parse_bytes_with_unit(text) {
        assert_eq!(bytes, Some(with_unit));
    }
    if let Some(bytes) = bytes {
        assert_eq!(parse_bytes_with_unit(&Bytes(bytes).exact()), Some(bytes));
        assert!(!Bytes(bytes).to_string().is_empty());
    }
});
