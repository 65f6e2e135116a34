//! A cluster whose nodes are processes of this machine, on ports that are free, with certificates of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::error::ClusterBenchError;
use crate::ports::free_addresses;
use crate::server_process::{ServerError, ServerProcess, Signal};

/// A cluster, which ends when this is dropped.
#[derive(Debug)]
pub struct LocalCluster {
    program: PathBuf,
    file: PathBuf,
    threads: usize,
    /// Where nodes keep their tables, if they do.
    data: Option<PathBuf>,
    /// Where nodes take each other.
    places: Vec<SocketAddr>,
    nodes: Vec<ServerProcess>,
}

/// What is different for a node that is started again.
#[derive(Debug, Clone, Copy, Default)]
struct Rest<'a> {
    /// The node that it asks for the list, instead of reading the file.
    joins: Option<usize>,
    /// Arguments beside those that all nodes have.
    arguments: &'a [&'a str],
}

impl LocalCluster {
    /// Starts `count` nodes of `threads` threads each. Their files are in `folder`, with `is_kept` their tables too.
    ///
    /// # Errors
    /// Files that can't be written; a node that does not start.
    pub fn start(
        program: &Path,
        folder: &Path,
        count: usize,
        threads: usize,
        is_kept: bool,
    ) -> Result<Self, ClusterBenchError> {
        let places = free_addresses(count)?;
        let file = write_cluster(folder, &places)?;
        let mut cluster = Self {
            program: program.to_owned(),
            file,
            threads,
            data: is_kept.then(|| folder.to_owned()),
            places,
            nodes: Vec::new(),
        };
        cluster.restart_all()?;
        Ok(cluster)
    }

    /// Starts all nodes, which have ended if they were started before.
    ///
    /// # Errors
    /// A node that does not start.
    pub fn restart_all(&mut self) -> Result<(), ServerError> {
        // None is ready before all are there: where one does not start, nobody waits for the others.
        let (told, tells) = channel();
        for index in 0..self.places.len() {
            let (program, told) = (self.program.clone(), told.clone());
            let args = self.arguments(index, &Rest::default());
            thread::spawn(move || {
                let node = ServerProcess::start_with(&program, &args);
                // A node that nobody wants any more ends here.
                drop(told.send((index, node)));
            });
        }
        drop(told);
        let started = tells.into_iter().map(|(index, node)| Ok((index, node?)));
        let started = started.collect::<Result<BTreeMap<_, _>, ServerError>>()?;
        self.nodes = started.into_values().collect();
        Ok(())
    }

    fn node(&self, index: usize, rest: &Rest<'_>) -> Result<ServerProcess, ServerError> {
        ServerProcess::start_with(&self.program, &self.arguments(index, rest))
    }

    fn arguments(&self, index: usize, rest: &Rest<'_>) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["serve", "--port", "0", "--http", "127.0.0.1:0"]
            .map(OsString::from)
            .to_vec();
        args.extend(["--allow-files", "--node"].map(OsString::from));
        args.push(name(index).into());
        match rest.joins {
            None => args.extend(["--cluster".into(), self.file.clone().into()]),
            Some(member) => {
                let folder = self.file.parent().unwrap_or(Path::new("."));
                args.extend(["--join".into(), self.places[member].to_string().into()]);
                args.extend(["--certificates".into(), folder.into()]);
            }
        }
        args.extend(["--threads".into(), self.threads.to_string().into()]);
        if let Some(data) = &self.data {
            args.extend(["--log-sync", "on", "--data"].map(OsString::from));
            args.push(data.join(format!("data-{index}")).into());
        }
        args.extend(rest.arguments.iter().map(OsString::from));
        args
    }

    /// The file that describes it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where a node takes clients.
    pub fn address(&self, index: usize) -> SocketAddr {
        self.nodes[index].address
    }

    /// Ends a node without a warning.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Sends a node a signal.
    ///
    /// # Errors
    /// A node that has ended.
    pub fn signal(&self, index: usize, signal: Signal) -> io::Result<()> {
        self.nodes[index].signal(signal)
    }

    /// Waits until a node ends; its exit code, if it was not killed.
    ///
    /// # Errors
    /// A process that can't be waited for.
    pub fn wait(&mut self, index: usize) -> io::Result<Option<i32>> {
        Ok(self.nodes[index].wait()?.code())
    }

