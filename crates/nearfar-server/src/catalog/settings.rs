//! `pg_settings`: settings of the store, and what drivers ask of PostgreSQL's.

use nearfar_sql::columns::{Columns, Of};

use super::contents::Contents;
use super::{SERVER_VERSION, SERVER_VERSION_NUMBER};

/// A setting.
#[derive(Debug, Clone)]
pub struct Setting {
    pub name: String,
    pub value: Option<String>,
    pub description: String,
    /// Whether a session can set it.
    pub can_be_set: bool,
}

/// What can't be set, as PostgreSQL has it: drivers size their queries of keys by the first two.
const FIXED: [(&str, &str, &str); 7] = [
    (
        "max_index_keys",
        "32",
        "The largest number of columns of an index.",
    ),
    (
        "max_identifier_length",
        "63",
        "The largest number of bytes of a name.",
    ),
    (
        "block_size",
        "8192",
        "Bytes of a block of PostgreSQL's, of which there are none.",
    ),
    (
        "integer_datetimes",
        "on",
        "Whether times are whole numbers.",
    ),
    ("server_encoding", "UTF8", "The encoding of texts."),
    (
        "server_version",
        SERVER_VERSION,
        "The version of the server.",
    ),
    (
        "server_version_num",
        SERVER_VERSION_NUMBER,
        "The same as a number.",
    ),
];

/// All of them.
pub fn all(contents: &Contents) -> Vec<Setting> {
    let fixed = FIXED.map(|(name, value, description)| Setting {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        description: description.to_owned(),
        can_be_set: false,
    });
    let mut all: Vec<Setting> = fixed.into_iter().chain(contents.settings.clone()).collect();
    all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    all
}

pub const SETTING: &Columns<Setting> = &[
    ("name", Of::Text(|it| Some(it.name.clone()))),
    ("setting", Of::Text(|it| it.value.clone())),
    ("unit", Of::Null),
    ("category", Of::Text(|_| Some("Nearfar".to_owned()))),
    ("short_desc", Of::Text(|it| Some(it.description.clone()))),
    ("extra_desc", Of::Null),
    ("context", Of::Text(|it| Some(context(it).to_owned()))),
    ("vartype", Of::Text(|_| Some("string".to_owned()))),
    ("source", Of::Text(|_| Some("default".to_owned()))),
    ("min_val", Of::Null),
    ("max_val", Of::Null),
    ("boot_val", Of::Null),
    ("reset_val", Of::Null),
    ("sourcefile", Of::Null),
    ("pending_restart", Of::Flag(|_| false)),
];

fn context(setting: &Setting) -> &'static str {
    match setting.can_be_set {
        true => "user",
        false => "internal",
    }
}
