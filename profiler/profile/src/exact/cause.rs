//! Causes of long faults and waits, in the profile's `ngmi` section, bit-exact; times are relative
//! to the profile's time 0.

use serde::{Deserialize, Serialize};

use super::Big;
use super::references::References;
use crate::error::ReadError;
use base::addr::Timestamp;
use fact::request::{Operation, RequestKind};
use fact::{Cause, DeviceId, Effect, EffectKind, HolderRef, MappedFileId, Reason, RequestRef, ThreadId};

/// An effect with its cause.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawCause(RawEffect, RawReason);

/// Kind, thread, and start of the effect.
#[derive(Debug, Serialize, Deserialize)]
struct RawEffect(EffectKind, ThreadId, Big);

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
    Option<ThreadId>,
    DeviceId,
    /// Sector.
    Big,
    /// Start and end of the request.
    (Big, Big),
    Operation,
    RequestKind,
    /// Bytes.
    u32,
    /// File of the data.
    Option<MappedFileId>,
    /// Offset in the file.
    Option<Big>,
);

impl RawCause {
    /// Converts a cause.
    pub fn new(cause: &Cause, zero: Timestamp) -> Self {
        let reason = match &cause.reason {
            Reason::Request(request) => RawReason::Request(RawRequestRef(
                request.own,
                request.by,
                request.device,
                Big(request.sector),
                (Big::since(request.start, zero), Big::since(request.end, zero)),
                request.operation,
                request.kind,
                request.bytes,
                request.file,
                request.offset.map(Big),
            )),
            Reason::Holder(holder) => RawReason::Holder(effect(&holder.effect, zero), Big::since(holder.end, zero)),
        };
        Self(effect(&cause.effect, zero), reason)
    }

    /// Converts back to the cause.
    pub fn fact(&self, to: References<'_>) -> Result<Cause, ReadError> {
        let reason = match &self.1 {
            RawReason::Request(request) => Reason::Request(request.fact(to)?),
            RawReason::Holder(effect, end) => Reason::Holder(HolderRef {
                effect: effect.fact(to)?,
                end: to.time(*end)?,
            }),
        };
        Ok(Cause {
            effect: self.0.fact(to)?,
            reason,
        })
    }
}

impl RawEffect {
    fn fact(&self, to: References<'_>) -> Result<Effect, ReadError> {
        Ok(Effect {
            kind: self.0,
            thread: to.thread(self.1)?,
            start: to.time(self.2)?,
        })
    }
}

impl RawRequestRef {
    fn fact(&self, to: References<'_>) -> Result<RequestRef, ReadError> {
        let Self(own, by, device, sector, (start, end), operation, kind, bytes, file, offset) = self;
        Ok(RequestRef {
            own: *own,
            by: by.map(|by| to.thread(by)).transpose()?,
            device: to.device(*device)?,
            sector: sector.0,
            start: to.time(*start)?,
            end: to.time(*end)?,
            operation: *operation,
            kind: *kind,
            bytes: *bytes,
            file: to.file(*file)?,
            offset: offset.map(|offset| offset.0),
        })
    }
}

fn effect(effect: &Effect, zero: Timestamp) -> RawEffect {
    RawEffect(effect.kind, effect.thread, Big::since(effect.start, zero))
}
