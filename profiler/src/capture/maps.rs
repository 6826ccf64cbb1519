//! The mappings of a running process: by the ioctl PROCMAP_QUERY, or from the text of /proc/PID/maps.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::os::fd::AsRawFd;

use crate::addr::{Avma, FileOffset};
use crate::event::{At, FileId, Mapping};

/// Mappings of one process, at most: far over `vm.max_map_count` (65,530), which an administrator may raise.
const MAPPINGS_LIMIT: usize = 1 << 20;
/// `PATH_MAX`; the kernel gives no longer name.
const NAME_LIMIT: usize = 4096;
/// The longest build id that the kernel reads (`BUILD_ID_SIZE_MAX`).
const BUILD_ID_LIMIT: usize = 20;

/// Walks the mappings of a process in the order of their addresses.
trait Source {
    /// The next mapping, or `None` at the end.
    fn next(&mut self) -> std::io::Result<Option<Mapping>>;
}

/// Reads every mapping of a process as of now, by the ioctl if the kernel has it. The mappings get `at`.
pub fn read(at: At) -> std::io::Result<Vec<Mapping>> {
    let file = open(at.pid)?;
    if has_query(&file) {
        collect(&mut Query { file, from: 0 }, at)
    } else {
        collect(&mut Text(BufReader::new(file)), at)
    }
}

/// The mapping that covers an address as of now.
pub fn at(at: At, address: u64) -> std::io::Result<Option<Mapping>> {
    let file = open(at.pid)?;
    let covers = |mapping: &Mapping| address.wrapping_sub(mapping.start.0) < mapping.len;
    let found = if has_query(&file) {
        Query { file, from: address }.next()?.filter(covers)
    } else {
        collect(&mut Text(BufReader::new(file)), at)?.into_iter().find(covers)
    };
    Ok(found.map(|mapping| Mapping { at, ..mapping }))
}

/// Whether the kernel has PROCMAP_QUERY (6.11 and later), asked of our own mappings.
pub fn kernel_has_query() -> std::io::Result<bool> {
    Ok(has_query(&open(std::process::id())?))
}

fn open(pid: u32) -> std::io::Result<File> {
    File::open(format!("/proc/{pid}/maps"))
}

fn collect(source: &mut dyn Source, at: At) -> std::io::Result<Vec<Mapping>> {
    let mut mappings = Vec::new();
    while let Some(mapping) = source.next()? {
        if mappings.len() == MAPPINGS_LIMIT {
            return Err(std::io::Error::other("more than a million mappings"));
        }
        mappings.push(Mapping { at, ..mapping });
    }
    Ok(mappings)
}

/// `struct procmap_query` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY_SIZE: u64 = size_of::<ProcmapQuery>() as u64;
const _: () = assert!(PROCMAP_QUERY_SIZE == 104);
/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const VMA_SHARED: u64 = 8;

fn has_query(file: &File) -> bool {
    let mut query = ProcmapQuery {
        size: PROCMAP_QUERY_SIZE,
        query_flags: COVERING_OR_NEXT,
        ..ProcmapQuery::default()
    };
    // SAFETY: the kernel writes into the struct only, whose size it is told; no buffers are named in it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOTTY)
}

/// By the ioctl: binary, with build ids, and names as they are.
struct Query {
    file: File,
    from: u64,
}

impl Source for Query {
    fn next(&mut self) -> std::io::Result<Option<Mapping>> {
        let mut name = [0_u8; NAME_LIMIT];
        let mut build_id = [0_u8; BUILD_ID_LIMIT];
        let mut query = ProcmapQuery {
            size: PROCMAP_QUERY_SIZE,
            query_flags: COVERING_OR_NEXT,
            query_addr: self.from,
            vma_name_size: NAME_LIMIT as u32,
            build_id_size: BUILD_ID_LIMIT as u32,
            vma_name_addr: name.as_mut_ptr() as u64,
            build_id_addr: build_id.as_mut_ptr() as u64,
            ..ProcmapQuery::default()
        };
        // SAFETY: the buffers named in the struct live through the call and are as long as it says.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } != 0 {
            let error = std::io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::ESRCH) => Ok(None), // past the last one, or the process is gone
                _ => Err(error),
            };
        }
        if query.vma_end <= self.from {
            return Ok(None); // never seen: the query asks for what covers or follows
        }
        self.from = query.vma_end;
        let name = name
            .get(..(query.vma_name_size as usize).saturating_sub(1))
            .unwrap_or_default();
        let shared = query.vma_flags & VMA_SHARED != 0;
        Ok(Some(Mapping {
            at: At::default(),
            start: Avma(query.vma_start),
            len: query.vma_end.saturating_sub(query.vma_start),
            offset: FileOffset(query.vma_offset),
            file: FileId {
                major: query.dev_major,
                minor: query.dev_minor,
                inode: query.inode,
            },
            protection: (query.vma_flags & 7) as u32,
            flags: if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE }.unsigned_abs(),
            path: name.to_vec(),
            build_id: build_id
                .get(..query.build_id_size as usize)
                .unwrap_or_default()
                .to_vec(),
        }))
    }
}

