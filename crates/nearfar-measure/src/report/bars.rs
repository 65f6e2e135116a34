//! Grouped horizontal bar charts.

use nearfar_topology::Known;

use super::kinds;
use super::scale::Scale;
use super::table::{Cell, Column, Table};
use super::text::{escape, number, put, short_number, tick_text};
use crate::results::Kind;
use crate::statistics::Summary;

const WIDTH: f64 = 760.0;
const BAR_HEIGHT: f64 = 15.0;
const BAR_GAP: f64 = 3.0;
const GROUP_GAP: f64 = 12.0;
const TOP: f64 = 8.0;
const AXIS_HEIGHT: f64 = 38.0;
/// Room right of the longest bar for its number.
const VALUE_WIDTH: f64 = 64.0;
const CHARACTER_WIDTH: f64 = 7.0;
const LABEL_CHARACTERS_MAX: usize = 34;
/// Digits after the point in the table of numbers.
const DECIMALS: usize = 3;

/// One bar: a value with the spread of its runs, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    value: Known<f64>,
    spread: Option<(f64, f64)>,
}

impl From<f64> for Bar {
    fn from(value: f64) -> Self {
        Self {
            value: Known::Value(value),
            spread: None,
        }
    }
}

impl From<Summary> for Bar {
    fn from(summary: Summary) -> Self {
        let spread = (summary.runs > 1).then_some((summary.min, summary.max));
        Self {
            value: Known::Value(summary.median),
            spread,
        }
    }
}

impl From<Known<f64>> for Bar {
    fn from(value: Known<f64>) -> Self {
        Self {
            value,
            spread: None,
        }
    }
}

impl Bar {
    /// The value, if it can be drawn.
    fn drawable(&self) -> Result<f64, &str> {
        match &self.value {
            Known::Value(value) if value.is_finite() => Ok(*value),
            Known::Value(_) => Err("not a finite number"),
            Known::Unavailable(reason) => Err(reason),
        }
    }
}

/// A chart with one bar per group and series.
///
/// Bars start at zero; they are drawn with the pattern of their series' [`Kind`]. A table with all
/// numbers is folded in below the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    title: String,
    unit: String,
    series: Vec<(String, Kind)>,
    groups: Vec<(String, Vec<Bar>)>,
    reference: Option<(f64, String)>,
}

impl BarChart {
    /// A chart without bars; `unit` names the axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            series: Vec::new(),
            groups: Vec::new(),
            reference: None,
        }
    }

    /// Adds a series; the colours repeat after six.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, kind: Kind) -> Self {
        self.series.push((name.into(), kind));
        self
    }

    /// Adds a group with one bar per series, in their order; missing ones leave a gap.
    ///
    /// # Panics
    /// If there are more bars than series.
    pub fn group(
        &mut self,
        label: impl Into<String>,
        bars: impl IntoIterator<Item = Bar>,
    ) -> &mut Self {
        let bars: Vec<Bar> = bars.into_iter().collect();
        let (found, series) = (bars.len(), self.series.len());
        assert!(
            found <= series,
            "{found} bars in a chart of {series} series"
        );
        self.groups.push((label.into(), bars));
        self
    }

    /// Draws a line at `value` across all groups, such as the ratio 1.
    #[must_use]
    pub fn reference(mut self, value: f64, label: impl Into<String>) -> Self {
        self.reference = Some((value, label.into()));
        self
    }

    /// Renders the chart; `id` is unique within the page.
    pub(super) fn render(&self, out: &mut String, id: usize) {
        out.push_str("<figure>");
        put(
            out,
            format_args!("<figcaption>{}</figcaption>", escape(&self.title)),
        );
        if self.series.len() > 1 || self.series.iter().any(|(name, _)| !name.is_empty()) {
            kinds::series_legend(out, self.series.iter().map(|(name, kind)| (&**name, *kind)));
        }
        let layout = Layout::of(self);
        put(
            out,
            format_args!(
                "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-labelledby=\"t{id} d{id}\">\
                 <title id=\"t{id}\">{}</title><desc id=\"d{id}\">{}</desc>",
                layout.height,
                escape(&self.title),
                escape(&self.description())
            ),
        );
        kinds::patterns(out, id, self.series.iter().map(|(_, kind)| *kind));
        self.render_axis(out, &layout);
        let mut top = TOP;
        for (label, bars) in &self.groups {
            self.render_group(out, &layout, id, top, (label, bars));
            top += layout.group_height;
        }
        out.push_str("</svg>");
        self.render_data(out);
        out.push_str("</figure>\n");
    }

    fn description(&self) -> String {
        format!(
            "Bar chart in {}: {} groups of {} series. The numbers follow as a table.",
            self.unit,
            self.groups.len(),
            self.series.len()
        )
    }

    /// All finite numbers that the axis has to cover.
    fn extent(&self) -> impl Iterator<Item = f64> {
        let bars = self.groups.iter().flat_map(|(_, bars)| bars);
        let values = bars.flat_map(|bar| {
            let spread = bar.spread.into_iter().flat_map(|(min, max)| [min, max]);
            bar.value.get().into_iter().chain(spread)
        });
        let reference = self.reference.iter().map(|(value, _)| *value);
        values.chain(reference).filter(|value| value.is_finite())
    }

    fn render_axis(&self, out: &mut String, layout: &Layout) {
        let bottom = layout.height - AXIS_HEIGHT;
        for tick in &layout.scale.ticks {
            let x = layout.x(*tick);
            let text = tick_text(*tick);
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" \
                     y2=\"{bottom:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
                     text-anchor=\"middle\">{text}</text>",
                    bottom + 15.0
                ),
            );
        }
        put(
            out,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                (layout.left + layout.right) / 2.0,
                bottom + 32.0,
                escape(&self.unit)
            ),
        );
        if let Some((value, label)) = &self.reference {
            let x = layout.x(*value);
            put(
                out,
                format_args!(
                    "<line class=\"ref\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" \
                     y2=\"{bottom:.1}\"><title>{} ({value})</title></line>",
                    escape(label)
                ),
            );
        }
    }

    fn render_group(
        &self,
        out: &mut String,
        layout: &Layout,
        id: usize,
        top: f64,
        (label, bars): (&str, &[Bar]),
    ) {
        let middle = top + (layout.group_height - GROUP_GAP) / 2.0 + 4.0;
        put(
            out,
            format_args!(
                "<text class=\"label\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">\
                 {}<title>{}</title></text>",
                layout.left - 8.0,
                escape(&shortened(label)),
                escape(label)
            ),
        );
        for (index, bar) in bars.iter().enumerate() {
            let y = top + index as f64 * (BAR_HEIGHT + BAR_GAP);
            let (name, kind) = &self.series[index];
            let what = [label, name].into_iter().filter(|part| !part.is_empty());
            let what = what.collect::<Vec<_>>().join(", ");
            let fill = kinds::fill(id, index, *kind);
            render_bar(out, layout, y, bar, (&what, &self.unit, &fill));
        }
    }

    fn render_data(&self, out: &mut String) {
        let mut columns = vec![Column::text("")];
        columns.extend(self.series.iter().map(|(name, kind)| {
            let name = if name.is_empty() { &self.title } else { name };
            Column::number(name.as_str(), self.unit.as_str(), DECIMALS).kind(*kind)
        }));
        let mut table = Table::new("", columns);
        for (label, bars) in &self.groups {
            let mut cells = vec![Cell::from(label.as_str())];
            cells.extend(bars.iter().map(|bar| match (bar.drawable(), bar.spread) {
                (Ok(value), None) => Cell::Number(value),
                (Ok(value), Some((min, max))) => Cell::Text(format!(
                    "{} ({}\u{2013}{})",
                    number(value, DECIMALS),
                    number(min, DECIMALS),
                    number(max, DECIMALS)
                )),
                (Err(reason), _) => Cell::Unavailable(reason.to_owned()),
            }));
            table.row(cells);
        }
        out.push_str("<details><summary>Numbers</summary>");
        table.render(out);
        out.push_str("</details>");
    }
}

