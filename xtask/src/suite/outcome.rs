//! What became of a test.

use std::time::Duration;

use serde::Serialize;

/// What became of a test.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    pub topology: &'static str,
    pub feature: &'static str,
    /// The package whose test it is; none for what the testbed itself does.
    pub package: Option<&'static str>,
    pub test: String,
    pub passed: bool,
    /// How long the check took that it is part of.
    pub check_seconds: f64,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of all tests that one machine or one pair of them ran.
pub struct Found {
    /// Each outcome with the output that belongs to it.
    pub outcomes: Vec<(Outcome, String)>,
    /// Whether a machine died of a fault of the emulator, so that failures mean nothing.
    pub emulator_failed: bool,
}

/// What libtest says of one test in a line such as `test NAME ... ok`.
pub fn of_test(stdout: &str, name: &str) -> Option<bool> {
    let start = format!("test {name} ... ");
    let word = stdout.lines().find_map(|line| line.strip_prefix(&start))?;
    match word {
        "ok" => Some(true),
        "FAILED" => Some(false),
        _ => None,
    }
}

/// Seconds with a tenth.
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libtest_are_understood() {
        let stdout = "\nrunning 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
                      test a::d ... \n";
        assert_eq!(of_test(stdout, "a::b"), Some(true));
        assert_eq!(of_test(stdout, "a::c"), Some(false));
        assert_eq!(of_test(stdout, "a::d"), None);
        assert_eq!(of_test(stdout, "a::e"), None);
    }
}
