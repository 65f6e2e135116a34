//! Settings of a connection that are the server's or that drivers set: `SET`, `SHOW` and `RESET` of
//! them. All others are the store's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Reset, Set, SetSessionAuthorizationParamKind,
    Statement as Ast, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::failure::Failure;
use crate::catalog::{SERVER_VERSION, SERVER_VERSION_NUMBER};
use crate::options::ServerOptions;
use nearfar_sql::engine::{ClientSettings, milliseconds};
use nearfar_sql::sql::SqlError;
use parking_lot::Mutex;

/// What may be done with a setting that means nothing here.
#[derive(Clone, Copy)]
enum Rule {
    /// Any value is kept.
    Any,
    /// Only the value that it has.
    Fixed,
    /// A time; none for 0.
    Time,
    /// The user of the connection.
    Own,
}

/// The longest value that is kept for a client.
const VALUE_BYTES_MAX: usize = 1 << 10;

const SESSION_AUTHORIZATION: &str = "session_authorization";
/// What the statements of the transaction read, which the session knows.
pub const TRANSACTION_ISOLATION: &str = "transaction_isolation";
const STATEMENT_TIMEOUT: &str = "statement_timeout";
const IDLE_SESSION_TIMEOUT: &str = "idle_session_timeout";
const IDLE_IN_TRANSACTION_TIMEOUT: &str = "idle_in_transaction_session_timeout";

/// The settings: name, value at first, and what it can be.
const KNOWN: [(&str, &str, Rule); 29] = [
    (STATEMENT_TIMEOUT, "0", Rule::Time),
    (IDLE_SESSION_TIMEOUT, "0", Rule::Time),
    (IDLE_IN_TRANSACTION_TIMEOUT, "0", Rule::Time),
    ("application_name", "", Rule::Any),
    ("bytea_output", "hex", Rule::Fixed),
    ("check_function_bodies", "on", Rule::Any),
    ("client_encoding", "UTF8", Rule::Fixed),
    ("client_min_messages", "notice", Rule::Any),
    ("datestyle", "ISO, MDY", Rule::Fixed),
    // What `pg_am` has for tables.
    ("default_table_access_method", "nearfar", Rule::Fixed),
    ("default_transaction_read_only", "off", Rule::Fixed),
    ("extra_float_digits", "1", Rule::Any),
    ("integer_datetimes", "on", Rule::Fixed),
    ("intervalstyle", "postgres", Rule::Fixed),
    ("is_superuser", "off", Rule::Fixed),
    ("search_path", "public", Rule::Fixed),
    ("server_encoding", "UTF8", Rule::Fixed),
    ("server_version", SERVER_VERSION, Rule::Fixed),
    ("server_version_num", SERVER_VERSION_NUMBER, Rule::Fixed),
    ("role", "none", Rule::Own),
    ("row_security", "on", Rule::Any),
    (SESSION_AUTHORIZATION, "", Rule::Own),
    ("standard_conforming_strings", "on", Rule::Fixed),
    ("synchronize_seqscans", "on", Rule::Any),
    ("timezone", "UTC", Rule::Fixed),
    (TRANSACTION_ISOLATION, "read committed", Rule::Fixed),
    ("transaction_read_only", "off", Rule::Fixed),
    ("max_identifier_length", "63", Rule::Fixed),
    ("xmloption", "content", Rule::Any),
];

/// Settings of the store that PostgreSQL has too, and that are shown as it shows them.
pub const OF_STORE: [&str; 2] = ["default_transaction_isolation", "lock_timeout"];

/// Those that clients are told at the begin, by the names that they know.
const REPORTED: [&str; 12] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
    "default_transaction_read_only",
];

/// A statement about a setting of the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `SET [SESSION | LOCAL] name = value`, or `TO DEFAULT`.
    Set {
        /// The setting, in lower case.
        name: String,
        /// The value, as text; none for the one that it had at first.
        value: Option<String>,
        /// Whether it ends with the transaction.
        is_local: bool,
    },
    /// `SHOW name`.
    Show {
        /// The setting, in lower case.
        name: String,
    },
    /// `RESET name`.
    Reset {
        /// The setting, in lower case.
        name: String,
    },
}

