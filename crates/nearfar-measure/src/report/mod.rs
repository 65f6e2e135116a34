//! Reports for people: one HTML page that needs nothing else.
//!
//! Style and charts are inline, there is no script, and nothing is fetched: the page can be
//! mailed, archived and read offline, in light and in dark. All text is escaped. Charts are SVG
//! with a title and a description, and every chart is followed by its numbers as a table.
//!
//! ```
//! use nearfar_measure::Kind;
//! use nearfar_measure::report::{Bar, BarChart, Cell, Column, Report, Table};
//!
//! let mut report = Report::new("Two placements");
//! report.paragraph("All near against all far.");
//! let mut chart = BarChart::new("Time per query", "s").series("all far", Kind::Modelled);
//! chart.group("q1", [Bar::from(1.25)]);
//! report.bars(chart);
//! let columns = [Column::text("Query"), Column::number("Time", "s", 2).kind(Kind::Modelled)];
//! let mut table = Table::new("Times", columns);
//! table.row([Cell::from("q1"), Cell::from(1.25)]);
//! report.table(table);
//! assert!(report.to_html().contains("1.25"));
//! ```

mod bars;
mod heat;
mod kinds;
mod lines;
mod scale;
mod table;
mod text;

pub use self::bars::{Bar, BarChart};
pub use self::heat::{HeatCell, HeatMap};
pub use self::lines::{Axis, LineChart};
pub use self::table::{Cell, Column, Table};
use self::text::{escape, number, put};
use crate::results::{Header, Kind};

const STYLE: &str = include_str!("style.css");

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Good to know.
    Remark,
    /// The figures are to be read with care.
    Warning,
}

#[derive(Debug, Clone, PartialEq)]
enum Block {
    Heading(String),
    Subheading(String),
    Paragraph(String),
    Note(Note, String),
    Facts(Vec<(String, String)>),
    Kinds(Vec<Kind>),
    Table(Table),
    Bars(BarChart),
    Lines(LineChart),
    Small(Vec<LineChart>),
    Folded(String, Vec<Table>),
    Heat(HeatMap),
}

/// A page, built from top to bottom.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    title: String,
    subtitle: String,
    footer: String,
    blocks: Vec<Block>,
}

