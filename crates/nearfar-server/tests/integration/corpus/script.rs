//! Scripts of SQLite's sqllogictest (<https://sqlite.org/sqllogictest/doc/trunk/about.wiki>).

/// What a script names the engine that it is run with.
const ENGINE: &str = "postgresql";

/// A statement and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins in the file, from 1.
    pub line: usize,
    pub sql: String,
    pub expected: Expected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Success,
    Error,
    Rows(ExpectedRows),
}

/// Values, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedRows {
    /// A letter per column: `I`, `R` or `T`.
    pub types: String,
    pub sort: Sort,
    pub values: ExpectedValues,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    None,
    Rows,
    Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedValues {
    /// One by one.
    Each(Vec<String>),
    /// Their number, and the MD5 of all of them with a newline behind each.
    Hash { count: usize, md5: String },
    /// Not said.
    Unknown,
}

/// Records for us, and how many there are for other engines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub records: Vec<Record>,
    pub foreign: usize,
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        let mut lines = text.lines().enumerate();
        let mut is_foreign = false;
        while let Some((index, line)) = lines.next() {
            let words: Vec<_> = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            let expected = match words[..] {
                [] | ["hash-threshold", ..] => continue,
                ["halt", ..] if is_foreign => {
                    is_foreign = false;
                    continue;
                }
                ["halt", ..] => break,
                ["skipif", engine, ..] => {
                    is_foreign |= engine == ENGINE;
                    continue;
                }
                ["onlyif", engine, ..] => {
                    is_foreign |= engine != ENGINE;
                    continue;
                }
                ["statement", "ok", ..] => Expected::Success,
                ["statement", "error", ..] => Expected::Error,
                ["query", types, ..] => Expected::Rows(ExpectedRows {
                    types: types.to_owned(),
                    sort: match words.get(2) {
                        Some(&"rowsort") => Sort::Rows,
                        Some(&"valuesort") => Sort::Values,
                        _ => Sort::None,
                    },
                    values: ExpectedValues::Unknown,
                }),
                _ => return Err(format!("line {}: {line}", index + 1)),
            };
            let body = block(&mut lines);
            if std::mem::take(&mut is_foreign) {
                script.foreign += 1;
                continue;
            }
            script.records.push(record(index + 1, expected, &body));
        }
        Ok(script)
    }
}

/// The lines up to an empty one.
fn block(lines: &mut dyn Iterator<Item = (usize, &str)>) -> Vec<String> {
    let lines = lines.map(|(_, line)| line.trim_end_matches('\r').to_owned());
    lines.take_while(|line| !line.trim().is_empty()).collect()
}

fn record(line: usize, mut expected: Expected, body: &[String]) -> Record {
    let rule = body.iter().position(|line| line == "----");
    let (sql, values) = match rule {
        Some(rule) => (&body[..rule], Some(&body[rule + 1..])),
        None => (body, None),
    };
    if let (Expected::Rows(rows), Some(values)) = (&mut expected, values) {
        rows.values = expected_values(values);
    }
    Record {
        line,
        sql: sql.join("\n"),
        expected,
    }
}

fn expected_values(lines: &[String]) -> ExpectedValues {
    if let [line] = lines
        && let [count, "values", "hashing", "to", md5] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        && let Ok(count) = count.parse()
    {
        let md5 = md5.to_owned();
        return ExpectedValues::Hash { count, md5 };
    }
    ExpectedValues::Each(lines.to_vec())
}

#[test]
fn records_of_other_engines_are_left_out() {
    let text = "hash-threshold 8\n\n# a\nonlyif mysql # DIV\nstatement ok\nSELECT 1 DIV 1\n\n\
                skipif mssql\nquery IT rowsort x-1\nSELECT a,\n b\n----\n1\nx\n\n\
                statement error\nSELECT\n\nonlyif mysql\nhalt\n\n\
                query I\nSELECT 1\n----\n9 values hashing to 75c9\n\nhalt\nstatement ok\nno\n";
    let script = Script::parse(text).expect("a script");
    assert_eq!(script.foreign, 1);
    let lines: Vec<_> = script.records.iter().map(|record| record.line).collect();
    assert_eq!(lines, [9, 16, 22]);
    assert_eq!(script.records[0].sql, "SELECT a,\n b");
    let values = ExpectedValues::Each(vec!["1".to_owned(), "x".to_owned()]);
    let types = "IT".to_owned();
    let rows = ExpectedRows {
        types,
        sort: Sort::Rows,
        values,
    };
    assert_eq!(script.records[0].expected, Expected::Rows(rows));
    assert_eq!(script.records[1].expected, Expected::Error);
    let Expected::Rows(rows) = &script.records[2].expected else {
        panic!("{:?}", script.records[2]);
    };
    let md5 = "75c9".to_owned();
    assert_eq!(rows.values, ExpectedValues::Hash { count: 9, md5 });
}