/// From the text, for kernels before 6.11.
struct Text<R>(R);

impl<R: BufRead> Source for Text<R> {
    fn next(&mut self) -> std::io::Result<Option<Mapping>> {
        let mut line = Vec::new();
        // A newline in a name takes four bytes.
        self.0
            .by_ref()
            .take(NAME_LIMIT as u64 * 4 + 256)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        parse_line(&line)
            .map(Some)
            .ok_or_else(|| std::io::Error::other("a line that is no mapping"))
    }
}

/// `start-end rwxp offset major:minor inode   name`, numbers in hex but the inode.
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let rights = field()?.as_bytes();
    let offset = u64::from_str_radix(field()?, 16).ok()?;
    let (major, minor) = field()?.split_once(':')?;
    let file = FileId {
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
        inode: field()?.parse().ok()?,
    };
    let name = fields.next().unwrap_or_default();
    let has = |letter: u8, bit: u32| if rights.contains(&letter) { bit } else { 0 };
    Some(Mapping {
        at: At::default(),
        start: Avma(start),
        len: end.checked_sub(start)?,
        offset: FileOffset(offset),
        file,
        protection: has(b'r', 1) | has(b'w', 2) | has(b'x', 4),
        flags: if rights.get(3) == Some(&b's') {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        }
        .unsigned_abs(),
        path: unescape(name.trim_ascii_start()),
        build_id: Vec::new(),
    })
}

/// Undoes what `show_map_vma` does to a newline, the only byte that it escapes: a name with a literal `\012` can't be told
/// apart from that.
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
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn of_text(text: &[u8]) -> std::io::Result<Vec<Mapping>> {
        collect(&mut Text(text), At::default())
    }

    #[test]
    fn text_with_hostile_names() {
        let text =
            b"7f0000001000-7f0000003000 r-xp 00002000 08:01 1234                       /tmp/a b\\012c\\134 (deleted)\n\
                     7ffd00000000-7ffd00021000 rw-s 00000000 00:00 0                          [stack]\n\
                     ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 \n";
        let mappings = of_text(text).unwrap();
        assert_eq!(mappings[0].path, b"/tmp/a b\nc\\134 (deleted)");
        assert_eq!(
            (mappings[0].start.0, mappings[0].len, mappings[0].offset.0),
            (0x7f00_0000_1000, 0x2000, 0x2000)
        );
        assert_eq!(
            mappings[0].file,
            FileId {
                major: 8,
                minor: 1,
                inode: 1234
            }
        );
        assert_eq!((mappings[0].protection, mappings[0].flags), (5, 2));
        assert_eq!(
            (mappings[1].path.as_slice(), mappings[1].protection, mappings[1].flags),
            (&b"[stack]"[..], 3, 1)
        );
        assert_eq!((mappings[2].path.as_slice(), mappings[2].protection), (&b""[..], 4));
    }

    #[test]
    fn text_that_is_no_mapping_is_an_error() {
        for text in [
            &b"x\n"[..],
            b"2000-1000 r--p 0 0:0 0\n",
            b"1-2 r--p 0 0 0\n",
            b"\n",
            &[b'1'; 100_000],
        ] {
            assert!(of_text(text).is_err());
        }
    }

    #[test]
    fn both_sources_tell_the_same_of_a_file_with_a_hostile_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line\nbreak \\ and \u{e9}");
        std::fs::write(&path, vec![0; 10_000]).unwrap();
        let file = File::open(&path).unwrap();
        // SAFETY: nobody changes the file.
        let _map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        let pid = std::process::id();
        let find = |mappings: Vec<Mapping>| {
            mappings
                .into_iter()
                .find(|mapping| mapping.path == path.as_os_str().as_bytes())
                .unwrap()
        };
        let text = find(collect(&mut Text(BufReader::new(open(pid).unwrap())), At::default()).unwrap());
        assert_eq!((text.len, text.protection), (12_288, 1));
        if kernel_has_query().unwrap() {
            assert_eq!(
                find(
                    collect(
                        &mut Query {
                            file: open(pid).unwrap(),
                            from: 0
                        },
                        At::default()
                    )
                    .unwrap()
                ),
                text
            );
        } else {
            println!("skipped: no PROCMAP_QUERY before kernel 6.11");
        }
    }
}