    /// Starts a node again that has ended.
    ///
    /// # Errors
    /// A node that does not start.
    pub fn restart(&mut self, index: usize) -> Result<(), ServerError> {
        self.restart_with(index, &[])
    }

    /// The same, with more arguments than the other nodes have.
    ///
    /// # Errors
    /// A node that does not start.
    pub fn restart_with(&mut self, index: usize, arguments: &[&str]) -> Result<(), ServerError> {
        let rest = Rest {
            joins: None,
            arguments,
        };
        self.nodes[index] = self.node(index, &rest)?;
        Ok(())
    }

    /// Starts a node again that has ended, without the file: it asks the node `member`.
    ///
    /// # Errors
    /// A node that does not start.
    pub fn rejoin(&mut self, index: usize, member: usize) -> Result<(), ServerError> {
        let rest = Rest {
            joins: Some(member),
            arguments: &[],
        };
        self.nodes[index] = self.node(index, &rest)?;
        Ok(())
    }

    /// What a node's metrics tell of `name`, which has its labels if it has some.
    ///
    /// # Errors
    /// A node that tells no metrics, or not this one.
    pub fn metric(&self, index: usize, name: &str) -> io::Result<u64> {
        metric_of(&self.nodes[index], name)
    }

    /// Bytes that all nodes have sent and received so far, each counted once, by who has connected.
    ///
    /// # Errors
    /// A node that tells no metrics.
    pub fn exchanged_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for node in &self.nodes {
            let page = node.http.map_or(Ok(String::new()), metrics_page)?;
            bytes += counted(&page, "nearfar_cluster_sent_bytes_total");
            bytes += counted(&page, "nearfar_cluster_received_bytes_total");
        }
        Ok(bytes)
    }
}

/// What a node is called.
fn name(index: usize) -> String {
    format!("w{}", index + 1)
}

/// Writes the file of a cluster whose nodes take each other at `places`, and certificates that all of them use, to
/// `folder`. They are called `w1` and so on.
///
/// # Errors
/// Files that can't be written.
pub fn write_cluster(folder: &Path, places: &[SocketAddr]) -> Result<PathBuf, ClusterBenchError> {
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|source| ClusterBenchError::File {
            path: path.clone(),
            source,
        })?;
        Ok::<_, ClusterBenchError>(path)
    };
    let mut authority = CertificateParams::new(Vec::<String>::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    write("authority.pem", &authority.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate()?;
    let addresses: BTreeSet<String> = places.iter().map(|at| at.ip().to_string()).collect();
    let node = CertificateParams::new(addresses.into_iter().collect::<Vec<_>>())?;
    write("node.pem", &node.signed_by(&key, &issuer)?.pem())?;
    write("node.key", &key.serialize_pem())?;
    let mut text = String::from(
        "name = \"local\"\n\n[tls]\nauthority = \"authority.pem\"\ncertificate = \"node.pem\"\nkey = \"node.key\"\n",
    );
    for (index, place) in places.iter().enumerate() {
        let name = name(index);
        text += &format!("\n[[node]]\nname = \"{name}\"\naddress = \"{place}\"\n");
    }
    write("cluster.toml", &text)
}

/// What a server's metrics tell of `name`, which has its labels if it has some.
///
/// # Errors
/// A server that tells no metrics, or not this one.
pub fn metric_of(server: &ServerProcess, name: &str) -> io::Result<u64> {
    let page = server.http.map_or(Ok(String::new()), metrics_page)?;
    value(&page, name).ok_or_else(|| io::Error::other(format!("there is no metric {name}")))
}

fn metrics_page(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// The value of one line.
fn value(page: &str, name: &str) -> Option<u64> {
    let mut values = page.lines().filter_map(|line| line.rsplit_once(' '));
    values.find(|(found, _)| *found == name)?.1.parse().ok()
}

/// The sum of a counter over its labels.
fn counted(page: &str, name: &str) -> u64 {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (_, value) = rest.rsplit_once(' ')?;
        value.parse::<u64>().ok()
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_over_their_labels() {
        let page =
            "# TYPE sent counter\nsent_total{node=\"a\"} 2\nsent_total{node=\"b\"} 40\nother 7\n";
        assert_eq!(counted(page, "sent_total"), 42);
        assert_eq!(value(page, "sent_total{node=\"b\"}"), Some(40));
        assert_eq!(value(page, "sent_total"), None);
    }
}
