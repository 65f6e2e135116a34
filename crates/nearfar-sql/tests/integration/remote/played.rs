//! A host that is played by memory of the test's own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use nearfar_kernels::copy::CopyCancel;
use nearfar_memory::rdma::RemoteCharge;
use nearfar_memory::{Budgets, MemorySystem, TierId, TierSpec};
use nearfar_rdma::RemoteError;
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::remote::{ColumnBytes, ColumnHost};

use crate::support::options;

pub const HOST: &str = "b:7475";
pub const TIER: &str = "rdma:b:7475";
pub const MIB: u64 = 1 << 20;

/// What the test sees of a host, and does to it.
#[derive(Debug)]
pub struct Played {
    pub system: Arc<MemorySystem>,
    pub tier: TierId,
    /// What was put there in another one is lost.
    pub session: AtomicU64,
    pub is_lost: AtomicBool,
    pub is_up: AtomicBool,
    /// Reads and writes wait.
    pub is_held: AtomicBool,
    pub puts: AtomicU64,
    pub read_bytes: AtomicU64,
    /// Writes that ended as they were cancelled.
    pub given_up: AtomicU64,
}

#[derive(Debug, Clone)]
pub struct Host(pub Arc<Played>);

struct Bytes {
    host: Arc<Played>,
    session: u64,
    bytes: Vec<u8>,
    _charge: RemoteCharge,
}

impl Host {
    pub fn new(engine: &Engine) -> Self {
        let system = Arc::clone(engine.system());
        Self(Arc::new(Played {
            tier: system.tier(TIER).expect("a tier"),
            system,
            session: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            is_up: AtomicBool::new(true),
            is_held: AtomicBool::new(false),
            puts: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }))
    }

    pub fn kill(&self) {
        self.0.is_up.store(false, SeqCst);
        self.0.is_lost.store(true, SeqCst);
        self.0.session.fetch_add(1, SeqCst);
    }

    pub fn start(&self) {
        self.0.is_up.store(true, SeqCst);
    }

    pub fn used_bytes(&self) -> u64 {
        self.0.system.usage(self.0.tier).used_bytes()
    }

    pub fn read_bytes(&self) -> u64 {
        self.0.read_bytes.load(SeqCst)
    }

    pub fn puts(&self) -> u64 {
        self.0.puts.load(SeqCst)
    }

    pub fn shared(&self) -> Arc<dyn ColumnHost> {
        Arc::new(self.clone())
    }
}

pub fn lost(region: Option<u64>) -> RemoteError {
    RemoteError::Lost {
        host: HOST.to_owned(),
        region,
        reason: "the server is gone".to_owned(),
    }
}

impl ColumnHost for Host {
    fn name(&self) -> &str {
        HOST
    }

    fn tier(&self, system: &Arc<MemorySystem>) -> Option<TierId> {
        Arc::ptr_eq(&self.0.system, system).then_some(self.0.tier)
    }

    fn put(&self, bytes: &[u8], cancel: &CopyCancel) -> Result<Box<dyn ColumnBytes>, RemoteError> {
        while self.0.is_held.load(SeqCst) {
            if cancel.is_cancelled() {
                self.0.given_up.fetch_add(1, SeqCst);
                let host = HOST.to_owned();
                return Err(RemoteError::Cancelled { host });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.0.is_lost.load(SeqCst) {
            return Err(lost(None));
        }
        let charge = self.0.system.take_remote(self.0.tier, bytes.len() as u64);
        let refused = |source| RemoteError::Rdma {
            host: HOST.to_owned(),
            source,
        };
        self.0.puts.fetch_add(1, SeqCst);
        Ok(Box::new(Bytes {
            host: Arc::clone(&self.0),
            session: self.0.session.load(SeqCst),
            bytes: bytes.to_vec(),
            _charge: charge.map_err(refused)?,
        }))
    }

    fn reconnect(&self) -> Result<(), RemoteError> {
        if !self.0.is_up.load(SeqCst) {
            return Err(RemoteError::Unreachable {
                host: HOST.to_owned(),
                source: io::ErrorKind::ConnectionRefused.into(),
            });
        }
        self.0.is_lost.store(false, SeqCst);
        Ok(())
    }
}

impl ColumnBytes for Bytes {
    fn read(
        &self,
        offset_bytes: usize,
        to: &mut [u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RemoteError> {
        while self.host.is_held.load(SeqCst) {
            if is_cancelled() {
                let host = HOST.to_owned();
                return Err(RemoteError::Cancelled { host });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.session != self.host.session.load(SeqCst) {
            return Err(lost(Some(3)));
        }
        to.copy_from_slice(&self.bytes[offset_bytes..offset_bytes + to.len()]);
        self.host.read_bytes.fetch_add(to.len() as u64, SeqCst);
        Ok(())
    }
}

pub fn engine_with(remote_cache_bytes: u64, budgets: Budgets) -> Arc<Engine> {
    let options = EngineOptions {
        remote_tiers: vec![TierSpec::rdma(TIER, HOST, 64 * MIB)],
        remote_cache_bytes,
        budgets,
        ..options()
    };
    Engine::new(options).expect("an engine")
}
