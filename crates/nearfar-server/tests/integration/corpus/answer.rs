//! Answers as scripts write them.

use md5::{Digest, Md5};

use super::script::{ExpectedRows, ExpectedValues, Sort};
use crate::asked::Rows;

/// Values that a message shows.
const SHOWN_VALUES: usize = 12;

/// What is wrong with the rows of an answer, if anything.
pub fn fault(rows: Rows, expected: &ExpectedRows) -> Option<String> {
    let types: Vec<_> = expected.types.chars().collect();
    if let Some(row) = rows.iter().find(|row| row.len() != types.len()) {
        return Some(format!("{} columns, not {}", row.len(), types.len()));
    }
    let mut rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let values = row.into_iter().zip(&types);
            values
                .map(|(value, letter)| written(value, *letter))
                .collect()
        })
        .collect();
    if expected.sort == Sort::Rows {
        rows.sort_unstable();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if expected.sort == Sort::Values {
        values.sort_unstable();
    }
    match &expected.values {
        ExpectedValues::Unknown => None,
        // Scripts of evidence have a row per line.
        ExpectedValues::Each(lines)
            if *lines == values || in_rows(&values, types.len()) == *lines =>
        {
            None
        }
        ExpectedValues::Each(lines) => Some(format!("{}, not {}", shown(&values), shown(lines))),
        ExpectedValues::Hash { count, .. } if *count != values.len() => Some(format!(
            "{} values, not {count}: {}",
            values.len(),
            shown(&values)
        )),
        ExpectedValues::Hash { md5, .. } if *md5 != hash(&values) => {
            Some(format!("{} with another hash", shown(&values)))
        }
        ExpectedValues::Hash { .. } => None,
    }
}

fn in_rows(values: &[String], columns: usize) -> Vec<String> {
    let rows = values.chunks(columns.max(1));
    rows.map(|row| row.join(" ")).collect()
}

fn shown(values: &[String]) -> String {
    let dots = if values.len() > SHOWN_VALUES {
        " …"
    } else {
        ""
    };
    let shown: Vec<_> = values
        .iter()
        .take(SHOWN_VALUES)
        .map(String::as_str)
        .collect();
    format!("[{}{dots}]", shown.join(" "))
}

fn hash(values: &[String]) -> String {
    let mut hash = Md5::new();
    for value in values {
        hash.update(value);
        hash.update("\n");
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A value in the manner of a column's letter.
fn written(value: Option<String>, letter: char) -> String {
    let Some(value) = value else {
        return "NULL".to_owned();
    };
    match letter {
        'I' => integer(&value),
        'R' => value
            .parse::<f64>()
            .map_or(value, |number| format!("{number:.3}")),
        _ if value.is_empty() => "(empty)".to_owned(),
        _ => {
            let printable = |letter: char| {
                if (' '..='~').contains(&letter) {
                    letter
                } else {
                    '@'
                }
            };
            value.chars().map(printable).collect()
        }
    }
}

/// As C's `atoi` and casts of doubles do it, with one zero.
fn integer(text: &str) -> String {
    match text {
        "t" => "1".to_owned(),
        "f" => "0".to_owned(),
        _ if text.parse::<i64>().is_ok_and(|number| number != 0) => text.to_owned(),
        _ => text.parse::<f64>().map_or_else(
            |_| "0".to_owned(),
            |number| format!("{:.0}", number.trunc() + 0.0),
        ),
    }
}

#[test]
fn values_are_compared_as_they_are_written() {
    let text = |text: &str| Some(text.to_owned());
    let rows = vec![
        vec![text("2.7"), text("1"), text("")],
        vec![text("1"), None, text("\u{e4}x")],
    ];
    let expected = |sort, lines: &[&str]| ExpectedRows {
        types: "IRT".to_owned(),
        sort,
        values: ExpectedValues::Each(lines.iter().map(|line| (*line).to_owned()).collect()),
    };
    let unsorted = ["2", "1.000", "(empty)", "1", "NULL", "@x"];
    let by_row = ["1", "NULL", "@x", "2", "1.000", "(empty)"];
    assert_eq!(fault(rows.clone(), &expected(Sort::None, &unsorted)), None);
    assert_eq!(fault(rows.clone(), &expected(Sort::Rows, &by_row)), None);
    assert!(fault(rows.clone(), &expected(Sort::None, &by_row)).is_some());
    let hashed = ExpectedRows {
        types: "I".to_owned(),
        sort: Sort::Values,
        // Of printf '1\n2\n' | md5sum.
        values: ExpectedValues::Hash {
            count: 2,
            md5: "6ddb4095eb719e2a9f0a3f95677d24e0".to_owned(),
        },
    };
    let numbers = |numbers: [&str; 2]| numbers.map(|number| vec![text(number)]).to_vec();
    assert_eq!(fault(numbers(["2", "1"]), &hashed), None);
    assert!(fault(numbers(["2", "3"]), &hashed).is_some());
}

#[test]
fn integers_have_one_zero() {
    assert_eq!(
        ["-0.0125", "-0", "0.9", "-2.7"].map(integer),
        ["0", "0", "0", "-2"]
    );
}
