//! The 99 queries of the TPC-DS specification with its standard substitutions.
//!
//! The texts are those that DuckDB's extension `tpcds` carries, under the MIT licence in
//! `queries/LICENSE`, in a dialect that DataFusion and DuckDB both read. Where the specification leaves
//! open where NULLs sort, they say it; queries 36, 70 and 86 have their ROLLUP as in DuckDB's texts.

/// Numbers of all queries.
pub const NUMBERS: std::ops::RangeInclusive<u8> = 1..=99;

macro_rules! texts {
    ($($number:literal),* $(,)?) => {
        [$(include_str!(concat!("queries/q", $number, ".sql"))),*]
    };
}

#[rustfmt::skip]
const TEXTS: [&str; 99] = texts!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15",
    "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30",
    "31", "32", "33", "34", "35", "36", "37", "38", "39", "40", "41", "42", "43", "44", "45",
    "46", "47", "48", "49", "50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "60",
    "61", "62", "63", "64", "65", "66", "67", "68", "69", "70", "71", "72", "73", "74", "75",
    "76", "77", "78", "79", "80", "81", "82", "83", "84", "85", "86", "87", "88", "89", "90",
    "91", "92", "93", "94", "95", "96", "97", "98", "99",
);

/// The text of query `number`. None if TPC-DS has no such query.
pub fn query(number: u8) -> Option<&'static str> {
    TEXTS
        .get(usize::from(number).checked_sub(1)?)
        .map(|text| text.trim_end())
}

/// The text of query `number` without the limit at its end. Which rows a limit keeps is open where rows are equal in
/// what they are ordered by; all rows are the same on every engine. None for a query without a limit.
pub fn unlimited(number: u8) -> Option<&'static str> {
    let (text, limit) = query(number)?.rsplit_once('\n')?;
    limit.starts_with("LIMIT ").then_some(text)
}

/// The first columns of query `number`'s answer that its rows are ordered by, counted from 0, up to the first
/// expression that is no column of the answer: in these, answers agree row by row.
pub fn order_by(number: u8) -> &'static [usize] {
    match number {
        1 | 2 | 7 | 8 | 15 | 16 | 26 | 31 | 37 | 41 | 44 | 66 | 74 | 82 | 84 | 90 | 92 | 94
        | 95 | 96 => &[0],
        3 | 52 => &[0, 3, 1],
        4 | 11 | 14 | 25 | 29 | 85 => &[0, 1, 2, 3],
        5 | 21 | 27 | 40 | 45 | 51 | 58 | 60 | 61 | 65 | 80 | 83 => &[0, 1],
        6 | 56 | 93 => &[1, 0],
        10 => &[0, 1, 2, 4, 6, 8, 10, 12],
        12 | 20 | 98 => &[2, 3, 0, 1, 6],
        17 | 23 | 24 | 54 | 59 | 62 | 99 => &[0, 1, 2],
        18 => &[1, 2, 3, 0],
        19 => &[4, 1, 0, 2, 3],
        22 => &[4, 0, 1, 2, 3],
        30 => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        33 => &[1],
        34 | 46 | 76 => &[0, 1, 2, 3, 4],
        35 => &[0, 1, 2, 3, 8, 13],
        36 | 70 | 86 | 91 => &[3],
        39 => &[0, 1, 2, 3, 4, 7, 8, 9],
        42 => &[3, 0, 1, 2],
        43 => &[0, 1, 2, 3, 4, 5, 6, 7, 8],
        49 => &[0, 3, 4, 1],
        50 | 67 => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        53 => &[2, 1, 0],
        55 => &[2, 0],
        63 => &[0, 2, 1],
        64 => &[0, 1, 20, 13, 16],
        68 => &[0, 4],
        69 => &[0, 1, 2, 4, 6],
        71 => &[4, 0, 2],
        72 => &[5, 0, 1, 2],
        73 => &[5, 0],
        75 => &[8, 9],
        77 => &[0, 1, 3],
        78 => &[0, 1, 2, 4, 5, 6, 7, 8, 9, 3],
        79 => &[0, 1, 2, 5, 3],
        81 => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_99_queries() {
        for number in NUMBERS {
            let text = query(number).expect("a query");
            assert!(!text.contains(';') && text.len() > 100, "q{number}: {text}");
        }
        assert_eq!((query(0), query(100)), (None, None));
    }

    #[test]
    fn limits_are_left_out() {
        assert_eq!(
            query(1).and_then(|text| text.strip_prefix(unlimited(1)?)),
            Some("\nLIMIT 100")
        );
        assert_eq!(unlimited(2), None);
        let limited = NUMBERS.filter(|number| unlimited(*number).is_some());
        assert_eq!(limited.count(), 84);
        for number in NUMBERS {
            let ends = query(number).is_some_and(|text| text[text.len() - 12..].contains("LIMIT"));
            assert_eq!(ends, unlimited(number).is_some(), "q{number}");
        }
    }
}
