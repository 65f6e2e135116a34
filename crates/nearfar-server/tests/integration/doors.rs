//! Clients at the door: those that say nothing, that guess, and that only seem to be who runs the
//! server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nearfar_server::{
    AdminOptions, COMMAND_HEADER, Role, Server, ServerHandle, ServerOptions, ServerState, Token,
    User, Users,
};
use tokio_postgres::Config;

use crate::support::{PATIENCE, Running, code, connect, options, start_with, startup};

const PASSWORD: &str = "correct horse";

fn users() -> Option<Users> {
    let user = |name| User::new(name, Role::ReadWrite, PASSWORD).expect("a user");
    Some(Users::new([user("ann"), user("bob")]))
}

fn config(server: &Running, user: &str, password: &str) -> Config {
    let mut config = server.config();
    config.user(user).password(password);
    config
}

/// Whether the server has closed a connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    let wait = Some(Duration::from_millis(200));
    stream.set_read_timeout(wait).expect("set");
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_take_no_places_of_clients() {
    let options = ServerOptions {
        users: users(),
        max_connections: 2,
        max_unauthenticated: 8,
        ..options()
    };
    let server = start_with(options).await;
    let silent: Vec<TcpStream> = (0..40).map(|_| server.raw()).collect();
    let begun = |mut stream: TcpStream| {
        stream.write_all(&startup()[..7]).expect("sent");
        stream
    };
    let begun: Vec<TcpStream> = (0..4).map(|_| begun(server.raw())).collect();
    let config = config(&server, "ann", PASSWORD);
    let one = connect(&config).await.expect("connected");
    let two = connect(&config).await.expect("connected");
    assert_eq!(code(connect(&config).await), "53300");
    for client in [&one, &two] {
        client.batch_execute("SELECT 1").await.expect("answered");
    }
    assert!(is_closed(&silent[0]), "the oldest made room");
    drop((silent, begun));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_does_not_wait_for_silent_connections() {
    let options = ServerOptions {
        grace: PATIENCE * 2,
        ..options()
    };
    let mut server = start_with(options).await;
    let silent = server.raw();
    // It is heard after the other.
    server.client().await;
    server.ask_to_stop();
    let begun = Instant::now();
    assert_eq!(server.stopped().await.interrupted, 0);
    assert!(begun.elapsed() < PATIENCE);
    assert!(is_closed(&silent));
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_http_connections_do_not_hide_the_health() {
    let server = start_with(options()).await;
    let stalled: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(server.http).expect("connected");
            // Nothing, a part of a request, and one whose answer is awaited for ever.
            let sent = [
                "",
                "GET /health/li",
                "GET /health/live HTTP/1.1\r\nHost: h\r\n\r\n",
            ];
            let sent = sent[number % sent.len()];
            // The server may have closed it already to make room.
            let _ = stream.write_all(sent.as_bytes());
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(server.get("/health/live").0, 200);
        assert_eq!(server.get("/health/ready").0, 200);
    }
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_are_slower_and_slower() {
    let options = ServerOptions {
        users: users(),
        ..options()
    };
    let server = start_with(options).await;
    let begun = Instant::now();
    let mut first = None;
    for _ in 0..7 {
        let wrong = connect(&config(&server, "ann", "wrong")).await;
        assert_eq!(code(wrong), "28P01");
        first.get_or_insert_with(|| begun.elapsed());
    }
    // Of the last three, 100, 200 and 400 ms.
    assert!(begun.elapsed() >= Duration::from_millis(700));
    // Another user of the same machine does not wait, and this one is let in.
    for user in ["bob", "ann"] {
        let client = connect(&config(&server, user, PASSWORD)).await;
        client.expect("connected");
    }
}

/// A standby, and where it takes commands.
async fn standby(token: Option<Token>) -> (ServerHandle, SocketAddr, SocketAddr) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = ServerOptions {
        admin: Some(AdminOptions { listen, token }),
        ..options()
    };
    let workers = tokio::runtime::Handle::current();
    let server = Server::bind_standby(workers, options).await;
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    server.state().set(ServerState::Standby);
    let (admin, http) = (server.admin_address(), server.http_address());
    let handle = server.handle();
    tokio::spawn(server.serve(std::future::pending()));
    (
        handle,
        admin.expect("an address"),
        http.expect("an address"),
    )
}

/// The status of a request with these lines.
fn status(address: SocketAddr, lines: &[&str]) -> u16 {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("received");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.unwrap_or_else(|| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_runs_it_promotes_a_standby() {
    let (handle, admin, http) = standby(None).await;
    let post = "POST /promote HTTP/1.1";
    let (host, other) = (
        format!("Host: {admin}"),
        format!("Host: evil.example:{}", admin.port()),
    );
    let (name, value) = COMMAND_HEADER;
    let command = format!("{name}: {value}");
    for (what, address, lines, wanted) in [
        ("a form of a page", admin, vec![post, &host], 403),
        (
            "a page",
            admin,
            vec![post, &host, "Origin: https://evil.example", &command],
            403,
        ),
        (
            "a page of this machine",
            admin,
            vec![post, &host, "Origin: null", &command],
            403,
        ),
        (
            "a page that rebinds its name",
            admin,
            vec![post, &other, &command],
            403,
        ),
        ("two hosts", admin, vec![post, &host, &other, &command], 400),
        (
            "the wrong command",
            admin,
            vec![post, &host, "nearfar-command: x"],
            403,
        ),
        (
            "a preflight",
            admin,
            vec!["OPTIONS /promote HTTP/1.1", &host],
            403,
        ),
        (
            "a link",
            admin,
            vec!["GET /promote HTTP/1.1", &host, &command],
            405,
        ),
        (
            "the address of health",
            http,
            vec![post, "Host: h", &command],
            405,
        ),
    ] {
        let answered = status(address, &lines);
        let is_refused = answered == wanted || (wanted == 400 && answered == 403);
        assert!(is_refused, "{what}: {answered}");
    }
    let promoted = tokio::time::timeout(Duration::from_millis(100), handle.promoted());
    assert!(promoted.await.is_err(), "somebody was obeyed");
    let localhost = format!("Host: localhost:{}", admin.port());
    assert_eq!(status(admin, &[post, &localhost, &command]), 202);
    handle.promoted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_where_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "s3cret\n").expect("written");
    let chmod = |mode| {
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("set");
    };
    chmod(0o644);
    let refused = Token::read(&path).expect_err("everybody may read it");
    assert!(refused.to_string().contains("chmod"), "{refused}");
    chmod(0o600);
    let token = Token::read(&path).expect("a token");
    let (handle, admin, _) = standby(Some(token)).await;
    let (host, (name, value)) = (format!("Host: {admin}"), COMMAND_HEADER);
    let command = format!("{name}: {value}");
    let with = |token: &str| status(admin, &["POST /promote HTTP/1.1", &host, &command, token]);
    for wrong in [
        "X: y",
        "Authorization: Bearer",
        "Authorization: Bearer s3cre",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    assert_eq!(with("Authorization: Bearer s3cret"), 202);
    handle.promoted().await;
}

#[tokio::test]
async fn commands_are_taken_on_this_machine_only() {
    let listen = SocketAddr::from(([0, 0, 0, 0], 0));
    let admin = Some(AdminOptions {
        listen,
        token: None,
    });
    let options = ServerOptions { admin, ..options() };
    let refused = Server::bind_standby(tokio::runtime::Handle::current(), options).await;
    let error = refused.err().expect("refused");
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_that_can_not_be_compiled_are_errors_of_the_client() {
    let server = start_with(options()).await;
    let client = server.client().await;
    let create = "CREATE TABLE t AS SELECT 'x' AS s, '(' AS p";
    client.batch_execute(create).await.expect("created");
    for pattern in ["(a{1,1000}){1,1000}", "(", "[z-a]"] {
        for sql in [
            format!("SELECT regexp_match('x', '{pattern}')"),
            format!("SELECT regexp_like(s, '{pattern}') FROM t"),
            format!("SELECT regexp_replace(s, '{pattern}', 'y', 'g') FROM t"),
            format!("SELECT regexp_count(s, '{pattern}') FROM t"),
            format!("SELECT s ~ '{pattern}' FROM t"),
            format!("SELECT s FROM t WHERE s !~* '{pattern}'"),
        ] {
            assert_eq!(code(client.batch_execute(&sql).await), "2201B", "{sql}");
        }
        let sql = "SELECT s FROM t WHERE s ~ CAST($1 AS TEXT)";
        let asked = client.query(sql, &[&pattern]).await;
        assert_eq!(code(asked), "2201B", "{pattern}");
    }
    for sql in [
        "SELECT s ~ p FROM t",
        "SELECT regexp_replace(s, p, 'y') FROM t",
    ] {
        let refused = code(client.batch_execute(sql).await);
        assert!(refused.starts_with("22"), "{sql}: {refused}");
    }
    let right = client.query_one("SELECT 'a.c' ~ '^a\\.c$'", &[]).await;
    assert!(right.expect("answered").get::<_, bool>(0));
}
