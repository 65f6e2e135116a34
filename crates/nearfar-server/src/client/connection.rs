//! One connection: its messages, one after another.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hashbrown::HashMap;
use nearfar_sql::engine::{Session, TransactionState};
use nearfar_sql::sql::Recent;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use pgwire::tokio::server::MaybeTls;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::extended::{Parsed, Portal, Prepared};
use super::failure::{Failure, state};
use super::interrupt::{Ended, stopping};
use super::login;
use super::settings::SharedSettings;
use super::simple::Known;
use super::statement::Read;
use crate::admission::{Place, Stranger};
use crate::attention::Punctuality;
use crate::cancel::CancelKey;
use crate::shared::Shared;
use crate::state::ServerState;
use crate::threads::Seat;
use crate::wire::{ReadError, Reader, Request, RequestKind, Writer};

/// Within which a client takes the last words of its connection.
const GOODBYE: Duration = Duration::from_secs(5);

/// What a client whose statement was committed gets to end its series of messages, once the server
/// has stopped: it takes the error that ends the connection for that of the statement.
const SERIES_GRACE: Duration = Duration::from_millis(500);

/// A client that has said who it is.
pub struct Connection {
    pub shared: Arc<Shared>,
    pub reader: Reader<ReadHalf<MaybeTls>>,
    pub writer: Writer<WriteHalf<MaybeTls>>,
    pub session: Session,
    pub settings: Arc<SharedSettings>,
    pub cancel: CancelKey,
    pub prepared: HashMap<String, Arc<Prepared>>,
    pub portals: HashMap<String, Portal>,
    /// What messages have prepared, under whatever name.
    pub parsed: Recent<Parsed>,
    /// The statements of texts that are one statement each.
    pub recent: Recent<Read>,
    /// What is known of texts with parameters in place of their integers.
    pub shapes: Recent<Known>,
    /// One of the places that there are for clients.
    pub place: Option<Place>,
    /// On the thread that serves it.
    pub seat: Seat,
    /// Held by the statement that runs, also by one that was given up and has not noticed yet.
    pub working: Arc<Mutex<()>>,
    /// How often the client's messages come soon.
    pub punctuality: Punctuality,
    /// Whether a command has changed rows, or committed, since the client was last told that it may go on. Those that
    /// give the changed rows back do not count.
    pub has_changed: bool,
    /// Whether a statement was committed within the series of messages that has not ended yet.
    pub is_unconfirmed: bool,
}

/// Serves one client, until it goes or has to.
pub async fn serve(shared: Arc<Shared>, (stream, seat): (TcpStream, Seat), stranger: Stranger) {
    let limit = shared.options.authentication_timeout;
    let opened = tokio::select! {
        opened = timeout(limit, login::open(&shared, (stream, seat), stranger.from())) => opened,
        () = stranger.sent_away() => {
            shared.metrics.logins_failed.inc();
            tracing::debug!("a client that had not said who it is made room for another");
            return;
        }
        // Nobody is let in any more, and who is silent is not waited for.
        () = shared.state.wait_for(ServerState::Stopping) => return,
    };
    drop(stranger);
    match opened {
        Ok(Some(mut connection)) => {
            connection.shared.metrics.sessions.inc();
            let ended = connection.answer_all().await;
            drop(connection.place.take());
            connection.shared.metrics.sessions.dec();
            if let Ended::Failed(failure) = ended {
                let goodbye = async {
                    connection.tell(&failure)?;
                    connection.writer.close().await
                };
                // A client that does not listen is not waited for.
                let _ = timeout(GOODBYE, goodbye).await;
            }
        }
        Ok(None) => {}
        Err(_) => {
            shared.metrics.logins_failed.inc();
            tracing::debug!("a client did not say in time who it is");
        }
    }
}

