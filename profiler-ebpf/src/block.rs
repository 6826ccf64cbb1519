//! block: the I/O that threads submit to block devices, and how long the devices take.

mod depth;

use core::ffi::c_void;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::Loss;
use profiler_common::block::{
    BIO_CACHED, BIO_DEVICE, BIO_DIRECT, BIO_HAS_FILE, BIO_HAS_OFFSET, BIO_IN_CALL, BIO_IN_FAULT, BIO_KERNEL_THREAD,
    BIO_RECORDED, BIO_SWAP, Bio as BioRecord, BioBody, PendingRequest, REQUEST_BIO_ONLY, REQUEST_COUNTED,
    REQUEST_UNSEEN_START, RequestBody, operation,
};
use profiler_common::scope::ThreadState;
use profiler_common::switch::OpenFile;

use depth::{device_got_one, device_lost_one};

use crate::emit::{self, At, lose, now};
use crate::kernel::{Bio, Dentry, Pages, Request, Task, current_ids, is_block_device};
use crate::maps::{CONFIG, REQUESTS, config};
use crate::preempt::Held;
use crate::stack;
use crate::{fault, names, scope, wait};

/// `block_bio_queue(struct bio *bio)`, in the submitter's context.
#[btf_tracepoint(function = "block_bio_queue")]
pub fn block_bio_queue(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let bio = Bio::new(ctx.arg::<*const c_void>(0));
    let (pid, tid) = current_ids();
    let at = At::now(pid, tid);
    if !scope::is_within(at.time) {
        return 0;
    }
    let task = Task::current();
    if bio.has_no_request() {
        begin_without_request(bio, at);
    }
    let mut flags = if task.is_kernel_thread() { BIO_KERNEL_THREAD } else { 0 };
    if let Some(state) = scope::thread(task) {
        flags |= BIO_RECORDED;
        // SAFETY: the current thread's own entry.
        unsafe {
            if fault::is_open(&(*state).faults.inner) {
                flags |= BIO_IN_FAULT;
            }
            send_stack(&ctx, state, task, at);
        }
    }
    let sent = emit::bio(at, |record: *mut BioRecord| {
        // SAFETY: a reserved record of this type. It is filled in place: the program's stack has no space for another one.
        unsafe {
            let body = &raw mut (*record).body;
            (*body).sector = bio.sector();
            (*body).page = 0;
            (*body).file = OpenFile::default();
            ((*body).bytes, (*body).device) = (bio.bytes(), bio.device());
            ((*body).operation, (*body).flags) = (bio.flags(), flags);
            ((*body).call, (*body).pad) = (0, 0);
            describe(bio, task, body, at);
            task.copy_comm(&raw mut (*record).comm);
        }
    });
    if !sent {
        lose(Loss::BlockRingFull);
    }
    0
}

/// Sends the submitter's stack ahead: the request may end after the submitter is gone.
///
/// # Safety
/// `state` must be the current thread's.
#[inline(always)]
unsafe fn send_stack(ctx: &BtfTracePointContext, state: *mut ThreadState, task: Task, at: At) {
    let place = stack::place_in_kernel(task);
    // SAFETY: by this function's own condition; a thread that runs has no wait under way.
    unsafe {
        let waits = &raw mut (*state).waits;
        let to = &raw mut (*waits).stacks;
        (*waits).want = stack::stacks_to(to, ctx, at, (*state).space, &place, stack::Copies::GiveWay) as u32;
        if wait::send_stack_ahead(state, at.time) == 0 {
            lose(Loss::BlockRingFull);
        }
    }
}

