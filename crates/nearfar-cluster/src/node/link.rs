//! A node's connection to another one: encrypted, both sides known by certificates, every byte counted.

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, Ticket};
use bytes::Bytes;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use futures::{Stream, TryStreamExt};
use hyper_util::rt::TokioIo;
use nearfar_sql::error::EngineError;
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};
use tower::service_fn;
use url::Url;

use crate::config::NodeEntry;
use crate::error::{AskError, failed, failed_query};
use crate::messages::{Hello, Read, Reply, Request};

/// A node that does not take a connection for so long is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same of one that does not answer a question that takes no time.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same of one that has not answered the question before either.
const SILENT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a silent connection is tried, so that a node that is gone is noticed while it owes rows.
pub const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// The name under which requests are sent as Flight's actions.
pub const ACTION: &str = "nearfar-cluster";

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

/// What was last heard of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: it does not answer.
    #[default]
    Nothing,
    /// It does not fit: it has another version, or other tables.
    Unfit,
    /// It is being stopped.
    Stopping,
    /// It is there.
    Up,
}

/// A node as another one sees it.
#[derive(Debug, Clone)]
pub struct Link {
    entry: NodeEntry,
    url: Url,
    channel: Channel,
    counters: Arc<Counters>,
    heard: Arc<Mutex<Heard>>,
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
            .keep_alive_timeout(ANSWER_TIMEOUT)
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
            heard: Arc::default(),
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

    /// What was last heard of it.
    pub fn heard(&self) -> Heard {
        *self.heard.lock()
    }

    /// Whether it is there and fits.
    pub fn is_up(&self) -> bool {
        self.heard() == Heard::Up
    }

    /// Says what was heard of it.
    pub fn set_heard(&self, heard: Heard) {
        let before = std::mem::replace(&mut *self.heard.lock(), heard);
        if before != heard {
            tracing::info!(node = self.name(), ?before, now = ?heard, "a node has come or gone");
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
    pub fn lost(&self, error: &tonic::Status) -> AskError {
        AskError::Silent {
            node: self.name().to_owned(),
            address: self.address(),
            reason: error.message().to_owned(),
        }
    }

    /// What a reply says, if it is not that the node can't.
    ///
    /// # Errors
    /// A node that refuses.
    pub fn granted(&self, reply: Reply) -> Result<Reply, AskError> {
        match reply {
            Reply::Refused { message } => Err(AskError::Refused { message }),
            Reply::Stopping => Err(AskError::Stopping {
                node: self.name().to_owned(),
            }),
            reply => Ok(reply),
        }
    }

    /// Asks for something that takes no time.
    ///
    /// # Errors
    /// A node that does not answer, or refuses.
    pub async fn ask(&self, request: &Request) -> Result<Reply, AskError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, self.ask_patiently(request)).await {
            Ok(reply) => reply,
            Err(_) => {
                self.set_heard(Heard::Nothing);
                Err(self.lost(&tonic::Status::deadline_exceeded("it is silent")))
            }
        }
    }

    /// The same of a node that others may stand in for: one of which nothing is heard is given little time.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_briefly(&self, request: &Request) -> Result<Reply, AskError> {
        if self.heard() != Heard::Nothing {
            return self.ask(request).await;
        }
        match tokio::time::timeout(SILENT_TIMEOUT, self.ask(request)).await {
            Ok(reply) => reply,
            Err(_) => Err(self.lost(&tonic::Status::deadline_exceeded("it is silent"))),
        }
    }

    /// Asks for something that takes its time.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_patiently(&self, request: &Request) -> Result<Reply, AskError> {
        let refused = |message: String| AskError::Refused { message };
        let body = serde_json::to_vec(request).map_err(|error| refused(error.to_string()))?;
        let action = Action {
            r#type: ACTION.to_owned(),
            body: Bytes::from(body),
        };
        let asked = async {
            let mut replies = self.flight().do_action(action).await?.into_inner();
            replies.message().await
        };
        let reply = asked.await.map_err(|error| {
            self.set_heard(Heard::Nothing);
            self.lost(&error)
        })?;
        let name = self.name();
        let reply = reply.ok_or_else(|| refused(format!("node `{name}` says nothing")))?;
        let reply = serde_json::from_slice(&reply.body).map_err(|error| {
            refused(format!(
                "node `{name}` answers what this one does not know ({error}): run one version on all nodes"
            ))
        })?;
        self.granted(reply)
    }

    /// Rows of the node.
    ///
    /// # Errors
    /// A node that does not answer. What it refuses is an error among the rows.
    pub async fn read(
        &self,
        read: &Read,
    ) -> Result<impl Stream<Item = Result<RecordBatch, EngineError>> + Send + use<>, EngineError>
    {
        let ticket = serde_json::to_vec(read).map_err(|error| failed(error.to_string()))?;
        let rows = self.flight().do_get(Ticket::new(ticket)).await;
        let rows = rows.map_err(|status| self.lost(&status))?.into_inner();
        let rows = rows.map_err(|status| FlightError::Tonic(Box::new(status)));
        let name = self.name().to_owned();
        let rows = FlightRecordBatchStream::new_from_flight_data(rows);
        Ok(rows.map_err(move |error| failed(format!("node `{name}`: {error}"))))
    }

    /// Who the node is.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn hello(&self, own: &Hello) -> Result<Hello, AskError> {
        match self.ask(&Request::Hello(own.clone())).await? {
            Reply::Hello(hello) => Ok(hello),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The error of a node that answers something else than what was asked.
    pub fn unexpected(&self, reply: &Reply) -> AskError {
        AskError::Refused {
            message: format!("node `{}` answers {reply:?}", self.name()),
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
