//! Converts records of block requests to events. Operations keep the kernel's flags: the caller converts them.

use profiler_common::block::{self, BIO_HAS_FILE, BIO_IN_CALL, RequestBody};

use super::fields::{at, device, file, name, read};
use base::addr::Timestamp;
use base::event::{At, Bio, Request};

pub(super) fn bio(record: &[u8]) -> Option<Bio> {
    let record = read::<block::Bio>(record)?;
    let body = &record.body;
    Some(Bio {
        at: at(&record.header),
        comm: name(&record.comm),
        device: device(body.device),
        sector: body.sector,
        bytes: body.bytes,
        operation: body.operation,
        flags: body.flags,
        file: (body.flags & BIO_HAS_FILE != 0).then(|| file(body.file.inode, body.file.device, body.file.generation)),
        name: body.file.name,
        page: body.page,
        call: (body.flags & BIO_IN_CALL != 0).then_some(body.call),
    })
}

pub(super) fn request(record: &[u8]) -> Option<Request> {
    let record = read::<block::Request>(record)?;
    Some(request_of(at(&record.header), &record.body))
}

/// Converts a request of the kernel side.
pub fn request_of(at: At, body: &RequestBody) -> Request {
    let time = |time: u64| (time != 0).then_some(Timestamp(time));
    Request {
        at,
        device: device(body.device),
        sector: body.sector,
        bytes: body.bytes,
        operation: body.operation,
        queued: time(body.queued),
        inserted: time(body.inserted),
        issued: time(body.issued),
        error: body.error,
        requeues: body.requeues,
        merges: body.merges,
        depth: body.depth,
        flags: body.flags,
    }
}
