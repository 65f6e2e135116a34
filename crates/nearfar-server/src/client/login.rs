//! From a new connection to one whose client is known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use nearfar_sql::engine::{Session, SessionOptions};
use nearfar_sql::sql::Recent;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::connection::Connection;
use super::failure::{Failure, state};
use super::interrupt::{Ended, stopping};
use super::session::begin_settings;
use super::settings::{Settings, SharedSettings};
use crate::admission::{Origin, Place};
use crate::attention::Punctuality;
use crate::auth::{ClientFirst, Exchange, Role, ScramError, TooMany, Users, random};
use crate::catalog;
use crate::shared::Shared;
use crate::state::ServerState;
use crate::threads::Seat;
use crate::wire::{
    Opening, ReadError, Reader, Request, Startup, StartupError, Writer, initial_response, negotiate,
};

const MECHANISM: &str = "SCRAM-SHA-256";
/// The first version of the protocol whose keys for cancel requests are long.
const LONG_KEYS_VERSION: u16 = 2;
const LONG_KEY_BYTES: usize = 32;
const SHORT_KEY_BYTES: usize = 4;
/// The newest minor version that is spoken, and the one before it.
const MINOR_VERSIONS: [u16; 2] = [2, 0];
const MAJOR_VERSION: i32 = 3;
/// What clients are told by a server without tables.
const STANDBY: &str =
    "the server is a standby: connect to the one that has the tables, or promote this one";
/// How settings of the protocol itself begin, of which none is known.
const PROTOCOL_SETTING: &str = "_pq_.";

/// Opens a connection; none for a client that goes or is refused, and for one that wanted to cancel.
pub async fn open(
    shared: &Arc<Shared>,
    (stream, seat): (TcpStream, Seat),
    from: Origin,
) -> Option<Connection> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection is gone");
    }
    let opening = match negotiate(stream, shared.tls.as_ref()).await {
        Ok(opening) => opening,
        Err(StartupError::Io(error)) => {
            tracing::debug!(%error, "a connection was given up at its begin");
            return None;
        }
        Err(StartupError::Malformed(stream, what)) => {
            if let Some(stream) = stream {
                let failure = Failure::protocol(format!("invalid startup packet: {what}"));
                refuse(shared, &mut Writer::new(*stream), &failure).await;
            }
            return None;
        }
    };
    let Opening {
        stream,
        is_encrypted,
        startup,
    } = opening;
    let (minor_version, parameters) = match startup {
        Startup::Cancel(request) => {
            shared.cancel_keys.cancel(&request);
            let mut stream = stream;
            // The client waits for nothing but the end.
            let _ = stream.shutdown().await;
            return None;
        }
        Startup::Session {
            minor_version,
            parameters,
        } => (minor_version, parameters),
    };
    let (reader, writer) = split(stream);
    let mut login = Login {
        shared,
        seat,
        reader: Reader::new(reader),
        writer: Writer::new(writer),
        parameters,
        from,
    };
    let entered = match login.check(is_encrypted).await {
        Ok(role) => login.enter(role).await,
        Err(ended) => Err(ended),
    };
    // Places are for those that are known.
    let placed = entered.and_then(|(session, settings)| {
        let place = shared.sessions.enter();
        let message = "sorry, too many clients already";
        let refused = || Failure::fatal(state::TOO_MANY_CONNECTIONS, message);
        Ok((session, settings, place.ok_or_else(refused)?))
    });
    match placed {
        Ok((session, settings, place)) => {
            let finished = login.finish(session, settings, place, minor_version);
            finished.await.ok()
        }
        Err(Ended::Failed(failure)) => {
            refuse(shared, &mut login.writer, &failure).await;
            None
        }
        Err(Ended::Gone) => None,
    }
}

async fn refuse<W: tokio::io::AsyncWrite + Unpin>(
    shared: &Shared,
    writer: &mut Writer<W>,
    failure: &Failure,
) {
    shared.metrics.logins_failed.inc();
    shared.metrics.failed(failure.code);
    tracing::debug!(
        code = failure.code,
        message = failure.message,
        "a client was refused"
    );
    if writer.add(&failure.to_message()).is_ok() {
        // A client that is gone is refused too.
        let _ = writer.close().await;
    }
}

