//! How measured, modelled, published and estimated figures look different, without colour too.

use super::text::{escape, put};
use crate::results::Kind;

/// Number of series colours in the style sheet.
pub(super) const COLOURS: usize = 6;

/// What a legend says of each kind.
const fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Measured => "taken on this machine's own memory",
        Kind::Modelled => "computed for a profile, or timed with its far tier emulated",
        Kind::Published => "printed in the cited paper, or declared by firmware",
        Kind::Estimated => "computed from documented assumptions",
    }
}

/// A pill with the kind's name and its pattern.
pub(super) fn badge(out: &mut String, kind: Kind) {
    let name = kind.name();
    put(
        out,
        format_args!("<span class=\"badge {name}\"><i></i>{name}</span>"),
    );
}

/// The legend of kinds.
pub(super) fn legend(out: &mut String, kinds: &[Kind]) {
    out.push_str("<ul class=\"kinds\">");
    for kind in kinds {
        out.push_str("<li>");
        badge(out, *kind);
        put(out, format_args!(" {}</li>", meaning(*kind)));
    }
    out.push_str("</ul>\n");
}

/// The legend of a chart's series, in their order.
pub(super) fn series_legend<'a>(out: &mut String, series: impl Iterator<Item = (&'a str, Kind)>) {
    out.push_str("<ul class=\"series\">");
    for (index, (name, kind)) in series.enumerate() {
        put(
            out,
            format_args!(
                "<li><i class=\"swatch {} c{}\"></i>{} ",
                kind.name(),
                index % COLOURS,
                escape(name)
            ),
        );
        badge(out, kind);
        out.push_str("</li>");
    }
    out.push_str("</ul>\n");
}

/// The fills of a chart's bars: measured is solid, modelled hatched, published hollow, estimated
/// dotted.
pub(super) fn patterns(out: &mut String, chart: usize, series: impl Iterator<Item = Kind>) {
    out.push_str("<defs>");
    for (index, kind) in series.enumerate() {
        let colour = index % COLOURS;
        let mark = match kind {
            Kind::Measured | Kind::Published => continue,
            Kind::Modelled => "<path class=\"hatch\" d=\"M-1 1l2-2M0 6l6-6M5 7l2-2\"/>",
            Kind::Estimated => "<circle class=\"dot\" cx=\"3\" cy=\"3\" r=\"1.4\"/>",
        };
        put(
            out,
            format_args!(
                "<pattern id=\"p{chart}-{index}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\"><rect class=\"c{colour}\" width=\"6\" \
                 height=\"6\"/>{mark}</pattern>"
            ),
        );
    }
    out.push_str("</defs>");
}

/// Attributes of a bar of series `index`.
pub(super) fn fill(chart: usize, index: usize, kind: Kind) -> String {
    let colour = index % COLOURS;
    match kind {
        Kind::Measured => format!("class=\"c{colour}\""),
        Kind::Published => format!("class=\"hollow c{colour}\""),
        Kind::Modelled | Kind::Estimated => format!("style=\"fill:url(#p{chart}-{index})\""),
    }
}
