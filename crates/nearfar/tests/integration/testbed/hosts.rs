//! What two machines tell each other in the folder that both have.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Written when the first machine may be killed.
pub const PUBLISHED: &str = "/shared/published";
/// Told to the second machine when the first one is gone.
pub const TAKE_OVER: &str = "/shared/take-over";
/// What a machine gets for its part. Under emulation, a program takes seconds to start.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Writes a file that is whole when it is there.
pub fn publish(path: &str, text: &str) {
    let new = format!("{path}.new");
    fs::write(&new, text).expect("written");
    fs::rename(new, path).expect("renamed");
}

pub fn until_there(path: &str) {
    let started = Instant::now();
    while !Path::new(path).exists() {
        assert!(started.elapsed() < PATIENCE, "no {path}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
