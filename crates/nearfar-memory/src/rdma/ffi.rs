//! Declarations of libibverbs: structures and calls of its stable binary interface (symbols of version
//! `IBVERBS_1.1`), as `infiniband/verbs.h` of rdma-core 50 has them.
//!
//! Sizes and offsets were printed by a C program from that header; the assertions below keep to them. Verbs of the
//! data path have no symbols: they are function pointers in the context.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

/// `struct ibv_device`, `ibv_pd`: only pointers to them are used.
#[repr(C)]
pub(super) struct Opaque {
    private: [u8; 0],
}

/// `struct ibv_context`, up to the calls that are used.
#[repr(C)]
pub(super) struct Context {
    device: *mut Opaque,
    before_poll: [*mut c_void; 11],
    pub(super) poll_cq: Option<PollCq>,
    between: [*mut c_void; 13],
    pub(super) post_send: Option<PostSend>,
}
const _: () = assert!(offset_of!(Context, poll_cq) == 96);
const _: () = assert!(offset_of!(Context, post_send) == 208);

pub(super) type PollCq =
    unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut Completion) -> c_int;
pub(super) type PostSend =
    unsafe extern "C" fn(*mut QueuePairHead, *mut SendRequest, *mut *mut SendRequest) -> c_int;

/// `struct ibv_cq`, its beginning.
#[repr(C)]
pub(super) struct CompletionQueue {
    pub(super) context: *mut Context,
}

/// `struct ibv_qp`, its beginning.
#[repr(C)]
pub(super) struct QueuePairHead {
    pub(super) context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut Opaque,
    send_cq: *mut CompletionQueue,
    recv_cq: *mut CompletionQueue,
    srq: *mut Opaque,
    handle: u32,
    pub(super) qp_num: u32,
}
const _: () = assert!(offset_of!(QueuePairHead, qp_num) == 52);

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct MemoryRegion {
    context: *mut Context,
    pd: *mut Opaque,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}
const _: () = assert!(offset_of!(MemoryRegion, lkey) == 36 && offset_of!(MemoryRegion, rkey) == 40);

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Gather {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}
const _: () = assert!(size_of::<Gather>() == 16);

/// `struct ibv_send_wr`, with the member `rdma` of its union.
#[repr(C)]
pub(super) struct SendRequest {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendRequest,
    pub(super) sg_list: *mut Gather,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) rest: [u32; 19],
}
const _: () = assert!(size_of::<SendRequest>() == 128);
const _: () = assert!(offset_of!(SendRequest, send_flags) == 32);
const _: () = assert!(offset_of!(SendRequest, remote_addr) == 40);

/// `IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_READ`.
pub(super) const RDMA_WRITE: c_int = 0;
pub(super) const RDMA_READ: c_int = 4;
/// `IBV_SEND_SIGNALED`.
pub(super) const SIGNALED: c_uint = 1 << 1;

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    opcode: c_int,
    vendor_err: u32,
    byte_len: u32,
    imm_data: u32,
    qp_num: u32,
    src_qp: u32,
    wc_flags: c_uint,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}
const _: () = assert!(size_of::<Completion>() == 48);
const _: () = assert!(offset_of!(Completion, dlid_path_bits) == 45);

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Capacity {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QueuePairInit {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut CompletionQueue,
    pub(super) recv_cq: *mut CompletionQueue,
    pub(super) srq: *mut Opaque,
    pub(super) cap: Capacity,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}
const _: () = assert!(size_of::<QueuePairInit>() == 64);

/// `IBV_QPT_RC`.
pub(super) const RELIABLE: c_int = 2;

/// `struct ibv_ah_attr` with its `ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AddressHandle {
    pub(super) dgid: Gid,
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}
const _: () = assert!(size_of::<AddressHandle>() == 32);
const _: () = assert!(offset_of!(AddressHandle, dlid) == 24);

/// `union ibv_gid`, which is aligned as its numbers are.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct Gid(pub(super) [u8; 16]);

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QueuePairAttributes {
    pub(super) qp_state: c_int,
    pub(super) cur_qp_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) path_mig_state: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: Capacity,
    pub(super) ah_attr: AddressHandle,
    pub(super) alt_ah_attr: AddressHandle,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}
const _: () = assert!(size_of::<QueuePairAttributes>() == 144);
const _: () = assert!(offset_of!(QueuePairAttributes, ah_attr) == 56);
const _: () = assert!(offset_of!(QueuePairAttributes, pkey_index) == 120);
const _: () = assert!(offset_of!(QueuePairAttributes, timeout) == 130);

/// Values of `enum ibv_qp_state`.
pub(super) const STATE_INIT: c_int = 1;
pub(super) const STATE_READY_TO_RECEIVE: c_int = 2;
pub(super) const STATE_READY_TO_SEND: c_int = 3;

/// Values of `enum ibv_qp_attr_mask`.
pub(super) mod mask {
    use std::ffi::c_int;