impl Command {
    /// The command that a statement is, if it is one about a setting of the server's.
    pub fn read(sql: &str) -> Option<Self> {
        let first = sql.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        let is_about_settings = ["SET", "SHOW", "RESET"]
            .iter()
            .any(|word| first.eq_ignore_ascii_case(word));
        if !is_about_settings {
            return None;
        }
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?;
        let command = match parser.parse_statement().ok()? {
            Ast::Set(set) => Self::of_set(set)?,
            Ast::ShowVariable { variable } => Self::Show {
                name: shown_name(&variable)?,
            },
            Ast::Reset(reset) => match reset.reset {
                Reset::ConfigurationParameter(name) => Self::Reset {
                    name: simple_name(&name)?,
                },
                Reset::ALL => return None,
            },
            _ => return None,
        };
        let is_shown_here =
            matches!(&command, Self::Show { name } if OF_STORE.contains(&name.as_str()));
        let (Self::Set { name, .. } | Self::Show { name } | Self::Reset { name }) = &command;
        (is_shown_here || find(name).is_some()).then_some(command)
    }

    /// The command that a `SET` is.
    fn of_set(set: Set) -> Option<Self> {
        let (name, value, scope) = match set {
            Set::SingleAssignment {
                variable,
                values,
                scope,
                ..
            } => {
                let value = text(&values)?;
                let is_default = value.eq_ignore_ascii_case("default");
                let value = Some(value).filter(|_| !is_default);
                (simple_name(&variable)?, value, scope)
            }
            Set::SetSessionAuthorization(authorization) => {
                let name = SESSION_AUTHORIZATION.to_owned();
                match authorization.kind {
                    SetSessionAuthorizationParamKind::Default => (name, None, None),
                    SetSessionAuthorizationParamKind::User(user) => (name, Some(user.value), None),
                }
            }
            Set::SetRole {
                role_name,
                context_modifier,
            } => {
                let role = role_name.map(|role| role.value);
                ("role".to_owned(), role, context_modifier)
            }
            Set::SetNames { charset_name, .. } => {
                let name = "client_encoding".to_owned();
                (name, Some(charset_name.value), None)
            }
            Set::SetTimeZone { local, value } => {
                let value = text(&[value])?;
                let is_default = ["default", "local"]
                    .iter()
                    .any(|word| value.eq_ignore_ascii_case(word));
                let value = Some(value).filter(|_| !is_default);
                let scope = local.then_some(ContextModifier::Local);
                ("timezone".to_owned(), value, scope)
            }
            _ => return None,
        };
        Some(Self::Set {
            name,
            value,
            is_local: scope == Some(ContextModifier::Local),
        })
    }
}

fn find(name: &str) -> Option<&'static (&'static str, &'static str, Rule)> {
    KNOWN.iter().find(|(known, ..)| *known == name)
}

fn simple_name(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [part] => Some(part.as_ident()?.value.to_lowercase()),
        _ => None,
    }
}

/// The name behind `SHOW`, which may be written in several words.
fn shown_name(words: &[Ident]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| word.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "transaction isolation level" => Some(TRANSACTION_ISOLATION.to_owned()),
        "time zone" => Some("timezone".to_owned()),
        "session authorization" => Some("session_authorization".to_owned()),
        _ => match &words[..] {
            [name] => Some(name.clone()),
            _ => None,
        },
    }
}

fn text(values: &[Expr]) -> Option<String> {
    let one = |value: &Expr| match value {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Value(value) => Some(match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        }),
        other => Some(other.to_string()),
    };
    let values: Option<Vec<String>> = values.iter().map(one).collect();
    Some(values?.join(", "))
}

/// The settings of one connection.
#[derive(Debug, Clone)]
pub struct Settings {
    defaults: BTreeMap<&'static str, String>,
    values: BTreeMap<&'static str, String>,
    /// Those that were set since the client was last told of any.
    untold: BTreeSet<&'static str>,
    /// What it was told, by the names that it knows.
    told: BTreeMap<&'static str, String>,
}

