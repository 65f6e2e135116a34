//! Exit codes of `cargo xtask`.

use std::process::ExitCode;

/// The testbed cannot run on this machine: nothing was tested, and nothing failed. It is `EX_UNAVAILABLE` of sysexits.h.
const UNAVAILABLE: u8 = 69;

/// Why nothing can be tested on this machine.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the testbed cannot run here: {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The code for an error: 69 where this machine cannot run the testbed, else 1.
pub fn of(error: &anyhow::Error) -> ExitCode {
    match error.chain().any(|cause| cause.is::<Unavailable>()) {
        true => ExitCode::from(UNAVAILABLE),
        false => ExitCode::FAILURE,
    }
}
