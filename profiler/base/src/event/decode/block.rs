//! Decodes block requests.

use super::{file, text};
use crate::addr::Timestamp;
use crate::event::bytes::{Bytes, Malformed};
use crate::event::format::MAX_FRAMES;
use crate::event::{At, Bio, Device, DeviceName, Request};

pub(super) fn bio(at: At, bytes: &mut Bytes<'_>) -> Result<Bio, Malformed> {
    let mut bio = Bio {
        at,
        comm: text(bytes)?,
        device: device(bytes)?,
        sector: bytes.get()?,
        bytes: bytes.get_u32()?,
        operation: bytes.get_u32()?,
        flags: bytes.get_u32()?,
        ..Bio::default()
    };
    let present = bytes.byte()?;
    if present >> 3 != 0 || present & 5 == 4 {
        return Err(Malformed);
    }
    if present & 1 != 0 {
        bio.file = Some(file(bytes)?);
    }
    if present & 4 != 0 {
        bio.name = bytes.get()?;
    }
    bio.page = bytes.get()?;
    if present & 2 != 0 {
        bio.call = Some(bytes.get_u32()?);
    }
    Ok(bio)
}

pub(super) fn request(at: At, bytes: &mut Bytes<'_>) -> Result<Request, Malformed> {
    let mut request = Request {
        at,
        device: device(bytes)?,
        sector: bytes.get()?,
        bytes: bytes.get_u32()?,
        operation: bytes.get_u32()?,
        requeues: bytes.get_u32()?,
        ..Request::default()
    };
    let present = bytes.byte()?;
    if present >> 3 != 0 {
        return Err(Malformed);
    }
    let mut time = |bit: u8| match present >> bit & 1 {
        0 => Ok(None),
        _ => bytes.get_difference(at.time.0).map(|time| Some(Timestamp(time))),
    };
    (request.queued, request.inserted, request.issued) = (time(0)?, time(1)?, time(2)?);
    request.error = bytes.get_u32()?.cast_signed();
    (request.merges, request.depth, request.flags) = (bytes.get_u32()?, bytes.get_u32()?, bytes.get_u32()?);
    Ok(request)
}

pub(super) fn device_name(bytes: &mut Bytes<'_>) -> Result<DeviceName, Malformed> {
    Ok(DeviceName {
        device: device(bytes)?,
        name: String::from_utf8_lossy(&text(bytes)?).into_owned(),
        before: numbers(bytes)?,
        after: numbers(bytes)?,
    })
}

fn numbers(bytes: &mut Bytes<'_>) -> Result<Vec<u64>, Malformed> {
    let count = bytes.get_len(MAX_FRAMES)?;
    (0..count).map(|_| bytes.get()).collect()
}

fn device(bytes: &mut Bytes<'_>) -> Result<Device, Malformed> {
    Ok(Device {
        major: bytes.get_u32()?,
        minor: bytes.get_u32()?,
    })
}
