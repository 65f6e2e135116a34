//! Errors as one clear message.

use std::io::{self, Write};

use nearfar_sql::explain::join_causes;

/// What went wrong and why: the causes of `error`, without those that the text before them tells
/// already.
pub fn of(error: &anyhow::Error) -> String {
    join_causes(error.chain().map(ToString::to_string))
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
    fn causes_are_told_once() {
        let error = Err::<(), _>(anyhow!("no space"))
            .context("cannot write x: no space")
            .context("saving failed")
            .expect_err("an error");
        assert_eq!(of(&error), "saving failed: cannot write x: no space");
    }
}
