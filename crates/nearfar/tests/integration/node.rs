//! Servers as processes of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::support::program;

/// After which a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// A server, which is killed when its test gives up.
pub struct Node {
    pub child: Child,
    lines: Receiver<String>,
    pub said: Vec<String>,
}

impl Node {
    /// Starts the program with these arguments.
    pub fn spawn(arguments: &[String]) -> Self {
        Self::spawn_in(arguments, &[])
    }

    /// The same with these variables.
    pub fn spawn_in(arguments: &[String], variables: &[(&str, &str)]) -> Self {
        let mut command = program();
        command.args(arguments).envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("started");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        let said = Vec::new();
        Self { child, lines, said }
    }

    /// Waits until it says `line`. False when it ends before.
    pub fn says(&mut self, line: &str) -> bool {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(said) => {
                    let is_it = said == line;
                    self.said.push(said);
                    if is_it {
                        return true;
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{line:?} in {:?}", self.said),
            }
        }
    }

    #[track_caller]
    pub fn wait_for(&mut self, line: &str) {
        assert!(self.says(line), "{line:?} is missing in {:?}", self.said);
    }

    pub fn address(&self, what: &str) -> String {
        let found = self.said.iter().find_map(|line| line.split_once(what));
        found.expect("an address").1.to_owned()
    }

    pub fn http(&self) -> String {
        self.address("on http://")
    }

    pub fn get(&self, path: &str) -> String {
        let http = self.http();
        let mut stream = TcpStream::connect(&http).expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("received");
        text
    }

    pub async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let address = self.address("listening on ");
        let (host, port) = address.rsplit_once(':').expect("a port");
        let config = format!("host={host} port={port} user=ann");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    pub fn signal(&self, signal: &str) {
        let kill = ["-c", "kill -$1 $0", &self.child.id().to_string(), signal];
        let status = Command::new("sh").args(kill).status();
        assert!(status.expect("a shell").success());
    }

    /// Its exit code, once it ends.
    pub fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end: {:?}", self.said);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