impl Report {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            footer: String::new(),
            blocks: Vec::new(),
        }
    }

    /// A line below the title.
    pub fn subtitle(&mut self, text: impl Into<String>) -> &mut Self {
        self.subtitle = text.into();
        self
    }

    /// A line at the end of the page, such as the version and the command that made it.
    pub fn footer(&mut self, text: impl Into<String>) -> &mut Self {
        self.footer = text.into();
        self
    }

    /// Begins a section.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Heading(text.into()))
    }

    /// Begins a part of a section.
    pub fn subheading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Subheading(text.into()))
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Paragraph(text.into()))
    }

    /// Adds a note that stands out.
    pub fn note(&mut self, note: Note, text: impl Into<String>) -> &mut Self {
        self.push(Block::Note(note, text.into()))
    }

    /// Adds a list of names and what they are.
    pub fn facts<N: Into<String>, V: Into<String>>(
        &mut self,
        facts: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Self {
        let facts = facts
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.push(Block::Facts(facts.collect()))
    }

    /// Adds the machine, the program, the configuration, and what was unavailable.
    pub fn header(&mut self, header: &Header) -> &mut Self {
        let machine = &header.machine;
        let memory = machine
            .memory_bytes
            .clone()
            .map(|bytes| format!("{} GiB", number(bytes as f64 / f64::from(1 << 30), 1)));
        let virtualized = machine.virtualized.clone().map(|virtualized| {
            if virtualized {
                "a virtual machine"
            } else {
                "no hypervisor"
            }
        });
        let mut facts = vec![
            ("Processor".to_owned(), machine.cpu.to_string()),
            ("Processors in use".to_owned(), machine.cpus.to_string()),
            ("Memory".to_owned(), memory.to_string()),
            (
                "Kernel".to_owned(),
                format!("{} ({})", machine.kernel, machine.architecture),
            ),
            ("Virtualization".to_owned(), virtualized.to_string()),
            ("Version".to_owned(), header.version.clone()),
            ("Command".to_owned(), header.command.join(" ")),
        ];
        if let Some(configuration) = header.configuration.as_object() {
            let entries = configuration.iter();
            facts.extend(entries.map(|(key, value)| (key.clone(), plain(value))));
        }
        let gaps = header.unavailable.iter();
        facts.extend(gaps.map(|gap| (gap.what.clone(), format!("unavailable: {}", gap.reason))));
        self.facts(facts)
    }

    /// Explains the badges of these kinds.
    pub fn legend(&mut self, kinds: impl IntoIterator<Item = Kind>) -> &mut Self {
        self.push(Block::Kinds(kinds.into_iter().collect()))
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.push(Block::Table(table))
    }

    /// Adds a bar chart.
    pub fn bars(&mut self, chart: BarChart) -> &mut Self {
        self.push(Block::Bars(chart))
    }

    /// Adds a line chart.
    pub fn lines(&mut self, chart: LineChart) -> &mut Self {
        self.push(Block::Lines(chart))
    }

    /// Adds charts beside each other, with the legend of the first: all have lines of the same names.
    pub fn small_multiples(&mut self, charts: impl IntoIterator<Item = LineChart>) -> &mut Self {
        self.push(Block::Small(charts.into_iter().collect()))
    }

    /// Adds tables behind a line that unfolds.
    pub fn folded(
        &mut self,
        summary: impl Into<String>,
        tables: impl IntoIterator<Item = Table>,
    ) -> &mut Self {
        let tables = tables.into_iter().collect();
        self.push(Block::Folded(summary.into(), tables))
    }

    /// Adds a heat map.
    pub fn heat(&mut self, map: HeatMap) -> &mut Self {
        self.push(Block::Heat(map))
    }

    fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }

    /// The page.
    pub fn to_html(&self) -> String {
        let mut out = String::with_capacity(16 << 10);
        let title = escape(&self.title);
        put(
            &mut out,
            format_args!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
                 <header>\n<h1>{title}</h1>\n"
            ),
        );
        if !self.subtitle.is_empty() {
            put(
                &mut out,
                format_args!("<p class=\"subtitle\">{}</p>\n", escape(&self.subtitle)),
            );
        }
        out.push_str("</header>\n<main>\n");
        for (id, block) in self.blocks.iter().enumerate() {
            block.render(&mut out, id);
        }
        out.push_str("</main>\n");
        if !self.footer.is_empty() {
            put(
                &mut out,
                format_args!("<footer>{}</footer>\n", escape(&self.footer)),
            );
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// A configuration value without the quotes of JSON; what has a name, such as a profile, by its name.
fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) if fields.contains_key("name") => plain(&fields["name"]),
        serde_json::Value::Null => "none".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

impl Block {
    fn render(&self, out: &mut String, id: usize) {
        match self {
            Self::Heading(text) => put(out, format_args!("<h2>{}</h2>\n", escape(text))),
            Self::Subheading(text) => put(out, format_args!("<h3>{}</h3>\n", escape(text))),
            Self::Paragraph(text) => put(out, format_args!("<p>{}</p>\n", escape(text))),
            Self::Note(note, text) => {
                let class = match note {
                    Note::Remark => "note",
                    Note::Warning => "note warning",
                };
                put(
                    out,
                    format_args!("<p class=\"{class}\">{}</p>\n", escape(text)),
                );
            }
            Self::Facts(facts) => {
                out.push_str("<dl class=\"facts\">\n");
                for (name, value) in facts {
                    let (name, value) = (escape(name), escape(value));
                    put(out, format_args!("<dt>{name}</dt><dd>{value}</dd>\n"));
                }
                out.push_str("</dl>\n");
            }
            Self::Kinds(kinds) => kinds::legend(out, kinds),
            Self::Table(table) => table.render(out),
            Self::Bars(chart) => chart.render(out, id),
            Self::Lines(chart) => chart.render(out, id),
            Self::Small(charts) => LineChart::render_small(charts, out, id),
            Self::Folded(summary, tables) => {
                let summary = escape(summary);
                put(out, format_args!("<details><summary>{summary}</summary>\n"));
                for table in tables {
                    table.render(out);
                }
                out.push_str("</details>\n");
            }
            Self::Heat(map) => map.render(out),
        }
    }
}
