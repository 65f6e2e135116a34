//! A node's connection to another one: encrypted, both sides known by certificates, every byte counted.

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use bytes::Bytes;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use hyper_util::rt::TokioIo;
use nearfar_sql::error::EngineError;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};
use tower::service_fn;
use url::Url;

use crate::config::NodeEntry;
use crate::error::{failed, failed_query};
use crate::messages::{Hello, Reply, Request};

/// A node that does not take a connection for so long is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same of one that does not answer a question that takes no time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent connection is tried, so that a node that is gone is noticed while it owes rows.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// The name under which requests are sent as Flight's actions.
pub const ACTION: &str = "nearfar-cluster";

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

/// A node as another one sees it.
#[derive(Debug, Clone)]
pub struct Link {
    entry: NodeEntry,
    url: Url,
    channel: Channel,
    counters: Arc<Counters>,
    is_up: Arc<AtomicBool>,
}

impl Link {
    /// A link that connects when it is used, and again after an interruption. Needs a runtime.
    pub fn new(entry: &NodeEntry, tls: ClientTlsConfig) -> Result<Self, EngineError> {
        let wrong =
            |error: tonic::transport::Error| failed(format!("node `{}`: {error}", entry.name));
        let url = entry.url()?;
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(wrong)?
            .tls_config(tls)
            .map_err(wrong)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .tcp_nodelay(true)
            .initial_connection_window_size(16 << 20)
            .initial_stream_window_size(4 << 20);
        let counters = Arc::new(Counters::default());
        let (address, counted) = (entry.address, Arc::clone(&counters));
        let connector = service_fn(move |_: Uri| {
            let counters = Arc::clone(&counted);
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                io::Result::Ok(TokioIo::new(Counted { stream, counters }))
            }
        });
        Ok(Self {
            entry: entry.clone(),
            url,
            channel: endpoint.connect_with_connector_lazy(connector),
            counters,
            is_up: Arc::default(),
        })
    }

    /// What the node is called.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.entry.address
    }

    /// Where the distributed engine finds it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whether it has answered last time.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Says whether it is there.
    pub fn set_up(&self, is_up: bool) {
        let was_up = self.is_up.swap(is_up, Ordering::Relaxed);
        if was_up != is_up {
            tracing::info!(node = self.name(), is_up, "a node has come or gone");
        }
    }

    /// Bytes sent on connections to it.
    pub fn sent_bytes(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Bytes received on connections to it.
    pub fn received_bytes(&self) -> u64 {
        self.counters.received.load(Ordering::Relaxed)
    }

    /// Flight, for rows.
    pub fn flight(&self) -> FlightServiceClient<Channel> {
        FlightServiceClient::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// The error of a node that can't be asked.
    pub fn lost(&self, error: &tonic::Status) -> EngineError {
        failed(format!(
            "node `{}` at {} does not answer: {}",
            self.name(),
            self.address(),
            error.message()
        ))
    }

    /// Asks for something that takes no time.
    ///
    /// # Errors
    /// A node that does not answer, or refuses.
    pub async fn ask(&self, request: &Request) -> Result<Reply, EngineError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, self.ask_patiently(request)).await {
            Ok(reply) => reply,
            Err(_) => {
                self.set_up(false);
                Err(self.lost(&tonic::Status::deadline_exceeded("it is silent")))
            }
        }
    }

    /// Asks for something that takes its time.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_patiently(&self, request: &Request) -> Result<Reply, EngineError> {
        let internal = |error: serde_json::Error| failed(error.to_string());
        let body = Bytes::from(serde_json::to_vec(request).map_err(internal)?);
        let action = Action {
            r#type: ACTION.to_owned(),
            body,
        };
        let asked = async {
            let mut replies = self.flight().do_action(action).await?.into_inner();
            replies.message().await
        };
        let reply = asked.await.map_err(|error| {
            self.set_up(false);
            self.lost(&error)
        })?;
        let reply = reply.ok_or_else(|| failed(format!("node `{}` says nothing", self.name())))?;
        match serde_json::from_slice(&reply.body).map_err(internal)? {
            Reply::Refused { message } => Err(failed(message)),
            reply => Ok(reply),
        }
    }

    /// Who the node is.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn hello(&self, own: &Hello) -> Result<Hello, EngineError> {
        match self.ask(&Request::Hello(own.clone())).await? {
            Reply::Hello(hello) => Ok(hello),
            other => Err(failed(format!("node `{}` answers {other:?}", self.name()))),
        }
    }
}

/// The links of a node, for the distributed engine.
#[derive(Debug, Clone)]
pub struct Links(pub Vec<Link>);

#[async_trait::async_trait]
impl ChannelResolver for Links {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let link = self.0.iter().find(|link| link.url == *url);
        let link = link.ok_or_else(|| exec_datafusion_err!("there is no node at {url}"))?;
        let mut channel = link.channel.clone();
        let ready = tower::ServiceExt::ready(&mut channel);
        ready.await.map_err(|error| {
            failed_query(format!(
                "node `{}` at {} does not answer: {error}",
                link.name(),
                link.address()
            ))
        })?;
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}

/// A connection that counts its bytes.
struct Counted {
    stream: TcpStream,
    counters: Arc<Counters>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.counters
            .received
            .fetch_add(read as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.counters
                .sent
                .fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
