//! Relative throughputs of TPC-H under placements that were published for another database.
//!
//! They are for orientation: Hyrise at scale factor 100 with 10 clients on one socket is limited by
//! other things than DataFusion's operators over encoded segments.

use nearfar_table::placement::Strategy;

const HYRISE: &str = include_str!("../../published/tpch-hyrise.csv");

/// The database of the published figures, and how they were taken.
pub const SYSTEM: &str = "Hyrise, TPC-H scale factor 100, 10 clients";

/// A published throughput relative to all data near.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedThroughput {
    /// The placement, as [`Strategy`] writes it.
    pub placement: String,
    /// The placement in words.
    pub what: String,
    /// The lowest figure that is given.
    pub low: f64,
    /// The highest, the same where there is only one.
    pub high: f64,
    /// Paper, section and figure.
    pub source: String,
}

impl PublishedThroughput {
    /// The middle of what is given.
    pub fn middle(&self) -> f64 {
        self.low.midpoint(self.high)
    }
}

/// The figures of weisgut-2025 section 6.3 for Hyrise, in its order.
pub fn hyrise() -> Vec<PublishedThroughput> {
    HYRISE.lines().skip(1).filter_map(parse).collect()
}

/// The figure for `placement`, if one was published.
pub fn hyrise_for(placement: &Strategy) -> Option<PublishedThroughput> {
    let name = placement.to_string();
    hyrise()
        .into_iter()
        .find(|published| published.placement == name)
}

fn parse(line: &str) -> Option<PublishedThroughput> {
    let mut fields = fields(line).into_iter();
    let mut next = || fields.next();
    Some(PublishedThroughput {
        placement: next()?,
        what: next()?,
        low: next()?.parse().ok()?,
        high: next()?.parse().ok()?,
        source: next()?,
    })
}

/// The fields of a line of CSV; commas may stand between quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let published = hyrise();
        assert_eq!(published.len(), HYRISE.lines().count() - 1);
        for figure in published {
            assert!(figure.placement.parse::<Strategy>().is_ok(), "{figure:?}");
            assert!(0.5 < figure.low && figure.low <= figure.high && figure.high < 1.0);
            assert!(figure.source.starts_with("weisgut-2025 section 6.3."));
        }
    }

    #[test]
    fn figures_are_found_by_placement() {
        let of = |text: &str| hyrise_for(&text.parse().expect(text)).map(|figure| figure.middle());
        assert_eq!(of("far"), Some(0.72));
        assert_eq!(of("interleave:2:1"), Some(0.87));
        assert_eq!(of("columns:25%"), None);
    }
}