/// The settings of one connection, which its session has among its own.
#[derive(Debug)]
pub struct SharedSettings {
    settings: Mutex<Settings>,
}

impl SharedSettings {
    /// These settings, of which the client is told all.
    pub fn new(mut settings: Settings) -> Self {
        settings.untold.clear();
        let told = settings.reported();
        settings.told = told.map(|(name, value)| (name, value.to_owned())).collect();
        Self {
            settings: Mutex::new(settings),
        }
    }

    /// Reads them.
    pub fn read<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        read(&self.settings.lock())
    }

    /// What the client has to be told, by the names that it knows.
    pub fn take_untold(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.settings.lock();
        match settings.untold.is_empty() {
            true => Vec::new(),
            false => settings.take_untold(),
        }
    }
}

impl ClientSettings for SharedSettings {
    fn get(&self, name: &str) -> Option<String> {
        // What transactions read is known to the session.
        find(name).filter(|_| name != TRANSACTION_ISOLATION)?;
        Some(self.settings.lock().get(name).to_owned())
    }

    fn set(&self, name: &str, value: Option<&str>) -> Result<(), SqlError> {
        let mut settings = self.settings.lock();
        match value {
            Some(value) => settings.set(name, value),
            None => {
                settings.reset(name);
                Ok(())
            }
        }
    }

    fn changed(&self) -> Vec<&'static str> {
        self.settings.lock().changed()
    }
}

impl Settings {
    /// Those of a new connection of `user`.
    pub fn new(options: &ServerOptions, user: &str, is_read_only: bool) -> Self {
        let known = KNOWN
            .iter()
            .map(|(name, value, _)| (*name, (*value).to_owned()));
        let mut defaults: BTreeMap<&'static str, String> = known.collect();
        let mut time = |name, time: Option<Duration>| {
            let time = time.map_or("0".to_owned(), |time| format!("{}ms", time.as_millis()));
            defaults.insert(name, time);
        };
        time(STATEMENT_TIMEOUT, options.statement_timeout);
        time(IDLE_SESSION_TIMEOUT, options.idle_session_timeout);
        time(
            IDLE_IN_TRANSACTION_TIMEOUT,
            options.idle_in_transaction_timeout,
        );
        defaults.insert(SESSION_AUTHORIZATION, user.to_owned());
        if is_read_only {
            for name in ["transaction_read_only", "default_transaction_read_only"] {
                defaults.insert(name, "on".to_owned());
            }
        }
        Self {
            values: defaults.clone(),
            defaults,
            untold: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    /// Takes what a client says when it connects. What it names in `options` and is not known here
    /// is given back, for the store; other names are passed over, and so are values that drivers send
    /// by themselves and that can't be: a `SET` finds that out, as with any setting.
    ///
    /// # Errors
    /// A time that is none: a client must not think that it has a limit.
    pub fn begin(
        &mut self,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, String)>, Failure> {
        let mut others = Vec::new();
        for (name, value) in parameters {
            if name != "options" {
                self.begin_with(&name.to_lowercase(), value)?;
                continue;
            }
            for (name, value) in options(value) {
                match find(&name) {
                    Some(_) => self.begin_with(&name, &value)?,
                    None => others.push((name, value)),
                }
            }
        }
        Ok(others)
    }

    fn begin_with(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let set = self.set(name, value);
        match find(name) {
            Some((_, _, Rule::Time)) => set.map_err(|error| Failure::of(&error.into(), "")),
            _ => Ok(()),
        }
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// A value that it can't have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let Some((name, fixed, rule)) = find(name) else {
            return Ok(());
        };
        let refuse = |allowed: &str| {
            Err(SqlError::SettingValue {
                name: (*name).to_owned(),
                value: value.to_owned(),
                allowed: allowed.to_owned(),
            })
        };
        let value = match rule {
            Rule::Any if value.len() > VALUE_BYTES_MAX => {
                return refuse("it is too long");
            }
            Rule::Any => value.to_owned(),
            Rule::Time => match milliseconds(value) {
                Some(0) => "0".to_owned(),
                Some(time) => format!("{time}ms"),
                None => return refuse("use a number of milliseconds, or one with ms, s, min or h"),
            },
            Rule::Own if self.is_own(value) => return Ok(()),
            Rule::Own => {
                return Err(SqlError::SettingRefused {
                    name: (*name).to_owned(),
                    value: value.to_owned(),
                });
            }
            Rule::Fixed if is_same(name, fixed, value, &self.defaults[name]) => return Ok(()),
            Rule::Fixed => return refuse(&format!("it is always `{}`", self.defaults[name])),
        };
        self.put(name, value);
        Ok(())
    }

    fn put(&mut self, name: &'static str, value: String) {
        if self.values.get(name) != Some(&value) {
            self.untold.insert(name);
            self.values.insert(name, value);
        }
    }

    /// Gives a setting the value that it had at first.
    pub fn reset(&mut self, name: &str) {
        if let Some((name, ..)) = find(name) {
            self.put(name, self.defaults[name].clone());
        }
    }

    /// The names of those that have another value than at first.
    pub fn changed(&self) -> Vec<&'static str> {
        let changed = self
            .defaults
            .iter()
            .filter(|(name, value)| self.values.get(*name) != Some(*value));
        changed.map(|(name, _)| *name).collect()
    }

