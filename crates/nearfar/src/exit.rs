//! Exit codes: documented, stable, and found from the typed errors of the libraries.

use std::error::Error;
use std::io;

use datafusion::common::DataFusionError;
use nearfar_bench::bench::BenchError;
use nearfar_bench::cooperative::CooperativeBenchError;
use nearfar_bench::heap::HeapBenchError;
use nearfar_bench::insert::InsertBenchError;
use nearfar_bench::merge::MergeBenchError;
use nearfar_bench::operators::OperatorsBenchError;
use nearfar_bench::restart::RestartBenchError;
use nearfar_bench::scan::ScanBenchError;
use nearfar_bench::tpcc::TpccError;
use nearfar_bench::tpch::TpchError;
use nearfar_durable::error::DurabilityError;
use nearfar_index_bench::bench::IndexBenchError;
use nearfar_index_bench::map::OpenError;
use nearfar_index_bench::native::NativeError;
use nearfar_index_bench::placed::PlacedError;
use nearfar_kernels::JoinError;
use nearfar_measure::access::resume::ResumeError;
use nearfar_measure::access::{ExecuteError, PlanError, SpecError};
use nearfar_measure::calibrate::CalibrateError;
use nearfar_measure::interference::{ApplicationError, InterferenceError, StorageError};
use nearfar_measure::operators::native::{ReadColumnError, TierRunError};
use nearfar_measure::probe::ProbeError;
use nearfar_measure::reproduce::{PointsError, ReproduceError};
use nearfar_measure::results::{ReadError, WriteError};
use nearfar_measure::scan::ModelledColumnsError;
use nearfar_memory::rdma::RdmaError;
use nearfar_memory::{HeapError, PlaceError, RegionError, SystemError};
use nearfar_model::ParameterError;
use nearfar_plan::{CostError, PricesError};
use nearfar_rdma::{RemoteError, SecretError, ServeError};
use nearfar_regulate::error::RegulateError;
use nearfar_server::{ServerError, UserError};
use nearfar_sql::error::{EngineError, is_disk_full};
use nearfar_sql::sql::SqlError;
use nearfar_table::placement::StrategyError;
use nearfar_topology::{DiscoverError, ProfileError, UnknownTier};

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    Failure,
    Usage,
    Name,
    Input,
    Statement,
    Memory,
    Output,
    WrongResult,
    Unavailable,
    TakenOver,
    Interrupted,
}

impl Exit {
    /// All codes but that of success, ascending.
    pub const FAILURES: [Self; 11] = [
        Self::Failure,
        Self::Usage,
        Self::Name,
        Self::Input,
        Self::Statement,
        Self::Memory,
        Self::Output,
        Self::WrongResult,
        Self::Unavailable,
        Self::TakenOver,
        Self::Interrupted,
    ];

    /// The number that the process ends with.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Name => 3,
            Self::Input => 4,
            Self::Statement => 5,
            Self::Memory => 6,
            Self::Output => 7,
            Self::WrongResult => 8,
            Self::Unavailable => 9,
            Self::TakenOver => 10,
            Self::Interrupted => 130,
        }
    }

    /// What the code means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success, also when the reader of the output went away early",
            Self::Failure => "any failure that has no code of its own",
            Self::Usage => "arguments that cannot be read",
            Self::Name => {
                "an unknown tier, profile, placement, column or tablespace; an impossible profile"
            }
            Self::Input => "an input file that is missing, truncated or of another format",
            Self::Statement => "an SQL statement that is wrong or failed",
            Self::Memory => {
                "memory: a budget or limit too small or too large, a node that gives no pages"
            }
            Self::Output => "a report, result or change that cannot be written, as on a full disk",
            Self::WrongResult => "a benchmark query whose answer differs from the reference",
            Self::Unavailable => "something that this machine has not: a far tier, a rival",
            Self::TakenOver => "a server whose tables another process has taken over",
            Self::Interrupted => "interrupted with Ctrl-C",
        }
    }

    /// Every code with its meaning, one per line.
    pub fn table() -> String {
        let mut text = String::new();
        for exit in std::iter::once(Self::Success).chain(Self::FAILURES) {
            text += &format!("  {:>3}  {}\n", exit.code(), exit.meaning());
        }
        text
    }

    /// The code for `error`, by the first error of its chain that has one.
    pub fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(classify).unwrap_or(Self::Failure)
    }
}

