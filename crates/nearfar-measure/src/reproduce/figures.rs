//! Published figures whose points are part of the product.

use super::points::Points;

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// weisgut-2025, figure 4: throughput over one to four CXL devices.
    Fig4,
    /// weisgut-2025, figure 5: latency percentiles.
    Fig5,
    /// weisgut-2025, figure 7: filtering scans.
    Fig7,
    /// weisgut-2025, figure 9: bound shares.
    Fig9,
    /// weisgut-2025, figure 11: B+tree node sizes.
    Fig11,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 5] = [Self::Fig4, Self::Fig5, Self::Fig7, Self::Fig9, Self::Fig11];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig4 => "fig4",
            Self::Fig5 => "fig5",
            Self::Fig7 => "fig7",
            Self::Fig9 => "fig9",
            Self::Fig11 => "fig11",
        }
    }

    /// What it shows.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fig4 => "Throughput over one to four CXL devices (weisgut-2025, figure 4)",
            Self::Fig5 => "Latency of single accesses (weisgut-2025, figure 5)",
            Self::Fig7 => "Filtering integer scans (weisgut-2025, figure 7)",
            Self::Fig9 => "Bound shares of scan and B+tree (weisgut-2025, figure 9)",
            Self::Fig11 => "B+tree node sizes (weisgut-2025, figure 11)",
        }
    }

    /// Its published points.
    pub fn points(self) -> Points {
        let text = match self {
            Self::Fig4 => include_str!("data/fig04.csv"),
            Self::Fig5 => include_str!("data/fig05.csv"),
            Self::Fig7 => include_str!("data/fig07.csv"),
            Self::Fig9 => include_str!("data/fig09.csv"),
            Self::Fig11 => include_str!("data/fig11.csv"),
        };
        Points::parse(self.name(), text).expect("points of the product are well-formed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_points() {
        let counts = Figure::ALL.map(|figure| figure.points().points.len());
        assert_eq!(counts, [832, 72, 90, 72, 30]);
    }
}