/// Describes the file that is read or written.
///
/// # Safety
/// `body` must be writable.
#[inline(always)]
unsafe fn describe(bio: Bio, task: Task, body: *mut BioBody, at: At) {
    // SAFETY: by this function's own condition.
    unsafe {
        let call = task.call();
        if let Some(call) = call {
            (*body).call = call;
            (*body).flags |= BIO_IN_CALL;
        }
        // Memory may be reclaimed during a system call about an unrelated file.
        if bio.flags() & config!(operation_swap) != 0 {
            (*body).flags |= BIO_SWAP;
            return;
        }
        // Direct I/O first: its memory may belong to another file.
        let (inode, name) = if let Some((inode, name, offset)) = bio.direct() {
            (*body).page = offset;
            (*body).flags |= BIO_DIRECT | BIO_HAS_OFFSET;
            (inode, name)
        } else {
            match bio.pages() {
                Pages::Cached(inode, page) => {
                    (*body).page = page;
                    (*body).flags |= BIO_CACHED;
                    (inode, inode.name().unwrap_or(Dentry::NONE))
                }
                Pages::Anonymous => {
                    // Swap uses the same kind of pages; only a system call has a descriptor.
                    let Some(call) = call.filter(|call| wait::is_among(&CONFIG.calls_with_file, *call)) else {
                        (*body).flags |= if (*body).flags & BIO_IN_CALL == 0 {
                            BIO_SWAP
                        } else {
                            BIO_DIRECT
                        };
                        return;
                    };
                    (*body).flags |= BIO_DIRECT;
                    let Some((inode, name)) = task.open_file(task.first_argument(call) & 0xffff_ffff) else {
                        return;
                    };
                    (inode, name)
                }
                Pages::Swapped => {
                    (*body).flags |= BIO_SWAP;
                    return;
                }
                Pages::Other => return,
            }
        };
        let Some(mut file) = inode.describe() else { return };
        if (*body).flags & BIO_CACHED != 0 && is_block_device(&file) {
            (*body).flags |= BIO_DEVICE;
        } else {
            names::tell(&mut file, name.known(), at);
        }
        (*body).file = file;
        (*body).flags |= BIO_HAS_FILE;
    }
}

/// Begins the record of a bio for a device without requests, where the bio is all there is.
#[inline(always)]
fn begin_without_request(bio: Bio, at: At) {
    let key = bio.key();
    if REQUESTS.insert(&key, &FRESH, 0).is_err() {
        lose(Loss::RequestTableFull);
    }
    let Some(pending) = REQUESTS.get_ptr_mut(&key) else {
        return;
    };
    // SAFETY: no other program has a bio that was just created.
    unsafe {
        let body = &raw mut (*pending).body;
        (*body).sector = bio.sector();
        (*body).bytes = bio.bytes();
        (*body).device = bio.device();
        (*body).operation = bio.flags();
        ((*body).queued, (*body).issued) = (at.time, at.time);
        (*body).depth = device_got_one((*body).device);
        (*body).flags = REQUEST_BIO_ONLY | REQUEST_COUNTED;
        (*pending).who = u64::from(at.pid) << 32 | u64::from(at.tid);
        (*pending).issued_now = 1;
    }
}

/// A request about which nothing is known yet.
// SAFETY: numbers only.
static FRESH: PendingRequest = unsafe { core::mem::zeroed() };

/// `block_bio_complete(struct request_queue *q, struct bio *bio)`: only for devices without requests.
#[btf_tracepoint(function = "block_bio_complete")]
pub fn block_bio_complete(ctx: BtfTracePointContext) -> i32 {
    let bio = Bio::new(ctx.arg::<*const c_void>(1));
    let key = bio.key();
    let time = now();
    let pending = REQUESTS.get_ptr_mut(&key);
    let Some(pending) = pending.filter(|_| scope::is_within(time)) else {
        return 0;
    };
    // SAFETY: no other program has a bio that is complete.
    unsafe {
        (*pending).body.error = bio.status();
        complete(key, pending, time);
    }
    0
}

/// `block_rq_insert(struct request *rq)`: into a scheduler's queue.
#[btf_tracepoint(function = "block_rq_insert")]
pub fn block_rq_insert(ctx: BtfTracePointContext) -> i32 {
    let request = Request::new(ctx.arg::<*const c_void>(0));
    let time = now();
    if let Some(pending) = pending_anew(request, time) {
        // SAFETY: only the context that inserts the request has it.
        unsafe {
            if (*pending).body.inserted == 0 {
                (*pending).body.inserted = time;
            }
        }
    }
    0
}

/// `block_rq_issue(struct request *rq)`: to the device.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    let request = Request::new(ctx.arg::<*const c_void>(0));
    let time = now();
    let Some(pending) = pending_anew(request, time) else {
        return 0;
    };
    // SAFETY: only the context that issues the request has it.
    unsafe {
        let body = &raw mut (*pending).body;
        if (*body).issued == 0 {
            (*body).issued = time;
            (*body).merges = request.merges();
            describe_request(body, request);
            let (pid, tid) = current_ids();
            (*pending).who = u64::from(pid) << 32 | u64::from(tid);
        }
        if (*pending).issued_now == 0 {
            (*pending).issued_now = 1;
            let depth = device_got_one((*body).device);
            if (*body).depth == 0 {
                (*body).depth = depth;
            }
        }
    }
    0
}