/// An error whose exit code is known where it is made.
#[derive(Debug)]
pub struct Failed {
    exit: Exit,
    message: String,
}

impl Failed {
    /// An error that says `message` and ends the process with `exit`.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { exit, message }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failed {}

/// Whether the error is that the reader of the output has gone, which is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn classify(error: &(dyn Error + 'static)) -> Option<Exit> {
    if is_disk_full(error) {
        return Some(Exit::Output);
    }
    if let Some(failed) = error.downcast_ref::<Failed>() {
        return Some(failed.exit);
    }
    let boxed = error.downcast_ref::<Box<EngineError>>().map(AsRef::as_ref);
    if let Some(error) = error.downcast_ref::<EngineError>().or(boxed) {
        return of_store(error);
    }
    if let Some(error) = error.downcast_ref::<TpchError>() {
        return of_tpch(error);
    }
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return Some(of_datafusion(error));
    }
    if let Some(error) = error.downcast_ref::<PlanError>() {
        return of_plan(error);
    }
    if let Some(error) = error.downcast_ref::<ExecuteError>() {
        return of_execute(error);
    }
    if let Some(error) = error.downcast_ref::<InterferenceError>() {
        return of_interference(error);
    }
    if let Some(error) = error.downcast_ref::<SqlError>() {
        return Some(of_sql(error));
    }
    let is = |found: bool, exit: Exit| found.then_some(exit);
    of_benchmark(error)
        .or_else(|| is(error.is::<ProfileError>(), Exit::Name))
        .or_else(|| is(error.is::<ParameterError>(), Exit::Name))
        .or_else(|| is(error.is::<StrategyError>(), Exit::Name))
        .or_else(|| is(error.is::<UnknownTier>(), Exit::Name))
        .or_else(|| error.downcast_ref::<SystemError>().map(of_system))
        .or_else(|| error.downcast_ref::<PlaceError>().map(of_place))
        .or_else(|| is(error.is::<RegionError>(), Exit::Memory))
        .or_else(|| is(error.is::<HeapError>(), Exit::Memory))
        .or_else(|| is(error.is::<ProbeError>(), Exit::Memory))
        .or_else(|| is(error.is::<PointsError>(), Exit::Input))
        .or_else(|| error.downcast_ref::<ReproduceError>().map(of_reproduction))
        .or_else(|| error.downcast_ref::<RegulateError>().map(of_regulation))
        .or_else(|| error.downcast_ref::<CalibrateError>().map(of_calibration))
        .or_else(|| error.downcast_ref::<ApplicationError>().map(of_application))
        .or_else(|| is(error.is::<PricesError>(), Exit::Input))
        .or_else(|| is(error.is::<CostError>(), Exit::Unavailable))
        .or_else(|| is(error.is::<DiscoverError>(), Exit::Input))
        .or_else(|| is(error.is::<WriteError>(), Exit::Output))
        .or_else(|| is(error.is::<SpecError>(), Exit::Usage))
        .or_else(|| is(error.is::<ResumeError>(), Exit::Input))
        .or_else(|| is(error.is::<ReadError>(), Exit::Input))
        .or_else(|| error.downcast_ref::<ServerError>().and_then(of_server))
        .or_else(|| error.downcast_ref::<UserError>().map(of_users))
        .or_else(|| of_remote_memory(error))
}

