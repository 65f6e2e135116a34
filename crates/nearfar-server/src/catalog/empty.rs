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

pub const ATTRDEF: &Columns<()> = &[
    ("oid", NUMBER),
    ("adrelid", NUMBER),
    ("adnum", NUMBER),
    ("adbin", TEXT),
];

pub const COLLATION: &Columns<()> = &[
    ("oid", NUMBER),
    ("collname", TEXT),
    ("collnamespace", NUMBER),
    ("collprovider", TEXT),
];

pub const CONSTRAINT: &Columns<()> = &[
    ("oid", NUMBER),
    ("conname", TEXT),
    ("connamespace", NUMBER),
    ("contype", TEXT),
    ("condeferrable", FLAG),
    ("condeferred", FLAG),
    ("convalidated", FLAG),
    ("conrelid", NUMBER),
    ("contypid", NUMBER),
    ("conindid", NUMBER),
    ("conparentid", NUMBER),
    ("confrelid", NUMBER),
    ("conkey", TEXT),
    ("confkey", TEXT),
];

pub const DESCRIPTION: &Columns<()> = &[
    ("objoid", NUMBER),
    ("classoid", NUMBER),
    ("objsubid", NUMBER),
    ("description", TEXT),
];

pub const INDEX: &Columns<()> = &[
    ("indexrelid", NUMBER),
    ("indrelid", NUMBER),
    ("indnatts", NUMBER),
    ("indnkeyatts", NUMBER),
    ("indisunique", FLAG),
    ("indisprimary", FLAG),
    ("indisclustered", FLAG),
    ("indisvalid", FLAG),
    ("indkey", TEXT),
    ("indexprs", TEXT),
    ("indpred", TEXT),
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