impl Connection {
    /// Answers messages until the connection ends.
    async fn answer_all(&mut self) -> Ended {
        // Whether messages are passed over until the series that failed has ended.
        let mut is_skipping = false;
        loop {
            // Many messages that have come together do not keep the thread from its other clients.
            consume_budget().await;
            let answered = match self.next().await {
                Ok(Incoming::Request(request)) => self.answer(request, &mut is_skipping).await,
                Ok(Incoming::TooLong { kind, failure }) => {
                    self.refuse(kind, &failure, &mut is_skipping).await
                }
                Err(ended) => return ended,
            };
            if let Err(ended) = answered {
                return ended;
            }
        }
    }

    async fn answer(&mut self, request: Request, is_skipping: &mut bool) -> Result<(), Ended> {
        let is_extended = request.is_extended();
        if *is_skipping && is_extended {
            return Ok(());
        }
        // What waits for others has a state of its own, so that that of all messages is small.
        let answered = match request {
            Request::Query(sql) => {
                let answered = Box::pin(self.simple(sql)).await;
                self.report(answered)?;
                *is_skipping = false;
                return self.ready().await;
            }
            Request::Sync => {
                *is_skipping = false;
                self.end_series();
                return self.ready().await;
            }
            Request::Parse(parse) => Box::pin(self.parse(parse)).await,
            Request::Bind(bind) => self.bind(bind),
            Request::Describe(target) => self.describe(&target),
            Request::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Request::Close(target) => self.close(&target),
            Request::Flush => Ok(self.writer.flush().await?),
            // What is left of a COPY that has failed.
            Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) => Ok(()),
            Request::Terminate => return Err(Ended::Gone),
            Request::Password(_) => {
                Err(Failure::protocol("a password was sent, but none was asked for").into())
            }
        };
        if self.report(answered)? {
            *is_skipping = is_extended;
            self.writer.flush().await?;
        }
        Ok(())
    }

    /// The next message, if it has come, or comes soon and there is a processor to look for it.
    async fn soon(&mut self) -> Option<Result<Request, ReadError>> {
        let shared = Arc::clone(&self.shared);
        if shared.state.get() == ServerState::Stopping {
            return None;
        }
        if let Some(next) = self.reader.take().transpose() {
            return Some(next);
        }
        if shared.metrics.busy.get() > 0 || !self.seat.has_few() {
            return None;
        }
        let turn = shared.watch.begin(&mut self.punctuality)?;
        loop {
            let mut next = pin!(self.reader.next());
            let polled = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
            let is_over = !turn.goes_on();
            if polled.is_ready() || is_over {
                self.punctuality.note(polled.is_ready());
                return match polled {
                    Poll::Ready(next) => Some(next),
                    Poll::Pending => None,
                };
            }
            // Others of this thread go on, and it asks the kernel what has come.
            yield_now().await;
        }
    }

    /// Waits for the next message, for as long as the connection may be silent.
    async fn next(&mut self) -> Result<Incoming, Ended> {
        match self.soon().await {
            Some(next) => incoming(next),
            None => Box::pin(self.next_in_time()).await,
        }
    }

    /// The next message, if it comes before the connection has to end.
    async fn next_in_time(&mut self) -> Result<Incoming, Ended> {
        let in_transaction = self.session.transaction_state() != TransactionState::Idle;
        let silence = self
            .settings
            .read(|settings| settings.idle_timeout(in_transaction));
        let shared = Arc::clone(&self.shared);
        let silent = async {
            match silence {
                Some(silence) => sleep(silence).await,
                None => std::future::pending().await,
            }
        };
        let is_unconfirmed = self.is_unconfirmed;
        let stopped = async {
            match in_transaction {
                // It has as long to end as statements have.
                true => shared.halt.wait().await,
                false => shared.state.wait_for(ServerState::Stopping).await,
            }
            if is_unconfirmed {
                sleep(SERIES_GRACE).await;
            }
        };
        let ended = |failure: Failure| match is_unconfirmed {
            true => failure.after_commit().into(),
            false => failure.into(),
        };
        tokio::select! {
            biased;
            () = stopped => Err(ended(stopping(&shared.halt))),
            next = self.reader.next() => incoming(next),
            () = silent => Err(ended(idle(in_transaction))),
        }
    }

    /// Answers a message that was passed over.
    async fn refuse(
        &mut self,
        kind: RequestKind,
        failure: &Failure,
        is_skipping: &mut bool,
    ) -> Result<(), Ended> {
        self.tell(failure)?;
        match kind {
            RequestKind::Query => self.ready().await?,
            // A message of a series is not followed by an end of its own.
            _ => *is_skipping = true,
        }
        Ok(self.writer.flush().await?)
    }

    /// Tells the client of an error of a statement, if there was one; whether there was. Errors that
    /// end the connection are passed on.
    fn report(&mut self, answered: Result<(), Ended>) -> Result<bool, Ended> {
        match answered {
            Ok(()) => Ok(false),
            Err(Ended::Failed(failure)) if !failure.is_fatal => {
                self.tell(&failure)?;
                Ok(true)
            }
            Err(ended) => Err(ended),
        }
    }

    /// An error is the end of a transaction, and of portals.
    fn tell(&mut self, failure: &Failure) -> std::io::Result<()> {
        self.session.fail_transaction();
        self.shared.metrics.failed(failure.code);
        self.writer.add(&failure.to_message())
    }

    /// Says that the next statement may come.
    async fn ready(&mut self) -> Result<(), Ended> {
        let status = match self.session.transaction_state() {
            TransactionState::Idle => TransactionStatus::Idle,
            TransactionState::Open => TransactionStatus::Transaction,
            TransactionState::Failed => TransactionStatus::Error,
        };
        self.is_unconfirmed = false;
        for (name, value) in self.settings.take_untold() {
            let status = ParameterStatus::new(name.to_owned(), value);
            self.writer
                .add(&PgWireBackendMessage::ParameterStatus(status))?;
        }
        let ready = PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status));
        self.writer.add(&ready)?;
        if self.seat.is_crowded(std::mem::take(&mut self.has_changed)) {
            // Behind those of others whose messages have come: an answer that is sent may take the processor for the
            // client that it wakes.
            yield_now().await;
        }
        Ok(self.writer.flush().await?)
    }
}

