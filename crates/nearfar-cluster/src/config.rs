//! The file that describes a cluster: its nodes, and the certificates that they know each other by.

use nearfar_sql::error::EngineError;
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use url::Url;

use crate::error::failed;

/// A cluster. The order of nodes is part of where rows are, and must be the same on all of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// What the cluster is called. Nodes of another one are refused.
    pub name: String,
    /// The certificates, relative to the folder of the file.
    pub tls: TlsFiles,
    /// The nodes.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeEntry>,
}

/// The files of a node's certificates (PEM).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The authority that vouches for all nodes.
    pub authority: PathBuf,
    /// The certificate of this node.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// What it is called in errors and metrics.
    pub name: String,
    /// Where it listens to the others. Its certificate is for this address.
    pub address: SocketAddr,
}

impl NodeEntry {
    /// Where the distributed engine finds it.
    pub(crate) fn url(&self) -> Result<Url, EngineError> {
        let text = format!("https://{}", self.address);
        Url::parse(&text).map_err(|error| failed(format!("`{text}` is no address: {error}")))
    }
}

impl ClusterFile {
    /// Reads a file. Paths in it are taken from its folder.
    ///
    /// # Errors
    /// A file that can't be read, or describes no cluster.
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let wrong = |what: String| failed(format!("the cluster file `{}`: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut file: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let tls = &mut file.tls;
        for path in [&mut tls.authority, &mut tls.certificate, &mut tls.key] {
            *path = folder.join(&path);
        }
        if file.nodes.is_empty() {
            return Err(wrong("it has no [[node]]".to_owned()));
        }
        for (at, node) in file.nodes.iter().enumerate() {
            let others = &file.nodes[..at];
            if others
                .iter()
                .any(|other| other.name == node.name || other.address == node.address)
            {
                return Err(wrong(format!(
                    "two nodes are `{}` at {}",
                    node.name, node.address
                )));
            }
        }
        Ok(file)
    }

    /// The index of a node.
    ///
    /// # Errors
    /// A name that no node has.
    pub fn index_of(&self, name: &str) -> Result<usize, EngineError> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            let names = names.join(", ");
            failed(format!(
                "cluster `{}` has no node `{name}`; it has {names}",
                self.name
            ))
        })
    }
}

impl TlsFiles {
    /// The files `authority.pem`, `node.pem` and `node.key` of a folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            authority: folder.join("authority.pem"),
            certificate: folder.join("node.pem"),
            key: folder.join("node.key"),
        }
    }

    fn file(path: &Path) -> Result<Vec<u8>, EngineError> {
        fs::read(path).map_err(|error| failed(format!("`{}`: {error}", path.display())))
    }

    fn identity(&self) -> Result<(Certificate, Identity), EngineError> {
        let authority = Certificate::from_pem(Self::file(&self.authority)?);
        let identity = Identity::from_pem(Self::file(&self.certificate)?, Self::file(&self.key)?);
        Ok((authority, identity))
    }

    /// What a node asks of those that connect: a certificate of the same authority.
    pub(crate) fn server(&self) -> Result<ServerTlsConfig, EngineError> {
        let (authority, identity) = self.identity()?;
        Ok(ServerTlsConfig::new()
            .identity(identity)
            .client_ca_root(authority))
    }

    /// What a node shows and asks where it connects to another.
    pub(crate) fn client(&self) -> Result<ClientTlsConfig, EngineError> {
        let (authority, identity) = self.identity()?;
        Ok(ClientTlsConfig::new()
            .identity(identity)
            .ca_certificate(authority)
            .assume_http2(true))
    }
}
