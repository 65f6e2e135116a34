//! `nearfar plan`: what to buy.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_plan::{Configuration, CostError, DeviceRange, PriceList};
use nearfar_topology::units::Bytes;
use serde_json::json;

use crate::args::{PlanAction, PlanArgs, PlanCostArgs};
use crate::exit::{Exit, Failed};
use crate::human::ByteSize;
use crate::output::figures;
use crate::output::grid::{Align, Grid};

/// Largest file of prices that is read, in bytes.
const PRICES_BYTES_MAX: u64 = 1 << 20;

/// Runs the command.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    match &args.action {
        PlanAction::Cost(args) => cost(args),
    }
}

/// One question, with its answer.
struct Planned {
    capacity_bytes: u64,
    devices: DeviceRange,
    cheapest: Result<Configuration, CostError>,
}

fn cost(args: &PlanCostArgs) -> anyhow::Result<()> {
    let prices = match &args.prices {
        Some(path) => PriceList::parse(&path.display().to_string(), &read(path)?)?,
        None => PriceList::published(),
    };
    let devices = match args.devices.as_slice() {
        [] => by_default(&prices),
        devices => devices.to_vec(),
    };
    let planned = args.capacity.iter().flat_map(|&ByteSize(capacity_bytes)| {
        let prices = &prices;
        devices.iter().map(move |&devices| Planned {
            capacity_bytes,
            devices,
            cheapest: prices.cheapest(capacity_bytes, devices),
        })
    });
    let planned: Vec<Planned> = planned.collect();
    let metrics: Vec<Metric> = planned.iter().map(|one| metric(one, &prices)).collect();
    let configuration = json!({ "prices": prices });
    figures::print_measured(args.figures.format, configuration, &metrics, |_, out| {
        write(&planned, &prices, out)
    })?;
    let is_found = planned.iter().any(|one| one.cheapest.is_ok());
    match planned.into_iter().find_map(|one| one.cheapest.err()) {
        Some(error) if !is_found => Err(error.into()),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let read = || {
        let mut text = String::new();
        let mut file = File::open(path)?.take(PRICES_BYTES_MAX + 1);
        match file.read_to_string(&mut text)? as u64 > PRICES_BYTES_MAX {
            true => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
            false => Ok(text),
        }
    };
    let told = |error| format!("cannot read prices {}: {error}", path.display());
    read().map_err(|error: io::Error| Failed::new(Exit::Input, told(error)).into())
}

/// No device, one, and one to as many as there can be: the three of weisgut-2025, figure 14.
fn by_default(prices: &PriceList) -> Vec<DeviceRange> {
    let max = prices.devices_max();
    let ranges = [(0, 0), (1, 1), (1, max)];
    let ranges = ranges.map(|(min, max)| DeviceRange { min, max });
    let distinct = 1 + max.min(2) as usize;
    ranges[..distinct].to_vec()
}

fn metric(planned: &Planned, prices: &PriceList) -> Metric {
    let Planned {
        capacity_bytes,
        devices,
        cheapest,
    } = planned;
    let unit = prices.currency.as_str();
    let metric = match cheapest {
        Ok(found) => {
            let metric = Metric::new("price", found.price, unit, Kind::Estimated)
                .with("cpus", found.cpus)
                .with("cpu_modules", found.near.modules)
                .with("cpu_module_gib", found.near.module_gib)
                .with("devices", found.devices)
                .with("capacity_bytes", found.capacity_bytes());
            found.far.map_or(metric.clone(), |far| {
                metric
                    .with("device_modules", far.modules)
                    .with("device_module_gib", far.module_gib)
            })
        }
        Err(error) => Metric::unavailable("price", &error.to_string(), unit, Kind::Estimated),
    };
    metric
        .with("demand_bytes", *capacity_bytes)
        .with("devices_allowed", devices.to_string())
        .with("prices", &*prices.name)
        .with("date", &*prices.date)
}

fn write(planned: &[Planned], prices: &PriceList, out: &mut dyn Write) -> io::Result<()> {
    let PriceList {
        name,
        date,
        currency,
        ..
    } = prices;
    writeln!(out, "prices {name}, {date}: {}", prices.cpu.name)?;
    let price = format!("price {currency}");
    let mut grid = Grid::new([
        ("demand", Align::Right),
        ("devices allowed", Align::Right),
        ("CPUs", Align::Left),
        ("devices", Align::Left),
        ("capacity", Align::Right),
        (price.as_str(), Align::Right),
        ("per GiB", Align::Right),
    ]);
    for one in planned {
        let asked = [
            Bytes(one.capacity_bytes).to_string(),
            one.devices.to_string(),
        ];
        let found = match &one.cheapest {
            Ok(found) => of_configuration(found),
            Err(_) => ["none is large enough", "", "", "", ""].map(str::to_owned),
        };
        grid.row(asked.into_iter().chain(found));
    }
    grid.write_page(out)
}

fn of_configuration(found: &Configuration) -> [String; 5] {
    let modules =
        |fitted: nearfar_plan::Fitted| format!("{} x {} GiB", fitted.modules, fitted.module_gib);
    let gib = found.capacity_bytes() as f64 / (1_u64 << 30) as f64;
    [
        format!("{}, {}", found.cpus, modules(found.near)),
        found.far.map_or_else(String::new, |far| {
            format!("{}, {}", found.devices, modules(far))
        }),
        Bytes(found.capacity_bytes()).to_string(),
        format!("{:.0}", found.price),
        format!("{:.2}", found.price / gib),
    ]
}
