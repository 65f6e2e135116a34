//! Heat maps.

use super::kinds;
use super::text::{escape, put, short_number};
use crate::results::Kind;

/// A grid of figures of one unit, coloured by their share of the largest one.
///
/// It is a table: every cell shows its number, so that nothing is told by colour alone.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    title: String,
    unit: String,
    kind: Kind,
    rows_name: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<HeatCell>)>,
    /// The size of a change that has the full colour, where figures are losses and gains.
    full_change: Option<f64>,
}

/// A cell of a heat map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeatCell {
    /// Its figure; without a finite one it stays empty.
    pub value: Option<f64>,
    /// The name of the place on the page that it leads to.
    pub link: Option<String>,
}

impl HeatMap {
    /// A map without rows; `rows_name` says what rows are, `columns` name the columns.
    pub fn new(
        title: impl Into<String>,
        unit: impl Into<String>,
        kind: Kind,
        rows_name: impl Into<String>,
        columns: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            kind,
            rows_name: rows_name.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            full_change: None,
        }
    }

    /// Colours losses below zero and gains above it; a change of `full` has the full colour, and small
    /// ones have more than their share, so that they are seen.
    pub fn signed(&mut self, full: f64) -> &mut Self {
        self.full_change = Some(full);
        self
    }

    /// Adds a row. A cell without a finite number stays empty.
    ///
    /// # Panics
    /// If the row has not as many cells as the map has columns.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = Option<f64>>,
    ) -> &mut Self {
        let cells = cells.into_iter();
        self.linked_row(name, cells.map(|value| HeatCell { value, link: None }))
    }

    /// Adds a row whose cells lead somewhere.
    ///
    /// # Panics
    /// If the row has not as many cells as the map has columns.
    pub fn linked_row(
        &mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = HeatCell>,
    ) -> &mut Self {
        let cells: Vec<HeatCell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "cells of a row");
        self.rows.push((name.into(), cells));
        self
    }

    /// How much of the full colour a figure has, in per cent.
    fn heat_percent(&self, value: f64, largest: f64) -> f64 {
        let share = match self.full_change {
            Some(full) => (value.abs() / full).sqrt(),
            None if largest > 0.0 => value / largest,
            None => 0.0,
        };
        (share * 100.0).clamp(0.0, 100.0)
    }

    fn text(&self, value: f64) -> String {
        match self.full_change {
            Some(_) => format!("{value:+.1}"),
            None => short_number(value),
        }
    }

    pub(super) fn render(&self, out: &mut String) {
        let all = self
            .rows
            .iter()
            .flat_map(|(_, cells)| cells.iter().filter_map(|cell| cell.value));
        let largest = all.filter(|value| value.is_finite()).fold(0.0, f64::max);
        put(
            out,
            format_args!(
                "<figure><figcaption>{} <span class=\"unit\">{}</span> ",
                escape(&self.title),
                escape(&self.unit)
            ),
        );
        kinds::badge(out, self.kind);
        put(
            out,
            format_args!(
                "</figcaption><table class=\"heat\"><thead><tr><th scope=\"col\">{}</th>",
                escape(&self.rows_name)
            ),
        );
        for column in &self.columns {
            put(
                out,
                format_args!("<th scope=\"col\" class=\"n\">{}</th>", escape(column)),
            );
        }
        out.push_str("</tr></thead>\n<tbody>");
        for (name, cells) in &self.rows {
            put(
                out,
                format_args!("<tr><th scope=\"row\">{}</th>", escape(name)),
            );
            for cell in cells {
                self.render_cell(out, cell, largest);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></figure>\n");
    }

    fn render_cell(&self, out: &mut String, cell: &HeatCell, largest: f64) {
        let Some(value) = cell.value.filter(|value| value.is_finite()) else {
            out.push_str("<td></td>");
            return;
        };
        let is_gain = self.full_change.is_some() && value > 0.0;
        let class = if is_gain { "n gain" } else { "n" };
        let (percent, text) = (self.heat_percent(value, largest), self.text(value));
        put(
            out,
            format_args!("<td class=\"{class}\" style=\"--heat:{percent:.0}%\">"),
        );
        match &cell.link {
            Some(link) => put(
                out,
                format_args!("<a href=\"#{}\">{text}</a></td>", escape(link)),
            ),
            None => put(out, format_args!("{text}</td>")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_shows_its_number_and_its_share() {
        let columns = ["1", "2"].map(str::to_owned);
        let mut map = HeatMap::new("<Reads>", "GB/s", Kind::Measured, "bytes", columns);
        map.row("64", [Some(5.0), Some(10.0)])
            .row("4096", [None, Some(f64::NAN)]);
        let mut html = String::new();
        map.render(&mut html);
        assert!(html.contains("&lt;Reads&gt;"), "{html}");
        assert!(html.contains("--heat:50%\">5.00<"), "{html}");
        assert!(html.contains("--heat:100%\">10.0<"), "{html}");
        assert_eq!(html.matches("<td></td>").count(), 2, "{html}");
    }

    #[test]
    fn losses_and_gains_have_colours_of_their_own_and_lead_somewhere() {
        let columns = ["a", "b"].map(str::to_owned);
        let mut map = HeatMap::new("Changes", "%", Kind::Measured, "", columns);
        let loss = HeatCell {
            value: Some(-25.0),
            link: Some("a&b".to_owned()),
        };
        let gain = HeatCell {
            value: Some(1.0),
            link: None,
        };
        map.signed(100.0).linked_row("x", [loss, gain]);
        let mut html = String::new();
        map.render(&mut html);
        let lost = "<td class=\"n\" style=\"--heat:50%\"><a href=\"#a&amp;b\">-25.0</a></td>";
        assert!(html.contains(lost), "{html}");
        let gained = "<td class=\"n gain\" style=\"--heat:10%\">+1.0</td>";
        assert!(html.contains(gained), "{html}");
    }
}
