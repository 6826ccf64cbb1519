//! Encodes block requests.

use super::{Encoder, Tag, put_file};
use crate::addr::Timestamp;
use crate::event::bytes::{put, put_bytes, put_difference};
use crate::event::format::{MAX_FRAMES, MAX_TEXT};
use crate::event::{Bio, Device, DeviceName, Request};

impl Encoder {
    pub(super) fn bio(&mut self, out: &mut Vec<u8>, bio: &Bio) {
        self.at(out, Tag::Bio, &bio.at);
        put_bytes(out, &bio.comm, MAX_TEXT);
        put_device(out, bio.device);
        put(out, bio.sector);
        for value in [bio.bytes, bio.operation, bio.flags] {
            put(out, u64::from(value));
        }
        let has_name = bio.file.is_some() && bio.name != 0;
        out.push(u8::from(bio.file.is_some()) | u8::from(bio.call.is_some()) << 1 | u8::from(has_name) << 2);
        if let Some(file) = &bio.file {
            put_file(out, file);
        }
        if has_name {
            put(out, bio.name);
        }
        put(out, bio.page);
        if let Some(call) = bio.call {
            put(out, u64::from(call));
        }
    }

    pub(super) fn request(&mut self, out: &mut Vec<u8>, request: &Request) {
        self.at(out, Tag::Request, &request.at);
        put_device(out, request.device);
        put(out, request.sector);
        for value in [request.bytes, request.operation, request.requeues] {
            put(out, u64::from(value));
        }
        let times = [request.queued, request.inserted, request.issued];
        out.push(
            times
                .iter()
                .enumerate()
                .map(|(bit, time)| u8::from(time.is_some()) << bit)
                .sum(),
        );
        for Timestamp(time) in times.into_iter().flatten() {
            put_difference(out, request.at.time.0, time);
        }
        put(out, u64::from(request.error.cast_unsigned()));
        for value in [request.merges, request.depth, request.flags] {
            put(out, u64::from(value));
        }
    }
}

/// Appends a device's name and statistics.
pub(super) fn device_name(out: &mut Vec<u8>, name: &DeviceName) {
    out.push(Tag::DeviceName as u8);
    put_device(out, name.device);
    put_bytes(out, name.name.as_bytes(), MAX_TEXT);
    for numbers in [&name.before, &name.after] {
        let count = numbers.len().min(MAX_FRAMES);
        put(out, count as u64);
        for number in &numbers[..count] {
            put(out, *number);
        }
    }
}

fn put_device(out: &mut Vec<u8>, device: Device) {
    put(out, u64::from(device.major));
    put(out, u64::from(device.minor));
}
