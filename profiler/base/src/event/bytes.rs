//! Encoding of integers and byte strings in a chunk's payload: LEB128 varints, zigzag differences,
//! length-prefixed bytes.

/// The bytes do not match the format; the chunk is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed bytes in a chunk")]
pub struct Malformed;

/// Appends `value` in 1 to 10 bytes.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends the difference between `value` and `previous`, which is short in either direction.
#[inline]
pub fn put_difference(out: &mut Vec<u8>, previous: u64, value: u64) {
    let difference = value.wrapping_sub(previous).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Appends the length of the bytes, and at most `limit` of them.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let bytes = &bytes[..bytes.len().min(limit)];
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Decodes a payload from its start.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a varint.
    #[inline]
    pub fn get(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = u64::from(self.byte()?);
            let bits = byte & 0x7f;
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads eight bytes, little endian, for values that are rarely small.
    pub fn get_u64_le(&mut self) -> Result<u64, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Reads a varint that fits 32 bits.
    pub fn get_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.get()?).map_err(|_| Malformed)
    }

    /// Reads a count or length of at most `limit`.
    pub fn get_len(&mut self, limit: usize) -> Result<usize, Malformed> {
        usize::try_from(self.get()?)
            .ok()
            .filter(|len| *len <= limit)
            .ok_or(Malformed)
    }

    /// Reads what [`put_difference`] wrote.
    #[inline]
    pub fn get_difference(&mut self, previous: u64) -> Result<u64, Malformed> {
        let zigzag = self.get()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(previous.wrapping_add(difference))
    }

    /// Reads `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads what [`put_bytes`] wrote.
    pub fn get_bytes(&mut self, limit: usize) -> Result<&'a [u8], Malformed> {
        let len = self.get_len(limit)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_round_trip(value: u64, previous: u64) {
            let mut out = Vec::new();
            put(&mut out, value);
            put_difference(&mut out, previous, value);
            let mut bytes = Bytes(&out);
            prop_assert_eq!(bytes.get(), Ok(value));
            prop_assert_eq!(bytes.get_difference(previous), Ok(value));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(data: Vec<u8>) {
            let mut bytes = Bytes(&data);
            while bytes.get().is_ok() {}
            let _ = Bytes(&data).get_bytes(100);
        }
    }

    #[test]
    fn overlong_integers_are_rejected() {
        assert_eq!(Bytes(&[0xff; 9]).get(), Err(Malformed));
        assert_eq!(
            Bytes(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).get(),
            Err(Malformed)
        );
        assert_eq!(
            Bytes(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).get(),
            Ok(u64::MAX)
        );
    }
}
