//! Prices of the cheapest machines (weisgut-2025, section 7).

use nearfar_plan::PriceList;

use super::error::ReproduceError;
use super::outcome::{Reproduction, add};
use super::points::{Experiment, Point};

/// Adds what the published prices give for every point.
pub(super) fn reproduce(
    reproduction: &mut Reproduction,
    points: &[&Point],
) -> Result<(), ReproduceError> {
    let prices = PriceList::published();
    reproduction.profile.clone_from(&prices.name);
    for point in points {
        let Experiment::Price {
            demand_gib,
            devices,
        } = point.experiment
        else {
            continue;
        };
        let cheapest = prices.cheapest(u64::from(demand_gib) << 30, devices);
        let cheapest = cheapest.map_err(|source| ReproduceError::Price {
            name: reproduction.name.clone(),
            line: point.line,
            source,
        })?;
        add(reproduction, point, cheapest.price);
    }
    Ok(())
}
