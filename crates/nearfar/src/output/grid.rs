//! Text tables.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// On which side a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table of text cells, written page by page: a page is laid out when its last row is known.
#[derive(Debug, Clone)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    is_begun: bool,
}

#[derive(Debug, Clone)]
struct Column {
    name: Cell,
    align: Align,
    /// Of the widest line of a cell so far.
    width: usize,
}

/// The lines of a cell; most have one.
#[derive(Debug, Clone)]
struct Cell(Vec<String>);

impl Cell {
    fn new(text: &str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        Self(text.split('\n').map(printable).collect())
    }

    fn width(&self) -> usize {
        self.0.iter().map(|line| line.width()).max().unwrap_or(0)
    }
}

impl Grid {
    /// A table without rows.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Align)>) -> Self {
        let column = |(name, align): (N, Align)| {
            let name = Cell::new(&name.into());
            let width = name.width();
            Column { name, align, width }
        };
        Self {
            columns: columns.into_iter().map(column).collect(),
            rows: Vec::new(),
            is_begun: false,
        }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let row: Vec<Cell> = cells
            .into_iter()
            .map(|cell| Cell::new(cell.as_ref()))
            .collect();
        for (column, cell) in self.columns.iter_mut().zip(&row) {
            column.width = column.width.max(cell.width());
        }
        self.rows.push(row);
    }

    /// Rows that are not written yet.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Writes the rows added since the last page; before the first page, header and rule.
    pub fn write_page(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.is_begun {
            let names: Vec<Cell> = self
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect();
            self.write_row(out, &names)?;
            let rules = self
                .columns
                .iter()
                .map(|column| "-".repeat(column.width + 2));
            writeln!(out, "{}", rules.collect::<Vec<_>>().join("+"))?;
            self.is_begun = true;
        }
        std::mem::take(&mut self.rows)
            .iter()
            .try_for_each(|row| self.write_row(out, row))
    }

    fn write_row(&self, out: &mut dyn Write, cells: &[Cell]) -> io::Result<()> {
        let lines = cells.iter().map(|cell| cell.0.len()).max().unwrap_or(1);
        (0..lines).try_for_each(|line| self.write_line(out, cells, line))
    }

    fn write_line(&self, out: &mut dyn Write, cells: &[Cell], index: usize) -> io::Result<()> {
        let mut line = String::new();
        for (position, column) in self.columns.iter().enumerate() {
            let text = cells.get(position).and_then(|cell| cell.0.get(index));
            let text = text.map(String::as_str).unwrap_or_default();
            let space = " ".repeat(column.width.saturating_sub(text.width()));
            if position > 0 {
                line.push('|');
            }
            line.push(' ');
            match column.align {
                Align::Left => line.extend([text, &space]),
                Align::Right => line.extend([&space, text]),
            }
            line.push(' ');
        }
        writeln!(out, "{}", line.trim_end())
    }
}

/// The line without characters that would change the terminal.
fn printable(line: &str) -> String {
    if !line.contains(char::is_control) {
        return line.to_owned();
    }
    let mut text = String::with_capacity(line.len() + 8);
    for character in line.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(grid: &mut Grid) -> String {
        let mut out = Vec::new();
        grid.write_page(&mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut grid = Grid::new([("name", Align::Left), ("n", Align::Right)]);
        grid.row(["å", "1"]);
        grid.row(["日本語", "1234"]);
        let expected = concat!(
            " name   |    n\n",
            "--------+------\n",
            " å      |    1\n",
            " 日本語 | 1234\n",
        );
        assert_eq!(text(&mut grid), expected);
        grid.row(["later", "5"]);
        assert_eq!(text(&mut grid), " later  |    5\n");
    }

    #[test]
    fn cells_have_lines() {
        let mut grid = Grid::new([("a", Align::Left), ("b", Align::Left)]);
        grid.row(["one\n  two", "x"]);
        let expected = " a     | b\n-------+---\n one   | x\n   two |\n";
        assert_eq!(text(&mut grid), expected);
    }

    #[test]
    fn cells_cannot_steer_the_terminal() {
        let mut grid = Grid::new([("a\tb", Align::Left)]);
        grid.row(["red\u{1b}[2J"]);
        let text = text(&mut grid);
        assert!(text.contains(r"a\tb"), "{text}");
        assert!(text.contains(r"red\u{1b}[2J"), "{text}");
    }
}
