//! A server in this process, and clients of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_server::{
    Server, ServerOptions, ServerState, StateHandle, Stopped, WORKER_STACK_BYTES,
};
use nearfar_sql::engine::{Engine, EngineOptions, Lanes};
use nearfar_topology::Topology;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

/// Runs for hours.
pub const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000) a, \
                        generate_series(1, 1000000000) b WHERE a.a + b.b = -1";
/// How long something that must happen may take.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between looks at what happens.
pub const GLANCE: Duration = Duration::from_millis(10);

/// A server that serves until it is told to stop.
pub struct Running {
    pub address: SocketAddr,
    pub http: SocketAddr,
    pub state: StateHandle,
    pub engine: Arc<Engine>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Stopped>>,
    pub lanes: Lanes,
    runtimes: Vec<Runtime>,
}

/// Options of a server on any free port.
pub fn options() -> ServerOptions {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    ServerOptions {
        listen: any,
        http: Some(any),
        grace: Duration::from_millis(100),
        ..ServerOptions::default()
    }
}

pub async fn start() -> Running {
    start_with(options()).await
}

pub async fn start_with(options: ServerOptions) -> Running {
    let topology = Topology::this_machine().expect("a machine");
    let engine = Engine::new(EngineOptions::new(topology)).expect("an engine");
    start_on(engine, options).await
}

/// A server of an engine.
pub async fn start_on(engine: Arc<Engine>, options: ServerOptions) -> Running {
    let runtimes = vec![threads(), threads()];
    let lanes = Lanes {
        short: runtimes[0].handle().clone(),
        long: runtimes[1].handle().clone(),
    };
    let server = Server::bind(Arc::clone(&engine), lanes.clone(), options).await;
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let state = server.state();
    state.set(ServerState::Ready);
    let (stop, stopped) = oneshot::channel();
    Running {
        address: server.address().expect("an address"),
        http: server.http_address().expect("an address"),
        state,
        engine,
        stop: Some(stop),
        serving: Some(tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }))),
        lanes,
        runtimes,
    }
}

/// Threads for the tasks of statements.
fn threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(WORKER_STACK_BYTES)
        .enable_all()
        .build()
        .expect("threads")
}

impl Running {
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config
            .host("127.0.0.1")
            .port(self.address.port())
            .user("me");
        config
    }

    /// The threads that run statements.
    pub fn threads(&self) -> Handle {
        self.lanes.long.clone()
    }

    pub async fn client(&self) -> Client {
        connect(&self.config()).await.expect("connected")
    }

    /// A connection that speaks no protocol by itself.
    pub fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    /// The status and the text of a page.
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("received");
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), text)
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.get("/metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("{name} is missing in {text}"))
    }

    /// Waits for a state that comes by itself.
    pub async fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < PATIENCE, "{what} did not come");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Tells it to stop.
    pub fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    pub async fn stopped(&mut self) -> Stopped {
        let serving = self.serving.take().expect("serving");
        serving.await.expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown_background();
        }
    }
}

pub async fn connect(config: &Config) -> Result<Client, Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // Its errors come to the client too.
    tokio::spawn(async {
        let _ = connection.await;
    });
    Ok(client)
}

/// How PostgreSQL is reached, if it is: as libpq takes it.
pub const POSTGRES: &str = "NEARFAR_POSTGRES";

/// A session of PostgreSQL whose tables go with it, if there is one to be reached.
pub async fn postgres(statement_timeout: Duration) -> Option<Client> {
    let address = std::env::var(POSTGRES).ok()?;
    let config: Config = address
        .parse()
        .unwrap_or_else(|error| panic!("{POSTGRES}: {error}"));
    let client = connect(&config).await;
    let client = client.unwrap_or_else(|error| panic!("{POSTGRES}: {error}"));
    let settings = format!(
        "SET search_path = pg_temp; SET statement_timeout = {}; SET TimeZone = 'UTC'",
        statement_timeout.as_millis()
    );
    client.batch_execute(&settings).await.expect("set");
    Some(client)
}

/// The SQLSTATE of an error.
#[track_caller]
pub fn code<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error
            .code()
            .unwrap_or_else(|| panic!("{error:?}"))
            .code()
            .to_owned(),
    }
}

/// A message of the protocol.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// The first packet of a session.
pub fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0me\0\0";
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// Reads messages up to one of `kind`; all of them.
pub fn read_until(stream: &mut TcpStream, kind: u8) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).expect("its body");
        messages.push((head[0], body));
        if head[0] == kind {
            return messages;
        }
    }
}

/// Says why a test ends without a result.
#[expect(clippy::print_stderr, reason = "for whoever runs the test")]
pub fn not_tested(why: &str) {
    eprintln!("not tested: {why}");
}

/// The first columns of all rows.
pub fn values(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| row.get(0).unwrap_or("null").to_owned())
        .collect()
}
