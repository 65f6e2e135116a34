//! What the connections of a server share, those of its clients and those of who watches and runs it.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use nearfar_regulate::observe::NearProbe;
use nearfar_sql::engine::{Engine, Lanes};
use parking_lot::Mutex;
use pgwire::tokio::TlsAcceptor;
use tokio::sync::Notify;

use crate::admission::{Sessions, Strangers};
use crate::attention::Watch;
use crate::auth::Throttle;
use crate::cancel::CancelKeys;
use crate::halt::Halt;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::state::StateHandle;
use crate::threads::{ClientThreads, StatementThreads};

/// What all connections share.
pub struct Shared {
    /// None for as long as the server is a standby.
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    /// Where the tasks of statements run.
    pub lanes: Lanes,
    /// The one connection that waits awake.
    pub watch: Watch,
    /// Where clients are served.
    pub clients: ClientThreads,
    /// Where statements are read and planned.
    pub threads: StatementThreads,
    pub options: ServerOptions,
    pub tls: Option<TlsAcceptor>,
    pub state: StateHandle,
    pub halt: Halt,
    /// Told when somebody asks the standby to take over.
    pub promote: Notify,
    pub cancel_keys: Arc<CancelKeys>,
    pub metrics: Arc<Metrics>,
    pub throttle: Throttle,
    /// Connections that have not said who they are.
    pub strangers: Arc<Strangers>,
    pub sessions: Arc<Sessions>,
    /// What has seen near memory undisturbed, until the engine is there that it is watched for.
    pub near_probe: Mutex<Option<NearProbe>>,
    /// Where commands are taken, if they are.
    pub admin: Option<SocketAddr>,
}
