//! The end of statements when the server stops.

use std::sync::OnceLock;

use tokio::sync::watch;

/// Tells statements that they have had the time that they get when the server stops.
#[derive(Debug, Default)]
pub struct Halt {
    is_now: watch::Sender<bool>,
    reason: OnceLock<String>,
}

impl Halt {
    /// Now.
    pub fn now(&self) {
        self.is_now.send_replace(true);
    }

    /// Says why clients are told that the server stops; the first reason counts.
    pub fn explain(&self, reason: String) {
        self.reason.get_or_init(|| reason);
    }

    /// Why the server stops.
    pub fn reason(&self) -> &str {
        self.reason
            .get()
            .map_or("the server is stopping", String::as_str)
    }

    /// Ends when statements are to end.
    pub async fn wait(&self) {
        // The sender is alive for as long as this is.
        let _ = self.is_now.subscribe().wait_for(|halt| *halt).await;
    }
}
