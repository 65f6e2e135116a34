//! Table IV: what counters say of writes to storage beside non-temporal stores to CXL memory.

use nearfar_model::simulation::{Access, Explained, Group, MachineError, TierName, explain_beside};
use nearfar_topology::Known;

use super::super::papers::mean_absolute;
use super::system::System;
use crate::interference::{SPAN, written_storage};

/// Threads of the background (mao-2025, section III-C, names 16 beside random writes).
const STORE_THREADS: usize = 16;

/// Why the model has no time of kernel functions.
const NO_FUNCTIONS: &str = "the model has no functions of a kernel";

/// An event or function of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseRatio {
    /// Its name in the paper.
    pub event: &'static str,
    /// What it is in the model.
    pub meaning: &'static str,
    /// With over without the background, published.
    pub published: f64,
    /// The same in the model.
    pub modelled: Known<f64>,
}

impl CauseRatio {
    /// `(modelled / published - 1) * 100`; none without a model.
    pub fn error_percent(&self) -> Option<f64> {
        Some((self.modelled.get()? / self.published - 1.0) * 100.0)
    }
}

/// Where requests of one group spend their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CauseGroup {
    /// Whose they are.
    pub name: &'static str,
    /// Its threads.
    pub threads: usize,
    /// Without the background; `None` for the background.
    pub alone: Option<Explained>,
    /// With it.
    pub beside: Explained,
}

/// Table IV in the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Causes {
    /// The machine.
    pub system: System,
    /// In the paper's order, and the mean wait by Little's law that follows from two of them.
    pub ratios: Vec<CauseRatio>,
    /// Who waits where.
    pub groups: Vec<CauseGroup>,
}

impl Causes {
    /// Its word in commands and results.
    pub const fn name() -> &'static str {
        "mao-table4"
    }

    /// Mean of the absolute errors of the ratios that are modelled, in per cent.
    pub fn mape_percent(&self) -> Option<f64> {
        mean_absolute(self.ratios.iter().filter_map(CauseRatio::error_percent))
    }
}

/// Runs table IV in virtual time.
///
/// # Errors
/// None for the built-in profiles.
pub fn reproduce_causes() -> Result<Causes, MachineError> {
    let system = System::B;
    let machine = system.machine()?;
    let [copy, dma] = written_storage(system.drive_gb_per_s());
    let stores = Group::new(TierName::Far, Access::NonTemporalStore, STORE_THREADS);
    let alone = explain_beside(&machine, &[copy, dma], SPAN)?;
    let beside = explain_beside(&machine, &[copy, dma, stores], SPAN)?;
    let group = |name, place: usize, group: Group| CauseGroup {
        name,
        threads: group.threads,
        alone: alone.get(place).copied(),
        beside: beside[place],
    };
    let groups = vec![
        group("SSD write: copy", 0, copy),
        group("SSD write: DMA", 1, dma),
        group("CXL ntst", 2, stores),
    ];
    Ok(Causes {
        system,
        ratios: ratios(&groups),
        groups,
    })
}

fn ratios(groups: &[CauseGroup]) -> Vec<CauseRatio> {
    let copy = groups[0];
    let of_copy = |of: fn(&Explained) -> f64| copy.alone.map(|alone| of(&copy.beside) / of(&alone));
    // What cores ask for: DMA enters the table as a request of the PCIe interface.
    let of_cores = |of: fn(&Explained) -> f64| {
        let cores = [groups[0], groups[2]];
        let beside: f64 = cores.iter().map(|group| of(&group.beside)).sum();
        copy.alone.map(|alone| beside / of(&alone))
    };
    let occupancy = of_cores(|group| group.entries);
    let inserts = of_cores(|group| group.requests_per_us);
    let ratio = |event, meaning, published, modelled: Option<f64>| CauseRatio {
        event,
        meaning,
        published,
        modelled: modelled.map_or_else(|| Known::unavailable(NO_FUNCTIONS), Known::Value),
    };
    vec![
        ratio(
            "Load_L2_Miss_Latency",
            "from a request that leaves the L2 queue to its answer",
            15.2,
            of_copy(|group| group.answered_ns),
        ),
        ratio(
            "L3_Cache_Access_BW",
            "requests per time",
            0.14,
            of_copy(|group| group.requests_per_us),
        ),
        ratio(
            "Load_L3_Miss_Latency",
            "from its entry of the table on",
            1.01,
            of_copy(|group| group.answered_ns - group.table_ns),
        ),
        ratio(
            "unc_cha_tor_occupancy.ia_miss",
            "entries of all cores",
            4090.0,
            occupancy,
        ),
        ratio(
            "unc_cha_tor_inserts.ia_miss",
            "requests of all cores per time",
            155.0,
            inserts,
        ),
        ratio("memmove_sse2_unaligned_erms", "", 1.96, None),
        ratio("copyout", "", 1.29, None),
        ratio(
            "occupancy / inserts",
            "time in the table, by Little's law",
            4090.0 / 155.0,
            occupancy
                .zip(inserts)
                .map(|(occupancy, inserts)| occupancy / inserts),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_before_the_table_and_not_behind_it() {
        let causes = reproduce_causes().unwrap();
        let of = |event: &str| {
            let ratio = causes.ratios.iter().find(|ratio| ratio.event == event);
            ratio.unwrap().modelled.get().unwrap()
        };
        let behind_l2 = of("Load_L2_Miss_Latency");
        assert!(behind_l2 > 3.0, "{causes:?}");
        let behind_l3 = of("Load_L3_Miss_Latency");
        assert!((0.9..1.3).contains(&behind_l3), "{causes:#?}");
        assert!(of("L3_Cache_Access_BW") < 0.5, "{causes:?}");
        assert!(of("unc_cha_tor_occupancy.ia_miss") > of("unc_cha_tor_inserts.ia_miss"));
        let by_law = of("unc_cha_tor_occupancy.ia_miss") / of("unc_cha_tor_inserts.ia_miss");
        assert!((of("occupancy / inserts") / by_law - 1.0).abs() < 1e-9);
        let unavailable = causes
            .ratios
            .iter()
            .filter(|ratio| !ratio.modelled.is_known());
        assert_eq!(unavailable.count(), 2);
        let [copy, dma, stores] = causes.groups[..] else {
            panic!("three groups");
        };
        assert!(copy.beside.table_ns > 5.0 * copy.beside.link_ns, "{copy:?}");
        assert!(dma.beside.table_ns > dma.beside.link_ns, "{dma:?}");
        assert!(
            stores.alone.is_none()
                && stores.beside.entries > 100.0 * copy.beside.entries.max(1.0) / 10.0
        );
    }
}
