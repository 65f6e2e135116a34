//! The catalogs without rows that clients join others with.

use nearfar_sql::columns::{Columns, Of};

use super::contents::Contents;

/// No rows.
pub fn none(_: &Contents) -> Vec<()> {
    Vec::new()
}

const NUMBER: Of<()> = Of::Number(|()| 0);
const FLAG: Of<()> = Of::Flag(|()| false);
const TEXT: Of<()> = Of::Null;

pub const COLLATION: &Columns<()> = &[
    ("oid", NUMBER),
    ("collname", TEXT),
    ("collnamespace", NUMBER),
    ("collprovider", TEXT),
];

pub const DESCRIPTION: &Columns<()> = &[
    ("objoid", NUMBER),
    ("classoid", NUMBER),
    ("objsubid", NUMBER),
    ("description", TEXT),
];

pub const INHERITS: &Columns<()> = &[
    ("inhrelid", NUMBER),
    ("inhparent", NUMBER),
    ("inhseqno", NUMBER),
    ("inhdetachpending", FLAG),
];

pub const PROC: &Columns<()> = &[
    ("oid", NUMBER),
    ("proname", TEXT),
    ("pronamespace", NUMBER),
    ("prokind", TEXT),
    ("prorettype", NUMBER),
    ("proargtypes", TEXT),
];
