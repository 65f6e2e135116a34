//! Line charts.

use super::kinds::{self, COLOURS};
use super::scale::Scale;
use super::table::{Cell, Column, Table};
use super::text::{escape, put, short_number, tick_text};
use crate::results::Kind;

/// Places of a chart's parts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Marks on the axes, about.
    ticks: (usize, usize),
}

const WIDE: Frame = Frame {
    width: 760.0,
    height: 340.0,
    left: 66.0,
    right: 744.0,
    top: 12.0,
    bottom: 288.0,
    ticks: (8, 6),
};
/// One of many charts that stand beside each other.
const SMALL: Frame = Frame {
    width: 300.0,
    height: 200.0,
    left: 52.0,
    right: 290.0,
    top: 10.0,
    bottom: 156.0,
    ticks: (4, 4),
};

/// How the horizontal axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Axis {
    /// Equal steps, from zero.
    #[default]
    Linear,
    /// Equal factors, as for numbers of threads or bytes. Linear where a value is not positive.
    Logarithmic,
}

/// A chart with one line per series.
///
/// The vertical axis starts at zero. Measured lines are solid, modelled ones dashed, published
/// ones dotted, estimated ones dash-dotted. A table with all numbers is folded in below.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    title: String,
    x: (String, Axis),
    y: String,
    series: Vec<Line>,
    frame: Frame,
    /// The name of its place on the page.
    anchor: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Line {
    name: String,
    kind: Kind,
    points: Vec<(f64, f64)>,
}

impl LineChart {
    /// A chart without lines; `x` and `y` name the axes with their units.
    pub fn new(title: impl Into<String>, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x: (x.into(), Axis::Linear),
            y: y.into(),
            series: Vec::new(),
            frame: WIDE,
            anchor: None,
        }
    }

    /// Gives its place on the page a name that others lead to.
    #[must_use]
    pub fn anchored(mut self, name: impl Into<String>) -> Self {
        self.anchor = Some(name.into());
        self
    }

    /// Divides the horizontal axis.
    #[must_use]
    pub fn x_axis(mut self, axis: Axis) -> Self {
        self.x.1 = axis;
        self
    }

    /// Adds a line through `points` (x, y) in their order. Points that are not finite are left
    /// out: a line has no place for them, tell of them in a note.
    pub fn line(
        &mut self,
        name: impl Into<String>,
        kind: Kind,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> &mut Self {
        let points = points
            .into_iter()
            .filter(|(x, y)| x.is_finite() && y.is_finite());
        self.series.push(Line {
            name: name.into(),
            kind,
            points: points.collect(),
        });
        self
    }

    /// Renders many charts beside each other, with one legend: the lines of all are those of the first,
    /// in their order.
    pub(super) fn render_small(charts: &[Self], out: &mut String, id: usize) {
        if let Some(first) = charts.first() {
            let lines = first.series.iter();
            kinds::series_legend(out, lines.map(|line| (&*line.name, line.kind)));
        }
        out.push_str("<div class=\"small\">");
        for (index, chart) in charts.iter().enumerate() {
            let small = Self {
                frame: SMALL,
                ..chart.clone()
            };
            small.render_as(out, &format!("{id}-{index}"));
        }
        out.push_str("</div>\n");
    }

    /// Renders the chart; `id` is unique within the page.
    pub(super) fn render(&self, out: &mut String, id: usize) {
        self.render_as(out, &id.to_string());
    }

    fn render_as(&self, out: &mut String, id: &str) {
        let Frame { width, height, .. } = self.frame;
        let points = || {
            self.series
                .iter()
                .flat_map(|line| line.points.iter().copied())
        };
        let xs = points().map(|(x, _)| x);
        let scales = Scales {
            x: match self.x.1 {
                Axis::Linear => Scale::linear(xs, self.frame.ticks.0),
                Axis::Logarithmic => Scale::logarithmic(xs),
            },
            y: Scale::linear(points().map(|(_, y)| y), self.frame.ticks.1),
            frame: self.frame,
        };
        match &self.anchor {
            Some(name) => put(out, format_args!("<figure id=\"{}\">", escape(name))),
            None => out.push_str("<figure>"),
        }
        put(
            out,
            format_args!("<figcaption>{}</figcaption>", escape(&self.title)),
        );
        if self.frame == WIDE {
            kinds::series_legend(out, self.series.iter().map(|line| (&*line.name, line.kind)));
        }
        put(
            out,
            format_args!(
                "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
                 aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">{}</title>\
                 <desc id=\"d{id}\">Line chart of {} over {}, {} series. The numbers follow as a \
                 table.</desc>",
                escape(&self.title),
                escape(&self.y),
                escape(&self.x.0),
                self.series.len()
            ),
        );
        self.render_axes(out, &scales);
        for (index, line) in self.series.iter().enumerate() {
            line.render(out, &scales, index % COLOURS);
        }
        out.push_str("</svg>");
        self.render_data(out);
        out.push_str("</figure>\n");
    }

    fn render_axes(&self, out: &mut String, scales: &Scales) {
        let Frame {
            left,
            right,
            top,
            bottom,
            ..
        } = self.frame;
        for tick in &scales.y.ticks {
            let y = scales.at(0.0, *tick).1;
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" \
                     y2=\"{y:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
                     text-anchor=\"end\">{}</text>",
                    left - 7.0,
                    y + 4.0,
                    tick_text(*tick)
                ),
            );
        }
        for tick in &scales.x.ticks {
            let x = scales.at(*tick, 0.0).0;
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" \
                     y2=\"{bottom}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
                     text-anchor=\"middle\">{}</text>",
                    bottom + 17.0,
                    tick_text(*tick)
                ),
            );
        }
        put(
            out,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
                 <text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" \
                 text-anchor=\"middle\">{}</text>",
                (left + right) / 2.0,
                bottom + 36.0,
                escape(&self.x.0),
                (top + bottom) / 2.0,
                escape(&self.y)
            ),
        );
    }

    fn render_data(&self, out: &mut String) {
        out.push_str("<details><summary>Numbers</summary>");
        for line in &self.series {
            let columns = [
                Column::number(&*self.x.0, "", 3),
                Column::number(&*self.y, "", 3).kind(line.kind),
            ];
            let mut table = Table::new(line.name.as_str(), columns);
            for (x, y) in &line.points {
                table.row([Cell::Number(*x), Cell::Number(*y)]);
            }
            table.render(out);
        }
        out.push_str("</details>");
    }
}

impl Line {
    fn render(&self, out: &mut String, scales: &Scales, colour: usize) {
        let kind = self.kind.name();
        put(
            out,
            format_args!("<g class=\"line {kind} c{colour}\"><polyline points=\""),
        );
        for (x, y) in &self.points {
            let (x, y) = scales.at(*x, *y);
            put(out, format_args!("{x:.1},{y:.1} "));
        }
        out.push_str("\"/>");
        for (x, y) in &self.points {
            let (at_x, at_y) = scales.at(*x, *y);
            put(
                out,
                format_args!(
                    "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"3.4\"><title>{}: {}, {}\
                     </title></circle>",
                    escape(&self.name),
                    short_number(*x),
                    short_number(*y)
                ),
            );
        }
        out.push_str("</g>");
    }
}

#[derive(Debug)]
struct Scales {
    x: Scale,
    y: Scale,
    frame: Frame,
}

impl Scales {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let Frame {
            left,
            right,
            top,
            bottom,
            ..
        } = self.frame;
        (
            left + self.x.place(x) * (right - left),
            bottom - self.y.place(y) * (bottom - top),
        )
    }
}