struct Login<'a> {
    shared: &'a Arc<Shared>,
    seat: Seat,
    reader: Reader<ReadHalf<MaybeTls>>,
    writer: Writer<WriteHalf<MaybeTls>>,
    parameters: BTreeMap<String, String>,
    from: Origin,
}

impl Login<'_> {
    /// Whether the client may connect, and as what.
    async fn check(&mut self, is_encrypted: bool) -> Result<Role, Ended> {
        let refuse = |code, message: &str| Err(Failure::fatal(code, message).into());
        match self.shared.state.get() {
            ServerState::Ready => {}
            ServerState::Stopping => return Err(stopping(&self.shared.halt).into()),
            ServerState::Starting => {
                return refuse(state::CANNOT_CONNECT_NOW, "the server is starting");
            }
            ServerState::Standby => {
                return refuse(state::CANNOT_CONNECT_NOW, STANDBY);
            }
        }
        let tls = self.shared.options.tls.as_ref();
        if !is_encrypted && tls.is_some_and(|tls| tls.is_required) {
            let message = "this server takes encrypted connections only";
            return refuse(state::INVALID_AUTHORIZATION, message);
        }
        let user = self.user();
        if user.is_empty() {
            return refuse(state::INVALID_AUTHORIZATION, "no user name is given");
        }
        match self.shared.options.users.clone() {
            None => Ok(Role::ReadWrite),
            Some(users) => self.authenticate(&users, &user).await,
        }
    }

    fn user(&self) -> String {
        self.parameters.get("user").cloned().unwrap_or_default()
    }

    /// Has the client prove that it knows the password.
    async fn authenticate(&mut self, users: &Users, user: &str) -> Result<Role, Ended> {
        let wrong = || {
            let message = format!("password authentication failed for user \"{user}\"");
            Failure::fatal(state::INVALID_PASSWORD, message)
        };
        let refused = |error: ScramError| match error {
            ScramError::WrongPassword => wrong(),
            other => Failure::protocol(other.to_string()),
        };
        self.ask(Authentication::SASL(vec![MECHANISM.to_owned()]))
            .await?;
        let (mechanism, first) = initial_response(self.answer().await?)
            .map_err(|expected| Failure::protocol(format!("expected {}", expected.0)))?;
        if mechanism != MECHANISM {
            let message = format!("the client chose {mechanism}, which was not offered");
            return Err(Failure::protocol(message).into());
        }
        let first = ClientFirst::read(&first).map_err(refused)?;
        let exchange = Exchange::begin(first, users.verifier(user));
        let answer = Bytes::from(exchange.answer().to_owned());
        self.ask(Authentication::SASLContinue(answer)).await?;
        let last = self.answer().await?;
        self.wait_for_turn(user).await?;
        let throttle = &self.shared.throttle;
        let proof = exchange.finish(&last).map_err(|error| {
            if error == ScramError::WrongPassword {
                throttle.failed(self.from, user, Instant::now());
            }
            refused(error)
        })?;
        throttle.succeeded(self.from, user);
        let known = users.get(user).ok_or_else(wrong)?;
        let last = Authentication::SASLFinal(Bytes::from(proof));
        self.writer
            .add(&PgWireBackendMessage::Authentication(last))?;
        Ok(known.role())
    }

    /// Waits as long as an attempt has to after others that failed.
    async fn wait_for_turn(&self, user: &str) -> Result<(), Ended> {
        let wait = self.shared.throttle.wait(self.from, user, Instant::now());
        let wait = wait.map_err(|TooMany| {
            let message = "too many failed attempts to log in: try again later";
            Failure::fatal(state::INVALID_AUTHORIZATION, message)
        })?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    async fn ask(&mut self, question: Authentication) -> Result<(), Ended> {
        self.writer
            .add(&PgWireBackendMessage::Authentication(question))?;
        Ok(self.writer.flush().await?)
    }

    async fn answer(&mut self) -> Result<Bytes, Ended> {
        match self.reader.next().await {
            Ok(Request::Password(bytes)) => Ok(bytes),
            Ok(Request::Terminate) | Err(ReadError::Gone) => Err(Ended::Gone),
            _ => Err(Failure::protocol("expected a password message").into()),
        }
    }

    /// A session for the client, with the settings that it has named.
    async fn enter(&self, role: Role) -> Result<(Session, Settings), Ended> {
        let shared = self.shared;
        let is_read_only = role == Role::ReadOnly;
        let Some(engine) = shared.engine.get() else {
            return Err(Failure::fatal(state::CANNOT_CONNECT_NOW, STANDBY).into());
        };
        let session = engine.session_with(SessionOptions {
            is_read_only,
            is_local: false,
            may_use_files: shared.options.may_use_files && !is_read_only,
            memory_limit_bytes: shared.options.session_memory_bytes,
        });
        let database = self.parameters.get("database").cloned();
        let database = database.filter(|name| !name.is_empty());
        catalog::add(
            &session,
            &self.user(),
            &database.unwrap_or_else(|| self.user()),
        );
        session.tell_places();
        let mut settings = Settings::new(&shared.options, &self.user(), is_read_only);
        begin_settings(&mut settings, &session, &self.parameters)?;
        Ok((session, settings))
    }

    /// Tells the client that it is in, and what it has to know.
    async fn finish(
        mut self,
        session: Session,
        settings: Settings,
        place: Place,
        minor_version: u16,
    ) -> Result<Connection, Ended> {
        let shared = Arc::clone(self.shared);
        let version = self.negotiate_version(minor_version)?;
        let key = match version >= LONG_KEYS_VERSION {
            true => Bytes::from(random::<LONG_KEY_BYTES>().to_vec()),
            false => Bytes::from(random::<SHORT_KEY_BYTES>().to_vec()),
        };
        let cancel = shared.cancel_keys.enter(key.clone());
        let messages = settings.reported().map(|(name, value)| {
            let status = ParameterStatus::new(name.to_owned(), value.to_owned());
            PgWireBackendMessage::ParameterStatus(status)
        });
        let first = PgWireBackendMessage::Authentication(Authentication::Ok);
        let key = BackendKeyData::new(cancel.id, SecretKey::Bytes(key));
        let last = [
            PgWireBackendMessage::BackendKeyData(key),
            PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle)),
        ];
        for message in std::iter::once(first).chain(messages).chain(last) {
            self.writer.add(&message)?;
        }
        self.writer.flush().await?;
        self.reader.allow(shared.options.max_message_bytes);
        let settings = Arc::new(SharedSettings::new(settings));
        session.add_settings(Arc::clone(&settings) as _);
        Ok(Connection {
            reader: self.reader,
            writer: self.writer,
            session,
            settings,
            cancel,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            parsed: Recent::default(),
            recent: Recent::default(),
            shapes: Recent::default(),
            place: Some(place),
            seat: self.seat,
            working: Arc::default(),
            punctuality: Punctuality::default(),
            has_changed: false,
            is_unconfirmed: false,
            shared,
        })
    }

    /// Settles on a version, and says so where it is not the one that the client asked for.
    fn negotiate_version(&mut self, wanted: u16) -> Result<u16, Ended> {
        let spoken = MINOR_VERSIONS.into_iter().find(|spoken| *spoken <= wanted);
        let spoken = spoken.unwrap_or_default();
        let names = self.parameters.keys();
        let unknown = names.filter(|name| name.starts_with(PROTOCOL_SETTING));
        let unknown: Vec<String> = unknown.cloned().collect();
        if spoken != wanted || !unknown.is_empty() {
            let version = (MAJOR_VERSION << 16) | i32::from(spoken);
            let answer = NegotiateProtocolVersion::new(version, unknown);
            self.writer
                .add(&PgWireBackendMessage::NegotiateProtocolVersion(answer))?;
        }
        Ok(spoken)
    }
}
