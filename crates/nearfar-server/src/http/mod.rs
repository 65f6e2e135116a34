//! Health and metrics over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::server::Shared;
use crate::state::ServerState;

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Within which a client must have sent its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// After which a connection is accepted again when one could not be.
const PAUSE: Duration = Duration::from_millis(50);
/// Clients at once.
const CLIENTS_MAX: usize = 64;

/// Answers requests, for ever.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let Ok(client) = Arc::clone(&clients).try_acquire_owned() else {
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| {
                let response = answer(&request, &shared, peer.ip().is_loopback());
                async { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE);
            // A client that breaks off is no concern of anybody.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(client);
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    shared: &Shared,
    is_from_here: bool,
) -> Response<Full<Bytes>> {
    let state = shared.state.get();
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/health/live") => {
            (StatusCode::OK, TEXT, "live\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, "/health/ready") => {
            let status = match state {
                ServerState::Ready => StatusCode::OK,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, TEXT, format!("{}\n", state.name()))
        }
        (&Method::GET | &Method::HEAD, "/metrics") => match shared.metrics.text() {
            Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
        },
        (&Method::POST, "/promote") => promote(shared, state, is_from_here),
        (&Method::GET | &Method::HEAD, _) => {
            let text = "there are /health/live, /health/ready and /metrics, and POST /promote\n";
            (StatusCode::NOT_FOUND, TEXT, text.to_owned())
        }
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "GET is answered\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// Has a standby take over. Nobody says who he is here, so it is for who is on this machine.
fn promote(
    shared: &Shared,
    state: ServerState,
    is_from_here: bool,
) -> (StatusCode, &'static str, String) {
    let (status, text) = match state {
        _ if !is_from_here => (StatusCode::FORBIDDEN, "only from this machine\n".to_owned()),
        ServerState::Standby => {
            shared.promote.notify_one();
            (StatusCode::ACCEPTED, "taking over\n".to_owned())
        }
        _ => (
            StatusCode::CONFLICT,
            format!("this server is no standby, but {}\n", state.name()),
        ),
    };
    (status, TEXT, text)
}
