//! The commands of the shell that begin with a backslash, in the manner of psql.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use super::runner::Runner;
use crate::args::RowFormat;
use crate::exit::{Exit, Failed};
use crate::message;
use crate::output::file::Output;

/// Commands and what they do, in the order of the help.
pub const COMMANDS: [(&str, &str); 11] = [
    (r"\?", "this help"),
    (r"\q", "leave; so does Ctrl-D"),
    (
        r"\d",
        "tables and views; with a name, its columns and where they lie",
    ),
    (
        r"\dt",
        "tables in memory: rows, segments, bytes near and far",
    ),
    (r"\db", "tablespaces: what they can hold and what they do"),
    (
        r"\timing",
        "print how long statements take and what they read: on or off",
    ),
    (
        r"\f",
        "format of rows: table, csv, json or parquet; also \\format",
    ),
    (r"\rows", "rows of a table that are printed; 0 for all"),
    (
        r"\o",
        "send rows to a file; without a name, back to the terminal",
    ),
    (r"\i", "run the statements of a file"),
    (r"\set", "settings: SHOW ALL; SET and RESET change them"),
];

/// A command of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    Help,
    Quit,
    Relations,
    Describe(String),
    Tables,
    Tablespaces,
    Timing(Option<bool>),
    Format(Option<RowFormat>),
    MaxRows(usize),
    Output(Option<PathBuf>),
    Include(PathBuf),
    Settings,
}

impl FromStr for Meta {
    type Err = Failed;

    /// Reads a command without its backslash.
    fn from_str(command: &str) -> Result<Self, Failed> {
        let command = command.trim().trim_end_matches(';');
        let (name, argument) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
        let wrong = |allowed: &str| {
            let given = argument.unwrap_or("nothing");
            usage(format!(r"\{name} takes {allowed}, not {given}"))
        };
        Ok(match (name, argument) {
            ("?" | "h" | "help", _) => Self::Help,
            ("q" | "quit" | "exit", _) => Self::Quit,
            ("d", None) => Self::Relations,
            ("d", Some(table)) => Self::Describe(table.to_owned()),
            ("dt", None) => Self::Tables,
            ("db", None) => Self::Tablespaces,
            ("timing", None) => Self::Timing(None),
            ("timing", Some("on")) => Self::Timing(Some(true)),
            ("timing", Some("off")) => Self::Timing(Some(false)),
            ("timing", _) => return Err(wrong("on or off")),
            ("f" | "format", None) => Self::Format(None),
            ("f" | "format", Some(format)) => Self::Format(Some(
                RowFormat::from_str(format, true)
                    .map_err(|_| wrong("table, csv, json or parquet"))?,
            )),
            ("rows", Some(rows)) => Self::MaxRows(rows.parse().map_err(|_| wrong("a number"))?),
            ("rows", None) => return Err(wrong("a number")),
            ("o", path) => Self::Output(path.map(PathBuf::from)),
            ("i", Some(path)) => Self::Include(path.into()),
            ("i", None) => return Err(wrong("a file")),
            ("set", None) => Self::Settings,
            ("dt" | "db" | "set", Some(_)) => return Err(wrong("nothing")),
            _ => {
                return Err(usage(format!(
                    r"there is no command \{name}: \? lists them"
                )));
            }
        })
    }
}

fn usage(message: String) -> Failed {
    Failed::new(Exit::Usage, message)
}

