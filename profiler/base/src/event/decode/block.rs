//! Decodes block requests.

use crate::addr::Timestamp;
use crate::event::bytes::{Bytes, Malformed};
use crate::event::fields::Stored;
use crate::event::{At, Bio, Request};

pub(super) fn bio(at: At, bytes: &mut Bytes<'_>) -> Result<Bio, Malformed> {
    let mut bio = Bio {
        at,
        comm: Stored::get(bytes)?,
        device: Stored::get(bytes)?,
        sector: Stored::get(bytes)?,
        bytes: Stored::get(bytes)?,
        operation: Stored::get(bytes)?,
        flags: Stored::get(bytes)?,
        ..Bio::default()
    };
    let present = bytes.byte()?;
    if present >> 3 != 0 || present & 5 == 4 {
        return Err(Malformed);
    }
    if present & 1 != 0 {
        bio.file = Some(Stored::get(bytes)?);
    }
    if present & 4 != 0 {
        bio.name = Stored::get(bytes)?;
    }
    bio.page = Stored::get(bytes)?;
    if present & 2 != 0 {
        bio.call = Some(Stored::get(bytes)?);
    }
    Ok(bio)
}

pub(super) fn request(at: At, bytes: &mut Bytes<'_>) -> Result<Request, Malformed> {
    let mut request = Request {
        at,
        device: Stored::get(bytes)?,
        sector: Stored::get(bytes)?,
        bytes: Stored::get(bytes)?,
        operation: Stored::get(bytes)?,
        requeues: Stored::get(bytes)?,
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
    request.error = Stored::get(bytes)?;
    (request.merges, (request.depth, request.flags)) = Stored::get(bytes)?;
    Ok(request)
}
