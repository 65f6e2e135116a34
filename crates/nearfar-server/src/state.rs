//! The state of a server, which health tells and connections are accepted by.

use std::sync::Arc;
use tokio::sync::watch;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Not ready yet: tables are loaded or recovered.
    Starting,
    /// Serving.
    Ready,
    /// Waiting to take over from another server.
    Standby,
    /// Ending: no new connections.
    Stopping,
}

impl ServerState {
    /// In lower case, as health tells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Standby => "standby",
            Self::Stopping => "stopping",
        }
    }
}

/// The state of one server, to be read and set from anywhere. Clones are the same state.
#[derive(Debug, Clone)]
pub struct StateHandle(Arc<watch::Sender<ServerState>>);

impl StateHandle {
    pub(crate) fn new(state: ServerState) -> Self {
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// The state now.
    pub fn get(&self) -> ServerState {
        *self.0.borrow()
    }

    /// Changes the state. A server that is stopping stays so.
    pub fn set(&self, state: ServerState) {
        self.0.send_if_modified(|now| {
            let changes = *now != ServerState::Stopping && *now != state;
            if changes {
                *now = state;
            }
            changes
        });
    }

    /// Waits for a state.
    pub(crate) async fn wait_for(&self, state: ServerState) {
        // The sender is alive for as long as this is.
        let _ = self.0.subscribe().wait_for(|now| *now == state).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopping_server_stays_so() {
        let state = StateHandle::new(ServerState::Starting);
        for next in [
            ServerState::Standby,
            ServerState::Ready,
            ServerState::Stopping,
        ] {
            state.clone().set(next);
            assert_eq!(state.get(), next);
        }
        state.set(ServerState::Ready);
        assert_eq!(state.get(), ServerState::Stopping);
    }
}
