//! HTTP: health and metrics for who watches the server, and commands of who runs it.

mod admin;
mod health;

pub use admin::COMMAND_HEADER;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admission::{Origin, Strangers};
use crate::shared::Shared;

const TEXT: &str = "text/plain; charset=utf-8";
/// Tells where a server takes commands.
pub const ADMIN_HEADER: &str = "nearfar-admin";
/// Within which a client must have sent its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// After which a connection ends, whatever its client does.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
/// After which a connection is accepted again when one could not be.
const PAUSE: Duration = Duration::from_millis(50);
/// Concurrent connections; beyond, one of the client that has most makes room for the next.
const CLIENTS_MAX: usize = 64;

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Health and metrics.
    Health,
    /// Commands.
    Admin,
}

/// What a request is answered with.
struct Answer {
    status: StatusCode,
    kind: &'static str,
    text: String,
}

impl Answer {
    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            kind: TEXT,
            text: text.into(),
        }
    }
}

/// Answers requests, for ever.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, service: Service) {
    let clients = Strangers::new(CLIENTS_MAX);
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let client = clients.enter(Origin::of(peer.ip()));
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            tokio::select! {
                // Its client may send another request, or nothing for ever.
                () = client.sent_away() => {}
                _ = timeout(CONNECTION_MAX, converse(stream, peer, &shared, service)) => {}
            }
        });
    }
}

async fn converse(stream: TcpStream, peer: SocketAddr, shared: &Shared, service: Service) {
    let answered = service_fn(|request| {
        let response = respond(&request, shared, peer, service);
        async { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    // A client that breaks off is no concern of anybody.
    let _ = builder
        .serve_connection(TokioIo::new(stream), answered)
        .await;
}

fn respond(
    request: &Request<Incoming>,
    shared: &Shared,
    peer: SocketAddr,
    service: Service,
) -> Response<Full<Bytes>> {
    let is_from_here = peer.ip().to_canonical().is_loopback();
    let answer = match service {
        Service::Health => health::answer(request, shared),
        Service::Admin => admin::answer(request, shared, is_from_here),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.text)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    if let Ok(kind) = answer.kind.parse() {
        headers.insert(CONTENT_TYPE, kind);
    }
    if let Some(admin) = shared.admin.filter(|_| is_from_here)
        && let Ok(admin) = admin.to_string().parse()
    {
        headers.insert(ADMIN_HEADER, admin);
    }
    response
}
