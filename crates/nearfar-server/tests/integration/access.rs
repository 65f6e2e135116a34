//! Who may connect, and what they may do.

use std::net::SocketAddr;
use std::sync::Arc;

use nearfar_server::{Role, Server, ServerError, ServerState, User, Users};

use crate::support::{code, connect, options, start, start_with};

fn users() -> Option<Users> {
    let user = |name, role| User::new(name, role, "correct horse").expect("a user");
    Some(Users::new([
        user("ann", Role::ReadWrite),
        user("bob", Role::ReadOnly),
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_lets_in() {
    let options = nearfar_server::ServerOptions {
        users: users(),
        ..options()
    };
    let server = start_with(options).await;
    let mut config = server.config();
    config.user("ann").password("correct horse");
    let client = connect(&config).await.expect("connected");
    client.batch_execute("SELECT 1").await.expect("answered");
    assert_eq!(code(connect(config.password("wrong")).await), "28P01");
    assert_eq!(
        code(connect(config.user("eve").password("correct horse")).await),
        "28P01"
    );
    assert!(server.metric("nearfar_logins_failed_total") >= 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_users_change_nothing() {
    let options = nearfar_server::ServerOptions {
        users: users(),
        may_use_files: true,
        ..options()
    };
    let server = start_with(options).await;
    let mut config = server.config();
    config.password("correct horse");
    let writer = connect(config.user("ann")).await.expect("connected");
    let reader = connect(config.user("bob")).await.expect("connected");
    writer
        .batch_execute("CREATE TABLE t AS SELECT 1 AS a")
        .await
        .expect("created");
    for sql in [
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET a = 2",
        "DELETE FROM t",
        "TRUNCATE t",
        "CREATE TABLE u AS SELECT 1 AS a",
        "CREATE TEMP TABLE u AS SELECT 1 AS a",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE SCHEMA s",
        "DROP TABLE t",
        "ALTER TABLE t SET TABLESPACE near",
        "CALL nearfar.merge('t')",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (2)",
        "SET merge_rows = 1",
        "BEGIN; INSERT INTO t VALUES (2)",
    ] {
        assert_eq!(code(reader.batch_execute(sql).await), "25006", "{sql}");
        reader.batch_execute("ROLLBACK").await.expect("rolled back");
    }
    assert_eq!(
        code(reader.batch_execute("COPY t TO '/tmp/never.csv'").await),
        "42501"
    );
    let prepared = reader
        .batch_execute("PREPARE p AS INSERT INTO t VALUES (2); EXECUTE p")
        .await;
    assert_eq!(code(prepared), "25006");
    let rows = reader.query("SELECT a FROM t", &[]).await.expect("read");
    assert_eq!(rows.len(), 1);
}

#[tokio::test]
async fn without_users_only_this_machine_is_served() {
    let server = start().await;
    let mut options = options();
    options.listen = SocketAddr::from(([0, 0, 0, 0], 0));
    let handle = tokio::runtime::Handle::current();
    let refused = Server::bind(Arc::clone(&server.engine), handle, options).await;
    assert!(matches!(
        refused.err(),
        Some(ServerError::Unprotected { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_refused_and_the_others_stay() {
    let options = nearfar_server::ServerOptions {
        max_connections: 2,
        ..options()
    };
    let server = start_with(options).await;
    let (one, two) = (server.client().await, server.client().await);
    assert_eq!(code(connect(&server.config()).await), "53300");
    one.batch_execute("SELECT 1").await.expect("answered");
    drop(two);
    server
        .wait_until("a free place", |it| it.metric("nearfar_sessions") < 2.0)
        .await;
    server
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_ready_says_so() {
    let server = start().await;
    assert_eq!(server.get("/health/ready").0, 200);
    server.state.set(ServerState::Standby);
    assert_eq!(server.get("/health/ready").0, 503);
    assert_eq!(server.get("/health/live").0, 200);
    assert_eq!(code(connect(&server.config()).await), "57P03");
    server.state.set(ServerState::Ready);
    server
        .client()
        .await
        .batch_execute("SELECT 1")
        .await
        .expect("answered");
    assert_eq!(server.get("/nothing").0, 404);
    assert!(server.metric("nearfar_statements_total") >= 1.0);
    assert!(server.metric("nearfar_tier_capacity_bytes{tier=\"near\"}") > 0.0);
}
