//! Errors as one clear message.

use std::io::{self, Write};

/// What went wrong and why: the causes of `error`, without those that the text before them tells
/// already.
pub fn of(error: &anyhow::Error) -> String {
    join(error.chain().map(ToString::to_string))
}

/// An error and its causes as one text.
pub fn join(causes: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for cause in causes {
        let cause = tidy(&cause);
        if text.is_empty() {
            text = cause;
        } else if !cause.is_empty() && !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What DataFusion appends to errors that it takes for its own, as it does with broken files.
const BLAMED_ON_A_BUG: &str = "\nThis issue was likely caused by a bug in DataFusion's code.";

/// One line without repetitions of DataFusion's and Arrow's words for the kind of an error.
fn tidy(text: &str) -> String {
    let text = text.split(BLAMED_ON_A_BUG).next().unwrap_or_default();
    let text = text.trim().replace("\ncaused by\n", ": ");
    let mut parts: Vec<&str> = text.split(": ").collect();
    parts.dedup();
    parts.join(": ")
}

/// Tells the user of `error`, on stderr.
pub fn report(error: &anyhow::Error) {
    print(&format!("error: {}", of(error)));
}

/// A line on stderr. Where there is no stderr, there is nobody to be told.
pub fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn kinds_of_errors_are_told_once() {
        let text = "x: Parquet error: Parquet error: no footer\ncaused by\nArrow error: torn";
        assert_eq!(tidy(text), "x: Parquet error: no footer: Arrow error: torn");
        let blamed = format!("Internal error: odd.{BLAMED_ON_A_BUG} Please help");
        assert_eq!(tidy(&blamed), "Internal error: odd.");
    }

    #[test]
    fn causes_are_told_once() {
        let error = Err::<(), _>(anyhow!("no space"))
            .context("cannot write x: no space")
            .context("saving failed")
            .expect_err("an error");
        assert_eq!(of(&error), "saving failed: cannot write x: no space");
    }
}
