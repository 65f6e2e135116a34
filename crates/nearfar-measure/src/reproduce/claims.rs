//! Single published numbers, each with what stands for it here.

use nearfar_topology::Known;

use super::papers::{FigureOutcome, mean_absolute, overview};
use crate::report::{Cell, Column, LineChart, Report, Table};
use crate::results::{Kind, Metric};

/// Why figures have no error of which nothing is modelled.
const NONE_MODELLED: &str = "none of these numbers is modelled";

/// A published number or range.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Figure or table.
    pub figure: &'static str,
    /// What the number is of.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// Lowest and highest, the same where there is only one.
    pub published: (f64, f64),
    /// The same in the model, or why there is none.
    pub modelled: Known<f64>,
}

impl Claim {
    /// How far the model is from the range that is published, in per cent of its nearer end; 0 within, and none without a
    /// model.
    pub fn error_percent(&self) -> Option<f64> {
        let (low, high) = self.published;
        let modelled = self.modelled.get()?;
        let nearest = modelled.clamp(low, high);
        Some((modelled / nearest - 1.0) * 100.0)
    }
}

/// The numbers of a paper, or of a figure, that are given in its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    /// Its word in commands.
    pub name: &'static str,
    /// What they show.
    pub title: &'static str,
    /// In the paper's order.
    pub claims: Vec<Claim>,
}

impl Claims {
    /// Those that are modelled.
    fn modelled(&self) -> impl Iterator<Item = (&Claim, f64)> {
        let claims = self.claims.iter();
        claims.filter_map(|claim| Some((claim, claim.modelled.get()?)))
    }

    /// Mean of the absolute errors of what is modelled, in per cent; none where nothing is.
    pub fn mape_percent(&self) -> Option<f64> {
        mean_absolute(self.claims.iter().filter_map(Claim::error_percent))
    }
}

impl FigureOutcome for Claims {
    /// `mape_percent` of all, then `published` of every number, with `low` and `high`, and `modelled`.
    fn metrics(&self) -> Vec<Metric> {
        let mean = match self.mape_percent() {
            Some(mean) => Metric::new("mape_percent", mean, "%", Kind::Modelled),
            None => Metric::unavailable("mape_percent", NONE_MODELLED, "%", Kind::Modelled),
        };
        let mean = mean.with("figure", self.name);
        let of = |claim: &Claim| {
            let (low, high) = claim.published;
            let middle = low.midpoint(high);
            let mut modelled = Metric::new("modelled", 0.0, claim.unit, Kind::Modelled);
            modelled.value = claim.modelled.clone();
            let published = Metric::new("published", middle, claim.unit, Kind::Published);
            let published = published.with("low", low).with("high", high);
            [published, modelled].map(|metric| {
                let metric = metric.with("figure", claim.figure);
                metric.with("of", &*claim.what)
            })
        };
        let all = self.claims.iter().flat_map(of);
        std::iter::once(mean).chain(all).collect()
    }

    fn title(&self) -> String {
        self.title.to_owned()
    }

    fn verdict(&self) -> String {
        let errors = self.claims.iter().filter_map(Claim::error_percent);
        let met = errors.filter(|error| *error == 0.0).count();
        let (known, all) = (self.modelled().count(), self.claims.len());
        let modelled = format!("{known} of {all} numbers are modelled");
        match self.mape_percent() {
            Some(error) => {
                format!("{modelled}, {met} of them as published; mean absolute error {error:.1} %")
            }
            None => modelled,
        }
    }

    fn overview(&self) -> Option<LineChart> {
        let unit = self.modelled().next()?.0.unit;
        let of_unit = self.modelled().filter(|(claim, _)| claim.unit == unit);
        let pairs =
            of_unit.map(|(claim, value)| (claim.published.0.midpoint(claim.published.1), value));
        overview(self.name, unit, pairs)
    }

    fn add_to(&self, report: &mut Report) {
        report.heading(self.title);
        let columns = [
            Column::text("Figure"),
            Column::text("Of"),
            Column::text("Unit"),
            Column::number("Published, from", "", 2).kind(Kind::Published),
            Column::number("to", "", 2).kind(Kind::Published),
            Column::number("Modelled", "", 2).kind(Kind::Modelled),
            Column::number("Error", "%", 1).kind(Kind::Modelled),
        ];
        let mut table = Table::new("Published numbers", columns);
        for claim in &self.claims {
            table.row([
                Cell::from(claim.figure),
                Cell::from(&*claim.what),
                Cell::from(claim.unit),
                Cell::from(claim.published.0),
                Cell::from(claim.published.1),
                Cell::from(claim.modelled.clone()),
                match claim.error_percent() {
                    Some(error) => Cell::from(error),
                    None => Cell::from(""),
                },
            ]);
        }
        report.table(table);
    }

    fn has_figures(&self) -> bool {
        self.modelled().next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_model_say_why() {
        let claim = |published, modelled| Claim {
            figure: "ahn-fig8",
            what: "temporary tables".to_owned(),
            unit: "ratio",
            published,
            modelled,
        };
        let claims = Claims {
            name: "ahn",
            title: "Some numbers",
            claims: vec![
                claim((0.87, 0.96), Known::Value(0.9)),
                claim((1.0, 1.0), Known::Value(0.8)),
                claim((8.0, 8.0), Known::unavailable("no such program")),
            ],
        };
        assert_eq!(
            claims.verdict(),
            "2 of 3 numbers are modelled, 1 of them as published; mean absolute error 10.0 %"
        );
        let metrics = claims.metrics();
        assert_eq!(metrics.len(), 7);
        let mean = (metrics[0].metric.as_str(), metrics[0].value.get());
        assert!(matches!(mean, ("mape_percent", Some(error)) if (error - 10.0).abs() < 1e-9));
        assert_eq!(metrics[6].value.reason(), Some("no such program"));
        let mut report = Report::new("page");
        claims.add_to(&mut report);
        assert!(report.to_html().contains("no such program"));
        assert!(claims.overview().is_some() && claims.has_figures());
        let rest = Claims {
            claims: claims.claims[2..].to_vec(),
            ..claims
        };
        assert_eq!(rest.verdict(), "0 of 1 numbers are modelled");
        assert_eq!(rest.metrics()[0].value.reason(), Some(NONE_MODELLED));
        assert!(!rest.has_figures());
    }

    #[test]
    fn errors_are_from_the_nearer_end_of_a_range() {
        let error = |modelled| {
            let claim = Claim {
                figure: "ahn-fig8",
                what: "temporary tables".to_owned(),
                unit: "ratio",
                published: (0.5, 0.8),
                modelled: Known::Value(modelled),
            };
            claim.error_percent().unwrap().round()
        };
        assert_eq!([0.4, 0.5, 0.7, 1.0].map(error), [-20.0, 0.0, 0.0, 25.0]);
    }
}
