//! Servers that share a pool: who waits, who takes over, and who has lost it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nearfar_durable::checkpoint::pooled::TablePoolOptions;
use nearfar_durable::error::CheckpointError;
use nearfar_memory::pool::{
    OwnerName, OwnerRecord, OwnerWatch, Pool, PoolError, PoolOptions, TakeOver,
};
use nearfar_server::{
    ADMIN_HEADER, COMMAND_HEADER, Server, ServerHandle, ServerOptions, ServerState, Token,
};
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;
use nearfar_topology::Profile;
use tokio::time::sleep;

use super::{Threads, announce, end};
use crate::args::{PromoteArgs, ServeArgs, TakeOverArg};
use crate::exit::{Exit, Failed};
use crate::interrupt::asked_to_end;
use crate::machine::{self, Kept};
use crate::message;

/// How often the owner of a pool is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Within which a standby answers that it was promoted.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is read of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// A server that waits for a lease to end waits so many times its own.
const LEASES: u32 = 10;

/// The pool that `args` name, and how it is claimed.
pub fn pool(args: &ServeArgs) -> Option<TablePoolOptions> {
    let mut options = args.pool.options(args.data.access())?;
    options.claim.lease = args.lease.max(Duration::from_millis(10));
    options.claim.take_over = match args.take_over {
        Some(TakeOverArg::Now) => TakeOver::Now,
        Some(TakeOverArg::WhenLeaseEnds) => TakeOver::WhenItsLeaseEnds {
            patience: args.lease * LEASES,
        },
        Some(TakeOverArg::Never) | None => TakeOver::Never,
    };
    Some(options)
}

/// Who has taken the pool of the engine over, if anybody.
pub fn lost_to(engine: &Engine) -> Option<OwnerRecord> {
    let lost_to = engine.pool()?.lease().lost_to();
    lost_to.borrow().clone()
}

/// Ends the server as soon as its pool is taken over. Needs a runtime.
pub fn end_when_lost(engine: &Engine, server: &ServerHandle) {
    let Some(pool) = engine.pool() else {
        return;
    };
    let (mut lost_to, server) = (pool.lease().lost_to(), server.clone());
    tokio::spawn(async move {
        if let Ok(by) = lost_to.wait_for(Option::is_some).await {
            let by = by.as_ref().map_or_else(String::new, OwnerRecord::to_string);
            server.end_now(format!("{by} has taken over"));
        }
    });
}

