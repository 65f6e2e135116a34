//! What clients do.

/// What a client does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// A query of a constant.
    Select1,
    /// A query of one row by its key.
    Select,
    /// One new row.
    Insert,
    /// A change of one row by its key.
    Update,
    /// `pgbench`'s own transaction: three updates, a query and an insert.
    TpcB,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Select1,
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::TpcB,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select1 => "select1",
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::TpcB => "tpcb",
        }
    }

    /// The script of one that is not built into `pgbench`.
    pub(super) const fn script(self) -> Option<&'static str> {
        Some(match self {
            Self::Select1 => "SELECT 1;\n",
            Self::Select => {
                "\\set aid random(1, 100000 * :scale)\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            }
            Self::Insert => {
                "\\set aid random(1, 100000 * :scale)\n\
                 INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                 VALUES (1, 1, :aid, 7, CURRENT_TIMESTAMP);\n"
            }
            Self::Update => {
                "\\set aid random(1, 100000 * :scale)\n\
                 UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = :aid;\n"
            }
            Self::TpcB => return None,
        })
    }
}
