//! Queue pairs of reliable connections, each with a completion queue of its own.

use std::ffi::{CStr, c_int};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::domain::Domain;
use super::error::RdmaError;
use super::ffi::{
    AddressHandle, Capacity, Completion, CompletionQueue, Gather, Gid, QueuePairAttributes,
    QueuePairHead, QueuePairInit, RDMA_READ, RDMA_WRITE, RELIABLE, REMOTE_READ, REMOTE_WRITE,
    SIGNALED, STATE_INIT, STATE_READY_TO_RECEIVE, STATE_READY_TO_SEND, SendRequest, mask,
};
use super::library::checked;
use super::port::Endpoint;
use crate::sys::SysError;

/// The most requests of a queue pair that are under way.
pub(super) const REQUESTS_MAX: usize = 16;

/// How long the device waits for an acknowledgement before it sends again: 4.096 us times two to this power, 134 ms.
const ACKNOWLEDGEMENT_LOG2: u8 = 15;
/// How often it sends again: with the time above, a host that is gone is found out after about a second.
const RETRIES: u8 = 7;
/// How often a receiver that is not ready is asked again: 7 would be for ever. None says so here, where nothing is
/// received but by one-sided requests.
const NOT_READY_RETRIES: u8 = 6;
/// 0.64 ms until a receiver that is not ready is asked again (InfiniBand specification, table of RNR timers).
const NOT_READY_TIMER: u8 = 12;
/// Hops that packets may take.
const HOPS_MAX: u8 = 64;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the peer to this host.
    Read,
    /// From this host to the peer.
    Write,
}

/// A request: bytes of a buffer of this host, and of the peer's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) direction: Direction,
    pub(super) local_address: u64,
    pub(super) local_key: u32,
    pub(super) remote_address: u64,
    pub(super) remote_key: u32,
    pub(super) bytes: u32,
}

/// A queue pair. When it has been dropped, its device reads and writes no memory for it any more.
#[derive(Debug)]
pub(super) struct QueuePair {
    pair: NonNull<QueuePairHead>,
    completions: NonNull<CompletionQueue>,
    first_packet: u32,
    /// Whether the peer reads and writes memory of this host over it.
    serves: bool,
    domain: Arc<Domain>,
}

