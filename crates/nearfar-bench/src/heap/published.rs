//! What ahn-2024 measured with main storage, heap or temporary tables on CXL memory.

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
    /// Where it is published.
    pub source: &'static str,
}

/// The figures of sections 5.1.2 and 5.2.2 (SAP HANA, 56 cores, TPC-DS at scale factor 100 with 8
/// streams; PaPM and ProcBench for temporary tables).
pub fn published() -> [PublishedLoss; 6] {
    let loss = |configuration, devices, (low, high), workload, source| PublishedLoss {
        configuration,
        devices,
        low,
        high,
        workload,
        source,
    };
    let (main, heap) = (Configuration::MainFar, Configuration::HeapFar);
    let temporary = Configuration::TemporaryFar;
    let (ds, section) = ("TPC-DS", "ahn-2024 section 5.1.2, figure 4");
    [
        loss(main, 1, (0.73, 0.73), ds, section),
        loss(main, 2, (0.90, 0.90), ds, section),
        loss(heap, 1, (0.22, 0.22), ds, section),
        loss(heap, 2, (0.35, 0.35), ds, section),
        loss(
            temporary,
            1,
            (0.87, 0.96),
            "PaPM",
            "ahn-2024 section 5.2.2, figure 8",
        ),
        loss(
            temporary,
            1,
            (1.0, 1.0),
            "ProcBench",
            "ahn-2024 section 5.2.2, figure 9",
        ),
    ]
}
