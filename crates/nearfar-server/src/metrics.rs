//! What is counted, in the form that Prometheus reads.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use nearfar_memory::TierInfo;
use nearfar_sql::engine::Engine;
use nearfar_table::table::{AccessCounts, Table};
use nearfar_table::traffic::{Moved, Task};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::state::StateHandle;

type Labels<const COUNT: usize> = [(&'static str, String); COUNT];
type Label = Labels<1>;

/// What is counted.
pub struct Metrics {
    registry: Registry,
    engine: Arc<OnceLock<Arc<Engine>>>,
    pub statements: Counter,
    pub rows: Counter,
    errors: Family<Label, Counter>,
    pub sessions: Gauge,
    pub busy: Gauge,
    pub connections_accepted: Counter,
    pub logins_failed: Counter,
    takeovers: Counter,
    takeover_seconds: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(engine: &Arc<OnceLock<Arc<Engine>>>, state: &StateHandle) -> Self {
        let mut registry = Registry::with_prefix("nearfar");
        let metrics = Self {
            statements: Counter::default(),
            rows: Counter::default(),
            errors: Family::default(),
            sessions: Gauge::default(),
            busy: Gauge::default(),
            connections_accepted: Counter::default(),
            logins_failed: Counter::default(),
            takeovers: Counter::default(),
            takeover_seconds: Gauge::default(),
            registry: Registry::default(),
            engine: Arc::clone(engine),
        };
        let statements = metrics.statements.clone();
        registry.register("statements", "Statements that were begun", statements);
        registry.register("rows_sent", "Rows sent to clients", metrics.rows.clone());
        let errors = metrics.errors.clone();
        registry.register(
            "errors",
            "Errors told to clients, by class of SQLSTATE",
            errors,
        );
        registry.register(
            "sessions",
            "Clients that are connected",
            metrics.sessions.clone(),
        );
        let help = "Statements that threads read, plan or drive, given up ones too";
        registry.register("statements_busy", help, metrics.busy.clone());
        let accepted = metrics.connections_accepted.clone();
        registry.register(
            "connections_accepted",
            "Connections, refused ones too",
            accepted,
        );
        let failed = metrics.logins_failed.clone();
        registry.register("logins_failed", "Clients that were refused", failed);
        let takeovers = metrics.takeovers.clone();
        registry.register("takeovers", "Times that this server took over", takeovers);
        let seconds = metrics.takeover_seconds.clone();
        let help = "What the last one took, from the decision to the first client";
        registry.register("takeover_seconds", help, seconds);
        registry.register_collector(Box::new(EngineCollector {
            engine: Arc::clone(engine),
            state: state.clone(),
            started: Instant::now(),
            started_at: SystemTime::now(),
        }));
        Self {
            registry,
            ..metrics
        }
    }

    /// Counts an error by the class of its SQLSTATE.
    pub fn failed(&self, code: &str) {
        let class = code.get(..2).unwrap_or(code).to_owned();
        self.errors.get_or_create(&[("class", class)]).inc();
    }

    /// Counts a take-over.
    pub fn took_over(&self, time: Duration) {
        self.takeovers.inc();
        self.takeover_seconds.set(time.as_secs_f64());
    }

    /// Everything, as text.
    ///
    /// # Errors
    /// None that are known.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        let cluster = self
            .engine
            .get()
            .and_then(|engine| engine.cluster_metrics());
        if let Some(cluster) = cluster {
            // The end of the page is marked.
            const END: &str = "# EOF\n";
            let end = text.strip_suffix(END).map_or(text.len(), str::len);
            text.insert_str(end, &cluster);
        }
        Ok(text)
    }
}

/// What the engine counts itself, read when it is asked for.
struct EngineCollector {
    engine: Arc<OnceLock<Arc<Engine>>>,
    state: StateHandle,
    started: Instant,
    started_at: SystemTime,
}

impl fmt::Debug for EngineCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCollector").finish_non_exhaustive()
    }
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let ready = i64::from(self.state.get() == crate::ServerState::Ready);
        gauge(&mut encoder, "ready", "Whether statements are taken", ready)?;
        let uptime = self.started.elapsed().as_secs();
        let uptime = i64::try_from(uptime).unwrap_or(i64::MAX);
        gauge(
            &mut encoder,
            "uptime_seconds",
            "Time since the server was started",
            uptime,
        )?;
        let begun = self.started_at.duration_since(SystemTime::UNIX_EPOCH);
        let begun = begun.map_or(0, |begun| begun.as_secs() as i64);
        gauge(
            &mut encoder,
            "start_time_seconds",
            "When the server was started, since 1970",
            begun,
        )?;
        match self.engine.get() {
            Some(engine) => {
                encode_tiers(&mut encoder, engine)?;
                encode_tables(&mut encoder, engine)
            }
            None => Ok(()),
        }
    }
}

