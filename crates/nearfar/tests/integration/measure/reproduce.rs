//! `nearfar reproduce`.

use std::fs;

use nearfar_measure::operators::GeyerFigure;
use nearfar_measure::reproduce::Figure;
use nearfar_measure::results::read;

use crate::support::{run, run_in, temp};

/// A profile that nothing can be simulated with; prices need no simulation.
fn without_simulation() -> String {
    let builtin = include_str!("../../../../nearfar-topology/profiles/cxl-blades-1.toml");
    let lines = builtin
        .lines()
        .filter(|line| !line.starts_with("simulation"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn figures_are_listed_by_their_names() {
    let help = run(["reproduce", "--help"]).succeeded();
    let is_no_part = |c: char| !c.is_ascii_alphanumeric();
    let words: Vec<&str> = help
        .split_whitespace()
        .map(|word| word.trim_matches(is_no_part))
        .collect();
    let figures = Figure::ALL.map(Figure::name).into_iter();
    let figures = figures.chain(GeyerFigure::ALL.map(GeyerFigure::name));
    let others = [
        "weisgut",
        "mao",
        "geyer",
        "ahn",
        "all",
        "mao-table3",
        "ahn-losses",
    ];
    for name in figures.chain(others) {
        assert!(words.contains(&name), "{name}: {help}");
    }
    assert!(!words.contains(&"fig14"), "a further word: {help}");
    let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("(of this number too: mao-fig4, "), "{text}");
}

#[test]
fn an_unknown_figure_is_refused_with_those_of_its_number() {
    let hint = "a similar value exists: 'geyer-fig2'";
    run(["reproduce", "fig2"]).failed(2, &["'fig2'", hint, "weisgut-fig14"]);
    run(["reproduce", "xyz"]).failed(2, &["'xyz'", "weisgut-fig14"]);
}

#[test]
fn a_figure_is_printed_and_reported_by_its_name() {
    let folder = temp();
    let asked = ["reproduce", "fig14", "--report", "prices.html"];
    let ran = run_in(folder.path(), asked);
    let text = ran.succeeded_telling("The report is in prices.html.");
    assert!(text.contains("weisgut-2025, figure 14"), "{text}");
    assert!(
        text.contains("mean absolute error 0.00 % over 96 points"),
        "{text}"
    );
    let html = fs::read_to_string(folder.path().join("prices.html")).expect("a page");
    assert!(html.contains("weisgut-2025, figure 14"), "its title");
    let json = run(["reproduce", "fig14", "--format", "json"]).succeeded();
    let (header, _) = read(json.as_bytes()).expect("results");
    assert_eq!(header.configuration["figure"], "weisgut-fig14");
}

#[test]
fn bad_points_are_told_with_line_and_column() {
    let folder = temp();
    let asked = ["reproduce", "--points", "my.csv"];
    run_in(folder.path(), asked).failed(4, &["cannot read points my.csv"]);
    let text = "op,access_size,threads,GBps\nseq_read,64,1,5\nseq_read,64,none,5\n";
    fs::write(folder.path().join("my.csv"), text).expect("written");
    let told = "my.csv, line 3: threads: \"none\" is no number";
    run_in(folder.path(), asked).failed(4, &[told]);
    let both = [&asked[..], &["fig4"]].concat();
    run_in(folder.path(), both).failed(2, &["--points"]);
}

#[test]
fn figures_that_ran_are_kept_where_others_fail() {
    let folder = temp();
    fs::write(folder.path().join("bare.toml"), without_simulation()).expect("written");
    let asked = ["reproduce", "weisgut", "--profile", "bare.toml"];
    let ran = run_in(
        folder.path(),
        [&asked[..], &["--report", "all.html"]].concat(),
    );
    assert_eq!(ran.code, 9, "{ran:?}");
    for told in [
        "The report is in all.html.",
        "\nfig5 could not be run: ",
        "\nerror: fig4 could not be run: ",
        "[simulation]",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {ran:?}");
    }
    let html = fs::read_to_string(folder.path().join("all.html")).expect("a page");
    for text in [&ran.stdout, &html] {
        assert!(text.contains("weisgut-2025, figure 14"), "{text}");
        assert!(text.contains("could not be run: "), "{text}");
    }
    let ran = run_in(folder.path(), [&asked[..], &["--format", "json"]].concat());
    let (header, metrics) = read(ran.stdout.as_bytes()).expect("results");
    let missing = header.unavailable.iter().map(|gap| gap.what.as_str());
    let all_but_prices = Figure::ALL.map(Figure::name).into_iter();
    let all_but_prices = all_but_prices.filter(|name| *name != "weisgut-fig14");
    assert!(missing.eq(all_but_prices), "{header:?}");
    assert!(!metrics.is_empty(), "those of prices");
}

#[test]
fn a_figure_that_fails_alone_leaves_nothing() {
    let folder = temp();
    fs::write(folder.path().join("bare.toml"), without_simulation()).expect("written");
    let asked = [
        "reproduce",
        "fig4",
        "--profile",
        "bare.toml",
        "--report",
        "no.html",
    ];
    let ran = run_in(folder.path(), asked);
    ran.failed(9, &["fig4 could not be run: ", "[simulation]"]);
    assert_eq!(ran.stdout, "");
    assert!(!folder.path().join("no.html").exists());
}
