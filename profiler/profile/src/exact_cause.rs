//! Causes of long faults and waits, in the profile's `ngmi` section, bit-exact; times are relative
//! to the profile's time 0.

use serde::{Deserialize, Serialize};

use super::exact::Big;
use super::read::ReadError;
use base::addr::Timestamp;
use fact::request::{Operation, RequestKind};
use fact::{Cause, DeviceId, Effect, EffectKind, HolderRef, MappedFileId, Reason, RequestRef, Tables, ThreadId};

/// An effect with its cause.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawCause(RawEffect, RawReason);

/// Kind, thread, and start of the effect.
#[derive(Debug, Serialize, Deserialize)]
struct RawEffect(EffectKind, u32, Big);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawReason {
    Request(RawRequestRef),
    /// The end of the effect.
    Holder(RawEffect, Big),
}

#[derive(Debug, Serialize, Deserialize)]
struct RawRequestRef(
    /// Whether the waiting thread itself submitted the request.
    bool,
    /// The thread that submitted the request.
    Option<u32>,
    /// Device.
    u32,
    /// Sector.
    Big,
    /// Start and end of the request.
    (Big, Big),
    Operation,
    RequestKind,
    /// Bytes.
    u32,
    /// File of the data.
    Option<u32>,
    /// Offset in the file.
    Option<Big>,
);

impl RawCause {
    /// Converts a cause.
    pub fn new(cause: &Cause, zero: Timestamp) -> Self {
        let reason = match &cause.reason {
            Reason::Request(request) => RawReason::Request(RawRequestRef(
                request.own,
                request.by.map(|thread| thread.0),
                request.device.0,
                Big(request.sector),
                (from(request.start, zero), from(request.end, zero)),
                request.operation,
                request.kind,
                request.bytes,
                request.file.map(|file| file.0),
                request.offset.map(Big),
            )),
            Reason::Holder(holder) => RawReason::Holder(effect(&holder.effect, zero), from(holder.end, zero)),
        };
        Self(effect(&cause.effect, zero), reason)
    }

    /// Converts back to the cause.
    pub fn fact(&self, zero: Timestamp, tables: &Tables) -> Result<Cause, ReadError> {
        let reason = match &self.1 {
            RawReason::Request(request) => Reason::Request(request.fact(zero, tables)?),
            RawReason::Holder(effect, end) => Reason::Holder(HolderRef {
                effect: effect.fact(zero, tables)?,
                end: after(zero, *end)?,
            }),
        };
        Ok(Cause {
            effect: self.0.fact(zero, tables)?,
            reason,
        })
    }
}

impl RawEffect {
    fn fact(&self, zero: Timestamp, tables: &Tables) -> Result<Effect, ReadError> {
        Ok(Effect {
            kind: self.0,
            thread: thread(self.1, tables)?,
            start: after(zero, self.2)?,
        })
    }
}

impl RawRequestRef {
    fn fact(&self, zero: Timestamp, tables: &Tables) -> Result<RequestRef, ReadError> {
        let Self(own, by, device, sector, (start, end), operation, kind, bytes, file, offset) = self;
        let (device, file) = (DeviceId(*device), file.map(MappedFileId));
        if device.index() >= tables.devices.len() || file.is_some_and(|file| file.index() >= tables.files.len()) {
            return Err(damaged());
        }
        Ok(RequestRef {
            own: *own,
            by: by.map(|by| thread(by, tables)).transpose()?,
            device,
            sector: sector.0,
            start: after(zero, *start)?,
            end: after(zero, *end)?,
            operation: *operation,
            kind: *kind,
            bytes: *bytes,
            file,
            offset: offset.map(|offset| offset.0),
        })
    }
}

fn effect(effect: &Effect, zero: Timestamp) -> RawEffect {
    RawEffect(effect.kind, effect.thread.0, from(effect.start, zero))
}

fn thread(number: u32, tables: &Tables) -> Result<ThreadId, ReadError> {
    let thread = ThreadId(number);
    if thread.index() < tables.threads.len() {
        Ok(thread)
    } else {
        Err(damaged())
    }
}

fn damaged() -> ReadError {
    ReadError::Damaged("list of causes")
}

fn from(time: Timestamp, zero: Timestamp) -> Big {
    Big(time.0.saturating_sub(zero.0))
}

fn after(zero: Timestamp, time: Big) -> Result<Timestamp, ReadError> {
    zero.0.checked_add(time.0).map(Timestamp).ok_or_else(damaged)
}
