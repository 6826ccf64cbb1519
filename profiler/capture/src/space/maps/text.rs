//! Mappings from the text of `/proc/PID/maps` (`fs/proc/task_mmu.c`, `show_map_vma`), for kernels before 6.11.

use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};

use rustc_hash::FxHashMap;

use super::{AddressSpace, BuildIdReader, BuildIds, NAME_LIMIT, Way, Which, flags, is_wanted};
use base::addr::{Avma, FileOffset};
use base::event::{At, FileId, Mapping};

/// Bytes per line, at most: a newline in a name takes four.
const LINE_LIMIT: usize = NAME_LIMIT * 4 + 256;

/// x86-64's `[vsyscall]`: the same page in every process, not part of any address space; the ioctl leaves it out.
const GATE: Avma = Avma(0xffff_ffff_ff60_0000);

/// Reads all lines for every request.
pub struct Text<'r, F> {
    pid: u32,
    lines: BufReader<F>,
    line: Vec<u8>,
    build_ids: Option<&'r BuildIdReader>,
    /// Build ids read so far.
    known: FxHashMap<FileId, Vec<u8>>,
}

impl<'r, F: io::Read + Seek> Text<'r, F> {
    /// Opens the `/proc/PID/maps` of process `pid`.
    pub fn new(pid: u32, file: F, build_ids: BuildIds<'r>) -> Self {
        let build_ids = match build_ids {
            BuildIds::Read(reader) => Some(reader),
            BuildIds::Unwanted | BuildIds::OfKernel => None,
        };
        Self {
            pid,
            lines: BufReader::with_capacity(64 << 10, file),
            line: Vec::new(),
            build_ids,
            known: FxHashMap::default(),
        }
    }

    /// Goes back to the first line, which every process with memory has.
    fn first_line(&mut self) -> io::Result<()> {
        self.lines.seek(SeekFrom::Start(0))?;
        if !self.next_line()? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    }

    /// Reads the next line into [`Text::line`], skipping names that are too long. False: there is none.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = self.lines.by_ref().take(LINE_LIMIT as u64);
        limited.read_until(b'\n', &mut self.line)?;
        if self.line.len() == LINE_LIMIT && self.line.last() != Some(&b'\n') {
            self.lines.skip_until(b'\n')?;
        }
        Ok(!self.line.is_empty())
    }

    fn with_build_id(&mut self, mut mapping: Mapping) -> Mapping {
        if let Some(read) = self.build_ids.filter(|_| mapping.file.inode != 0) {
            mapping.at.pid = self.pid;
            let id = self.known.entry(mapping.file).or_insert_with(|| read(&mapping));
            mapping.build_id.clone_from(id);
            mapping.at = At::default();
        }
        mapping
    }
}

impl<F: io::Read + Seek> AddressSpace for Text<'_, F> {
    fn way(&self) -> Way {
        Way::Text
    }

    fn visit(&mut self, which: Which, take: &mut dyn FnMut(Mapping)) -> io::Result<()> {
        self.first_line()?;
        loop {
            let mapping = parse_line(&self.line).ok_or_else(no_mapping)?;
            if is_wanted(&mapping, which) && mapping.start != GATE {
                take(self.with_build_id(mapping));
            }
            if !self.next_line()? {
                return Ok(());
            }
        }
    }

    /// Walks the lines once for all addresses; of most lines only the range is parsed.
    fn covering(&mut self, addresses: &[Avma]) -> io::Result<Vec<Option<Mapping>>> {
        let mut wanted: Vec<(Avma, usize)> = addresses.iter().enumerate().map(|(n, a)| (*a, n)).collect();
        wanted.sort_unstable();
        let mut found = vec![None; addresses.len()];
        let mut wanted = wanted.into_iter().peekable();
        self.first_line()?;
        while wanted.peek().is_some() {
            let (start, end) = parse_range(&self.line).ok_or_else(no_mapping)?;
            while wanted.next_if(|(address, _)| address.0 < start).is_some() {}
            if start != GATE.0 && wanted.peek().is_some_and(|(address, _)| address.0 < end) {
                let mapping = parse_line(&self.line).ok_or_else(no_mapping)?;
                let mapping = self.with_build_id(mapping);
                while let Some((_, number)) = wanted.next_if(|(address, _)| address.0 < end) {
                    found[number] = Some(mapping.clone());
                }
            }
            if !self.next_line()? {
                break;
            }
        }
        Ok(found)
    }
}

fn no_mapping() -> io::Error {
    io::Error::other("invalid line in /proc/PID/maps")
}

/// `start-end`, in hex, before the first blank.
fn parse_range(line: &[u8]) -> Option<(u64, u64)> {
    let range = line.split(|&byte| byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start <= end).then_some((start, end))
}

/// `start-end rwxp offset major:minor inode   name`, numbers in hex except the inode.
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let is_cut = line.len() >= LINE_LIMIT;
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (start, end) = parse_range(line)?;
    let mut fields = line.splitn(6, |&byte| byte == b' ').skip(1);
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let rights = field()?.as_bytes();
    let offset = u64::from_str_radix(field()?, 16).ok()?;
    let (major, minor) = field()?.split_once(':')?;
    let file = FileId {
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
        inode: field()?.parse().ok()?,
        generation: 0,
    };
    let name = fields.next().unwrap_or_default();
    let path = unescape(name.trim_ascii_start());
    let has = |letter: u8, bit: u32| if rights.contains(&letter) { bit } else { 0 };
    Some(Mapping {
        at: At::default(),
        start: Avma(start),
        len: end - start,
        offset: FileOffset(offset),
        file,
        protection: has(b'r', 1) | has(b'w', 2) | has(b'x', 4),
        flags: flags(rights.get(3) == Some(&b's')),
        path: if is_cut || path.len() >= NAME_LIMIT {
            Vec::new()
        } else {
            path
        },
        build_id: Vec::new(),
    })
}

