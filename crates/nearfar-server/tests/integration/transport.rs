//! Encryption.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nearfar_server::{Server, ServerError, ServerOptions, TlsOptions};
use tempfile::TempDir;

use crate::support::{Running, code, connect, options, start, start_with};

fn chmod(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("set");
}

/// A certificate for `localhost`, and its key, in a folder.
fn certificate() -> (TempDir, TlsOptions) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let folder = tempfile::tempdir().expect("a folder");
    let options = TlsOptions {
        certificate: folder.path().join("c.pem"),
        key: folder.path().join("k.pem"),
        is_required: true,
    };
    std::fs::write(&options.certificate, made.cert.pem()).expect("written");
    std::fs::write(&options.key, made.signing_key.serialize_pem()).expect("written");
    chmod(&options.key, 0o600);
    (folder, options)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_encrypted_connections_are_taken_where_that_is_required() {
    let (_folder, tls) = certificate();
    let options = ServerOptions {
        tls: Some(tls),
        ..options()
    };
    let server = start_with(options).await;
    assert_eq!(code(connect(&server.config()).await), "28000");
    let mut stream = server.raw();
    stream
        .write_all(&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f])
        .expect("sent");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"S");
    // What psql does, where it is there.
    let host = format!(
        "host=127.0.0.1 port={} user=me sslmode=require",
        server.address.port()
    );
    let psql = tokio::task::spawn_blocking(move || {
        Command::new("psql")
            .args([&host, "-Atc", "SELECT 41 + 1"])
            .output()
    });
    if let Ok(ran) = psql.await.expect("no panic") {
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "42\n", "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_certificate_says_so() {
    let server = start().await;
    let mut stream = server.raw();
    stream
        .write_all(&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f])
        .expect("sent");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"N");
    stream.write_all(&crate::support::startup()).expect("sent");
    crate::support::read_until(&mut stream, b'Z');
}

#[tokio::test]
async fn files_that_are_no_certificate_are_refused() {
    let server = start().await;
    let (folder, mut tls) = certificate();
    let readable = TlsOptions {
        key: folder.path().join("open.pem"),
        ..tls.clone()
    };
    std::fs::copy(&tls.key, &readable.key).expect("copied");
    chmod(&readable.key, 0o604);
    tls.key = folder.path().join("c.pem");
    chmod(&tls.key, 0o600);
    for (tls, told) in [(readable, "chmod it to 600"), (tls, "c.pem")] {
        refused_with(&server, tls, told).await;
    }
}

/// Checks that a server does not start with these files, and says why.
async fn refused_with(server: &Running, tls: TlsOptions, told: &str) {
    let options = ServerOptions {
        tls: Some(tls),
        ..options()
    };
    let handle = tokio::runtime::Handle::current();
    let refused = Server::bind(server.engine.clone(), handle, options).await;
    let error = refused.err().expect("refused");
    assert!(matches!(error, ServerError::Tls { .. }), "{error}");
    assert!(error.to_string().contains(told), "{error}");
}
