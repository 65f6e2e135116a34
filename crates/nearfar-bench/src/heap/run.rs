//! Queries with everything near, and with one thing far.

use arrow::util::pretty::pretty_format_batches;
use nearfar_measure::Summary;
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_sql::load::{Load, Progress, tpch};
use nearfar_table::placement::ColumnPlacements;
use nearfar_topology::{Known, Profile, Topology};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::error::HeapBenchError;
use super::queries::{QUERIES, Query, TABLES, Workload};

/// What is run.
#[derive(Debug, Clone)]
pub struct HeapBenchOptions {
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// Threads that run queries.
    pub threads: usize,
    /// Times that each query runs with each configuration.
    pub runs: u32,
    /// The machine whose far tier is modelled; none for this machine's own far tier.
    pub profile: Option<Profile>,
    /// How many times the profile's bandwidth the far tier has, one after the other; a machine's own has what it has.
    pub devices: Vec<u32>,
}

/// What is far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Configuration {
    /// Nothing.
    Near,
    /// The tables.
    MainFar,
    /// Hash tables, aggregation state and sort runs.
    HeapFar,
    /// Temporary tables.
    TemporaryFar,
}

impl Configuration {
    /// All of them, the one that the others are compared with first.
    pub const ALL: [Self; 4] = [Self::Near, Self::MainFar, Self::HeapFar, Self::TemporaryFar];

    /// What brings it about.
    fn sql(self) -> String {
        let far = |is_far: bool| if is_far { "far" } else { "near" };
        let tables = TABLES.map(|table| {
            let main = far(self == Self::MainFar);
            format!("ALTER TABLE {table} SET TABLESPACE {main}; ")
        });
        format!(
            "{}SET heap_tablespace = {}; SET temp_tablespaces = {}",
            tables.concat(),
            far(self == Self::HeapFar),
            far(self == Self::TemporaryFar)
        )
    }

    /// Whether it says something of `query`: temporary tables matter to the procedure alone.
    fn concerns(self, query: &Query) -> bool {
        self != Self::TemporaryFar || query.workload == Workload::Temporary
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Near => "near",
            Self::MainFar => "main-far",
            Self::HeapFar => "heap-far",
            Self::TemporaryFar => "temporary-far",
        })
    }
}

/// One query with one configuration.
#[derive(Debug, Clone)]
pub struct Timed {
    /// The query.
    pub query: &'static str,
    /// What kind it is of.
    pub workload: Workload,
    /// What was far.
    pub configuration: Configuration,
    /// Devices whose bandwidth the far tier has, in those of the profile.
    pub devices: u32,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
}

/// All times of a run.
#[derive(Debug, Clone)]
pub struct HeapBenchOutcome {
    /// What was run.
    pub options: HeapBenchOptions,
    /// Query by query, configuration by configuration.
    pub timed: Vec<Timed>,
}

/// Runs all queries. `progress` is told what happens. To be called on a runtime with as many worker
/// threads as the options say.
///
/// # Errors
/// See [`HeapBenchError`]. A wrong answer ends the run.
pub async fn compare_heaps(
    options: &HeapBenchOptions,
    mut engine: impl FnMut(EngineOptions) -> Result<Arc<Engine>, EngineError>,
    mut progress: impl FnMut(String),
) -> Result<HeapBenchOutcome, HeapBenchError> {
    check(options)?;
    let topology = Topology::this_machine()?;
    // What a machine has cannot be doubled.
    let all_devices: &[u32] = match &options.profile {
        Some(_) => &options.devices,
        None if topology.tier("far").is_ok() => &[1],
        None => return Err(HeapBenchError::NoFarTier),
    };
    let mut timed = Vec::new();
    for devices in all_devices.iter().copied() {
        let profile = options.profile.as_ref();
        let engine = engine(EngineOptions {
            threads: options.threads,
            profile: profile.map(|profile| with_devices(profile, devices)),
            ..EngineOptions::new(topology.clone())
        });
        let engine = engine.map_err(|source| HeapBenchError::Engine {
            what: "no engine".to_owned(),
            source: Box::new(source),
        })?;
        let bench = Bench::load(&engine, options.scale_factor, &mut progress).await?;
        timed.extend(bench.run(options.runs, devices, &mut progress).await?);
    }
    let options = options.clone();
    Ok(HeapBenchOutcome { options, timed })
}

impl HeapBenchOptions {
    /// The bandwidths of [`published`](super::published): a profile's, and twice as much.
    pub fn published_devices() -> Vec<u32> {
        vec![1, 2]
    }
}

fn check(options: &HeapBenchOptions) -> Result<(), HeapBenchError> {
    if options.scale_factor > 0.0 && options.scale_factor.is_finite() {
        return Ok(());
    }
    Err(HeapBenchError::Options {
        field: "sf",
        reason: format!("{}: give a number above 0", options.scale_factor),
    })
}

