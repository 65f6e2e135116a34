//! Looking at the owner of a pool from outside, without claiming it.

use std::time::Instant;

use super::attach::{Pool, system_error_at};
use super::error::PoolError;
use super::ownership::{OwnerName, OwnerRecord};

/// Watches the owner of a pool, to take over when it is gone.
#[derive(Debug)]
pub struct OwnerWatch {
    pool: Pool,
    name: OwnerName,
    epoch: u64,
    heartbeat: u64,
    /// By the clock of who watches, the only one that counts.
    heard: Instant,
}

/// What a look at the owner says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The last claim; zero where there was none.
    pub epoch: u64,
    /// The owner, unless the pool was given back or never claimed.
    pub owner: Option<OwnerRecord>,
    /// Whether it has been silent for its lease, or is known to be dead.
    pub is_gone: bool,
}

impl OwnerWatch {
    /// Begins to watch: the owner is taken for alive until it has been silent for its lease.
    #[must_use]
    pub fn new(pool: &Pool, name: OwnerName) -> Self {
        let ownership = pool.ownership();
        let (epoch, heartbeat) = (ownership.epoch(), ownership.heartbeat());
        Self {
            pool: pool.clone(),
            name,
            epoch,
            heartbeat,
            heard: Instant::now(),
        }
    }

    /// Looks at the owner. To be called several times per lease.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look(&mut self) -> Result<Watched, PoolError> {
        let pool = self.pool.clone();
        let failed = |source| system_error_at(pool.path(), source, "watched");
        let ownership = pool.ownership();
        let now = (ownership.epoch(), ownership.heartbeat());
        if now != (self.epoch, self.heartbeat) {
            (self.epoch, self.heartbeat) = now;
            self.heard = Instant::now();
        }
        let is_locked = pool.memory.try_lock().map_err(failed)?;
        let owner = ownership.owner(self.epoch, &self.name, false);
        let living = ownership.owner(self.epoch, &self.name, is_locked);
        if is_locked {
            pool.memory.unlock();
        }
        let is_silent = |record: &OwnerRecord| self.heard.elapsed() >= record.lease;
        Ok(Watched {
            epoch: self.epoch,
            is_gone: living.is_none_or(|record| is_silent(&record)),
            owner,
        })
    }
}
