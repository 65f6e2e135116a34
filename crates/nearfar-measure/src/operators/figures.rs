//! Figures 2 to 5 in the model.

use nearfar_topology::Profile;

use super::aggregate;
use super::grid::JoinConfiguration;
use super::joins::{Access, Placement};
use super::machine::{OperatorMachine, OperatorMachineError};
use super::shapes::Shape;

/// A figure of geyer-2023.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeyerFigure {
    /// Sums with further remote buffers.
    Fig2,
    /// Maps of sums over local and remote threads.
    Fig3,
    /// Slowdown by joins one after the other.
    Fig4,
    /// Throughput of grouped joins.
    Fig5,
}

impl GeyerFigure {
    /// All figures.
    pub const ALL: [Self; 4] = [Self::Fig2, Self::Fig3, Self::Fig4, Self::Fig5];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig2 => "geyer-fig2",
            Self::Fig3 => "geyer-fig3",
            Self::Fig4 => "geyer-fig4",
            Self::Fig5 => "geyer-fig5",
        }
    }

    /// What it shows.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Fig2 => "Sums with further remote buffers (geyer-2023, figure 2)",
            Self::Fig3 => "Sums over local and remote threads (geyer-2023, figure 3)",
            Self::Fig4 => "Joins one after the other (geyer-2023, figure 4)",
            Self::Fig5 => "Grouped joins (geyer-2023, figure 5)",
        }
    }
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The chart that it belongs to.
    pub chart: String,
    /// The interconnect, and how it is used.
    pub name: String,
    /// What the horizontal axis counts.
    pub axis: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A heat map of a figure: relative to its largest value.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The interconnect and the size of remote buffers.
    pub name: String,
    /// Local threads of the rows.
    pub local: Vec<usize>,
    /// Remote threads of the columns.
    pub remote: Vec<usize>,
    /// A row of values for each number of local threads.
    pub values: Vec<Vec<f64>>,
    /// Cores of the machine.
    pub cores: usize,
}

/// Figures in the model, and which of the published shapes they have.
#[derive(Debug, Clone, PartialEq)]
pub struct GeyerOutcome {
    /// The figures that were run.
    pub figures: Vec<GeyerFigure>,
    /// Lines by figure.
    pub curves: Vec<(GeyerFigure, Curve)>,
    /// Heat maps of figure 3.
    pub maps: Vec<Map>,
    /// Shapes, met or not.
    pub shapes: Vec<Shape>,
}

/// Interconnects of the paper and the profiles that stand for them.
const MACHINES: [(&str, &str); 4] = [
    ("UPI", "geyer-upi"),
    ("CXL", "cxl-fpga"),
    ("UPI2", "geyer-upi2"),
    ("RDMA", "geyer-rdma"),
];

/// Remote threads of figure 2, at most.
const REMOTE_MAX: usize = 8;

/// Runs the figures. All numbers are modelled.
///
/// # Errors
/// [`OperatorMachineError`] if a built-in profile says too little.
///
/// # Panics
/// Never: the profiles are part of the product.
pub fn reproduce_geyer(figures: &[GeyerFigure]) -> Result<GeyerOutcome, OperatorMachineError> {
    let machine = |(name, profile): (&'static str, &str)| {
        let profile = Profile::builtin(profile).expect("a profile of the product");
        Ok((name, OperatorMachine::new(&profile)?))
    };
    let machines = MACHINES
        .into_iter()
        .map(machine)
        .collect::<Result<Vec<_>, _>>()?;
    let mut outcome = GeyerOutcome {
        figures: figures.to_vec(),
        curves: Vec::new(),
        maps: Vec::new(),
        shapes: Vec::new(),
    };
    for figure in figures {
        let curves: Vec<Curve> = match figure {
            GeyerFigure::Fig2 => machines.iter().flat_map(figure_2).collect(),
            GeyerFigure::Fig3 => {
                outcome.maps = machines.iter().flat_map(figure_3).collect();
                Vec::new()
            }
            GeyerFigure::Fig4 => machines.iter().map(figure_4).collect(),
            GeyerFigure::Fig5 => machines.iter().flat_map(figure_5).collect(),
        };
        outcome
            .shapes
            .extend(Shape::of(*figure, &curves, &outcome.maps));
        outcome
            .curves
            .extend(curves.into_iter().map(|curve| (*figure, curve)));
    }
    Ok(outcome)
}

