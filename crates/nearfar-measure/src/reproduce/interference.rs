//! Points of mao-2025, table III, which stand for cells of that table.

use super::error::ReproduceError;
use super::interplay::{InterplayCell, InterplayTable, System, published_cells, run_cells};
use super::outcome::{Reproduction, add};
use super::points::{Experiment, InterferenceRun, Point};

/// Why a point that names no cell of the table has no value.
const NO_CELL: &str = "interference: table III of mao-2025 has no such cell";

/// Adds every point with the change of its cell. The cells that points name run, each once; `progress` is told of
/// every one done, and of how many there are.
///
/// # Errors
/// None for the built-in profiles.
pub(super) fn reproduce(
    reproduction: &mut Reproduction,
    points: &[&Point],
    progress: impl FnMut(usize, usize),
) -> Result<(), ReproduceError> {
    let mut cells = published_cells();
    cells.retain(|cell| points.iter().any(|point| is_asked(cell, point)));
    let has_cells = |system: &System| cells.iter().any(|cell| cell.system == *system);
    let systems = System::ALL.into_iter().filter(has_cells);
    let profiles: Vec<&str> = systems.map(System::profile).collect();
    reproduction.profile = profiles.join(" and ");
    add_cells(reproduction, points, &run_cells(cells, progress)?);
    Ok(())
}

fn add_cells(reproduction: &mut Reproduction, points: &[&Point], table: &InterplayTable) {
    for point in points {
        match table.cells.iter().find(|cell| is_asked(cell, point)) {
            Some(cell) => add(reproduction, point, cell.modelled_percent),
            None => *reproduction.unavailable.entry(NO_CELL).or_default() += 1,
        }
    }
}

fn is_asked(cell: &InterplayCell, point: &Point) -> bool {
    matches!(point.experiment, Experiment::Interference(run) if is_of(cell, run))
}

fn is_of(cell: &InterplayCell, run: InterferenceRun) -> bool {
    cell.system == run.system
        && cell.device == run.device
        && cell.operation == run.operation
        && cell.background == run.background
        && cell.background_operation == run.background_operation
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::points::Points;
    use super::*;

    fn cell(system: System, operation: &str, modelled_percent: f64) -> InterplayCell {
        InterplayCell {
            system,
            device: "MMEM".to_owned(),
            operation: operation.to_owned(),
            background: "CXL".to_owned(),
            background_operation: "ntst".to_owned(),
            published_percent: 0.0,
            modelled_percent,
            threads: 8,
            background_threads: 8,
            alone_gb_per_s: 1.0,
            curve: Vec::new(),
        }
    }

    #[test]
    fn only_cells_that_points_name_run_and_each_once() {
        let text = "system,dut,dut_op,background,bg_op,pct\nB,MMEM,st,CXL,ntst,-85\n\
                    B,MMEM,st,CXL,ntst,-80\nB,MMEM,ld,MMEM,ld,-50\n";
        let points = Points::parse("points.csv", text).unwrap();
        let machine = nearfar_topology::Profile::builtin("cxl-blades-4").unwrap();
        let mut told = Vec::new();
        let found = super::super::reproduce("points.csv", &points, &machine, |done, of| {
            told.push((done, of));
        });
        let found = found.unwrap();
        assert_eq!(told, [(1, 1)]);
        assert_eq!(found.profile, "cxl-agilex");
        let modelled: Vec<f64> = found.points().map(|point| point.modelled).collect();
        assert!(
            modelled.len() == 2 && modelled[0] == modelled[1],
            "{modelled:?}"
        );
        assert_eq!(found.unavailable[NO_CELL], 1);
    }

    #[test]
    fn points_are_cells_of_the_table() {
        let text = "system,dut,dut_op,background,bg_op,pct\nB,MMEM,st,CXL,ntst,-85\n\
                    A,MMEM,ld,CXL,ntst,-93\nA,MMEM,ld,MMEM,ld,-50\n";
        let points = Points::parse("points.csv", text).unwrap();
        let table = InterplayTable {
            cells: vec![
                cell(System::A, "ld", -80.0),
                cell(System::A, "st", -70.0),
                cell(System::B, "st", -60.0),
            ],
        };
        let mut reproduction = Reproduction {
            name: "points.csv".to_owned(),
            title: "points.csv".to_owned(),
            profile: String::new(),
            unit: points.unit.clone(),
            axis: points.axis.clone(),
            series: Vec::new(),
            unavailable: BTreeMap::new(),
        };
        let all: Vec<&Point> = points.points.iter().collect();
        add_cells(&mut reproduction, &all, &table);
        let errors: Vec<f64> = reproduction
            .points()
            .map(super::super::ReproducedPoint::error_percent)
            .collect();
        assert_eq!(errors, [25.0, 13.0], "differences in points");
        assert_eq!(reproduction.error_unit(), "points");
        assert_eq!(reproduction.unavailable[NO_CELL], 1);
    }
}