    /// What clients follow and has another value than they were told last, by the names that they know.
    pub fn take_untold(&mut self) -> Vec<(&'static str, String)> {
        let set = std::mem::take(&mut self.untold);
        let followed = self.reported();
        let untold = followed.filter(|(name, value)| {
            let is_set = set.contains(name.to_lowercase().as_str());
            is_set && self.told.get(name).is_none_or(|told| told != value)
        });
        let untold: Vec<(&'static str, String)> = untold
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        self.told.extend(untold.iter().cloned());
        untold
    }

    /// Whether a name is that of the user, or of none.
    fn is_own(&self, name: &str) -> bool {
        let user = &self.defaults[SESSION_AUTHORIZATION];
        name == user || name.eq_ignore_ascii_case(user) || name.eq_ignore_ascii_case("none")
    }

    /// A setting's value.
    pub fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// What clients are told: names and values.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED
            .into_iter()
            .map(|name| (name, self.get(&name.to_lowercase())))
    }

    /// What a statement may take.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.time(STATEMENT_TIMEOUT)
    }

    /// How long the connection may be silent.
    pub fn idle_timeout(&self, is_in_transaction: bool) -> Option<Duration> {
        match is_in_transaction {
            true => self.time(IDLE_IN_TRANSACTION_TIMEOUT),
            false => self.time(IDLE_SESSION_TIMEOUT),
        }
    }

    fn time(&self, name: &str) -> Option<Duration> {
        let time = milliseconds(self.get(name)).filter(|time| *time > 0);
        time.map(Duration::from_millis)
    }
}

