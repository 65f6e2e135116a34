//! Tables.

use nearfar_topology::Known;

use super::kinds;
use super::text::{escape, number, put};
use crate::results::Kind;

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    title: String,
    unit: String,
    kind: Option<Kind>,
    decimals: Option<usize>,
}

impl Column {
    /// A column of words, aligned to the left.
    pub fn text(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: String::new(),
            kind: None,
            decimals: None,
        }
    }

    /// A column of numbers with `decimals` digits after the point, aligned by it.
    pub fn number(title: impl Into<String>, unit: impl Into<String>, decimals: usize) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            kind: None,
            decimals: Some(decimals),
        }
    }

    /// Says where the numbers of the column come from: shown as a badge in its head.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// One cell of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, shown as its column says.
    Number(f64),
    /// No value, for this reason: shown as a dash that tells the reason.
    Unavailable(String),
    /// Nothing belongs here.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Known<f64>> for Cell {
    fn from(value: Known<f64>) -> Self {
        match value {
            Known::Value(value) => Self::Number(value),
            Known::Unavailable(reason) => Self::Unavailable(reason.into_owned()),
        }
    }
}

/// A table with a caption.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<(bool, Vec<Cell>)>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells at its end are empty.
    ///
    /// # Panics
    /// If the row has more cells than the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.push(false, cells)
    }

    /// Adds a row that sums up the ones above it.
    ///
    /// # Panics
    /// As [`Table::row`].
    pub fn total(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.push(true, cells)
    }

    fn push(&mut self, total: bool, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        let (found, columns) = (cells.len(), self.columns.len());
        assert!(
            found <= columns,
            "{found} cells in a table of {columns} columns"
        );
        cells.resize(columns, Cell::Empty);
        self.rows.push((total, cells));
        self
    }

    pub(super) fn render(&self, out: &mut String) {
        out.push_str("<div class=\"scroll\"><table>");
        if !self.caption.is_empty() {
            put(
                out,
                format_args!("<caption>{}</caption>", escape(&self.caption)),
            );
        }
        out.push_str("<thead><tr>");
        for column in &self.columns {
            let class = if column.decimals.is_some() {
                " class=\"n\""
            } else {
                ""
            };
            put(
                out,
                format_args!("<th scope=\"col\"{class}>{}", escape(&column.title)),
            );
            if !column.unit.is_empty() {
                put(
                    out,
                    format_args!(" <span class=\"unit\">{}</span>", escape(&column.unit)),
                );
            }
            if let Some(kind) = column.kind {
                out.push_str("<br>");
                kinds::badge(out, kind);
            }
            out.push_str("</th>");
        }
        out.push_str("</tr></thead>\n<tbody>");
        for (total, cells) in &self.rows {
            out.push_str(if *total {
                "<tr class=\"total\">"
            } else {
                "<tr>"
            });
            for (column, cell) in self.columns.iter().zip(cells) {
                render_cell(out, column, cell);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

fn render_cell(out: &mut String, column: &Column, cell: &Cell) {
    let class = if column.decimals.is_some() {
        " class=\"n\""
    } else {
        ""
    };
    match cell {
        Cell::Text(text) => put(out, format_args!("<td{class}>{}</td>", escape(text))),
        Cell::Number(value) => {
            let text = number(*value, column.decimals.unwrap_or(2));
            put(out, format_args!("<td{class}>{text}</td>"));
        }
        Cell::Unavailable(reason) => {
            let reason = escape(reason);
            put(
                out,
                format_args!(
                    "<td{class}><abbr class=\"gap\" title=\"unavailable: {reason}\" \
                     aria-label=\"unavailable: {reason}\">n/a</abbr></td>"
                ),
            );
        }
        Cell::Empty => out.push_str("<td></td>"),
    }
}
