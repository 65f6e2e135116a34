//! Kinds of values, and how they are written and read.

use super::random::Random;

/// What may be compared and computed with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Decimal,
    Double,
    Text,
    Date,
    Timestamp,
    Boolean,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Integer,
        Self::Decimal,
        Self::Double,
        Self::Text,
        Self::Date,
        Self::Timestamp,
        Self::Boolean,
    ];

    /// The kinds that `min` and `max` take.
    pub const ORDERED: [Self; 6] = [
        Self::Integer,
        Self::Decimal,
        Self::Double,
        Self::Text,
        Self::Date,
        Self::Timestamp,
    ];

    /// Types of columns.
    pub fn types(self) -> &'static [&'static str] {
        match self {
            Self::Integer => &["INTEGER", "BIGINT", "SMALLINT"],
            Self::Decimal => &["DECIMAL(10,2)", "DECIMAL(18,4)"],
            Self::Double => &["DOUBLE PRECISION"],
            Self::Text => &["TEXT", "VARCHAR"],
            Self::Date => &["DATE"],
            Self::Timestamp => &["TIMESTAMP"],
            Self::Boolean => &["BOOLEAN"],
        }
    }

    /// Null of this kind.
    pub fn null(self) -> String {
        format!("CAST(NULL AS {})", self.types()[0])
    }

    /// The plainest value.
    pub fn plain(self) -> &'static str {
        match self {
            Self::Integer => "1",
            Self::Decimal => "CAST(1 AS DECIMAL(10,2))",
            Self::Double => "CAST(1 AS DOUBLE PRECISION)",
            Self::Text => "'a'",
            Self::Date => "DATE '2020-01-01'",
            Self::Timestamp => "TIMESTAMP '2020-01-01 00:00:00'",
            Self::Boolean => "TRUE",
        }
    }

    /// A value as SQL. There are few of them, so that they meet; sums of doubles are exact.
    pub fn literal(self, random: &mut Random) -> String {
        const INTEGERS: [i64; 13] = [-1000, -7, -2, -1, 0, 1, 2, 3, 5, 7, 10, 100, 1000];
        const DECIMALS: [&str; 9] = [
            "-100.25", "-1.5", "-0.01", "0", "0.01", "0.1", "1", "1.5", "99.99",
        ];
        const DOUBLES: [&str; 8] = ["-100.25", "-1.5", "-0.5", "0", "0.5", "1", "2.75", "1024"];
        const TEXTS: [&str; 15] = [
            "",
            " ",
            "a",
            "A",
            "ab",
            "abc",
            "aab",
            "b",
            "%",
            "a_b",
            "ä",
            "10",
            "9",
            "it''s",
            "zzzzzzzzzzzzzzzz",
        ];
        const DATES: [&str; 7] = [
            "1969-12-31",
            "1970-01-01",
            "2019-12-31",
            "2020-01-01",
            "2020-02-29",
            "2020-03-01",
            "2100-06-15",
        ];
        const TIMES: [&str; 4] = ["00:00:00", "00:00:01", "12:30:00", "23:59:59"];
        match self {
            Self::Integer => format!("{}", random.pick(&INTEGERS)),
            Self::Decimal => format!("CAST({} AS DECIMAL(10,2))", random.pick(&DECIMALS)),
            Self::Double => format!("CAST({} AS DOUBLE PRECISION)", random.pick(&DOUBLES)),
            Self::Text => format!("'{}'", random.pick(&TEXTS)),
            Self::Date => format!("DATE '{}'", random.pick(&DATES)),
            Self::Timestamp => {
                format!(
                    "TIMESTAMP '{} {}'",
                    random.pick(&DATES),
                    random.pick(&TIMES)
                )
            }
            Self::Boolean => (*random.pick(&["TRUE", "FALSE"])).to_owned(),
        }
    }

    /// A value of which there are many.
    pub fn rare_literal(self, random: &mut Random) -> String {
        let number = random.below(20_000) as i64 - 10_000;
        match self {
            Self::Integer => number.to_string(),
            Self::Decimal => format!("CAST({}.{:02} AS DECIMAL(10,2))", number, random.below(100)),
            Self::Double => format!("CAST({}.25 AS DOUBLE PRECISION)", number),
            Self::Text => format!("'text {}'", random.below(5000)),
            _ => self.literal(random),
        }
    }

    /// A value as all engines write it.
    pub fn normal(self, text: &str) -> String {
        match self {
            Self::Integer | Self::Decimal => normal_number(text),
            Self::Double => text
                .parse::<f64>()
                .map_or_else(|_| text.to_owned(), |value| format!("{:.8e}", value + 0.0)),
            Self::Text | Self::Date => text.to_owned(),
            Self::Timestamp => {
                let text = text.replace('T', " ");
                match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => text,
                }
            }
            Self::Boolean => text.chars().take(1).collect(),
        }
    }
}

fn normal_number(text: &str) -> String {
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    };
    let short = if short == "-0" { "0" } else { short };
    short.to_owned()
}