    pub(in super::super) const STATE: c_int = 1 << 0;
    pub(in super::super) const ACCESS_FLAGS: c_int = 1 << 3;
    pub(in super::super) const PKEY_INDEX: c_int = 1 << 4;
    pub(in super::super) const PORT: c_int = 1 << 5;
    pub(in super::super) const AV: c_int = 1 << 7;
    pub(in super::super) const PATH_MTU: c_int = 1 << 8;
    pub(in super::super) const TIMEOUT: c_int = 1 << 9;
    pub(in super::super) const RETRY_CNT: c_int = 1 << 10;
    pub(in super::super) const RNR_RETRY: c_int = 1 << 11;
    pub(in super::super) const RQ_PSN: c_int = 1 << 12;
    pub(in super::super) const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(in super::super) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(in super::super) const SQ_PSN: c_int = 1 << 16;
    pub(in super::super) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(in super::super) const DEST_QPN: c_int = 1 << 20;
}

/// Values of `enum ibv_access_flags`.
pub(super) const LOCAL_WRITE: c_int = 1;
pub(super) const REMOTE_WRITE: c_int = 1 << 1;
pub(super) const REMOTE_READ: c_int = 1 << 2;

/// `struct _compat_ibv_port_attr`, which the exported `ibv_query_port` fills: `struct ibv_port_attr` up to
/// `link_layer`; padded, since later fields may be written by others.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PortAttributes {
    pub(super) state: c_int,
    max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    port_cap_flags: u32,
    max_msg_sz: u32,
    bad_pkey_cntr: u32,
    qkey_viol_cntr: u32,
    pkey_tbl_len: u16,
    pub(super) lid: u16,
    sm_lid: u16,
    others: [u8; 8],
    pub(super) link_layer: u8,
    rest: [u8; 9],
}
const _: () = assert!(size_of::<PortAttributes>() == 56);
const _: () = assert!(offset_of!(PortAttributes, lid) == 34);
const _: () = assert!(offset_of!(PortAttributes, link_layer) == 46);

/// `IBV_PORT_ACTIVE`, `IBV_LINK_LAYER_ETHERNET`.
pub(super) const PORT_ACTIVE: c_int = 4;
pub(super) const ETHERNET: u8 = 2;

/// `struct ibv_device_attr`: what is used of it, at its place.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttributes {
    before: [u64; 18],
    /// Reads that a queue pair answers concurrently.
    pub(super) max_qp_rd_atom: c_int,
    between: [c_int; 2],
    /// Reads that a queue pair asks for concurrently.
    pub(super) max_qp_init_rd_atom: c_int,
    middle: [u8; 67],
    pub(super) phys_port_cnt: u8,
    rest: [u8; 4],
}
const _: () = assert!(size_of::<DeviceAttributes>() == 232);
const _: () = assert!(offset_of!(DeviceAttributes, max_qp_rd_atom) == 144);
const _: () = assert!(offset_of!(DeviceAttributes, max_qp_init_rd_atom) == 156);
const _: () = assert!(offset_of!(DeviceAttributes, phys_port_cnt) == 227);

impl Default for DeviceAttributes {
    fn default() -> Self {
        Self {
            before: [0; 18],
            max_qp_rd_atom: 0,
            between: [0; 2],
            max_qp_init_rd_atom: 0,
            middle: [0; 67],
            phys_port_cnt: 0,
            rest: [0; 4],
        }
    }
}

/// The exported calls. Each is thread-safe, as `ibv_*` are by the manual of verbs.
pub(super) struct Calls {
    pub(super) get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Opaque,
    pub(super) free_device_list: unsafe extern "C" fn(*mut *mut Opaque),
    pub(super) get_device_name: unsafe extern "C" fn(*mut Opaque) -> *const c_char,
    pub(super) open_device: unsafe extern "C" fn(*mut Opaque) -> *mut Context,
    pub(super) close_device: unsafe extern "C" fn(*mut Context) -> c_int,
    pub(super) query_device: unsafe extern "C" fn(*mut Context, *mut DeviceAttributes) -> c_int,
    pub(super) query_port: unsafe extern "C" fn(*mut Context, u8, *mut PortAttributes) -> c_int,
    pub(super) query_gid: unsafe extern "C" fn(*mut Context, u8, c_int, *mut Gid) -> c_int,
    pub(super) alloc_pd: unsafe extern "C" fn(*mut Context) -> *mut Opaque,
    pub(super) dealloc_pd: unsafe extern "C" fn(*mut Opaque) -> c_int,
    pub(super) reg_mr:
        unsafe extern "C" fn(*mut Opaque, *mut c_void, usize, c_int) -> *mut MemoryRegion,
    pub(super) dereg_mr: unsafe extern "C" fn(*mut MemoryRegion) -> c_int,
    pub(super) create_cq: unsafe extern "C" fn(
        *mut Context,
        c_int,
        *mut c_void,
        *mut Opaque,
        c_int,
    ) -> *mut CompletionQueue,
    pub(super) destroy_cq: unsafe extern "C" fn(*mut CompletionQueue) -> c_int,
    pub(super) create_qp:
        unsafe extern "C" fn(*mut Opaque, *mut QueuePairInit) -> *mut QueuePairHead,
    pub(super) modify_qp:
        unsafe extern "C" fn(*mut QueuePairHead, *mut QueuePairAttributes, c_int) -> c_int,
    pub(super) destroy_qp: unsafe extern "C" fn(*mut QueuePairHead) -> c_int,
    pub(super) wc_status_str: unsafe extern "C" fn(c_int) -> *const c_char,
}
