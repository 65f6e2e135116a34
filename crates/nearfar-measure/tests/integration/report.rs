//! A report holds every datum, escaped, and needs nothing but itself.

use nearfar_measure::report::{Axis, Bar, BarChart, Cell, Column, LineChart, Note, Report, Table};
use nearfar_measure::results::Header;
use nearfar_measure::{Kind, Summary};
use nearfar_topology::Known;
use proptest::prelude::*;
use serde_json::json;

fn everything() -> Report {
    let mut report = Report::new("Tiers & <placements>");
    report
        .subtitle("a \"subtitle\"")
        .heading("Heading one")
        .paragraph("Some text.");
    report
        .note(Note::Warning, "Beware <of> this.")
        .legend(Kind::ALL);
    report.header(
        &Header::new(
            "9.8.7",
            vec!["tpch".into()],
            json!({"scale": 3.5, "profile": "some-profile"}),
        )
        .unavailable("PMU", "no counters"),
    );
    let columns = [
        Column::text("Query"),
        Column::number("Near", "s", 2).kind(Kind::Measured),
        Column::number("Far", "s", 2).kind(Kind::Modelled),
    ];
    let mut table = Table::new("Caption", columns);
    table.row([Cell::from("q1"), Cell::from(1.234), Cell::from(12_345.678)]);
    table.row([
        Cell::from("q<2>"),
        Cell::from(Known::unavailable("ran out of budget")),
    ]);
    table.total([Cell::from("all"), Cell::from(77.125)]);
    report.table(table);
    let mut bars = BarChart::new("Bars", "GB/s")
        .series("read", Kind::Measured)
        .series("write", Kind::Published)
        .series("guess", Kind::Estimated)
        .reference(1.0, "as fast as near");
    bars.group("near", [Bar::from(31.25), Bar::from(4.75), Bar::from(6.5)]);
    let summary = Summary::of([2.25, 2.5, 3.75]).unwrap();
    bars.group(
        "far",
        [
            Bar::from(summary),
            Bar::from(Known::unavailable("not published")),
        ],
    );
    bars.group("odd", [Bar::from(f64::NAN)]);
    report.bars(bars);
    let mut lines = LineChart::new("Lines", "threads", "GB/s").x_axis(Axis::Logarithmic);
    lines.line(
        "one",
        Kind::Modelled,
        [(1.0, 6.125), (2.0, 11.5), (48.0, 40.25)],
    );
    report.lines(lines).footer("the end");
    report
}

#[test]
fn every_datum_is_there() {
    let html = everything().to_html();
    for datum in [
        "Heading one",
        "Some text.",
        "9.8.7",
        "some-profile",
        "unavailable: no counters",
        "Caption",
        "1.23",
        "12\u{202F}345.68",
        "unavailable: ran out of budget",
        "77.12",
        "31.250",
        "31.2",
        "4.750",
        "6.500",
        "2.500 (2.250\u{2013}3.750)",
        "unavailable (not published)",
        "unavailable (not a finite number)",
        "as fast as near",
        "6.125",
        "11.500",
        "40.250",
        "48.000",
        "the end",
        "measured",
        "modelled",
        "published",
        "estimated",
    ] {
        assert!(html.contains(datum), "{datum:?} is missing");
    }
}

#[test]
fn text_is_escaped() {
    let html = everything().to_html();
    assert!(html.contains("<title>Tiers &amp; &lt;placements&gt;</title>"));
    assert!(html.contains("a &quot;subtitle&quot;"));
    assert!(html.contains("Beware &lt;of&gt; this."));
    assert!(html.contains("q&lt;2&gt;"));
    assert!(!html.contains("<of>") && !html.contains("q<2>"));
}

#[test]
fn the_page_needs_nothing_else() {
    let html = everything().to_html();
    for outside in [
        "http:", "https:", "<script", "<link", "src=", "@import", "url(//",
    ] {
        assert!(!html.contains(outside), "{outside:?} in the page");
    }
}

/// Every opened element is closed, in order.
fn assert_well_formed(html: &str) {
    let body = html.split_once("</style>").unwrap().1;
    let mut open = vec!["head", "html"];
    open.reverse();
    for tag in body.split('<').skip(1) {
        let tag = tag.split_once('>').expect("a tag is closed").0;
        let name = tag
            .trim_start_matches('/')
            .split_whitespace()
            .next()
            .unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in the wrong order");
        } else if !tag.ends_with('/') && name != "br" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn elements_are_nested() {
    assert_well_formed(&everything().to_html());
}

#[test]
fn charts_without_data_are_harmless() {
    let mut report = Report::new("empty");
    report.bars(BarChart::new("no bars", "s"));
    report.lines(LineChart::new("no lines", "x", "y"));
    report.table(Table::new("no rows", [Column::text("a")]));
    let html = report.to_html();
    assert_well_formed(&html);
    assert!(!html.contains("NaN") && !html.contains("inf"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_and_number_gives_a_sound_page(
        text in "\\PC{0,60}",
        value in any::<f64>(),
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..4),
    ) {
        let mut report = Report::new(text.clone());
        let mut bars = BarChart::new(text.clone(), text.clone())
            .series(text.clone(), Kind::Modelled);
        bars.group(text.clone(), [Bar::from(value)]);
        report.bars(bars);
        let mut lines = LineChart::new(text.clone(), text.clone(), text.clone());
        lines.line(text.clone(), Kind::Measured, points);
        report.lines(lines);
        let mut table = Table::new(text.clone(), [Column::number(text.clone(), "", 1)]);
        table.row([Cell::from(text.clone())]);
        table.row([Cell::from(value)]);
        report.table(table);
        assert_well_formed(&report.to_html());
    }
}