/// Reverts what `show_map_vma` does to a newline, the only byte that it escapes: a name with a literal `\012` can't
/// be distinguished from that.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(&byte) = rest.first() {
        let (byte, len) = if rest.starts_with(b"\\012") {
            (b'\n', 4)
        } else {
            (byte, 1)
        };
        plain.push(byte);
        rest = rest.get(len..).unwrap_or_default();
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn of_text(text: &[u8]) -> io::Result<Vec<Mapping>> {
        Text::new(0, Cursor::new(text), BuildIds::Unwanted).mappings(Which::All)
    }

    #[test]
    fn names_may_be_hostile() {
        let text =
            b"7f0000001000-7f0000003000 r-xp 00002000 08:01 1234                       /tmp/a b\\012c\\134 (deleted)\n\
                     7ffd00000000-7ffd00021000 rw-s 00000000 00:00 0                          [stack]\n\
                     7ffe00000000-7ffe00001000 --xp 00000000 00:00 0 \n\
                     ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        let mappings = of_text(text).unwrap();
        assert_eq!(mappings[0].path, b"/tmp/a b\nc\\134 (deleted)");
        assert_eq!(
            (mappings[0].start.0, mappings[0].len, mappings[0].offset.0),
            (0x7f00_0000_1000, 0x2000, 0x2000)
        );
        let (major, minor, inode) = (8, 1, 1234);
        assert_eq!(
            mappings[0].file,
            FileId {
                major,
                minor,
                inode,
                generation: 0
            }
        );
        assert_eq!((mappings[0].protection, mappings[0].flags), (5, 2));
        assert_eq!(
            (mappings[1].path.as_slice(), mappings[1].protection, mappings[1].flags),
            (&b"[stack]"[..], 3, 1)
        );
        assert_eq!((mappings[2].path.as_slice(), mappings[2].protection), (&b""[..], 4));
        assert_eq!(mappings.len(), 3, "the kernel's own page is not a mapping");
    }

    #[test]
    fn invalid_mappings_are_errors() {
        for text in [
            &b"x\n"[..],
            b"2000-1000 r--p 0 0:0 0\n",
            b"1-2 r--p 0 0 0\n",
            b"\n",
            &vec![b'1'; 100_000],
        ] {
            assert!(of_text(text).is_err());
        }
    }

    #[test]
    fn an_overlong_name_is_skipped() {
        let line = |start: u64, name: &str| format!("{start:x}-{:x} r-xp 0 08:01 1 {name}\n", start + 0x1000);
        let text = [
            line(0x1000, &"x".repeat(100_000)),
            line(0x2000, &"y".repeat(NAME_LIMIT)),
            line(0x3000, &"z".repeat(NAME_LIMIT - 1)),
        ];
        let mappings = of_text(text.concat().as_bytes()).unwrap();
        let lengths: Vec<usize> = mappings.iter().map(|mapping| mapping.path.len()).collect();
        assert_eq!(lengths, [0, 0, NAME_LIMIT - 1]);
    }

    proptest! {
        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..500), addresses in prop::collection::vec(any::<u64>(), 0..5)) {
            let _ = of_text(&text);
            let addresses: Vec<Avma> = addresses.into_iter().map(Avma).collect();
            let _ = Text::new(0, Cursor::new(text), BuildIds::Unwanted).covering(&addresses);
        }

        #[test]
        fn kernel_output_round_trips(
            start in 0_u64..1 << 47, pages in 1_u64..1 << 20, offset: u64, major in 0_u32..4096, minor: u32, inode: u64, name: Vec<u8>,
        ) {
            prop_assume!(!name.contains(&0) && name.first().is_none_or(|byte| !byte.is_ascii_whitespace()) && !name.starts_with(b"\\"));
            let literal: Vec<u8> = name.iter().copied().filter(|byte| *byte != b'\\').collect();
            let end = start + pages * 4096;
            let mut line = format!("{start:08x}-{end:08x} r-xp {offset:08x} {major:02x}:{minor:02x} {inode} ").into_bytes();
            line.extend(b"           ");
            for byte in &literal {
                if *byte == b'\n' { line.extend(b"\\012") } else { line.push(*byte) }
            }
            line.push(b'\n');
            let mappings = of_text(&line).unwrap();
            prop_assert_eq!(&mappings[0].path, &literal);
            prop_assert_eq!((mappings[0].start.0, mappings[0].len, mappings[0].offset.0), (start, end - start, offset));
            prop_assert_eq!(mappings[0].file, FileId { major, minor, inode, generation: 0 });
        }
    }

    #[test]
    fn addresses_keep_their_order() {
        let text = b"1000-2000 r--p 0 0:0 0\n2000-3000 r-xp 0 0:0 0\n5000-6000 rw-p 0 0:0 0\n";
        let addresses = [0x5fff, 0xfff, 0x2000, 0x2fff, 0x3000, 0x1000, u64::MAX].map(Avma);
        let found = Text::new(0, Cursor::new(text), BuildIds::Unwanted)
            .covering(&addresses)
            .unwrap();
        let starts: Vec<u64> = found
            .iter()
            .map(|mapping| mapping.as_ref().map_or(0, |mapping| mapping.start.0))
            .collect();
        assert_eq!(starts, [0x5000, 0, 0x2000, 0x2000, 0, 0x1000, 0]);
    }
}