/// Waits as a standby, takes over, and serves.
pub fn serve(
    args: &ServeArgs,
    options: ServerOptions,
    profile: Option<Profile>,
    kept: &Kept,
) -> anyhow::Result<()> {
    let engine_options = || super::engine_options(args, profile.clone(), kept.clone());
    let lanes = Threads::start(engine_options()?.threads)?;
    let front = machine::named_threads(1, "nearfar-front")?;
    let (is_open, grace) = (options.users.is_none(), options.grace);
    let bound = Server::bind_standby(lanes.handles(), options);
    let server = front.block_on(bound)?;
    server.state().set(ServerState::Standby);
    announce(&server, is_open, true);
    let (state, handle) = (server.state(), server.handle());
    let (stopped, engine) = front.block_on(async {
        let mut serving = tokio::spawn(server.serve(asked_to_end()?));
        message::print("standby");
        let taken = async {
            loop {
                let epoch = turn(args, kept, &handle).await?;
                let begun = Instant::now();
                state.set(ServerState::Starting);
                let mut options = engine_options()?;
                if let Some(pool) = &mut options.pool {
                    pool.claim.take_over = TakeOver::From { epoch };
                }
                let hosts = args.hosts.clone();
                let started = tokio::task::spawn_blocking(move || {
                    machine::engine_with_hosts(options, &hosts)
                });
                match started.await? {
                    Ok(engine) => return anyhow::Ok((engine, begun)),
                    Err(error) if is_owned(&error) => {
                        tracing::info!(%error, "another process was first");
                        state.set(ServerState::Standby);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let (engine, begun) = tokio::select! {
            // Told to end before there was anything to serve.
            stopped = &mut serving => return anyhow::Ok((stopped?, None)),
            taken = taken => taken?,
        };
        end_when_lost(&engine, &handle);
        handle.set_engine(Arc::clone(&engine));
        state.set(ServerState::Ready);
        let time = begun.elapsed();
        handle.took_over(time);
        tracing::info!(seconds = time.as_secs_f64(), "this server has taken over");
        if state.get() == ServerState::Ready {
            message::print("ready");
        }
        anyhow::Ok((serving.await?, Some(engine)))
    })?;
    end(engine.as_ref(), lanes, stopped, grace)
}

/// Whether somebody else has the pool.
fn is_owned(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let owned = |source: &PoolError| {
            matches!(source, PoolError::Owned { .. } | PoolError::Fenced { .. })
        };
        let checkpoint = match cause.downcast_ref::<EngineError>() {
            Some(EngineError::Checkpoint(error)) => Some(error.as_ref()),
            _ => None,
        };
        match checkpoint {
            Some(CheckpointError::Pool { source, .. }) => owned(source),
            _ => cause.downcast_ref::<PoolError>().is_some_and(owned),
        }
    })
}

/// Waits until it is this server's turn. Returns the claim that is to be replaced.
async fn turn(args: &ServeArgs, kept: &Kept, server: &ServerHandle) -> anyhow::Result<u64> {
    let path = &kept.pool.as_ref().context("a standby needs a pool")?.path;
    let waits = args.take_over == Some(TakeOverArg::Never);
    let mut watch = None;
    loop {
        if watch.is_none() {
            // The first server may not have made it yet.
            watch = Pool::attach(path, PoolOptions::default())
                .ok()
                .map(|pool| OwnerWatch::new(&pool, OwnerName::of_this_process()));
        }
        let seen = watch.as_mut().map(OwnerWatch::look).transpose()?;
        let epoch = seen.as_ref().map_or(0, |seen| seen.epoch);
        if seen.is_some_and(|seen| seen.is_gone && seen.epoch > 0) && !waits {
            tracing::info!(epoch, "the owner of the pool is gone");
            return Ok(epoch);
        }
        tokio::select! {
            () = server.promoted() => {
                tracing::info!(epoch, "told to take over");
                return Ok(epoch);
            }
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// Tells a standby of this machine to take over.
pub fn promote(args: &PromoteArgs) -> anyhow::Result<()> {
    let token = args.admin_token.as_deref().map(Token::read).transpose()?;
    let admin = match args.admin {
        Some(admin) => admin,
        None => admin_of(args.http)?,
    };
    let (name, value) = COMMAND_HEADER;
    let mut headers = format!("{name}: {value}\r\nContent-Length: 0\r\n");
    if let Some(token) = token {
        // Whoever listens there gets it.
        if !admin.ip().is_loopback() {
            let message = format!("{admin} is not on this machine");
            return Err(Failed::new(Exit::Usage, message).into());
        }
        headers += &format!("Authorization: Bearer {}\r\n", token.text());
    }
    let (head, text) = ask(admin, "POST /promote", &headers)?;
    if head.starts_with("HTTP/1.1 202") {
        return Ok(());
    }
    Err(Failed::new(Exit::Unavailable, format!("{admin}: {}", text.trim())).into())
}

/// Where the standby takes commands that tells its health at `http`.
fn admin_of(http: SocketAddr) -> anyhow::Result<SocketAddr> {
    let (head, text) = ask(http, "GET /health/ready", "")?;
    let admin = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case(ADMIN_HEADER);
        is_it.then(|| value.trim().parse().ok()).flatten()
    });
    let refused = || {
        let message = format!("{http}: this server is no standby, but {}", text.trim());
        Failed::new(Exit::Unavailable, message)
    };
    Ok(admin.ok_or_else(refused)?)
}

/// The head and the text of the answer to a request with these headers.
fn ask(address: SocketAddr, request: &str, headers: &str) -> anyhow::Result<(String, String)> {
    let answer = || {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request =
            format!("{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = answer().map_err(|error| {
        let message = format!("no standby answers at {address}: {error}");
        Failed::new(Exit::Unavailable, message)
    })?;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.to_owned(), text.to_owned()))
}