fn encode_tiers(encoder: &mut DescriptorEncoder, engine: &Engine) -> fmt::Result {
    let system = engine.system();
    let tiers: Vec<(_, &TierInfo)> = system.tiers().collect();
    let mut of_tiers = |name: &str, help: &str, value: &dyn Fn(usize) -> u64| {
        let values = tiers.iter().enumerate();
        let values = values.map(|(at, (_, info))| {
            (
                [("tier", info.name.clone())],
                ConstGauge::new(clamp(value(at))),
            )
        });
        family(encoder, name, help, values)
    };
    let usage = |at: usize| system.usage(tiers[at].0);
    of_tiers("tier_capacity_bytes", "Size of the tier", &|at| {
        tiers[at].1.capacity_bytes
    })?;
    of_tiers(
        "tier_budget_bytes",
        "The most that may be placed on it",
        &|at| usage(at).budget_bytes,
    )?;
    of_tiers("tier_region_bytes", "Bytes of tables on it", &|at| {
        usage(at).region_bytes
    })?;
    of_tiers(
        "tier_heap_bytes",
        "Bytes of operator memory on it, and near of all other allocations",
        &|at| usage(at).heap_bytes,
    )?;
    of_tiers(
        "tier_peak_bytes",
        "The most that was on it at any moment",
        &|at| usage(at).peak_bytes,
    )?;
    let read = tiers.iter().map(|(tier, info)| {
        let bytes = engine.costs().bytes_read(*tier);
        ([("tier", info.name.clone())], ConstCounter::new(bytes))
    });
    family(
        encoder,
        "tier_read_bytes",
        "Bytes that statements have read of tables on it",
        read,
    )?;
    encode_traffic(encoder, engine)?;
    let held = clamp(engine.query_memory().used_bytes());
    gauge(
        encoder,
        "query_memory_bytes",
        "What operators of queries hold",
        held,
    )
}

/// What is moved to and from the tiers for each task, and how it is limited.
fn encode_traffic(encoder: &mut DescriptorEncoder, engine: &Engine) -> fmt::Result {
    let traffic = engine.traffic();
    let all: Vec<(String, Task, Moved)> = engine
        .system()
        .tiers()
        .flat_map(|(tier, info)| Task::ALL.map(|task| (tier, info.name.clone(), task)))
        .map(|(tier, name, task)| (name, task, traffic.moved(tier, task)))
        .collect();
    let mut of_tasks = |name: &str, help: &str, value: fn(&Moved) -> f64| {
        let values = all.iter().map(|(tier, task, moved)| {
            let labels = [("tier", tier.clone()), ("task", task.name().to_owned())];
            (labels, ConstCounter::new(value(moved)))
        });
        family(encoder, name, help, values)
    };
    of_tasks("traffic_read_bytes", "Bytes read from it", |moved| {
        moved.read_bytes as f64
    })?;
    of_tasks("traffic_written_bytes", "Bytes written to it", |moved| {
        moved.written_bytes as f64
    })?;
    let help = "Bytes that scans did not read from it, as another had just brought them near";
    of_tasks("traffic_saved_bytes", help, |moved| {
        moved.saved_bytes as f64
    })?;
    let help = "How often a turn was waited for since traffic is limited";
    of_tasks("traffic_waits", help, |moved| moved.waits as f64)?;
    let help = "For how long, all waits together";
    of_tasks("traffic_wait_seconds", help, |moved| {
        moved.wait.as_secs_f64()
    })?;
    let waiting = clamp(traffic.waiting() as u64);
    gauge(
        encoder,
        "traffic_waiting",
        "Turns that are waited for",
        waiting,
    )?;
    match traffic.limit() {
        Some(limit) => {
            let help = "The limit of each tier that is not near, where there is one";
            gauge(
                encoder,
                "traffic_limit_bytes_per_second",
                help,
                clamp(limit),
            )
        }
        None => Ok(()),
    }
}

fn encode_tables(encoder: &mut DescriptorEncoder, engine: &Engine) -> fmt::Result {
    let tables = engine.tables();
    let merges: u64 = tables.iter().map(|(_, table)| table.merges()).sum();
    counter(encoder, "merges", "Merges of tables that there are", merges)?;
    let snapshots: Vec<_> = tables.iter().map(|(_, table)| table.snapshot()).collect();
    let delta: usize = snapshots.iter().map(|snapshot| snapshot.delta_rows()).sum();
    gauge(
        encoder,
        "tables",
        "Permanent tables",
        clamp(tables.len() as u64),
    )?;
    gauge(
        encoder,
        "delta_rows",
        "Rows written and not merged yet",
        clamp(delta as u64),
    )?;
    let open = engine.database().open_transactions() as u64;
    gauge(
        encoder,
        "transactions_open",
        "Transactions that have begun and not ended",
        clamp(open),
    )?;
    let counts = tables.iter().map(|(_, table)| accesses(table));
    let counts = counts.fold(AccessCounts::default(), |mut sum, counts| {
        sum += counts;
        sum
    });
    let patterns = [
        ("sequential", counts.sequential),
        ("monotonic", counts.monotonic),
        ("random", counts.random),
        ("point", counts.point),
    ];
    let patterns = patterns
        .map(|(pattern, values)| ([("pattern", pattern.to_owned())], ConstCounter::new(values)));
    let help = "Values read of columns of the tables that there are, by pattern of access";
    family(encoder, "accesses", help, patterns.into_iter())
}

fn accesses(table: &Table) -> AccessCounts {
    let columns = 0..table.schema().fields().len();
    columns.fold(AccessCounts::default(), |mut sum, column| {
        sum += table.access_counts(column);
        sum
    })
}

fn clamp(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: i64) -> fmt::Result {
    let value = ConstGauge::new(value);
    value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let value = ConstCounter::new(value);
    value.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn family<M: EncodeMetric, const LABELS: usize>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels<LABELS>, M)>,
) -> fmt::Result {
    let mut values = values.peekable();
    let Some((_, first)) = values.peek() else {
        return Ok(());
    };
    let kind = first.metric_type();
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    values.try_for_each(|(label, value)| value.encode(metric.encode_family(&label)?))
}
