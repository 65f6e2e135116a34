//! What ahn-2024 measured with main storage, heap or temporary tables on CXL memory.

use super::queries::Workload;
use super::run::Configuration;

/// A published throughput relative to everything near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedLoss {
    /// What was far.
    pub configuration: Configuration,
    /// Devices that pages were interleaved over.
    pub devices: u32,
    /// The lowest relative throughput that is given.
    pub low: f64,
    /// The highest, the same where there is only one.
    pub high: f64,
    /// What was measured.
    pub workload: &'static str,
    /// What stands for it here.
    pub workloads: &'static [Workload],
    /// The figure, by its word in commands.
    pub figure: &'static str,
    /// Where it is published.
    pub source: &'static str,
}

/// The figures of sections 5.1.2 and 5.2.2 (SAP HANA, 56 cores, TPC-DS at scale factor 100 with 8
/// streams; PaPM and ProcBench for temporary tables).
pub fn published() -> [PublishedLoss; 6] {
    let analytical = |configuration, devices, relative| PublishedLoss {
        configuration,
        devices,
        low: relative,
        high: relative,
        workload: "TPC-DS",
        workloads: &[Workload::Scan, Workload::Heap],
        figure: "ahn-fig4",
        source: "ahn-2024 section 5.1.2, figure 4",
    };
    let temporary = |(low, high), workload, figure, source| PublishedLoss {
        configuration: Configuration::TemporaryFar,
        devices: 1,
        low,
        high,
        workload,
        workloads: &[Workload::Temporary],
        figure,
        source,
    };
    let (main, heap) = (Configuration::MainFar, Configuration::HeapFar);
    let [fig8, fig9] = [
        "ahn-2024 section 5.2.2, figure 8",
        "ahn-2024 section 5.2.2, figure 9",
    ];
    [
        analytical(main, 1, 0.73),
        analytical(main, 2, 0.90),
        analytical(heap, 1, 0.22),
        analytical(heap, 2, 0.35),
        temporary((0.87, 0.96), "PaPM", "ahn-fig8", fig8),
        temporary((1.0, 1.0), "ProcBench", "ahn-fig9", fig9),
    ]
}
