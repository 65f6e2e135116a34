//! Whether a host is still there, as all threads of a client see it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_memory::rdma::RdmaError;

use crate::error::RemoteError;

/// A host's name, and why it is lost, once it is.
#[derive(Debug)]
pub(super) struct HostState {
    name: String,
    is_lost: AtomicBool,
    reason: OnceLock<String>,
}

impl HostState {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            is_lost: AtomicBool::new(false),
            reason: OnceLock::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The host is lost. The first reason counts.
    pub(super) fn lose(&self, reason: String) {
        if self.reason.set(reason.clone()).is_ok() {
            tracing::info!(host = %self.name, %reason, "a host is lost");
        }
        // Release: whoever sees it finds the reason, see `lost`.
        self.is_lost.store(true, Ordering::Release);
    }

    /// Why the host is lost, if it is. Cheap where it is not.
    pub(super) fn lost(&self) -> Option<String> {
        // Acquire: pairs with `lose`.
        let is_lost = self.is_lost.load(Ordering::Acquire);
        is_lost.then(|| self.reason.get().cloned().unwrap_or_default())
    }

    /// An error where the host is lost; `region` is what was needed of it.
    pub(super) fn check(&self, region: Option<u64>) -> Result<(), RemoteError> {
        match self.lost() {
            None => Ok(()),
            Some(reason) => Err(RemoteError::Lost {
                host: self.name.clone(),
                region,
                reason,
            }),
        }
    }

    /// The error of a transfer that failed, after which the host counts as lost: its server may be gone, or has
    /// forgotten this client.
    pub(super) fn failed(&self, region: Option<u64>, error: &RdmaError) -> RemoteError {
        let told = self.lost();
        self.lose(error.to_string());
        RemoteError::Lost {
            host: self.name.clone(),
            region,
            reason: told.unwrap_or_else(|| error.to_string()),
        }
    }

    /// The error of a caller that needs its bytes no more.
    pub(super) fn cancelled(&self) -> RemoteError {
        let host = self.name.clone();
        RemoteError::Cancelled { host }
    }

    /// What the tier or the device of this host refuses, which does not concern the other one.
    pub(super) fn refused(&self, source: RdmaError) -> RemoteError {
        let host = self.name.clone();
        RemoteError::Rdma { host, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_told_with_host_and_region() {
        let state = HostState::new("b:7475".to_owned());
        assert!(state.check(Some(1)).is_ok());
        state.lose("the lease was not renewed in time".to_owned());
        state.lose("later".to_owned());
        assert_eq!(
            state.check(Some(3)).unwrap_err().to_string(),
            "host b:7475, region 3, is lost: the lease was not renewed in time"
        );
        assert_eq!(
            state.check(None).unwrap_err().to_string(),
            "host b:7475 is lost: the lease was not renewed in time"
        );
        // Where the host was asked for something else first, such as a connection.
        assert_eq!(
            state.check(None).unwrap_err().needing(4).to_string(),
            "host b:7475, region 4, is lost: the lease was not renewed in time"
        );
    }
}
