//! Controllers in virtual time as a page: what each came to, and what happened meanwhile.

use nearfar_measure::Kind;
use nearfar_measure::report::{Cell, Column, LineChart, Report, Table};
use nearfar_measure::results::Header;
use nearfar_regulate::virtual_time::{Rated, Tick};

/// A point of a curve is a mean over so much time: less of it while something happens.
const POINT_MS: f64 = 100.0;
const LATE_POINT_MS: f64 = 500.0;
const LATE_MS: f64 = 3_000.0;

/// A controller with a knob beside a victim.
pub struct Course {
    /// The victim.
    pub scenario: &'static str,
    /// Who decides.
    pub controller: &'static str,
    /// What slows the aggressor.
    pub knob: &'static str,
    /// Bandwidth of the aggressor when it is not slowed.
    pub full_gb_per_s: f64,
    /// What came of it.
    pub rated: Rated,
    /// What the paper gives back, lowest and highest in per cent, where it tells.
    pub published_percent: Option<(f64, f64)>,
}

/// The page of these courses.
pub fn page(header: &Header, courses: &[Course]) -> Report {
    let mut report = Report::new("Regulation in virtual time: the victim's share, and its price");
    report.legend([Kind::Modelled, Kind::Published]);
    report.paragraph(
        "A victim of near memory has the machine alone for a second. Then an aggressor stores to far memory past the \
         caches, and stays. Each curve is a share of what there is undisturbed: of the victim's speed, of the \
         aggressor's bandwidth, and what the controller grants the aggressor. Published is what mao-2025, section V, \
         gives back to the victim, on a machine of its own.",
    );
    report.table(table(courses));
    report.heading("Curves");
    let mut scenarios: Vec<&str> = courses.iter().map(|course| course.scenario).collect();
    scenarios.dedup();
    for scenario in scenarios {
        report.subheading(format!("Victim: {scenario}"));
        let of_scenario = courses.iter().filter(|course| course.scenario == scenario);
        report.small_multiples(of_scenario.map(chart));
    }
    report.heading("Machine and configuration").header(header);
    report.footer(format!("nearfar {}", header.version));
    report
}

fn table(courses: &[Course]) -> Table {
    let columns = [
        Column::text("Victim"),
        Column::text("Controller"),
        Column::text("Knob"),
        Column::number("Given back", "%", 1).kind(Kind::Modelled),
        Column::text("Published, %").kind(Kind::Published),
        Column::number("The aggressor loses", "%", 1).kind(Kind::Modelled),
        Column::number("of the published cost", "", 2).kind(Kind::Modelled),
        Column::number("Reaction", "ms", 0).kind(Kind::Modelled),
    ];
    let mut table = Table::new("The last 10 of 20 s beside the aggressor", columns);
    for course in courses {
        let quality = &course.rated.quality;
        let published = course.published_percent.map_or_else(String::new, told);
        table.row([
            Cell::from(course.scenario),
            Cell::from(course.controller),
            Cell::from(course.knob),
            Cell::from(quality.recovered_percent),
            Cell::from(published.as_str()),
            Cell::from(quality.cost_percent),
            Cell::from(quality.cost_ratio_to_published),
            quality
                .reaction_ms
                .map_or_else(|| Cell::from("never"), Cell::from),
        ]);
    }
    table
}

fn told((lowest, highest): (f64, f64)) -> String {
    match lowest < highest {
        true => format!("{lowest:.0} to {highest:.0}"),
        false => format!("{lowest:.0}"),
    }
}

fn chart(course: &Course) -> LineChart {
    let title = format!("{}, {}", course.controller, course.knob);
    let mut chart = LineChart::new(title, "s", "%");
    let (ticks, full) = (&course.rated.ticks, course.full_gb_per_s);
    let granted = |tick: &Tick| tick.granted.iter().copied().fold(1.0, f64::min);
    let lines = [
        ("victim", curve(ticks, |tick| tick.victim)),
        (
            "aggressor",
            curve(ticks, |tick| tick.aggressors_gb_per_s() / full),
        ),
        ("granted", curve(ticks, granted)),
    ];
    for (name, points) in lines {
        chart.line(name, Kind::Modelled, points);
    }
    chart
}

/// Means over time, in seconds and per cent.
fn curve(ticks: &[Tick], of: impl Fn(&Tick) -> f64) -> Vec<(f64, f64)> {
    let point = |at_ms: f64| match at_ms <= LATE_MS {
        true => (at_ms / POINT_MS).ceil(),
        false => LATE_MS + (at_ms / LATE_POINT_MS).ceil(),
    };
    let means = ticks.chunk_by(|one, other| point(one.at_ms) == point(other.at_ms));
    let mean = |chunk: &[Tick]| {
        let percent = 100.0 * chunk.iter().map(&of).sum::<f64>() / chunk.len() as f64;
        chunk.last().map(|last| (last.at_ms * 1e-3, percent))
    };
    means.filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use nearfar_regulate::virtual_time::Quality;

    use super::*;

    fn course(controller: &'static str) -> Course {
        let tick = |tick: u32| Tick {
            at_ms: f64::from(tick + 1) * 10.0,
            victim: if tick < 100 { 1.0 } else { 0.5 },
            gb_per_s: vec![if tick < 100 { 0.0 } else { 4.0 }],
            granted: vec![if tick < 110 { 1.0 } else { 0.4 }],
        };
        Course {
            scenario: "near-ld",
            controller,
            knob: "quota",
            full_gb_per_s: 10.0,
            rated: Rated {
                quality: Quality {
                    recovered_percent: 50.0,
                    cost_percent: 60.0,
                    cost_ratio_to_published: 0.64,
                    reaction_ms: None,
                    cuts: 1,
                },
                ticks: (0..400).map(tick).collect(),
            },
            published_percent: Some((30.0, 52.0)),
        }
    }

    #[test]
    fn curves_are_means_over_time() {
        let course = course("ours");
        let victim = curve(&course.rated.ticks, |tick| tick.victim);
        assert_eq!(victim.len(), 30 + 2);
        assert_eq!(victim[9], (1.0, 100.0));
        assert_eq!(victim[10], (1.1, 50.0));
        assert_eq!(victim[31].0, 4.0);
    }

    #[test]
    fn a_page_has_what_each_came_to_and_its_curve() {
        let header = Header::new("0.0.0", Vec::<String>::new(), serde_json::json!({}));
        let html = page(&header, &[course("ours"), course("theirs")]).to_html();
        for expected in [
            "ours, quota",
            "theirs, quota",
            "30 to 52",
            "never",
            "Victim: near-ld",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
        assert_eq!(html.matches("Victim: near-ld").count(), 1);
    }
}