/// `profile` with the bandwidth of as many far tiers.
fn with_devices(profile: &Profile, devices: u32) -> Profile {
    let mut profile = profile.clone();
    let far = &mut profile.far;
    far.devices *= devices;
    for bandwidth in [
        &mut far.read_bandwidth_bytes_per_s,
        &mut far.write_bandwidth_bytes_per_s,
    ] {
        if let Known::Value(bytes_per_s) = bandwidth {
            *bytes_per_s *= f64::from(devices);
        }
    }
    profile
}

struct Bench {
    session: Session,
}

impl Bench {
    async fn load(
        engine: &Arc<Engine>,
        scale_factor: f64,
        progress: &mut impl FnMut(String),
    ) -> Result<Self, HeapBenchError> {
        for name in TABLES {
            progress(format!("loading {name}"));
            let failed = |source| HeapBenchError::Engine {
                what: format!("table {name} could not be loaded"),
                source: Box::new(source),
            };
            let rows = tpch::rows(name, scale_factor, engine.threads()).map_err(failed)?;
            let load = Load {
                storage: engine.storage().clone(),
                name: name.to_owned(),
                placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
                progress: Arc::new(Progress::default()),
            };
            let table = tokio::task::block_in_place(|| load.batches(&rows.schema, rows.parts));
            engine.register(table.map_err(failed)?).map_err(failed)?;
        }
        Ok(Self {
            session: engine.session(),
        })
    }

    /// Every query once untimed with everything near, for its answer, and then `runs` times with
    /// each configuration, which take turns.
    async fn run(
        &self,
        runs: u32,
        devices: u32,
        progress: &mut impl FnMut(String),
    ) -> Result<Vec<Timed>, HeapBenchError> {
        self.configure(Configuration::Near).await?;
        let mut answers = Vec::new();
        for query in &QUERIES {
            progress(format!("checking {}", query.name));
            let near = Configuration::Near;
            answers.push(self.answer(query, near).await?);
            self.sql(query.name, near, query.after).await?;
        }
        let mut timed = Vec::new();
        for configuration in Configuration::ALL {
            let concerned = QUERIES.iter().filter(|query| configuration.concerns(query));
            timed.extend(concerned.map(|query| Timed {
                query: query.name,
                workload: query.workload,
                configuration,
                devices,
                seconds: Vec::new(),
            }));
        }
        for run in 1..=runs {
            for configuration in Configuration::ALL {
                progress(format!("{configuration}, run {run} of {runs}"));
                self.configure(configuration).await?;
                for (query, expected) in QUERIES.iter().zip(&answers) {
                    let mut places = timed.iter_mut();
                    let place = places.find(|timed| {
                        timed.configuration == configuration && timed.query == query.name
                    });
                    let Some(place) = place else { continue };
                    let began = Instant::now();
                    let answer = self.answer(query, configuration).await?;
                    place.seconds.push(began.elapsed().as_secs_f64());
                    if answer != *expected {
                        return Err(HeapBenchError::Mismatch {
                            query: query.name,
                            configuration: configuration.to_string(),
                        });
                    }
                    self.sql(query.name, configuration, query.after).await?;
                }
            }
        }
        Ok(timed)
    }

    async fn configure(&self, configuration: Configuration) -> Result<(), HeapBenchError> {
        self.sql("placing", configuration, &configuration.sql())
            .await?;
        Ok(())
    }

    async fn answer(
        &self,
        query: &Query,
        configuration: Configuration,
    ) -> Result<String, HeapBenchError> {
        self.sql(query.name, configuration, query.sql).await
    }

    /// The rows that the last statement gives, as text.
    async fn sql(
        &self,
        query: &'static str,
        configuration: Configuration,
        sql: &str,
    ) -> Result<String, HeapBenchError> {
        let failed = |source: EngineError| HeapBenchError::Query {
            query,
            configuration: configuration.to_string(),
            source: Box::new(source),
        };
        match self.session.execute(sql).await.map_err(failed)?.pop() {
            Some(StatementResult::Rows(rows)) => {
                let batches = rows.collect().await.map_err(failed)?;
                let text = pretty_format_batches(&batches);
                Ok(text.map_err(|error| failed(error.into()))?.to_string())
            }
            _ => Ok(String::new()),
        }
    }
}

impl HeapBenchOutcome {
    /// Throughput with `configuration` relative to everything near, over all queries of `workloads`
    /// that were run with both, run by run. `None` where nothing was.
    pub fn relative_throughput(
        &self,
        configuration: Configuration,
        devices: u32,
        workloads: &[Workload],
    ) -> Option<Summary> {
        let of = |wanted: Configuration| {
            self.timed.iter().filter(move |timed| {
                timed.configuration == wanted
                    && timed.devices == devices
                    && workloads.contains(&timed.workload)
            })
        };
        let far: Vec<&Timed> = of(configuration).collect();
        let near = |query: &str| of(Configuration::Near).find(|timed| timed.query == query);
        let ratio = |run: usize| {
            let pairs = far.iter().filter_map(|far| {
                let near = near(far.query)?;
                Some((*near.seconds.get(run)?, *far.seconds.get(run)?))
            });
            let sums = pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            sums.0 / sums.1
        };
        let runs = far.first()?.seconds.len();
        Summary::of((0..runs).map(ratio))
    }
}
