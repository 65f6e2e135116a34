//! The server: addresses, connections, and its end.

use std::sync::Arc;
use std::time::Duration;

use nearfar_regulate::observe::NearProbe;
use nearfar_sql::engine::{Engine, Lanes};
use parking_lot::Mutex;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::admission::{Origin, Sessions, Strangers};
use crate::attention::Watch;
use crate::auth::Throttle;
use crate::client;
use crate::error::ServerError;
use crate::halt::Halt;
use crate::http;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::regulation;
use crate::shared::Shared;
use crate::state::{ServerState, StateHandle};
use crate::threads::{ClientThreads, StatementThreads};
use crate::tls;

/// After which a connection is accepted again when there was none left of what connections need.
const PAUSE: Duration = Duration::from_millis(50);
/// What connections get, after statements were given up, to tell their clients.
const GOODBYE: Duration = Duration::from_secs(5);

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    listener: TcpListener,
    http: Option<TcpListener>,
    admin: Option<TcpListener>,
}

/// How a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections whose statements or transactions were given up.
    pub interrupted: usize,
}

impl Server {
    /// Listens for clients of `engine`. The tasks of their statements run on `lanes`, whose threads should
    /// have stacks of [`crate::WORKER_STACK_BYTES`]. The state is [`ServerState::Starting`] until
    /// [`Self::state`] is told otherwise.
    ///
    /// # Errors
    /// An address that can't be listened on, or that others reach where there are no users; a
    /// certificate or key that can't be used.
    pub async fn bind(
        engine: Arc<Engine>,
        lanes: impl Into<Lanes>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let server = Self::bind_standby(lanes, options).await?;
        server.handle().set_engine(engine);
        Ok(server)
    }

    /// The same without an engine, which [`ServerHandle::set_engine`] gives it when this server
    /// takes over. Until then clients are refused.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn bind_standby(
        lanes: impl Into<Lanes>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let lanes = lanes.into();
        if options.users.is_none() && !options.listen.ip().is_loopback() {
            return Err(ServerError::Unprotected {
                address: options.listen,
            });
        }
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = listen(options.listen, "clients").await?;
        let http = match options.http {
            Some(address) => Some(listen(address, "health and metrics").await?),
            None => None,
        };
        let admin = match &options.admin {
            Some(admin) if !admin.listen.ip().is_loopback() => {
                return Err(ServerError::AdminUnprotected {
                    address: admin.listen,
                });
            }
            Some(admin) => Some(listen(admin.listen, "commands of administrators").await?),
            None => None,
        };
        let state = StateHandle::new(ServerState::Starting);
        let engine = Arc::default();
        let metrics = Arc::new(Metrics::new(&engine, &state));
        // A connection runs one statement at a time.
        let threads_max = options.max_connections;
        let threads = StatementThreads::new(threads_max, lanes.clone(), metrics.busy.clone());
        let clients = ClientThreads::new(options.client_threads);
        let failed = |source| ServerError::Threads { source };
        let shared = Shared {
            metrics,
            clients: clients.map_err(failed)?,
            threads: threads.map_err(failed)?,
            engine,
            lanes,
            watch: Watch::new(options.busy_poll),
            near_probe: Mutex::new(options.near_latency_max.map(|_| NearProbe::new())),
            throttle: Throttle::default(),
            strangers: Strangers::new(options.max_unauthenticated),
            sessions: Sessions::new(options.max_connections),
            admin: admin.as_ref().and_then(|admin| admin.local_addr().ok()),
            options,
            tls,
            state,
            halt: Halt::default(),
            promote: Notify::new(),
            cancel_keys: Arc::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            listener,
            http,
            admin,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Where it tells health and metrics, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.local_addr().ok()
    }

    /// Where it takes commands, if it does.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.shared.admin
    }

    /// Its state, which is to be set to [`ServerState::Ready`] when the tables are there.
    pub fn state(&self) -> StateHandle {
        self.shared.state.clone()
    }

    /// What can be told to it from elsewhere.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(Arc::clone(&self.shared))
    }

    /// Serves until `shutdown` ends: then no new connections are taken, running statements get
    /// [`ServerOptions::grace`] to end by themselves, and what is left is given up.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Stopped {
        let Self {
            shared,
            listener,
            http,
            admin,
        } = self;
        // Health is told until the end.
        let mut health = JoinSet::new();
        if let Some(http) = http {
            health.spawn(http::serve(
                http,
                Arc::clone(&shared),
                http::Service::Health,
            ));
        }
        if let Some(admin) = admin {
            health.spawn(http::serve(
                admin,
                Arc::clone(&shared),
                http::Service::Admin,
            ));
        }
        let mut connections = JoinSet::new();
        tokio::select! {
            () = shutdown => {}
            () = accept(&shared, &listener, &mut connections) => {}
            () = shared.halt.wait() => {}
        }
        drop(listener);
        shared.state.set(ServerState::Stopping);
        let grace = Instant::now() + shared.options.grace;
        let drain = async |connections: &mut JoinSet<()>| {
            while connections.join_next().await.is_some() {}
        };
        if timeout_at(grace, drain(&mut connections)).await.is_ok() {
            return Stopped { interrupted: 0 };
        }
        let interrupted = connections.len();
        shared.halt.now();
        let goodbye = Instant::now() + GOODBYE;
        if timeout_at(goodbye, drain(&mut connections)).await.is_err() {
            connections.shutdown().await;
        }
        Stopped { interrupted }
    }
}

/// A server, for who has to tell it something while it serves. Clones are the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

impl ServerHandle {
    /// Gives the server what it serves. Once.
    pub fn set_engine(&self, engine: Arc<Engine>) {
        engine.set_lanes(self.0.lanes.clone());
        let engine = self.0.engine.get_or_init(|| engine);
        let probe = self.0.near_probe.lock().take();
        if let Some((probe, latency_max)) = probe.zip(self.0.options.near_latency_max)
            && let Err(error) = regulation::start(&self.0, engine.traffic(), probe, latency_max)
        {
            tracing::warn!(%error, "no thread to regulate traffic with far tiers");
        }
    }

    /// Waits until somebody asks the standby to take over.
    pub async fn promoted(&self) {
        self.0.promote.notified().await;
    }

    /// Tells metrics how long a take-over took, from the decision to the first client.
    pub fn took_over(&self, time: Duration) {
        self.0.metrics.took_over(time);
    }

    /// Ends the server immediately, with `reason` as what its clients are told.
    pub fn end_now(&self, reason: String) {
        self.0.halt.explain(reason);
        self.0.state.set(ServerState::Stopping);
        self.0.halt.now();
    }
}

async fn listen(address: SocketAddr, purpose: &'static str) -> Result<TcpListener, ServerError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| ServerError::Bind {
        address,
        purpose,
        source,
    })
}

/// Takes connections, for ever.
async fn accept(shared: &Arc<Shared>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    shared.metrics.connections_accepted.inc();
                    let from = Origin::of(peer.ip());
                    // Here, so that they are as old as they came.
                    let stranger = shared.strangers.enter(from);
                    let own = Arc::clone(shared);
                    let serve = move |stream, seat| client::serve(own, (stream, seat), stranger);
                    if let Err(error) = shared.clients.spawn(stream, connections, serve) {
                        tracing::warn!(%error, "a connection could not be served");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