/// `block_rq_requeue(struct request *rq)`: the device gave it back.
#[btf_tracepoint(function = "block_rq_requeue")]
pub fn block_rq_requeue(ctx: BtfTracePointContext) -> i32 {
    let key = Request::new(ctx.arg::<*const c_void>(0)).key();
    if let Some(pending) = REQUESTS.get_ptr_mut(&key) {
        // SAFETY: only the context that gives the request back has it.
        unsafe {
            (*pending).body.requeues += 1;
            if (*pending).issued_now != 0 {
                (*pending).issued_now = 0;
                device_lost_one((*pending).body.device);
            }
        }
    }
    0
}

/// `block_rq_complete(struct request *rq, blk_status_t error, unsigned int nr_bytes)`: `nr_bytes` of the request are complete.
#[btf_tracepoint(function = "block_rq_complete")]
pub fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    let request = Request::new(ctx.arg::<*const c_void>(0));
    let error = ctx.arg::<u64>(1) as i32;
    let bytes = ctx.arg::<u64>(2) as u32;
    let time = now();
    let Some((pending, is_new)) = pending(request, time) else {
        return 0;
    };
    // SAFETY: only the context that completes the request has it.
    unsafe {
        let body = &raw mut (*pending).body;
        if is_new {
            // A flush without data completes without having been issued to the device.
            (*body).flags |= if request.bytes() != 0 { REQUEST_UNSEEN_START } else { 0 };
            describe_request(body, request);
        }
        // blk_status_t has eight bits; an int has its sign.
        let error = if error > 0 { error & 0xff } else { error };
        if error != 0 {
            (*body).error = error;
        }
        if bytes >= request.bytes() {
            complete(request.key(), pending, time);
        }
    }
    0
}

/// The request's entry at `time`, and whether this call created it.
#[inline(always)]
fn pending(request: Request, time: u64) -> Option<(*mut PendingRequest, bool)> {
    // A driver's own commands are not I/O. After the end the table stays as it is, for user space to read.
    if request.flags() & operation::MASK >= operation::DRIVER || !scope::is_within(time) {
        return None;
    }
    let key = request.key();
    if let Some(pending) = REQUESTS.get_ptr_mut(&key) {
        return Some((pending, false));
    }
    if REQUESTS.insert(&key, &FRESH, 0).is_err() {
        lose(Loss::RequestTableFull);
    }
    let pending = REQUESTS.get_ptr_mut(&key)?;
    // SAFETY: only the context that handles the request has it.
    unsafe { (*pending).body.device = request.device() };
    Some((pending, true))
}

/// The entry of a request that the device is about to get. If the device already has it, the end of an earlier request at this address was missed.
#[inline(always)]
fn pending_anew(request: Request, time: u64) -> Option<*mut PendingRequest> {
    let (pending, _) = pending(request, time)?;
    // SAFETY: as above.
    unsafe {
        if (*pending).issued_now != 0 {
            lose(Loss::RequestEndMissed);
            device_lost_one((*pending).body.device);
            *pending = FRESH;
            (*pending).body.device = request.device();
        }
    }
    Some(pending)
}

/// Describes what is read or written.
///
/// # Safety
/// `body` must be of the request's entry.
#[inline(always)]
unsafe fn describe_request(body: *mut RequestBody, request: Request) {
    // SAFETY: by this function's own condition.
    unsafe {
        (*body).sector = request.sector();
        (*body).bytes = request.bytes();
        (*body).operation = request.flags();
        (*body).flags |= if request.is_counted() { REQUEST_COUNTED } else { 0 };
    }
}

/// `block_rq_merge(struct request *rq)`: into another request, which has its bios from now on.
#[btf_tracepoint(function = "block_rq_merge")]
pub fn block_rq_merge(ctx: BtfTracePointContext) -> i32 {
    let key = Request::new(ctx.arg::<*const c_void>(0)).key();
    let _ = REQUESTS.remove(&key); // absent is as good as removed
    0
}

/// Sends a request that completed at `time`.
///
/// # Safety
/// `pending` must be the entry of `key`.
#[inline(always)]
unsafe fn complete(key: u64, pending: *mut PendingRequest, time: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        let who = (*pending).who;
        let at = At {
            time,
            pid: (who >> 32) as u32,
            tid: who as u32,
        };
        if !emit::request(at, &raw const (*pending).body) {
            lose(Loss::BlockRingFull);
        }
        if (*pending).issued_now != 0 {
            device_lost_one((*pending).body.device);
        }
    }
    if REQUESTS.remove(&key).is_err() {
        lose(Loss::RequestEndMissed);
    }
}
