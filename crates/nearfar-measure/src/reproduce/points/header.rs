//! The columns of a file of points.

use csv::StringRecord;

use super::point::{Experiment, Point, Problem};
use super::row::{Row, one_line};

/// Columns that may occur, in no order.
const COLUMNS: [&str; 38] = [
    "op",
    "devices",
    "access_size",
    "threads",
    "pct_in_cxl",
    "tier",
    "percentile",
    "selectivity_pct",
    "placement",
    "pct_columns_in_cxl",
    "workload",
    "node_bytes",
    "system",
    "dut",
    "dut_op",
    "background",
    "bg_op",
    "bench",
    "group",
    "kind",
    "pct",
    "capacity_demand",
    "type",
    "price_factor",
    "cpu_id",
    "cpus",
    "cpu_dimms",
    "ddr",
    "cpu_dimm_size",
    "cpu_dimm_price",
    "devs",
    "dev_dimms",
    "dev_ddr",
    "dev_dimm_size",
    "dev_dimm_price",
    "cpu_capacity",
    "cxl_capacity",
    "capacity",
];

/// Columns of published values, named after their units but for `price`. `pct` is one of the columns above
/// too.
const VALUES: [&str; 5] = ["GBps", "ns", "Mops", "pct", "price"];

/// What the cheapest machine consists of: given with its price, and not asked for.
const CONFIGURATION: [&str; 15] = [
    "price_factor",
    "cpu_id",
    "cpus",
    "cpu_dimms",
    "ddr",
    "cpu_dimm_size",
    "cpu_dimm_price",
    "devs",
    "dev_dimms",
    "dev_ddr",
    "dev_dimm_size",
    "dev_dimm_price",
    "cpu_capacity",
    "cxl_capacity",
    "capacity",
];

/// The columns, and what kind of points they are of.
pub(super) struct Header<'a> {
    names: Vec<&'a str>,
    value: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Access,
    Latency,
    Scan,
    Tree,
    BoundShares,
    Interference,
    Price,
}

impl Kind {
    /// Needed columns, further columns, and the published value.
    const fn columns(
        self,
    ) -> (
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
    ) {
        match self {
            Self::Access => (
                &["op", "access_size", "threads"],
                &["devices", "pct_in_cxl"],
                "GBps",
            ),
            Self::Latency => (&["op", "tier", "percentile"], &[], "ns"),
            Self::Scan => (
                &["selectivity_pct", "threads"],
                &["placement", "devices", "pct_columns_in_cxl"],
                "GBps",
            ),
            Self::Tree => (
                &["workload", "node_bytes"],
                &["placement", "threads"],
                "Mops",
            ),
            Self::BoundShares => (
                &["bench", "group", "placement", "kind"],
                &["threads", "node_bytes"],
                "pct",
            ),
            Self::Interference => (
                &["system", "dut", "dut_op", "background", "bg_op"],
                &[],
                "pct",
            ),
            Self::Price => (&["capacity_demand", "type"], &CONFIGURATION, "price"),
        }
    }

    const ALL: [Self; 7] = [
        Self::Access,
        Self::Latency,
        Self::Scan,
        Self::Tree,
        Self::BoundShares,
        Self::Interference,
        Self::Price,
    ];
}

impl<'a> Header<'a> {
    pub(super) fn parse(record: &'a StringRecord) -> Result<Self, Problem> {
        let names: Vec<&str> = record.iter().collect();
        for (index, name) in names.iter().enumerate() {
            if !name.is_empty() && !COLUMNS.contains(name) && !VALUES.contains(name) {
                return Err(format!(
                    "unknown column {name:?}; there are {} and {}",
                    COLUMNS.join(", "),
                    VALUES.join(", ")
                ));
            }
            if names[..index].contains(name) {
                return Err(format!("column {name:?} occurs twice"));
            }
        }
        let has = |name: &&str| names.contains(name);
        let found = Kind::ALL.into_iter().find(|kind| {
            let (needed, _, value) = kind.columns();
            needed.iter().all(&has) && has(&value)
        });
        let kind = found.ok_or_else(|| {
            let kinds = Kind::ALL.map(|kind| {
                let (needed, _, value) = kind.columns();
                format!("{},{value}", needed.join(","))
            });
            format!(
                "no experiment has these columns; one needs {}",
                kinds.join(" or ")
            )
        })?;
        let (needed, further, value) = kind.columns();
        let extra = names.iter().find(|name| {
            let is_known = **name == value || needed.contains(name) || further.contains(name);
            !name.is_empty() && !is_known
        });
        match extra {
            Some(name) => Err(format!(
                "column {name:?} does not belong to this experiment"
            )),
            None => Ok(Self { names, value, kind }),
        }
    }

    pub(super) fn axis(&self) -> &'static str {
        let has = |name: &str| self.names.contains(&name);
        match self.kind {
            Kind::Access if has("pct_in_cxl") => "pct_in_cxl",
            Kind::Scan if has("pct_columns_in_cxl") => "pct_columns_in_cxl",
            Kind::Tree if has("threads") => "threads",
            Kind::Access | Kind::Scan => "threads",
            Kind::Latency => "percentile",
            Kind::Tree => "node_bytes",
            Kind::BoundShares => "kind",
            Kind::Interference => "bg_op",
            Kind::Price => "capacity_demand",
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Price => "USD",
            _ => self.value,
        }
    }

    /// Whether a column says what is asked: not the value, nor what an answer consists of beside it.
    fn asks(&self, name: &str) -> bool {
        !name.is_empty() && name != self.value && !CONFIGURATION.contains(&name)
    }

    pub(super) fn point(&self, line: usize, record: &StringRecord) -> Result<Point, Problem> {
        let values: Vec<&str> = record.iter().collect();
        if values.len() != self.names.len() {
            return Err(format!(
                "{} values for {} columns",
                values.len(),
                self.names.len()
            ));
        }
        let row = Row {
            names: &self.names,
            values: &values,
        };
        let least = match self.kind {
            Kind::Interference => -100.0,
            _ => 0.0,
        };
        let published = row.number(self.value, least, 1e9)?;
        // A share or a change can be zero; a rate or a latency of zero has no relative error.
        if published <= 0.0 && self.value != "pct" {
            return Err(format!("{}: {published} must be above 0", self.value));
        }
        let columns = self
            .names
            .iter()
            .zip(&values)
            .filter(|(name, _)| self.asks(name));
        Ok(Point {
            line,
            columns: columns
                .map(|(n, v)| ((*n).to_owned(), one_line(v)))
                .collect(),
            published,
            experiment: self.experiment(&row)?,
        })
    }

    fn experiment(&self, row: &Row<'_>) -> Result<Experiment, Problem> {
        Ok(match self.kind {
            Kind::Access => row.access()?,
            Kind::Latency => row.latency()?,
            Kind::Scan => row.scan()?,
            Kind::Tree => row.tree()?,
            Kind::BoundShares => row.bound_share()?,
            Kind::Interference => row.interference()?,
            Kind::Price => row.price()?,
        })
    }
}
