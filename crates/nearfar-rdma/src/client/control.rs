//! The control connection, and the thread that keeps the lease.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::state::HostState;
use crate::error::RemoteError;
use crate::protocol::{Channel, ChannelError, Message};

/// How often the thread looks whether the server has said anything, or is gone.
const TURN: Duration = Duration::from_millis(100);
/// How often a request that waits for its turn is looked at: whether it is still wanted.
const QUEUE_TURN: Duration = Duration::from_millis(2);
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

    /// The line, unless `is_cancelled` before others are done with it.
    fn line_unless(
        &self,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<MutexGuard<'_, Line>, RemoteError> {
        loop {
            match self.line.try_lock() {
                Ok(line) => return Ok(line),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            self.state.check(None)?;
            if is_cancelled() {
                return Err(self.state.cancelled());
            }
            thread::sleep(QUEUE_TURN);
        }
    }

    /// As [`Self::ask`]; a request whose turn has not come when the caller cancels is not sent. One that was sent has
    /// its reply waited for.
    pub(super) fn ask_unless(
        &self,
        request: &Message,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Message, RemoteError> {
        self.state.check(None)?;
        self.ask_over(self.line_unless(is_cancelled)?, request)
    }

    /// The reply to a request. A refusal is an error, and so is the end of the session, after which the host is lost.
    pub(super) fn ask(&self, request: &Message) -> Result<Message, RemoteError> {
        self.state.check(None)?;
        self.ask_over(self.line(), request)
    }

    fn ask_over(
        &self,
        mut line: MutexGuard<'_, Line>,
        request: &Message,
    ) -> Result<Message, RemoteError> {
        let populating = match request {
            Message::Allocate { bytes } => Duration::from_secs(bytes / POPULATED_BYTES_PER_S),
            _ => Duration::ZERO,
        };
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
            Ok(Message::Ended(end)) => Err(self.gone(end.to_string())),
            Ok(reply) => {
                line.renewed = asked;
                Ok(reply)
            }
            Err(error) => Err(self.gone(error.to_string())),
        }
    }

    /// What a reply that does not answer the request means.
    pub(super) fn unexpected(&self) -> RemoteError {
        self.gone(ChannelError::Unexpected.to_string())
    }

    /// The error of a host that is lost now, unless it was before.
    fn gone(&self, reason: String) -> RemoteError {
        self.state.lose(reason.clone());
        let reason = self.state.lost().unwrap_or(reason);
        let (host, region) = (self.state.name().to_owned(), None);
        RemoteError::Lost {
            host,
            region,
            reason,
        }
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::protocol::Side;

    #[test]
    fn a_request_behind_a_long_one_can_be_cancelled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = Channel::new(listener.accept().unwrap().0, Side::Server).unwrap();
        let state = Arc::new(HostState::new("b:7475".to_owned()));
        let channel = Channel::new(client, Side::Client).unwrap();
        let lease = Duration::from_secs(10);
        let control = Control::new(channel, state, lease, false);
        thread::scope(|scope| {
            let long = scope.spawn(|| control.ask(&Message::Allocate { bytes: 1 << 40 }));
            let wait = Duration::from_secs(5);
            assert_eq!(
                server.expect(wait).unwrap(),
                Message::Allocate { bytes: 1 << 40 }
            );
            // The long one has the line until it is answered.
            let cancelled = control.ask_unless(&Message::Renew, &|| true).unwrap_err();
            let is_cancelled = matches!(cancelled, RemoteError::Cancelled { .. });
            assert!(is_cancelled, "{cancelled}");
            server.send(&Message::Freed { region: 1 }).unwrap();
            assert_eq!(long.join().unwrap().unwrap(), Message::Freed { region: 1 });
            assert_eq!(server.receive(Duration::ZERO).unwrap(), None, "not sent");
        });
    }
}
