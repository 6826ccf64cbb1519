//! Reads a profile's bytes, decompressed if necessary, within limits.

mod scan;

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use self::scan::{Scan, too_large};
use crate::gzip;

/// Maximum bytes of JSON: eight times what a browser opens.
pub const LIMIT: u64 = 4 << 30;
/// Maximum bytes of JSON per compressed byte: profiles have 5 to 12, and gzip can reach 1,000.
const RATIO: u64 = 100;
/// Up to this size, any ratio is accepted.
const SMALL: u64 = 64 << 20;
/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// Reads the whole input, decompressing gzip. An input above a limit is an error of kind
/// [`io::ErrorKind::FileTooLarge`].
///
/// # Errors
/// The input's error, or an exceeded limit.
pub fn read_all(input: &mut dyn Read, limit: u64) -> io::Result<Vec<u8>> {
    read_within(input, limit, SMALL)
}

/// The same for an input in memory, which is not copied unless it is compressed.
///
/// # Errors
/// As [`read_all`].
pub fn in_memory(bytes: &[u8], limit: u64) -> io::Result<Cow<'_, [u8]>> {
    if bytes.starts_with(&gzip::MAGIC) {
        return read_all(&mut &*bytes, limit).map(Cow::Owned);
    }
    if bytes.len() as u64 > limit {
        return Err(beyond(limit));
    }
    Scan::default().feed(bytes)?;
    Ok(Cow::Borrowed(bytes))
}

/// Reads a profile to its end, without keeping it. [`io::ErrorKind::UnexpectedEof`]: it is cut, which is seen by its last byte, or by
/// the end of its compressed data.
///
/// # Errors
/// The input's error; it is cut, or its compressed data are damaged.
pub fn expect_whole(input: impl Read) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let is_compressed = input.fill_buf()?.starts_with(&gzip::MAGIC);
    let mut text: Box<dyn Read> = if is_compressed {
        Box::new(MultiGzDecoder::new(input))
    } else {
        Box::new(input)
    };
    let (mut last, mut piece) = (None, vec![0; PIECE]);
    loop {
        match text.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => last = piece[..len].trim_ascii_end().last().copied().or(last),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if last == Some(b'}') {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its end is missing"))
}

fn beyond(limit: u64) -> io::Error {
    too_large(format_args!("more than {limit} bytes of JSON"))
}

fn read_within(input: &mut dyn Read, limit: u64, small: u64) -> io::Result<Vec<u8>> {
    let mut input = BufReader::new(Counted { input, bytes: 0 });
    if input.fill_buf()?.starts_with(&gzip::MAGIC) {
        let mut unpacked = MultiGzDecoder::new(input);
        collect(&mut unpacked, limit, |decoder, len| {
            let packed = decoder.get_ref().get_ref().bytes;
            if len > small && len / RATIO > packed {
                return Err(too_large(format_args!(
                    "{len} bytes of JSON in {packed} compressed bytes"
                )));
            }
            Ok(())
        })
    } else {
        collect(&mut input, limit, |_, _| Ok(()))
    }
}

/// Passes the number of bytes so far to `check` repeatedly.
fn collect<R: Read>(input: &mut R, limit: u64, check: impl Fn(&R, u64) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let (mut bytes, mut piece, mut scan) = (Vec::new(), vec![0; PIECE], Scan::default());
    loop {
        let len = match input.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let all = bytes.len() as u64 + len as u64;
        if all > limit {
            return Err(beyond(limit));
        }
        check(input, all)?;
        scan.feed(&piece[..len])?;
        bytes.extend_from_slice(&piece[..len]);
    }
}

/// Counts the bytes read.
struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        self.bytes += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        parts.into_iter().for_each(|part| packed.write_all(&part).unwrap());
        packed.finish().unwrap()
    }

    #[test]
    fn a_cut_profile_is_recognized() {
        let whole = gzip([b"{\"a\":{}}\n".to_vec()]);
        assert!(expect_whole(&whole[..]).is_ok());
        assert!(expect_whole(&b"{\"a\":{}}  \n"[..]).is_ok());
        for cut in [&whole[..whole.len() - 1], &whole[..12], b"{\"a\":", b""] {
            let error = expect_whole(cut).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        }
    }

    #[test]
    fn plain_and_compressed_input_is_read_up_to_the_limit() {
        let packed = gzip([vec![b' '; 5000]]);
        assert!(packed.len() < 100, "a small file may have a high ratio");
        assert_eq!(read_all(&mut &packed[..], 5000).unwrap().len(), 5000);
        assert_eq!(
            read_all(&mut &packed[..], 4999).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(read_all(&mut &b"{}"[..], 2).unwrap(), b"{}");
        assert!(read_all(&mut &packed[..20], 5000).is_err());
    }

    /// A decompression bomb: a string longer than in any profile.
    fn long_string() -> Vec<u8> {
        let start = br#"{"meta":{"preprocessedProfileVersion":1},"ngmi":{},"threads":[],"x":""#.to_vec();
        gzip([start].into_iter().chain(vec![vec![b'x'; 1 << 20]; 100]))
    }

    #[test]
    fn an_oversized_string_is_rejected_by_every_reader() {
        use crate::{ForeignSource, ProfileSource};

        let packed = long_string();
        let mut rest = &packed[..];
        let error = read_all(&mut rest, LIMIT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(rest.len() > packed.len() / 4, "it was decompressed to its end");
        let why = "a string of more than 32 MiB, which no profile has";
        assert_eq!(error.to_string(), why);
        let chain = |error: anyhow::Error| format!("{error:#}");
        for said in [
            chain(ProfileSource::new(&*packed).unwrap_err().into()),
            chain(ForeignSource::new(&*packed).err().unwrap().into()),
            chain(crate::named(&*packed).unwrap_err().into()),
            crate::lint(&*packed).join(""),
        ] {
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn decompression_bombs_are_rejected() {
        let numbers = |count| gzip([b"[".to_vec()].into_iter().chain(vec![b"0,".repeat(1 << 16); count]));
        let error = read_within(&mut &*numbers(40), LIMIT, 4 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("bytes of JSON in"), "{error}");
        assert!(
            read_within(&mut &*numbers(30), LIMIT, 4 << 20).is_ok(),
            "small files may"
        );
    }
}
