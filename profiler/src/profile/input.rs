//! A profile's bytes, unpacked if need be, within a limit.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

/// Bytes of JSON that are read at most: eight times what a browser opens.
pub const LIMIT: u64 = 4 << 30;
/// How a gzip file starts.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads everything, through gunzip if it is compressed. An input above the limit is an error of kind
/// [`io::ErrorKind::FileTooLarge`].
pub fn read_all(input: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut input = BufReader::new(input);
    let packed = input.fill_buf()?.starts_with(&GZIP);
    let mut bytes = Vec::new();
    let room = limit.saturating_add(1);
    let len = if packed {
        MultiGzDecoder::new(input).take(room).read_to_end(&mut bytes)?
    } else {
        input.take(room).read_to_end(&mut bytes)?
    };
    if len as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than {limit} bytes of JSON"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test says what it needs by failing.
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn packed_or_not_and_never_more_than_the_limit() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[b' '; 5000]).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 100, "a small file may hold much");
        assert_eq!(read_all(&packed[..], 5000).unwrap().len(), 5000);
        assert_eq!(
            read_all(&packed[..], 4999).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(read_all(&b"{}"[..], 2).unwrap(), b"{}");
        assert!(read_all(&packed[..20], 5000).is_err());
    }
}
