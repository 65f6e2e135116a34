//! Texts of clients: scripts of SQL, and the words of settings and of placements.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_durable::log::LogSync;
use nearfar_table::placement::Strategy;
use nearfar_sql::sql::statements;

fuzz_target!(|text: &str| {
    let _ = statements(text);
    if let Ok(sync) = text.parse::<LogSync>() {
        assert_eq!(sync.to_string().parse(), Ok(sync));
    }
    if let Ok(strategy) = text.parse::<Strategy>() {
        assert!(strategy.to_string().parse::<Strategy>().is_ok());
    }
});