impl Meta {
    /// Runs the command; breaks where the shell is to be left.
    pub async fn run(self, runner: &mut Runner) -> anyhow::Result<ControlFlow<()>> {
        match self {
            Self::Quit => return Ok(ControlFlow::Break(())),
            Self::Help => help(),
            Self::Relations => drop(runner.show(RELATIONS).await?),
            Self::Describe(table) => describe(runner, &table).await?,
            Self::Tables => drop(runner.show(TABLES).await?),
            Self::Tablespaces => drop(runner.show(TABLESPACES).await?),
            Self::Settings => drop(runner.show("SHOW ALL").await?),
            Self::Timing(wanted) => {
                let timing = wanted.unwrap_or(!runner.display.timing);
                runner.display.timing = timing;
                message::print(if timing {
                    "Timing is on."
                } else {
                    "Timing is off."
                });
            }
            Self::Format(Some(format)) => runner.display.format = format,
            Self::Format(None) => {
                message::print(&format!("Format is {:?}.", runner.display.format))
            }
            Self::MaxRows(rows) => runner.display.max_rows = rows,
            Self::Output(Some(path)) => runner.redirect(Output::create(&path)?)?,
            Self::Output(None) => runner.redirect(Output::stdout())?,
            Self::Include(path) => {
                let lines = super::read(&path)?;
                return runner.include(&path.display().to_string(), lines).await;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn help() {
    for (command, meaning) in COMMANDS {
        message::print(&format!("  {command:<8} {meaning}"));
    }
    message::print(
        "Statements end with a semicolon; Ctrl-C ends a running one. The engine tells of itself in \
         nearfar.tiers,\nnearfar.tables, nearfar.segments, nearfar.column_access, nearfar.traffic,\nnearfar.loading and \
         nearfar.log.",
    );
}

const RELATIONS: &str = "
SELECT t.table_schema AS schema, t.table_name AS name, lower(t.table_type) AS kind, m.rows,
       m.placement
FROM information_schema.tables t
LEFT JOIN nearfar.tables m ON m.table_schema = t.table_schema AND m.table_name = t.table_name
WHERE t.table_schema NOT IN ('information_schema', 'nearfar')
ORDER BY t.table_schema, t.table_name";

const TABLES: &str = "
SELECT table_schema AS schema, table_name AS name, rows, segments,
       round(near_bytes / 1048576.0, 1) AS near_mib, round(far_bytes / 1048576.0, 1) AS far_mib,
       placement
FROM nearfar.tables ORDER BY table_schema, table_name";

const TABLESPACES: &str = "
SELECT name, kind, nodes, round(capacity_bytes / 1073741824.0, 2) AS capacity_gib,
       round(budget_bytes / 1073741824.0, 2) AS budget_gib,
       round(region_bytes / 1073741824.0, 2) AS tables_gib,
       round(heap_bytes / 1073741824.0, 2) AS heap_gib,
       round(free_bytes / 1073741824.0, 2) AS free_gib
FROM nearfar.tiers ORDER BY tier";

/// Shows the columns of a table or view, and where those of a table in memory lie.
async fn describe(runner: &mut Runner, table: &str) -> anyhow::Result<()> {
    let (schema, name) = match table.split_once('.') {
        Some((schema, name)) => (format!("= {}", literal(schema)), literal(name)),
        None => ("IN ('public', 'temporary')".to_owned(), literal(table)),
    };
    let query = format!(
        "SELECT c.column_name AS \"column\", c.data_type AS type, c.is_nullable AS nullable,
                s.encoding, s.near_mib, s.far_mib, s.placement
         FROM information_schema.columns c
         LEFT JOIN (SELECT table_schema, table_name, column_name,
                           string_agg(DISTINCT encoding, ', ') AS encoding,
                           round(sum(near_bytes) / 1048576.0, 1) AS near_mib,
                           round(sum(far_bytes) / 1048576.0, 1) AS far_mib,
                           string_agg(DISTINCT placement, '; ') AS placement
                    FROM nearfar.segments GROUP BY table_schema, table_name, column_name) s
         ON s.table_schema = c.table_schema AND s.table_name = c.table_name
            AND s.column_name = c.column_name
         WHERE c.table_schema {schema} AND c.table_name = {name}
         ORDER BY c.ordinal_position"
    );
    if runner.show(&query).await? == 0 {
        let message = format!("no table or view is named {table}: \\d lists them");
        return Err(Failed::new(Exit::Statement, message).into());
    }
    Ok(())
}

/// A name as SQL means it: in quotes as it is, else in lower case; as a string.
fn literal(name: &str) -> String {
    let unquoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    let name = match unquoted {
        Some(name) => name.replace("\"\"", "\""),
        None => name.to_lowercase(),
    };
    format!("'{}'", name.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        assert_eq!(
            "d lineitem;".parse::<Meta>().ok(),
            Some(Meta::Describe("lineitem".into()))
        );
        assert_eq!(
            "f JSON".parse::<Meta>().ok(),
            Some(Meta::Format(Some(RowFormat::Json)))
        );
        assert_eq!("o".parse::<Meta>().ok(), Some(Meta::Output(None)));
        for (wrong, told) in [
            ("x", "no command"),
            ("timing maybe", "on or off"),
            ("i", "a file"),
        ] {
            let error = wrong.parse::<Meta>().expect_err(wrong).to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for (command, _) in COMMANDS {
            let known = command[1..].parse::<Meta>();
            let is_unknown =
                known.is_err_and(|error| error.to_string().contains("there is no command"));
            assert!(!is_unknown, "{command}");
        }
    }

    #[test]
    fn names_become_strings() {
        assert_eq!(literal("LineItem"), "'lineitem'");
        assert_eq!(literal("\"It's\""), "'It''s'");
    }
}
