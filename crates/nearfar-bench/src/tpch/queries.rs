//! The 22 queries of the TPC-H specification with its validation parameters.
//!
//! The texts are the specification's in a dialect that DataFusion and DuckDB both read: `limit` for
//! its row counts, and query 15 with a common table expression for its view.

/// Numbers of all queries.
pub const NUMBERS: std::ops::RangeInclusive<u8> = 1..=22;

macro_rules! texts {
    ($($number:literal),*) => {
        [$(include_str!(concat!("queries/q", $number, ".sql"))),*]
    };
}

const TEXTS: [&str; 22] = texts!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22"
);

/// The text of query `number` for data of `scale_factor`, which query 11 depends on: it looks for
/// the 0.0001 / scale factor most valuable share of a stock. None if TPC-H has no such query.
pub fn query(number: u8, scale_factor: f64) -> Option<String> {
    let text = TEXTS.get(usize::from(number).checked_sub(1)?)?;
    let fraction = format!("{:.10}", 0.0001 / scale_factor);
    Some(text.replace("{fraction}", &fraction))
}

/// The columns of query `number`'s answer that its rows are ordered by, counted from 0, the first
/// deciding first; empty for a query that orders nothing or that TPC-H does not have.
pub fn order_by(number: u8) -> &'static [usize] {
    match number {
        1 => &[0, 1],
        2 => &[0, 2, 1, 3],
        3 => &[1, 2],
        4 | 8 | 12 | 15 | 20 | 22 => &[0],
        5 | 11 => &[1],
        7 => &[0, 1, 2],
        9 => &[0, 1],
        10 => &[2],
        13 | 21 => &[1, 0],
        16 => &[3, 0, 1, 2],
        18 => &[4, 3],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_queries_without_placeholders() {
        for number in NUMBERS {
            let text = query(number, 1.0).expect("a query");
            assert!(!text.contains(['{', '}', ';']), "q{number}: {text}");
        }
        assert_eq!(query(0, 1.0), None);
        assert_eq!(query(23, 1.0), None);
    }

    #[test]
    fn query_11_scales() {
        assert!(query(11, 10.0).is_some_and(|text| text.contains(" * 0.0000100000\n")));
        assert!(query(11, 0.01).is_some_and(|text| text.contains(" * 0.0100000000\n")));
    }
}
