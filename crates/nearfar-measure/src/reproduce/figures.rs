//! Published figures whose points are part of the product.

use nearfar_topology::{Known, Profile};

use super::points::Points;

/// One thread reads 1.56 GB/s with all pages far: 656 ns for each of 16 fill buffers, of which 69 ns
/// are the core's and refresh.
const FIG6_READ_LATENCY_NS: f64 = 587.0;
/// One thread writes 1.20 GB/s with all pages far: 853 ns for each fill buffer, 197 ns more than reads.
const FIG6_OWNERSHIP_NS: f64 = 197.0;
/// Sixteen threads read 16.9 GB/s with all pages far: 3.8 ns for each line, of which 5.5 % are refresh
/// and the rest of the difference waiting.
const FIG6_READ_SERVICE_NS: f64 = 3.5;

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// weisgut-2025, figure 4: throughput over one to four CXL devices.
    Fig4,
    /// weisgut-2025, figure 5: latency percentiles.
    Fig5,
    /// weisgut-2025, figure 6: a region split between CPU and CXL memory, accesses of 64 B.
    Fig6,
    /// weisgut-2025, figure 7: filtering scans.
    Fig7,
    /// weisgut-2025, figure 8: filtering scans with a share of the columns in CXL memory; some points.
    Fig8,
    /// weisgut-2025, figure 9: bound shares.
    Fig9,
    /// weisgut-2025, figure 10: B+trees by threads; some points.
    Fig10,
    /// weisgut-2025, figure 11: B+tree node sizes.
    Fig11,
    /// weisgut-2025, figure 14: prices of the cheapest machines.
    Fig14,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 9] = [
        Self::Fig4,
        Self::Fig5,
        Self::Fig6,
        Self::Fig7,
        Self::Fig8,
        Self::Fig9,
        Self::Fig10,
        Self::Fig11,
        Self::Fig14,
    ];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig4 => "fig4",
            Self::Fig5 => "fig5",
            Self::Fig6 => "fig6",
            Self::Fig7 => "fig7",
            Self::Fig8 => "fig8",
            Self::Fig9 => "fig9",
            Self::Fig10 => "fig10",
            Self::Fig11 => "fig11",
            Self::Fig14 => "weisgut-fig14",
        }
    }

    /// What it shows.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fig4 => "Throughput over one to four CXL devices (weisgut-2025, figure 4)",
            Self::Fig5 => "Latency of single accesses (weisgut-2025, figure 5)",
            Self::Fig6 => "Region split between CPU and CXL memory (weisgut-2025, figure 6)",
            Self::Fig7 => "Filtering integer scans (weisgut-2025, figure 7)",
            Self::Fig8 => "Scans with columns in CXL memory, some points (weisgut-2025, figure 8)",
            Self::Fig9 => "Bound shares of scan and B+tree (weisgut-2025, figure 9)",
            Self::Fig10 => "B+trees by threads, some points (weisgut-2025, figure 10)",
            Self::Fig11 => "B+tree node sizes (weisgut-2025, figure 11)",
            Self::Fig14 => "Cheapest processors and memory (weisgut-2025, figure 14)",
        }
    }

    /// Its published points.
    pub fn points(self) -> Points {
        let text = match self {
            Self::Fig4 => include_str!("data/fig04.csv"),
            Self::Fig5 => include_str!("data/fig05.csv"),
            Self::Fig6 => include_str!("data/fig06.csv"),
            Self::Fig7 => include_str!("data/fig07.csv"),
            Self::Fig8 => include_str!("data/fig08.csv"),
            Self::Fig9 => include_str!("data/fig09.csv"),
            Self::Fig10 => include_str!("data/fig10.csv"),
            Self::Fig11 => include_str!("data/fig11.csv"),
            Self::Fig14 => include_str!("data/fig14.csv"),
        };
        Points::parse(self.name(), text).expect("points of the product are well-formed")
    }

    /// The machine of the figure, given that of the others.
    ///
    /// The device of figure 6 is slower than that of figure 4 (16 threads read 4 KiB at random at 15.9
    /// instead of 39.8 GB/s). Its latency, its ownership and its rate of reads are taken from the
    /// points of figure 6 with all pages far; everything else is as it was.
    #[must_use]
    pub fn machine(self, mut profile: Profile) -> Profile {
        if let (Self::Fig6, Known::Value(simulation)) = (self, &mut profile.simulation) {
            let far = &mut simulation.far;
            far.read_latency_ns = FIG6_READ_LATENCY_NS;
            far.ownership_ns = FIG6_OWNERSHIP_NS;
            far.read_service_ns = FIG6_READ_SERVICE_NS;
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_points() {
        let counts = Figure::ALL.map(|figure| figure.points().points.len());
        assert_eq!(counts, [832, 72, 210, 90, 4, 72, 6, 30, 96]);
    }
}
