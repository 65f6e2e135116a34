//! Lists of queries, as in `1,3-5,22`.

use std::str::FromStr;

/// Numbers of queries, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryList(pub Vec<u8>);

impl FromStr for QueryList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                text.trim()
                    .trim_start_matches('q')
                    .parse::<u8>()
                    .map_err(|_| format!("{text:?} is no number of a query, as in 1,3-5,22"))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("{part:?} ends before it begins"));
            }
            numbers.extend(first..=last);
        }
        Ok(Self(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let numbers = |text: &str| text.parse::<QueryList>().map(|list| list.0);
        assert_eq!(numbers("1,3-5,q22"), Ok(vec![1, 3, 4, 5, 22]));
        for wrong in ["", "a", "5-3", "1,,2", "300", "-1"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
