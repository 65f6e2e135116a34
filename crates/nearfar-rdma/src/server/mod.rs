//! The server: memory of this host for clients that know the secret.

mod book;
mod links;
mod session;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearfar_memory::rdma::{DeviceChoice, Domain};
use nearfar_memory::{MemorySystem, Placement};

use self::book::Book;
pub use self::book::ServerUsage;
use self::session::{Left, serve_client};
use crate::SYSFS;
use crate::error::ServeError;
use crate::secret::Secret;

/// How often a server that nobody asks looks whether it is to stop.
const TURN: Duration = Duration::from_millis(50);

/// How a server offers memory.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The RDMA device; any with an active port by default.
    pub device: Option<String>,
    /// Bytes that are offered to all clients together.
    pub offered_bytes: u64,
    /// On which of this host's tiers they lie.
    pub placement: Placement,
    /// Within which a client must be heard of again, or its memory is taken back. Clients renew three times in it.
    pub lease: Duration,
    /// The most clients.
    pub clients_max: usize,
}

impl ServerOptions {
    /// So many bytes, at this address, placed so; a lease of ten seconds, and 64 clients.
    pub fn new(listen: SocketAddr, offered_bytes: u64, placement: Placement) -> Self {
        Self {
            listen,
            device: None,
            offered_bytes,
            placement,
            lease: Duration::from_secs(10),
            clients_max: 64,
        }
    }
}

/// What the server's threads share.
struct Shared {
    system: Arc<MemorySystem>,
    secret: Secret,
    options: ServerOptions,
    book: Book,
    is_stopping: AtomicBool,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        // Nothing else is told by it.
        self.is_stopping.load(Ordering::Relaxed)
    }
}

/// A server that offers memory until it is dropped: then all sessions end, and clients are told.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    device: String,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to offer memory of `system`.
    ///
    /// # Errors
    /// [`ServeError`], also where this machine has no RDMA.
    pub fn start(
        system: &Arc<MemorySystem>,
        secret: Secret,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let lease_ms = options.lease.as_millis();
        if !(300..=24 * 60 * 60 * 1000).contains(&lease_ms) {
            return Err(ServeError::Lease { lease_ms });
        }
        let choice = DeviceChoice {
            name: options.device.clone(),
            local: Some(options.listen.ip()),
        };
        // Sessions open it again, for a protection domain of their own.
        let device = Domain::open(&choice, SYSFS.as_ref())?.device().to_owned();
        let address = options.listen;
        let bind = |source| ServeError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let shared = Arc::new(Shared {
            system: Arc::clone(system),
            secret,
            book: Book::new(options.offered_bytes, options.clients_max),
            options,
            is_stopping: AtomicBool::new(false),
        });
        let listening = {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name("nearfar-rdma".to_owned());
            let spawned = builder.spawn(move || listen(&shared, &listener));
            spawned.map_err(ServeError::Thread)?
        };
        Ok(Self {
            shared,
            address,
            device,
            listening: Some(listening),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The name of its RDMA device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// What is offered, and what clients have of it.
    pub fn usage(&self) -> ServerUsage {
        self.shared.book.usage()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        if let Some(listening) = self.listening.take()
            && listening.join().is_err()
        {
            tracing::error!("the thread that took clients has died");
        }
    }
}

/// Takes clients until the server stops, and waits for their sessions to end.
fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut sessions: Vec<JoinHandle<()>> = Vec::new();
    while !shared.is_stopping() {
        sessions.retain(|session| !session.is_finished());
        match listener.accept() {
            Ok((stream, client)) => sessions.extend(begin(shared, stream, client)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(TURN),
            Err(error) => {
                tracing::warn!(%error, "a client could not be taken");
                thread::sleep(TURN);
            }
        }
    }
    for session in sessions {
        // It has told of its own death.
        let _ = session.join();
    }
}

/// A session's thread, unless too many others have not said who they are.
fn begin(shared: &Arc<Shared>, stream: TcpStream, client: SocketAddr) -> Option<JoinHandle<()>> {
    let Some(door) = shared.book.door(client.ip()) else {
        tracing::debug!(%client, "too many connections of nobody");
        return None;
    };
    let shared = Arc::clone(shared);
    let builder = thread::Builder::new().name("nearfar-rdma-client".to_owned());
    let session = builder.spawn(move || match serve_client(&shared, stream, door) {
        // Anybody can fill a log with these.
        Ok(Left::Stranger) => tracing::debug!(%client, "a stranger was refused"),
        Ok(end) => tracing::info!(%client, ?end, "a client has left"),
        Err(error) => tracing::warn!(%client, %error, "a client was given up"),
    });
    session
        .inspect_err(|error| tracing::warn!(%client, %error, "no thread for a client"))
        .ok()
}
