//! Commands of who runs the server.
//!
//! A browser on this machine sends what a web page of anybody tells it to. So a command needs a header
//! that a page can't send to another host without being allowed to, names the address that it is for,
//! and does not come from a page.

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{Method, Request, StatusCode};

use super::Answer;
use crate::auth::same;
use crate::shared::Shared;
use crate::state::ServerState;

/// The header that commands must have, and its value.
pub const COMMAND_HEADER: (&str, &str) = ("nearfar-command", "promote");

/// Answers a command.
pub(super) fn answer(request: &Request<Incoming>, shared: &Shared, is_from_here: bool) -> Answer {
    if let Err(refused) = check(request, shared, is_from_here) {
        return refused;
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/promote") => promote(shared),
        (_, "/promote") => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "POST is answered\n"),
        _ => Answer::text(StatusCode::NOT_FOUND, "there is /promote\n"),
    }
}

/// Refuses what is not from who runs the server.
fn check(request: &Request<Incoming>, shared: &Shared, is_from_here: bool) -> Result<(), Answer> {
    let refused = |text: &str| Err(Answer::text(StatusCode::FORBIDDEN, format!("{text}\n")));
    let headers = request.headers();
    if !is_from_here {
        return refused("commands are taken from this machine only");
    }
    if headers.contains_key(ORIGIN) {
        return refused("commands are not taken from web pages");
    }
    if !is_named_rightly(request, shared) {
        return refused("the request is for another host");
    }
    let (name, value) = COMMAND_HEADER;
    if headers.get(name).is_none_or(|given| given != value) {
        return refused(&format!("the header `{name}: {value}` is missing"));
    }
    let admin = shared.options.admin.as_ref();
    let Some(token) = admin.and_then(|admin| admin.token.as_ref()) else {
        return Ok(());
    };
    let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    match given.is_some_and(|given| same(given, token.text().as_bytes())) {
        true => Ok(()),
        false => Err(Answer::text(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong\n",
        )),
    }
}

/// Whether the request names this address: a page whose own name leads here names that.
fn is_named_rightly(request: &Request<Incoming>, shared: &Shared) -> bool {
    let Some(own) = shared.admin else {
        return false;
    };
    let names = [own.to_string(), format!("localhost:{}", own.port())];
    let mut hosts = request.headers().get_all(HOST).iter();
    let is_own = |host: &[u8]| names.iter().any(|name| name.as_bytes() == host);
    let is_named = hosts.next().is_some_and(|host| is_own(host.as_bytes()));
    is_named && hosts.next().is_none()
}

/// Has a standby take over.
fn promote(shared: &Shared) -> Answer {
    match shared.state.get() {
        ServerState::Standby => {
            shared.promote.notify_one();
            Answer::text(StatusCode::ACCEPTED, "taking over\n")
        }
        state => {
            let text = format!("this server is no standby, but {}\n", state.name());
            Answer::text(StatusCode::CONFLICT, text)
        }
    }
}