type Named = (&'static str, OperatorMachine);

fn figure_2((name, machine): &Named) -> Vec<Curve> {
    let curve = |percent: usize| {
        let local = machine.cores * percent / 100;
        let sums = |remote| aggregate::bytes_per_s(machine, local, remote, machine.far_share());
        let alone = sums(0);
        let points = (0..=REMOTE_MAX).map(|remote| (remote as f64, sums(remote) / alone * 100.0));
        Curve {
            chart: format!("local threads on {percent} % of the cores"),
            name: (*name).to_owned(),
            axis: "remote threads",
            unit: "% of no remote thread",
            points: points.collect(),
        }
    };
    [50, 100].map(curve).into()
}

fn figure_3((name, machine): &Named) -> Vec<Map> {
    let (rows, columns, shares): (usize, usize, _) = match *name {
        "CXL" => (4, 28, [0.10, 0.15]),
        "RDMA" => (1, 16, [0.05, 0.10]),
        _ => return Vec::new(),
    };
    let local: Vec<usize> = (1..=machine.cores)
        .filter(|row| *row == 1 || row % rows == 0)
        .collect();
    let remote: Vec<usize> = (0..=columns).step_by(rows.min(2)).collect();
    let map = |share: f64| {
        let row = |local: &usize| {
            let cell = |remote: &usize| aggregate::bytes_per_s(machine, *local, *remote, share);
            remote.iter().map(cell).collect::<Vec<f64>>()
        };
        let mut values: Vec<Vec<f64>> = local.iter().map(row).collect();
        let largest = values.iter().flatten().copied().fold(0.0, f64::max);
        for value in values.iter_mut().flatten() {
            *value *= 100.0 / largest;
        }
        Map {
            name: format!("{name}, remote buffers of {:.0} %", share * 100.0),
            local: local.clone(),
            remote: remote.clone(),
            values,
            cores: machine.cores,
        }
    };
    shares.map(map).into()
}

fn figure_4((name, machine): &Named) -> Curve {
    let seconds = |joins| {
        let size = (joins, machine.cores);
        let (placement, access) = (Placement::SmallFar, Access::Synchronous);
        JoinConfiguration::published(machine, size, placement, access).seconds(machine)
    };
    let one = seconds(1);
    Curve {
        chart: "slowdown, all cores busy".to_owned(),
        name: (*name).to_owned(),
        axis: "joins",
        unit: "times a single join",
        points: (1..=10)
            .map(|joins| (joins as f64, seconds(joins) / one))
            .collect(),
    }
}

fn figure_5((name, machine): &Named) -> Vec<Curve> {
    let mut curves = Vec::new();
    for percent in [50, 100] {
        for (placement, word) in [(Placement::SmallFar, "(i)"), (Placement::LargeFar, "(ii)")] {
            for (access, how) in [
                (Access::Grouped, "grouped"),
                (Access::Synchronous, "synchronous"),
            ] {
                let at = |joins| {
                    let size = (joins, machine.cores * percent / 100);
                    let joins = JoinConfiguration::published(machine, size, placement, access);
                    joins.bytes_per_s(machine) * 1e-9
                };
                let points = [1, 2, 5, 10, 15, 20].map(|joins| (joins as f64, at(joins)));
                curves.push(Curve {
                    chart: format!("{percent} % of the cores, {how}"),
                    name: format!("{name} {word}"),
                    axis: "joins",
                    unit: "GB/s",
                    points: points.into(),
                });
            }
        }
    }
    curves
}
