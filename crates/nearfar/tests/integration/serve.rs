//! `nearfar serve`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::support::{program, run, run_with_input, temp};

/// A server that is killed when its test gives up.
struct Serving {
    child: Child,
    /// Where it tells health.
    http: String,
    /// What it said until it was ready.
    said: Vec<String>,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut command = program();
        command.args(["serve", "--port", "0", "--http", "127.0.0.1:0"]);
        let spawned = command.args(arguments).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = Vec::new();
        loop {
            let line = lines.next().expect("a line").expect("UTF-8");
            let is_ready = line == "ready";
            said.push(line);
            if is_ready {
                break;
            }
        }
        // So that it is never held up by what it says.
        thread::spawn(move || lines.for_each(drop));
        let http = said.iter().find_map(|line| line.split_once("on http://"));
        let http = http.expect("an address").1.to_owned();
        Self { child, http, said }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("received");
        text
    }

    /// Its exit code after SIGTERM.
    fn terminate(mut self) -> Option<i32> {
        // The shell's own `kill`, because not every system has the program.
        let kill = ["-c", "kill -TERM \"$0\"", &self.child.id().to_string()];
        let status = Command::new("sh").args(kill).status();
        assert!(status.expect("a shell").success());
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_starts_tells_its_health_and_ends() {
    let serving = Serving::start(&["--tpch", "0.001"]);
    let said = serving.said.join("\n");
    for told in [
        "listening on 127.0.0.1:",
        "there are no users",
        "in memory only",
    ] {
        assert!(said.contains(told), "{said}");
    }
    assert!(serving.get("/health/ready").starts_with("HTTP/1.1 200"));
    assert!(serving.get("/metrics").contains("\nnearfar_tables 8\n"));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn users_are_kept_without_their_passwords() {
    let folder = temp();
    let file = folder.path().join("users");
    let path = file.to_str().expect("UTF-8");
    let add = [
        "serve",
        "user",
        "add",
        "ann",
        "--file",
        path,
        "--role",
        "read-only",
    ];
    assert_eq!(run_with_input(add, "correct horse\n").succeeded(), "");
    let text = fs::read_to_string(&file).expect("read");
    assert!(text.starts_with("ann read-only SCRAM-SHA-256$"), "{text}");
    assert!(!text.contains("horse"), "{text}");
    run_with_input(add, "another\n").failed(4, &["in the file already"]);
    run_with_input(["serve", "user", "add", "bob", "--file", path], "\n").failed(2, &["empty"]);
    let serving = Serving::start(&["--users", path]);
    assert!(!serving.said.join("\n").contains("no users"));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_told_with_what_it_was_for() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let http = taken.local_addr().expect("an address").to_string();
    run(["serve", "--port", "0", "--http", &http])
        .failed(9, &["health and metrics", "choose another"]);
}

#[test]
fn what_would_be_open_to_others_is_refused() {
    run(["serve", "--listen", "0.0.0.0", "--port", "0"]).failed(2, &["there are no users"]);
    run(["serve", "--users", "/nowhere/users"]).failed(4, &["/nowhere/users"]);
}
