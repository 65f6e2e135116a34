//! `nearfar serve`: starts a server, and keeps its users.

use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nearfar_cluster::{ClusterFile, Node, TlsFiles};
use nearfar_durable::checkpoint::pooled::SharedPoolOptions;
use nearfar_server::{
    AdminOptions, Role, Server, ServerOptions, ServerState, Stopped, TlsOptions, Token, User, Users,
};
use nearfar_sql::engine::{Engine, EngineOptions, Lanes};
use nearfar_topology::Profile;
use tokio::runtime::Runtime;

mod standby;

use crate::args::{ServeAction, ServeArgs, UserAction, UserRole};
use crate::exit::{Exit, Failed};
use crate::interrupt::asked_to_end;
use crate::machine::{self, Kept};
use crate::message;
use crate::sql;

/// Runs the command.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    match &args.action {
        Some(ServeAction::User(user)) => keep_users(&user.action),
        Some(ServeAction::Promote(promote)) => standby::promote(promote),
        None => serve(args),
    }
}

fn keep_users(action: &UserAction) -> anyhow::Result<()> {
    let UserAction::Add { name, file, role } = action;
    let mut password = String::new();
    let read = std::io::stdin().lock().read_line(&mut password);
    read.context("cannot read the password from stdin")?;
    let role = match role {
        UserRole::ReadWrite => Role::ReadWrite,
        UserRole::ReadOnly => Role::ReadOnly,
    };
    let password = password.trim_end_matches(['\r', '\n']);
    Users::add(file, &User::new(name, role, password)?)?;
    Ok(())
}

fn options(args: &ServeArgs) -> anyhow::Result<ServerOptions> {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let users = args.users.as_deref().map(Users::read).transpose()?;
    let limit = |time: Duration| (!time.is_zero()).then_some(time);
    Ok(ServerOptions {
        listen: SocketAddr::new(args.listen, args.port),
        http: (!args.no_http).then_some(args.http),
        tls: tls.map(|(certificate, key)| TlsOptions {
            certificate,
            key,
            is_required: args.tls_required,
        }),
        users,
        may_use_files: args.allow_files,
        admin: admin(args)?,
        client_threads: match (args.client_threads, args.machine.threads) {
            (Some(threads), _) => threads.get().into(),
            (None, Some(threads)) => threads.get() as usize,
            (None, None) => ServerOptions::default().client_threads,
        },
        max_connections: args.max_connections,
        max_unauthenticated: args.max_unauthenticated,
        max_message_bytes: usize::try_from(args.max_statement.0).unwrap_or(usize::MAX),
        session_memory_bytes: args.session_memory.map(|size| size.0),
        statement_timeout: limit(args.statement_timeout),
        idle_session_timeout: limit(args.idle_timeout),
        idle_in_transaction_timeout: limit(args.idle_in_transaction_timeout),
        authentication_timeout: args.authentication_timeout,
        busy_poll: args.busy_poll,
        near_latency_max: args.near_latency_max,
        grace: args.grace,
    })
}

/// The threads that queries run on. Those for short ones have no others before them, and the kernel
/// shares the processors between both sets.
struct Threads {
    short: Runtime,
    long: Runtime,
}

impl Threads {
    fn start(threads: usize) -> anyhow::Result<Self> {
        Ok(Self {
            short: machine::named_threads(threads, "nearfar-short")?,
            long: machine::named_threads(threads, "nearfar-long")?,
        })
    }

    fn handles(&self) -> Lanes {
        Lanes {
            short: self.short.handle().clone(),
            long: self.long.handle().clone(),
        }
    }
}

/// Only a standby has something to be told.
fn admin(args: &ServeArgs) -> anyhow::Result<Option<AdminOptions>> {
    if !args.standby {
        return Ok(None);
    }
    let token = args.admin_token.as_deref().map(Token::read).transpose()?;
    let listen = args.admin;
    Ok(Some(AdminOptions { listen, token }))
}

fn engine_options(
    args: &ServeArgs,
    profile: Option<Profile>,
    kept: Kept,
) -> anyhow::Result<EngineOptions> {
    let mut options = machine::engine_options(&args.machine, profile, kept)?;
    options.far_bandwidth_bytes_per_s = args.far_bandwidth.map(|limit| limit.0);
    Ok(options)
}

fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    let sources = sql::sources(&args.files)?;
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    let kept = Kept {
        data: args.data.options(),
        pool: standby::pool(args),
    };
    if args.standby {
        return standby::serve(args, options, profile, &kept);
    }
    let is_kept = kept.data.is_some() || kept.pool.is_some();
    let engine = engine_options(args, profile, kept)?;
    let engine = machine::engine_with_hosts(engine, &args.hosts)?;
    // Apart from each other, so that clients are heard while statements keep all threads busy.
    let lanes = Threads::start(engine.threads())?;
    let front = machine::named_threads(1, "nearfar-front")?;
    let (is_open, grace) = (options.users.is_none(), options.grace);
    let server = front.block_on(Server::bind(Arc::clone(&engine), lanes.handles(), options))?;
    announce(&server, is_open, is_kept);
    let handle = server.handle();
    let (stopped, node) = front.block_on(async {
        let state = server.state();
        let asked = asked_to_end()?;
        standby::end_when_lost(&engine, &handle);
        let mut serving = tokio::spawn(server.serve(asked));
        let tables = sql::Tables {
            sources,
            tpch: args.tpch,
            tablespace: args.tablespace.as_deref(),
        };
        let node = join(args, &engine, &lanes).await?;
        tokio::select! {
            // Told to end before there was anything to serve.
            stopped = &mut serving => return anyhow::Ok((stopped?, node)),
            loaded = tables.load(&engine) => loaded?,
        }
        state.set(ServerState::Ready);
        if state.get() == ServerState::Ready {
            message::print("ready");
        }
        let stopped = serving.await?;
        let mut is_idle = true;
        if let Some(node) = &node {
            is_idle = node.drain(grace).await;
        }
        anyhow::Ok((stopped, node.filter(|_| is_idle)))
    })?;
    let ended = end(Some(&engine), lanes, stopped, grace);
    if let Some(node) = node {
        node.stop_sharing();
    }
    ended
}

/// Makes the server a node of a cluster, if it is to be one, on the threads of its queries. Takes clients when all
/// nodes answer.
async fn join(
    args: &ServeArgs,
    engine: &Arc<Engine>,
    lanes: &Threads,
) -> anyhow::Result<Option<Arc<Node>>> {
    let Some(name) = &args.node else {
        return Ok(None);
    };
    let file = match (&args.cluster, args.join, &args.certificates) {
        (Some(file), ..) => ClusterFile::read(file)?,
        (None, Some(address), Some(folder)) => {
            Node::ask_for_file(address, TlsFiles::in_folder(folder)).await?
        }
        _ => {
            let message =
                "--node needs --cluster FILE, or --join ADDRESS and --certificates FOLDER";
            return Err(Failed::new(Exit::Usage, message.to_owned()).into());
        }
    };
    message::print(&format!("node `{name}` of cluster `{}`", file.name));
    let shared = shared_pool(args, engine, name)?;
    let (engine, name) = (Arc::clone(engine), name.clone());
    let started = lanes
        .long
        .handle()
        .spawn(async move { Node::start(&engine, file, &name, shared).await });
    let node = started.await??;
    message::print("waiting for all nodes");
    node.wait_for_nodes().await;
    Ok(Some(node))
}

/// The pool of another node in which this one reads replicated tables, if it is to.
fn shared_pool(
    args: &ServeArgs,
    engine: &Engine,
    node: &str,
) -> anyhow::Result<Option<SharedPoolOptions>> {
    let Some(path) = &args.shared_pool else {
        return Ok(None);
    };
    if args.pool.pool.as_ref() == Some(path) {
        let message =
            "--shared-pool names the pool that this node owns with --pool: give one of them";
        return Err(Failed::new(Exit::Usage, message.to_owned()).into());
    }
    engine.system().tier(&args.shared_pool_tier)?;
    Ok(Some(SharedPoolOptions {
        path: path.clone(),
        tier: args.shared_pool_tier.clone(),
        reader: node.to_owned(),
    }))
}

/// Ends the engine, and says how the server has ended.
fn end(
    engine: Option<&Arc<Engine>>,
    lanes: Threads,
    stopped: Stopped,
    grace: Duration,
) -> anyhow::Result<()> {
    // What was given up may not have noticed yet.
    lanes.short.shutdown_background();
    lanes.long.shutdown_background();
    if let Some(engine) = engine {
        // Who comes when the pool is given back has not taken it away.
        let lost_to = standby::lost_to(engine);
        let published = machine::publish_at_end(engine);
        engine.close();
        if let Some(by) = lost_to {
            let message = format!("{by} has taken over: this server may write no more");
            return Err(Failed::new(Exit::TakenOver, message).into());
        }
        published?;
    }
    match stopped.interrupted {
        0 => Ok(()),
        count => {
            let seconds = grace.as_secs_f64();
            let message = format!("{count} connections were given up after {seconds} s of grace");
            Err(Failed::new(Exit::Interrupted, message).into())
        }
    }
}

fn announce(server: &Server, is_open: bool, is_kept: bool) {
    if let Some(address) = server.address() {
        message::print(&format!("listening on {address}"));
    }
    if let Some(address) = server.http_address() {
        message::print(&format!("health and metrics on http://{address}"));
    }
    if let Some(address) = server.admin_address() {
        message::print(&format!("commands on http://{address}"));
    }
    if is_open {
        message::print(
            "warning: there are no users: everybody on this machine may read and write all tables",
        );
    }
    if !is_kept {
        message::print("warning: tables are in memory only and end with the server");
    }
}
