//! Encodes block requests.

use super::{Encoder, Tag, put_present};
use crate::event::bytes::put_difference;
use crate::event::fields::{Stored as _, bits};
use crate::event::{Bio, Request};

impl Encoder {
    pub(super) fn bio(&mut self, out: &mut Vec<u8>, bio: &Bio) {
        self.at(out, Tag::Bio, &bio.at);
        bio.comm.put(out);
        bio.device.put(out);
        bio.sector.put(out);
        bio.bytes.put(out);
        bio.operation.put(out);
        bio.flags.put(out);
        let name = bio.file.and(Some(bio.name)).filter(|name| *name != 0);
        out.push(bits([bio.file.is_some(), bio.call.is_some(), name.is_some()]));
        put_present(out, bio.file);
        put_present(out, name);
        bio.page.put(out);
        put_present(out, bio.call);
    }

    pub(super) fn request(&mut self, out: &mut Vec<u8>, request: &Request) {
        self.at(out, Tag::Request, &request.at);
        request.device.put(out);
        request.sector.put(out);
        request.bytes.put(out);
        request.operation.put(out);
        request.requeues.put(out);
        let times = [request.queued, request.inserted, request.issued];
        out.push(bits(times.map(|time| time.is_some())));
        for time in times.into_iter().flatten() {
            put_difference(out, request.at.time.0, time.0);
        }
        request.error.put(out);
        request.merges.put(out);
        request.depth.put(out);
        request.flags.put(out);
    }
}