// SAFETY: verbs may be called from any thread (verbs.h), and `&mut self` is needed for what is not thread-safe here.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// A queue pair that waits for its peer's address; `serves` says whether the peer reads and writes here.
    pub(super) fn new(domain: &Arc<Domain>, serves: bool) -> Result<Self, RdmaError> {
        let calls = domain.calls();
        let entries = REQUESTS_MAX as c_int;
        // SAFETY: the device is open as long as the domain is.
        let completions =
            unsafe { (calls.create_cq)(domain.context(), entries, null_mut(), null_mut(), 0) };
        let completions =
            NonNull::new(completions).ok_or_else(|| SysError::last("ibv_create_cq"))?;
        let mut init = QueuePairInit {
            qp_context: null_mut(),
            send_cq: completions.as_ptr(),
            recv_cq: completions.as_ptr(),
            srq: null_mut(),
            cap: Capacity {
                max_send_wr: REQUESTS_MAX as u32,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: RELIABLE,
            sq_sig_all: 1,
        };
        // SAFETY: the domain and the completion queue are there; the call reads and writes the structure.
        let pair = unsafe { (calls.create_qp)(domain.pd(), &raw mut init) };
        let Some(pair) = NonNull::new(pair) else {
            let error = SysError::last("ibv_create_qp");
            // SAFETY: nothing uses the completion queue.
            unsafe { (calls.destroy_cq)(completions.as_ptr()) };
            return Err(error.into());
        };
        let random = RandomState::new().build_hasher().finish();
        Ok(Self {
            pair,
            completions,
            first_packet: (random & 0xFF_FFFF) as u32,
            serves,
            domain: Arc::clone(domain),
        })
    }

    /// What the peer has to know.
    pub(super) fn endpoint(&self) -> Endpoint {
        let port = self.domain.port();
        Endpoint {
            gid: port.gid,
            lid: port.lid,
            // SAFETY: the queue pair is there, and its number never changes.
            queue: unsafe { (*self.pair.as_ptr()).qp_num },
            first_packet: self.first_packet,
            mtu: port.mtu,
            reads: port.reads,
        }
    }

    fn modify(&mut self, attributes: QueuePairAttributes, fields: c_int) -> Result<(), SysError> {
        let calls = self.domain.calls();
        let mut attributes = attributes;
        // SAFETY: the queue pair is there, and the structure has the fields that are told.
        let code = unsafe { (calls.modify_qp)(self.pair.as_ptr(), &raw mut attributes, fields) };
        checked("ibv_modify_qp", code)
    }

    /// Connects it to its peer, which has to do the same.
    pub(super) fn connect(&mut self, peer: &Endpoint) -> Result<(), SysError> {
        let port = *self.domain.port();
        let access = match self.serves {
            true => REMOTE_READ | REMOTE_WRITE,
            false => 0,
        };
        let init = QueuePairAttributes {
            qp_state: STATE_INIT,
            port_num: port.number,
            qp_access_flags: access as u32,
            ..QueuePairAttributes::default()
        };
        let fields = mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS;
        self.modify(init, fields)?;
        let reads = port.reads.min(peer.reads);
        let receive = QueuePairAttributes {
            qp_state: STATE_READY_TO_RECEIVE,
            path_mtu: c_int::from(port.mtu.min(peer.mtu)),
            dest_qp_num: peer.queue,
            rq_psn: peer.first_packet,
            max_dest_rd_atomic: reads,
            min_rnr_timer: NOT_READY_TIMER,
            ah_attr: AddressHandle {
                dgid: Gid(peer.gid),
                sgid_index: port.gid_index,
                hop_limit: HOPS_MAX,
                dlid: peer.lid,
                is_global: 1,
                port_num: port.number,
                ..AddressHandle::default()
            },
            ..QueuePairAttributes::default()
        };
        let fields = mask::STATE
            | mask::AV
            | mask::PATH_MTU
            | mask::DEST_QPN
            | mask::RQ_PSN
            | mask::MAX_DEST_RD_ATOMIC
            | mask::MIN_RNR_TIMER;
        self.modify(receive, fields)?;
        let send = QueuePairAttributes {
            qp_state: STATE_READY_TO_SEND,
            timeout: ACKNOWLEDGEMENT_LOG2,
            retry_cnt: RETRIES,
            rnr_retry: NOT_READY_RETRIES,
            sq_psn: self.first_packet,
            max_rd_atomic: reads,
            ..QueuePairAttributes::default()
        };
        let fields = mask::STATE
            | mask::TIMEOUT
            | mask::RETRY_CNT
            | mask::RNR_RETRY
            | mask::SQ_PSN
            | mask::MAX_QP_RD_ATOMIC;
        self.modify(send, fields)
    }

    /// Hands a request to the device.
    ///
    /// # Safety
    /// The local bytes are registered in this domain under their key. Until a completion was polled for each request,
    /// or the queue pair was dropped, they stay so; nobody else writes to them, and for a read, nobody reads them.
    pub(super) unsafe fn post(&mut self, request: &Request) -> Result<(), SysError> {
        let mut gather = Gather {
            addr: request.local_address,
            length: request.bytes,
            lkey: request.local_key,
        };
        let mut send = SendRequest {
            wr_id: 0,
            next: null_mut(),
            sg_list: &raw mut gather,
            num_sge: 1,
            opcode: match request.direction {
                Direction::Read => RDMA_READ,
                Direction::Write => RDMA_WRITE,
            },
            send_flags: SIGNALED,
            imm_data: 0,
            remote_addr: request.remote_address,
            rkey: request.remote_key,
            rest: [0; 19],
        };
        let mut bad = null_mut();
        let pair = self.pair.as_ptr();
        // SAFETY: the queue pair is there, and so is its context. The call reads the structures before it returns.
        let code = unsafe {
            match (*(*pair).context).post_send {
                Some(post) => post(pair, &raw mut send, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        checked("ibv_post_send", code)
    }

    /// How many requests were completed since the last call.
    ///
    /// # Errors
    /// [`RdmaError::Transfer`] for a request that failed; the queue pair is of no use after that.
    pub(super) fn poll(&mut self) -> Result<usize, RdmaError> {
        let mut found = [Completion::default(); REQUESTS_MAX];
        let completions = self.completions.as_ptr();
        // SAFETY: the completion queue is there, and so is its context. The call writes no more than there is room for.
        let count = unsafe {
            match (*(*completions).context).poll_cq {
                Some(poll) => poll(completions, REQUESTS_MAX as c_int, found.as_mut_ptr()),
                None => -libc::ENOSYS,
            }
        };
        let Ok(count) = usize::try_from(count) else {
            return Err(SysError {
                call: "ibv_poll_cq",
                errno: libc::EIO,
            }
            .into());
        };
        match found[..count].iter().find(|found| found.status != 0) {
            None => Ok(count),
            Some(failed) => Err(RdmaError::Transfer {
                status: self.status(failed.status),
            }),
        }
    }

    fn status(&self, status: c_int) -> String {
        // SAFETY: the call gives a string of the library's, or null.
        unsafe {
            let text = (self.domain.calls().wc_status_str)(status);
            match NonNull::new(text.cast_mut()) {
                Some(text) => CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned(),
                None => format!("status {status}"),
            }
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let calls = self.domain.calls();
        // SAFETY: both are there, and are not used again.
        let code = unsafe { (calls.destroy_qp)(self.pair.as_ptr()) };
        // A device that was taken out of the machine answers EIO, and accesses nothing.
        if code != 0 && code.abs() != libc::EIO {
            // The device may go on writing to memory that its owner is about to use for something else.
            tracing::error!(
                code,
                "a queue pair cannot be destroyed, and its memory is not safe"
            );
            std::process::abort();
        }
        // SAFETY: as above, and no queue pair uses it.
        unsafe { (calls.destroy_cq)(self.completions.as_ptr()) };
    }
}