fn render_bar(
    out: &mut String,
    layout: &Layout,
    y: f64,
    bar: &Bar,
    (what, unit, fill): (&str, &str, &str),
) {
    let what = escape(what);
    let text_y = y + BAR_HEIGHT - 3.5;
    let value = match bar.drawable() {
        Ok(value) => value,
        Err(reason) => {
            put(
                out,
                format_args!(
                    "<text class=\"gap\" x=\"{:.1}\" y=\"{text_y:.1}\">n/a\
                     <title>{what}: unavailable ({})</title></text>",
                    layout.x(0.0) + 4.0,
                    escape(reason)
                ),
            );
            return;
        }
    };
    let (from, to) = (layout.x(value.min(0.0)), layout.x(value.max(0.0)));
    let number = short_number(value);
    put(
        out,
        format_args!(
            "<g><title>{what}: {number} {}</title><rect {fill} x=\"{from:.1}\" y=\"{y:.1}\" \
             width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>",
            escape(unit),
            (to - from).max(1.0)
        ),
    );
    let mut end = to;
    if let Some((min, max)) = bar.spread {
        let (x1, x2) = (layout.x(min), layout.x(max));
        let middle = y + BAR_HEIGHT / 2.0;
        put(
            out,
            format_args!(
                "<path class=\"spread\" d=\"M{x1:.1} {middle:.1}H{x2:.1}M{x1:.1} {:.1}v6M{x2:.1} \
                 {:.1}v6\"/>",
                middle - 3.0,
                middle - 3.0
            ),
        );
        end = end.max(x2);
    }
    put(
        out,
        format_args!(
            "<text class=\"value\" x=\"{:.1}\" y=\"{text_y:.1}\">{number}</text></g>",
            end + 5.0
        ),
    );
}

/// Where things are.
#[derive(Debug)]
struct Layout {
    left: f64,
    right: f64,
    height: f64,
    group_height: f64,
    scale: Scale,
}

impl Layout {
    fn of(chart: &BarChart) -> Self {
        let longest = chart
            .groups
            .iter()
            .map(|(label, _)| label.chars().count())
            .max();
        let characters = longest.unwrap_or(0).min(LABEL_CHARACTERS_MAX);
        let series = chart.series.len().max(1) as f64;
        let group_height = series * (BAR_HEIGHT + BAR_GAP) - BAR_GAP + GROUP_GAP;
        Self {
            left: (characters as f64 * CHARACTER_WIDTH + 14.0).max(24.0),
            right: WIDTH - VALUE_WIDTH,
            height: TOP + group_height * chart.groups.len() as f64 + AXIS_HEIGHT,
            group_height,
            scale: Scale::linear(chart.extent(), 6),
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.scale.place(value) * (self.right - self.left)
    }
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS_MAX {
        return label.to_owned();
    }
    let mut short: String = label.chars().take(LABEL_CHARACTERS_MAX - 1).collect();
    short.push('\u{2026}');
    short
}
