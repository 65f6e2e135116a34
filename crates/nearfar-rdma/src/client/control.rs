//! The control connection, and the thread that keeps the lease.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::state::HostState;
use crate::error::RemoteError;
use crate::protocol::{Channel, ChannelError, Message};

/// How often the thread looks whether the server has said anything, or is gone.
const TURN: Duration = Duration::from_millis(100);
/// How long a message that comes by itself is waited for.
const GLANCE: Duration = Duration::from_millis(1);
/// How long a server may take for a request, beside what memory takes to be made.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// As slow as pages may be populated and registered, so that nobody gives up a server that is busy.
const POPULATED_BYTES_PER_S: u64 = 100 << 20;

struct Line {
    channel: Channel,
    renewed: Instant,
}

/// The control connection of a client. Requests take turns.
pub(super) struct Control {
    line: Mutex<Line>,
    state: Arc<HostState>,
    lease: Duration,
    renews: bool,
    is_done: Mutex<bool>,
    done: Condvar,
}

impl Control {
    /// A connection whose lease has just begun; `renews` says whether the thread of [`Self::keep`] renews it.
    pub(super) fn new(
        channel: Channel,
        state: Arc<HostState>,
        lease: Duration,
        renews: bool,
    ) -> Self {
        let renewed = Instant::now();
        Self {
            line: Mutex::new(Line { channel, renewed }),
            state,
            lease,
            renews,
            is_done: Mutex::new(false),
            done: Condvar::new(),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply to a request. A refusal is an error, and so is the end of the session, after which the host is lost.
    pub(super) fn ask(&self, request: &Message) -> Result<Message, RemoteError> {
        self.state.check(None)?;
        let populating = match request {
            Message::Allocate { bytes } => Duration::from_secs(bytes / POPULATED_BYTES_PER_S),
            _ => Duration::ZERO,
        };
        let mut line = self.line();
        let asked = Instant::now();
        let reply = line
            .channel
            .send(request)
            .and_then(|()| line.channel.expect(REPLY_TIMEOUT + populating));
        match reply {
            Ok(Message::Refused(refusal)) => {
                line.renewed = asked;
                let host = self.state.name().to_owned();
                Err(RemoteError::Refused { host, refusal })
            }
            Ok(Message::Ended(end)) => {
                self.state.lose(end.to_string());
                Err(self.gone())
            }
            Ok(reply) => {
                line.renewed = asked;
                Ok(reply)
            }
            Err(error) => {
                self.state.lose(error.to_string());
                Err(self.gone())
            }
        }
    }

    /// What a reply that does not answer the request means.
    pub(super) fn unexpected(&self) -> RemoteError {
        self.state.lose(ChannelError::Unexpected.to_string());
        self.gone()
    }

    fn gone(&self) -> RemoteError {
        let lost = self.state.check(None);
        lost.expect_err("it was just noticed that the host is lost")
    }

    /// Starts the thread that renews the lease, and notices when the server is gone.
    pub(super) fn keep(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let control = Arc::clone(self);
        let builder = thread::Builder::new().name("nearfar-rdma-lease".to_owned());
        builder.spawn(move || {
            while control.pause() && control.state.lost().is_none() {
                control.look();
            }
        })
    }

    /// Waits for a turn; whether the client is still there.
    fn pause(&self) -> bool {
        let is_done = self.is_done.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.done.wait_timeout_while(is_done, TURN, |done| !*done);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn look(&self) {
        let mut line = self.line();
        match line.channel.receive(GLANCE) {
            Ok(None) => {}
            Ok(Some(Message::Ended(end))) => return self.state.lose(end.to_string()),
            Ok(Some(_)) => return self.state.lose(ChannelError::Unexpected.to_string()),
            Err(error) => return self.state.lose(error.to_string()),
        }
        let is_due = line.renewed.elapsed() >= self.lease / 3;
        drop(line);
        if self.renews && is_due {
            // What is wrong is in the state then.
            let _ = self.renew();
        }
    }

    /// Renews the lease.
    pub(super) fn renew(&self) -> Result<(), RemoteError> {
        match self.ask(&Message::Renew)? {
            Message::Renewed => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Ends the session and the thread.
    pub(super) fn end(&self) {
        *self.is_done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.notify_all();
        if self.state.lost().is_none() {
            // A server that is not there any more needs no farewell.
            let _ = self.line().channel.send(&Message::Bye);
            self.state.lose("this client has left".to_owned());
        }
    }
}
