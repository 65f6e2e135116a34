//! Health and metrics.

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::Answer;
use crate::shared::Shared;
use crate::state::ServerState;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers who watches the server. Nothing that is asked changes anything.
pub(super) fn answer(request: &Request<Incoming>, shared: &Shared) -> Answer {
    let state = shared.state.get();
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/health/live") => Answer::text(StatusCode::OK, "live\n"),
        (&Method::GET | &Method::HEAD, "/health/ready") => {
            let status = match state {
                ServerState::Ready => StatusCode::OK,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            Answer::text(status, format!("{}\n", state.name()))
        }
        (&Method::GET | &Method::HEAD, "/metrics") => match shared.metrics.text() {
            Ok(text) => Answer {
                status: StatusCode::OK,
                kind: OPEN_METRICS,
                text,
            },
            Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        (&Method::GET | &Method::HEAD, _) => {
            let text = "there are /health/live, /health/ready and /metrics\n";
            Answer::text(StatusCode::NOT_FOUND, text)
        }
        _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "GET is answered\n"),
    }
}