/// The codes of memory of other hosts.
fn of_remote_memory(error: &(dyn Error + 'static)) -> Option<Exit> {
    let of_rdma = |error: &RdmaError| match error {
        RdmaError::Budget(_) | RdmaError::Register { .. } => Exit::Memory,
        _ => Exit::Unavailable,
    };
    if error.is::<SecretError>() {
        return Some(Exit::Input);
    }
    if let Some(error) = error.downcast_ref::<RdmaError>() {
        return Some(of_rdma(error));
    }
    if let Some(error) = error.downcast_ref::<ServeError>() {
        return match error {
            ServeError::Bind { .. } => Some(Exit::Unavailable),
            ServeError::Lease { .. } => Some(Exit::Usage),
            ServeError::Rdma(error) => Some(of_rdma(error)),
            _ => None,
        };
    }
    match error.downcast_ref::<RemoteError>()? {
        RemoteError::Unreachable { .. } | RemoteError::Lost { .. } => Some(Exit::Unavailable),
        RemoteError::Refused { .. } | RemoteError::Region(_) => Some(Exit::Memory),
        RemoteError::WrongSecret { .. } | RemoteError::Impostor { .. } => Some(Exit::Input),
        RemoteError::Damaged { .. } => Some(Exit::WrongResult),
        RemoteError::Rdma { source, .. } => Some(of_rdma(source)),
        _ => None,
    }
}

/// The codes of benchmarks.
fn of_benchmark(error: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(error) = error.downcast_ref::<BenchError>() {
        return of_bench(error);
    }
    if let Some(error) = error.downcast_ref::<ScanBenchError>() {
        return of_scan_bench(error);
    }
    if let Some(error) = error.downcast_ref::<OperatorsBenchError>() {
        return of_operators_bench(error);
    }
    if let Some(error) = error.downcast_ref::<HeapBenchError>() {
        return of_heap_bench(error);
    }
    if let Some(error) = error.downcast_ref::<CooperativeBenchError>() {
        return of_cooperative_bench(error);
    }
    if let Some(error) = error.downcast_ref::<MergeBenchError>() {
        return of_merge_bench(error);
    }
    if let Some(error) = error.downcast_ref::<InsertBenchError>() {
        return of_insert_bench(error);
    }
    if let Some(TpccError::Options { .. }) = error.downcast_ref::<TpccError>() {
        return Some(Exit::Usage);
    }
    if let Some(error) = error.downcast_ref::<RestartBenchError>() {
        return of_restart_bench(error);
    }
    if let Some(error) = error.downcast_ref::<IndexBenchError>() {
        return of_index_bench(error);
    }
    None
}

fn of_scan_bench(error: &ScanBenchError) -> Option<Exit> {
    match error {
        ScanBenchError::Options { .. } => Some(Exit::Usage),
        ScanBenchError::Model(error) => of_modelled_columns(error),
        ScanBenchError::Region(_) => Some(Exit::Memory),
        ScanBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

fn of_modelled_columns(error: &ModelledColumnsError) -> Option<Exit> {
    match error {
        ModelledColumnsError::UnknownTier { .. } => Some(Exit::Name),
        ModelledColumnsError::Refused { .. } => Some(Exit::Usage),
        ModelledColumnsError::Machine(_) => Some(Exit::Unavailable),
        _ => None,
    }
}

fn of_operators_bench(error: &OperatorsBenchError) -> Option<Exit> {
    match error {
        OperatorsBenchError::Options { .. } | OperatorsBenchError::Grid(_) => Some(Exit::Usage),
        OperatorsBenchError::Column(ReadColumnError::Region(_))
        | OperatorsBenchError::Room { .. }
        | OperatorsBenchError::TierRun(TierRunError::Room { .. })
        | OperatorsBenchError::Join(JoinError::NoMemory { .. })
        | OperatorsBenchError::Groups(_) => Some(Exit::Memory),
        OperatorsBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        OperatorsBenchError::Machine(_) | OperatorsBenchError::OperatorMachine(_) => {
            Some(Exit::Unavailable)
        }
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_heap_bench(error: &HeapBenchError) -> Option<Exit> {
    match error {
        HeapBenchError::Options { .. } => Some(Exit::Usage),
        HeapBenchError::NoFarTier => Some(Exit::Unavailable),
        HeapBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_cooperative_bench(error: &CooperativeBenchError) -> Option<Exit> {
    match error {
        CooperativeBenchError::Options { .. } => Some(Exit::Usage),
        CooperativeBenchError::NoFarTier => Some(Exit::Unavailable),
        CooperativeBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_restart_bench(error: &RestartBenchError) -> Option<Exit> {
    match error {
        RestartBenchError::Tpch(error) => of_tpch(error),
        RestartBenchError::Files(error) => of_bench(error),
        RestartBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_merge_bench(error: &MergeBenchError) -> Option<Exit> {
    match error {
        MergeBenchError::Options { .. } => Some(Exit::Usage),
        MergeBenchError::Mismatch => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_insert_bench(error: &InsertBenchError) -> Option<Exit> {
    match error {
        InsertBenchError::Options { .. } => Some(Exit::Usage),
        InsertBenchError::Directory { .. } => Some(Exit::Output),
        InsertBenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_index_bench(error: &IndexBenchError) -> Option<Exit> {
    let of_open = |error: &OpenError| match error {
        OpenError::NotBuilt { .. }
        | OpenError::KeysNotTaken { .. }
        | OpenError::KeysTooLong { .. }
        | OpenError::ValuesNotTaken { .. }
        | OpenError::NotOurs { .. } => Exit::Usage,
        _ => Exit::Memory,
    };
    match error {
        IndexBenchError::Options(_) => Some(Exit::Usage),
        IndexBenchError::Trace(_) | IndexBenchError::Keys(_) => Some(Exit::Input),
        IndexBenchError::Machine(_)
        | IndexBenchError::Emulation(_)
        | IndexBenchError::NoFarMemory(_) => Some(Exit::Unavailable),
        IndexBenchError::Native(NativeError::Open(error))
        | IndexBenchError::Placed {
            source: PlacedError::Open(error),
            ..
        } => Some(of_open(error)),
        IndexBenchError::Native(_) => Some(Exit::Memory),
        IndexBenchError::Placed { source, .. } => match source {
            PlacedError::Options { .. } | PlacedError::Placement(_) => Some(Exit::Usage),
            PlacedError::Machine(_) | PlacedError::Emulation(_) => Some(Exit::Unavailable),
            PlacedError::KernelTiering(error) if !error.is_lack_of_memory() => {
                Some(Exit::Unavailable)
            }
            _ => Some(Exit::Memory),
        },
        _ => None,
    }
}

fn of_plan(error: &PlanError) -> Option<Exit> {
    match error {
        PlanError::Spec(_) if error.is_missing_tier() => Some(Exit::Name),
        PlanError::Spec(_) => Some(Exit::Usage),
        PlanError::System(error) => Some(of_system(error)),
        PlanError::Machine(_) | PlanError::Prefetchers(_) => Some(Exit::Unavailable),
        _ => None,
    }
}

fn of_execute(error: &ExecuteError) -> Option<Exit> {
    match error {
        ExecuteError::Prefetchers { .. } => Some(Exit::Unavailable),
        ExecuteError::Region { .. } => Some(Exit::Memory),
        ExecuteError::Stopped { .. } => Some(Exit::Interrupted),
        ExecuteError::Keep(_) => Some(Exit::Output),
        _ => None,
    }
}

/// Errors that only pass another on have its code.
fn of_interference(error: &InterferenceError) -> Option<Exit> {
    match error {
        InterferenceError::Selection { .. } | InterferenceError::Cpu { .. } => Some(Exit::Usage),
        InterferenceError::Processors { .. } | InterferenceError::Machine(_) => {
            Some(Exit::Unavailable)
        }
        InterferenceError::Tier(_) => Some(Exit::Name),
        InterferenceError::Stopped { .. } | InterferenceError::Storage(StorageError::Stopped) => {
            Some(Exit::Interrupted)
        }
        InterferenceError::Keep(_) => Some(Exit::Output),
        InterferenceError::Plan(error) => of_plan(error),
        InterferenceError::Execute(error) => of_execute(error),
        InterferenceError::Storage(error) => Some(match error {
            StorageError::NoFio => Exit::Unavailable,
            StorageError::Full { .. } | StorageError::Make { .. } => Exit::Output,
            StorageError::Path { .. } | StorageError::Room { .. } => Exit::Input,
            _ => Exit::Failure,
        }),
        InterferenceError::Application(error) => Some(of_application(error)),
        _ => None,
    }
}

fn of_application(error: &ApplicationError) -> Exit {
    match error {
        ApplicationError::Preset { .. } => Exit::Name,
        ApplicationError::Pattern { .. } | ApplicationError::NoStorage { .. } => Exit::Usage,
        ApplicationError::Missing { .. } | ApplicationError::NoNode { .. } => Exit::Unavailable,
        _ => Exit::Failure,
    }
}

fn of_bench(error: &BenchError) -> Option<Exit> {
    match error {
        BenchError::Tpch(error) => of_tpch(error),
        BenchError::File { .. } => Some(Exit::Output),
        BenchError::Absent { .. } => Some(Exit::Unavailable),
        BenchError::Mismatch { .. } => Some(Exit::WrongResult),
        _ => None,
    }
}

/// Errors that only pass another on leave the code to that.
fn of_tpch(error: &TpchError) -> Option<Exit> {
    match error {
        TpchError::UnknownQuery { .. }
        | TpchError::NoQueries { .. }
        | TpchError::NoRuns
        | TpchError::ScaleFactor { .. } => Some(Exit::Usage),
        TpchError::NoFarTier { .. } => Some(Exit::Unavailable),
        TpchError::NearBudgetTooLarge { .. } | TpchError::NearBudgetTooSmall { .. } => {
            Some(Exit::Memory)
        }
        TpchError::Strategy(_) => Some(Exit::Name),
        TpchError::Mismatch { .. } => Some(Exit::WrongResult),
        TpchError::Cancelled { .. } => Some(Exit::Interrupted),
        _ => None,
    }
}

fn of_reproduction(error: &ReproduceError) -> Exit {
    match error {
        ReproduceError::Point { .. } | ReproduceError::Specification { .. } => Exit::Input,
        _ => Exit::Unavailable,
    }
}

fn of_calibration(error: &CalibrateError) -> Exit {
    match error {
        CalibrateError::NoSimulation { .. } => Exit::Unavailable,
        CalibrateError::Parameters => Exit::Usage,
        CalibrateError::Model(error) => of_reproduction(error),
        _ => Exit::Input,
    }
}

fn of_server(error: &ServerError) -> Option<Exit> {
    match error {
        ServerError::Unprotected { .. } | ServerError::AdminUnprotected { .. } => Some(Exit::Usage),
        ServerError::Bind { .. } => Some(Exit::Unavailable),
        ServerError::Tls { .. } | ServerError::Token { .. } => Some(Exit::Input),
        ServerError::Users(error) => Some(of_users(error)),
        _ => None,
    }
}

fn of_users(error: &UserError) -> Exit {
    match error {
        UserError::Name { .. } | UserError::EmptyPassword => Exit::Usage,
        UserError::Write { .. } => Exit::Output,
        _ => Exit::Input,
    }
}

fn of_place(error: &PlaceError) -> Exit {
    match error {
        PlaceError::Unknown(_) => Exit::Name,
        PlaceError::Offline { .. } => Exit::Unavailable,
        PlaceError::Remote { .. } | PlaceError::TooManyParts { .. } => Exit::Usage,
    }
}

fn of_system(error: &SystemError) -> Exit {
    match error {
        SystemError::UnknownTier(_) => Exit::Name,
        SystemError::DuplicateTier { .. } => Exit::Usage,
        SystemError::PageSize { .. } => Exit::Unavailable,
        _ => Exit::Memory,
    }
}

fn of_store(error: &EngineError) -> Option<Exit> {
    match error {
        EngineError::Unreadable { .. }
        | EngineError::Damaged(_)
        | EngineError::UnknownFormat { .. } => Some(Exit::Input),
        EngineError::Region(_) | EngineError::OutOfMemory(_) => Some(Exit::Memory),
        EngineError::Remote(error) if error.is_out_of_memory() => Some(Exit::Memory),
        EngineError::Remote(_) => Some(Exit::Unavailable),
        EngineError::Sql(error) => Some(of_sql(error)),
        EngineError::Transaction(_) => Some(Exit::Statement),
        EngineError::Checkpoint(_) => Some(Exit::Input),
        EngineError::Durability(error) => Some(of_durability(error)),
        EngineError::System(error) => Some(of_system(error)),
        EngineError::Tier(_) | EngineError::Model(_) | EngineError::Strategy(_) => Some(Exit::Name),
        EngineError::UnknownBenchmarkTable { .. } => Some(Exit::Name),
        EngineError::Arrow(_) => Some(Exit::Input),
        EngineError::DataFusion(error) => Some(of_datafusion(error)),
        _ => None,
    }
}

fn of_durability(error: &DurabilityError) -> Exit {
    match error {
        DurabilityError::NotLogged { .. }
        | DurabilityError::NotSynced { .. }
        | DurabilityError::Stopped { .. }
        | DurabilityError::Checkpoint { .. } => Exit::Output,
        DurabilityError::Fenced { .. } | DurabilityError::InDoubt { .. } => Exit::TakenOver,
        DurabilityError::InMemory
        | DurabilityError::RowsTooLarge { .. }
        | DurabilityError::UnsupportedType { .. } => Exit::Statement,
        _ => Exit::Input,
    }
}

fn of_sql(error: &SqlError) -> Exit {
    match error {
        SqlError::UnknownTablespace { .. }
        | SqlError::UnusableTablespace { .. }
        | SqlError::UnknownPlacement { .. }
        | SqlError::UnknownColumn { .. } => Exit::Name,
        _ => Exit::Statement,
    }
}

/// Errors of statements keep the code of what caused them where a tier or its memory did.
fn of_datafusion(error: &DataFusionError) -> Exit {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => Exit::Memory,
        DataFusionError::External(inner) => {
            let mut cause: Option<&(dyn Error + 'static)> = Some(inner.as_ref());
            while let Some(error) = cause {
                if let Some(exit) = classify(error) {
                    return exit;
                }
                cause = error.source();
            }
            Exit::Statement
        }
        _ => Exit::Statement,
    }
}

fn of_regulation(error: &RegulateError) -> Exit {
    match error {
        RegulateError::Unavailable { .. } | RegulateError::Machine(_) => Exit::Unavailable,
        RegulateError::Vanished { .. } | RegulateError::Group { .. } => Exit::Name,
        RegulateError::Goal { .. }
        | RegulateError::Server { .. }
        | RegulateError::Absolute { .. }
        | RegulateError::Overlap { .. }
        | RegulateError::Record { .. } => Exit::Usage,
        RegulateError::Metric { .. }
        | RegulateError::Garbled { .. }
        | RegulateError::Trace { .. } => Exit::Input,
        RegulateError::Journal { .. } => Exit::Output,
        _ => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_ascending() {
        let codes: Vec<u8> = Exit::FAILURES.iter().map(|exit| exit.code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
    }

    #[test]
    fn causes_inside_of_datafusion_errors_are_found() {
        let refused = RegionError::NotAllocatable {
            tier: "dax0.0".into(),
        };
        let error = DataFusionError::from(EngineError::Region(refused)).context("while inserting");
        assert_eq!(Exit::of(&error.into()), Exit::Memory);
        let plan = DataFusionError::Plan("table 'x' not found".into());
        assert_eq!(Exit::of(&plan.into()), Exit::Statement);
        assert_eq!(Exit::of(&anyhow::anyhow!("odd")), Exit::Failure);
    }
}
