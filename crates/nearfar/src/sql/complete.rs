//! What rustyline asks while a line is edited: whether it is complete, and how a word could go on.

use std::sync::{Arc, Mutex, PoisonError};

use nearfar_sql::sql::Completeness;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use super::meta::COMMANDS;

/// Words of statements, in upper case.
const KEYWORDS: &str = "ALL ALTER ANALYZE AND AS ASC AVG BEGIN BETWEEN BY CALL CASE CAST COLUMN \
    COMMIT COPY COUNT CREATE CROSS DATE DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS \
    EXPLAIN EXTERNAL EXTRACT FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN \
    LEFT LIKE LIMIT LOCATION MAX MIN NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION REPLACE RESET \
    RIGHT ROLLBACK SELECT SET SHOW STORED SUM TABLE TABLESPACE TABLESPACES TEMPORARY THEN TO \
    TRUNCATE UNION UPDATE VALUES VIEW WHEN WHERE WITH";

/// The names of tables and columns, as the shell last saw them.
pub type Names = Arc<Mutex<Vec<String>>>;

/// Rustyline's helper.
pub struct ShellHelper {
    names: Names,
    files: FilenameCompleter,
}

impl ShellHelper {
    pub fn new(names: Names) -> Self {
        Self {
            names,
            files: FilenameCompleter::new(),
        }
    }

    fn words(&self, prefix: &str) -> Vec<String> {
        if prefix.starts_with('\\') {
            let commands = COMMANDS.iter().map(|(command, _)| (*command).to_owned());
            return commands
                .filter(|command| command.starts_with(prefix))
                .collect();
        }
        let is_lower = prefix.chars().any(char::is_lowercase);
        let keywords = KEYWORDS.split_whitespace().map(|keyword| {
            if is_lower {
                keyword.to_lowercase()
            } else {
                keyword.to_owned()
            }
        });
        let names = self
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let matches = |word: &String| {
            word.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let mut words: Vec<String> = names.into_iter().chain(keywords).filter(matches).collect();
        words.sort();
        words.dedup();
        words
    }
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        if [r"\i ", r"\o "]
            .iter()
            .any(|command| typed.starts_with(command))
        {
            return self.files.complete(line, pos, ctx);
        }
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\\');
        let start = typed.rfind(|c| !is_word(c)).map_or(0, |at| {
            at + typed[at..].chars().next().map_or(0, char::len_utf8)
        });
        let prefix = &typed[start..];
        if prefix.is_empty() {
            return Ok((pos, Vec::new()));
        }
        let pair = |word: String| Pair {
            display: word.clone(),
            replacement: word,
        };
        Ok((start, self.words(prefix).into_iter().map(pair).collect()))
    }
}

impl Validator for ShellHelper {
    /// Commands are one line; statements go on until their semicolon.
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let input = context.input();
        let is_done = input.trim_start().starts_with('\\')
            || Completeness::of(input) != Completeness::Incomplete;
        Ok(if is_done {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Hinter for ShellHelper {
    type Hint = String;
}

impl Highlighter for ShellHelper {}

impl Helper for ShellHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_on_as_keywords_commands_and_names() {
        let names = Arc::new(Mutex::new(vec![
            "lineitem".to_owned(),
            "l_orderkey".to_owned(),
        ]));
        let helper = ShellHelper::new(names);
        assert_eq!(
            helper.words("l"),
            [
                "l_orderkey",
                "left",
                "like",
                "limit",
                "lineitem",
                "location"
            ]
        );
        assert_eq!(helper.words("SEL"), ["SELECT"]);
        assert_eq!(helper.words(r"\t"), [r"\timing"]);
    }
}