/// What a client has sent.
enum Incoming {
    /// A message that is to be answered.
    Request(Request),
    /// A message that was passed over.
    TooLong {
        /// Nothing else of it is known.
        kind: RequestKind,
        /// What the client is told.
        failure: Failure,
    },
}

fn incoming(next: Result<Request, ReadError>) -> Result<Incoming, Ended> {
    match next {
        Ok(request) => Ok(Incoming::Request(request)),
        // What is left of a COPY that has failed, whatever its length.
        Err(ReadError::TooLong {
            kind: RequestKind::CopyData,
            ..
        }) => Ok(Incoming::Request(Request::CopyDone)),
        Err(ReadError::TooLong {
            kind,
            bytes,
            bytes_max,
        }) => {
            let failure = too_long(kind, bytes, bytes_max);
            Ok(Incoming::TooLong { kind, failure })
        }
        Err(error) => Err(unreadable(error)),
    }
}

pub fn unreadable(error: ReadError) -> Ended {
    match error {
        ReadError::Gone => Ended::Gone,
        ReadError::Malformed(expected) => {
            Failure::protocol(format!("malformed message: expected {expected}")).into()
        }
        ReadError::TooLong {
            kind,
            bytes,
            bytes_max,
        } => too_long(kind, bytes, bytes_max).into(),
    }
}

fn too_long(kind: RequestKind, bytes: usize, bytes_max: usize) -> Failure {
    let what = match kind {
        RequestKind::Query => "the statement",
        RequestKind::CopyData => "a message with rows of a COPY",
        _ => "a message of the extended protocol",
    };
    let message = format!("{what} has {bytes} bytes; this server takes {bytes_max} at most");
    Failure::new(state::PROGRAM_LIMIT_EXCEEDED, message)
}

fn idle(in_transaction: bool) -> Failure {
    let (code, message) = match in_transaction {
        true => (
            state::IDLE_IN_TRANSACTION_TIMEOUT,
            "terminating connection due to idle-in-transaction timeout",
        ),
        false => (
            state::IDLE_SESSION_TIMEOUT,
            "terminating connection due to idle-session timeout",
        ),
    };
    Failure::fatal(code, message)
}
