//! The server: addresses, connections, and its end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearfar_store::engine::Engine;
use pgwire::tokio::TlsAcceptor;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{self, CancelKeys};
use crate::error::ServerError;
use crate::http;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::state::{ServerState, StateHandle};
use crate::tls;

/// After which a connection is accepted again when there was none left of what connections need.
const PAUSE: Duration = Duration::from_millis(50);
/// What connections get, after statements were given up, to tell their clients.
const GOODBYE: Duration = Duration::from_secs(5);
/// Connections beyond the most that are told so; others are closed without a word.
const REFUSED_MAX: usize = 64;

/// What all connections share.
pub struct Shared {
    /// None for as long as the server is a standby.
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    /// Where statements run.
    pub workers: Handle,
    pub options: ServerOptions,
    pub tls: Option<TlsAcceptor>,
    pub state: StateHandle,
    pub halt: Halt,
    /// Told when somebody asks the standby to take over.
    pub promote: Notify,
    pub cancel_keys: Arc<CancelKeys>,
    pub metrics: Arc<Metrics>,
    /// Connections, and those that are being refused.
    connections: AtomicUsize,
}

/// Tells statements that they have had the time that they get when the server stops.
#[derive(Debug)]
pub struct Halt {
    is_now: watch::Sender<bool>,
    reason: OnceLock<String>,
}

impl Halt {
    fn new() -> Self {
        Self {
            is_now: watch::Sender::new(false),
            reason: OnceLock::new(),
        }
    }

    fn now(&self) {
        self.is_now.send_replace(true);
    }

    /// Why the server stops.
    pub fn reason(&self) -> &str {
        self.reason
            .get()
            .map_or("the server is stopping", String::as_str)
    }

    /// Ends when statements are to end.
    pub async fn wait(&self) {
        // The sender is alive for as long as this is.
        let _ = self.is_now.subscribe().wait_for(|halt| *halt).await;
    }
}

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    listener: TcpListener,
    http: Option<TcpListener>,
}

/// How a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections whose statements or transactions were given up.
    pub interrupted: usize,
}

impl Server {
    /// Listens for clients of `engine`. Their statements run on `workers`, whose threads should have
    /// stacks of [`crate::WORKER_STACK_BYTES`]. The state is [`ServerState::Starting`] until
    /// [`Self::state`] is told otherwise.
    ///
    /// # Errors
    /// An address that can't be listened on, or that others reach where there are no users; a
    /// certificate or key that can't be used.
    pub async fn bind(
        engine: Arc<Engine>,
        workers: Handle,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let server = Self::bind_standby(workers, options).await?;
        server.handle().set_engine(engine);
        Ok(server)
    }

    /// The same without an engine, which [`ServerHandle::set_engine`] gives it when this server
    /// takes over. Until then clients are refused.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn bind_standby(
        workers: Handle,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        if options.users.is_none() && !options.listen.ip().is_loopback() {
            return Err(ServerError::Unprotected {
                address: options.listen,
            });
        }
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = listen(options.listen).await?;
        let http = match options.http {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let state = StateHandle::new(ServerState::Starting);
        let engine = Arc::default();
        let shared = Shared {
            metrics: Arc::new(Metrics::new(&engine, &state)),
            engine,
            workers,
            options,
            tls,
            state,
            halt: Halt::new(),
            promote: Notify::new(),
            cancel_keys: Arc::default(),
            connections: AtomicUsize::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            listener,
            http,
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
        } = self;
        // Health is told until the end.
        let mut health = JoinSet::new();
        if let Some(http) = http {
            health.spawn(http::serve(http, Arc::clone(&shared)));
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
        self.0.engine.get_or_init(|| engine);
    }

    /// Waits until somebody asks the standby to take over.
    pub async fn promoted(&self) {
        self.0.promote.notified().await;
    }

    /// Tells metrics how long a take-over took, from the decision to the first client.
    pub fn took_over(&self, time: Duration) {
        self.0.metrics.took_over(time);
    }

    /// Ends the server at once, with `reason` as what its clients are told.
    pub fn end_now(&self, reason: String) {
        self.0.halt.reason.get_or_init(|| reason);
        self.0.state.set(ServerState::Stopping);
        self.0.halt.now();
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServerError::Bind { address, source })
}

/// Takes connections, for ever.
async fn accept(shared: &Arc<Shared>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => begin(shared, stream, connections),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn begin(shared: &Arc<Shared>, stream: TcpStream, connections: &mut JoinSet<()>) {
    let most = shared.options.max_connections;
    let others = shared.connections.fetch_add(1, Ordering::Relaxed);
    let counted = Counted(Arc::clone(shared));
    shared.metrics.connections_accepted.inc();
    if others >= most + REFUSED_MAX {
        return;
    }
    connections.spawn(async move {
        let shared = Arc::clone(&counted.0);
        client::serve(shared, stream, others >= most).await;
        drop(counted);
    });
}

/// A connection, for as long as it is there.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
