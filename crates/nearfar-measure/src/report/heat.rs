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
    rows: Vec<(String, Vec<Option<f64>>)>,
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
        }
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
        let cells: Vec<Option<f64>> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "cells of a row");
        self.rows.push((name.into(), cells));
        self
    }

    pub(super) fn render(&self, out: &mut String) {
        let all = self
            .rows
            .iter()
            .flat_map(|(_, cells)| cells.iter().flatten());
        let largest = all
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
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
                match cell.filter(|value| value.is_finite()) {
                    Some(value) => {
                        let share = if largest > 0.0 {
                            value / largest * 100.0
                        } else {
                            0.0
                        };
                        put(
                            out,
                            format_args!(
                                "<td class=\"n\" style=\"--heat:{:.0}%\">{}</td>",
                                share.clamp(0.0, 100.0),
                                short_number(value)
                            ),
                        );
                    }
                    None => out.push_str("<td></td>"),
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></figure>\n");
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
}