/// Whether a value means the one that a setting always has.
fn is_same(name: &str, fixed: &str, value: &str, default: &str) -> bool {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '"', ' ', '\''], "");
    let value = plain(value);
    match name {
        "client_encoding" => ["utf8", "unicode"].contains(&value.as_str()),
        "datestyle" => value.starts_with("iso"),
        // What dumps say, whose names all have their schemas.
        "search_path" if value.is_empty() => true,
        "search_path" => value.split(',').any(|schema| schema == "public"),
        "default_table_access_method" if value == "heap" => true,
        "timezone" => ["utc", "etc/utc", "gmt", "z", "0"].contains(&value.as_str()),
        _ if default.is_empty() => value == plain(fixed),
        _ => {
            value == plain(default) || boolean(&value).is_some_and(|b| Some(b) == boolean(default))
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// The settings in `-c name=value --name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let words = text.split_whitespace().filter(|word| *word != "-c");
    let pair = |word: &str| {
        let word = word.trim_start_matches("--").trim_start_matches("-c");
        let (name, value) = word.split_once('=')?;
        Some((name.to_lowercase().replace('-', "_"), value.to_owned()))
    };
    words.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Option<Command> {
        Some(Command::Set {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            is_local: false,
        })
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(
            Command::read("SET statement_timeout = 500"),
            set("statement_timeout", "500")
        );
        assert_eq!(
            Command::read("set Statement_Timeout to '5s'"),
            set("statement_timeout", "5s")
        );
        let name = "statement_timeout".to_owned();
        assert_eq!(
            Command::read("SET LOCAL statement_timeout TO DEFAULT"),
            Some(Command::Set {
                name: name.clone(),
                value: None,
                is_local: true
            })
        );
        assert_eq!(
            Command::read("RESET statement_timeout"),
            Some(Command::Reset { name })
        );
        let name = TRANSACTION_ISOLATION.to_owned();
        assert_eq!(
            Command::read("SHOW TRANSACTION ISOLATION LEVEL"),
            Some(Command::Show { name })
        );
        for others in [
            "SET default_tablespace = far",
            "SELECT 1",
            "SHOW TABLES",
            "SETTLE",
        ] {
            assert_eq!(Command::read(others), None, "{others}");
        }
    }

    #[test]
    fn settings_are_checked_kept_and_reset() {
        let options = ServerOptions {
            statement_timeout: Some(Duration::from_secs(60)),
            ..ServerOptions::default()
        };
        let mut settings = Settings::new(&options, "ann", false);
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(60)));
        settings.set("statement_timeout", "0").expect("none");
        assert_eq!(settings.statement_timeout(), None);
        settings.reset("statement_timeout");
        assert_eq!(settings.get("statement_timeout"), "60000ms");
        settings.set("client_encoding", "utf-8").expect("the same");
        settings
            .set("standard_conforming_strings", "true")
            .expect("the same");
        for (name, value) in [("client_encoding", "LATIN1"), ("statement_timeout", "soon")] {
            let refused = settings.set(name, value);
            assert!(matches!(refused, Err(SqlError::SettingValue { .. })));
        }
        let parameters = BTreeMap::from([
            ("options".to_owned(), "-c statement_timeout=7s".to_owned()),
            ("application_name".to_owned(), "psql".to_owned()),
        ]);
        settings.begin(&parameters).expect("taken");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(7)));
        assert!(
            settings
                .reported()
                .any(|told| told == ("application_name", "psql"))
        );
        assert_eq!(
            settings.changed(),
            ["application_name", "statement_timeout"]
        );
        let untold = settings.take_untold();
        assert_eq!(untold, [("application_name", "psql".to_owned())]);
        assert!(settings.take_untold().is_empty());
        settings.reset("statement_timeout");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_a_client_connects_with_is_taken_given_back_or_refused() {
        let mut settings = Settings::new(&ServerOptions::default(), "ann", false);
        let options = |text: &str| BTreeMap::from([("options".to_owned(), text.to_owned())]);
        let given = "-c memory_limit=1GiB --datafusion.execution.batch-size=5 -c TimeZone=CET";
        let others = settings.begin(&options(given)).expect("taken");
        let names: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["memory_limit", "datafusion.execution.batch_size"]);
        let wrong = settings.begin(&options("-c statement_timeout=soon"));
        assert_eq!(wrong.map_err(|failure| failure.code), Err("22023"));
    }

    #[test]
    fn every_setting_is_in_the_documents() {
        let document = include_str!("../../../../docs/settings.md");
        for (name, ..) in KNOWN {
            assert!(document.contains(&format!("`{name}`")), "{name} is missing");
        }
    }

    #[test]
    fn nobody_becomes_another_user() {
        let mut settings = Settings::new(&ServerOptions::default(), "ann", false);
        for (name, value) in [
            ("role", "none"),
            ("role", "ann"),
            (SESSION_AUTHORIZATION, "ann"),
        ] {
            settings.set(name, value).expect("the same");
        }
        for name in ["role", SESSION_AUTHORIZATION] {
            let refused = settings.set(name, "bob");
            assert!(matches!(refused, Err(SqlError::SettingRefused { .. })));
        }
    }
}
