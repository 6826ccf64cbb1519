//! Where file systems are mounted: the names that the kernel side sends end at the root of a file system.
//!
//! Format: Documentation/filesystems/proc.rst of the kernel, `/proc/PID/mountinfo`. Users choose the names of mount
//! points.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use base::event::Device;

/// Processes whose mounts are cached.
const PROCESSES_LIMIT: usize = 256;
/// Bytes of a list that are read, at most.
const LIST_LIMIT: u64 = 4 << 20;
/// An unknown device is looked up again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// A part of a file system, and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    root: Vec<u8>,
    point: Vec<u8>,
}

/// Mounts by device.
type List = FxHashMap<Device, Vec<Mount>>;

/// The mounts of processes, as far as they were needed.
#[derive(Default)]
pub struct Mounts {
    of: FxHashMap<u32, (List, Instant)>,
}

impl Mounts {
    /// The path of a file as process `pid` sees it. `names` are those of the file and its directories upward, each
    /// terminated by a NUL.
    ///
    /// Relative if it is unknown where its file system is mounted.
    pub fn path(&mut self, pid: u32, device: Device, names: &[u8]) -> Vec<u8> {
        let inside = path_of(names);
        match self.find(pid, device, &inside) {
            Some(mount) => mount.path(&inside),
            None => inside.strip_prefix(b"/").unwrap_or(&inside).to_vec(),
        }
    }

    fn find(&mut self, pid: u32, device: Device, inside: &[u8]) -> Option<Mount> {
        if self.of.len() >= PROCESSES_LIMIT && !self.of.contains_key(&pid) {
            self.of.clear();
        }
        let now = Instant::now();
        let (list, read) = self.of.entry(pid).or_insert_with(|| (read(pid), now));
        if !list.contains_key(&device) && now.duration_since(*read) >= AGAIN {
            (*list, *read) = (self::read(pid), now);
        }
        best(list.get(&device)?, inside).cloned()
    }
}

impl Mount {
    /// The path of `inside`, a path in the file system.
    fn path(&self, inside: &[u8]) -> Vec<u8> {
        let rest = inside.strip_prefix(self.root.as_slice()).unwrap_or(inside);
        let point = self.point.strip_suffix(b"/").unwrap_or(&self.point);
        let slash: &[u8] = if rest.is_empty() || rest.starts_with(b"/") {
            b""
        } else {
            b"/"
        };
        let path = [point, slash, rest].concat();
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    fn holds(&self, inside: &[u8]) -> bool {
        match inside.strip_prefix(self.root.as_slice()) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"/") || self.root.ends_with(b"/"),
            None => false,
        }
    }
}

/// The mount that shows the largest part of the file system: its name is the usual one.
fn best<'m>(mounts: &'m [Mount], inside: &[u8]) -> Option<&'m Mount> {
    let holding = mounts.iter().filter(|mount| mount.holds(inside));
    holding.min_by_key(|mount| (mount.root.len(), mount.point.len()))
}

/// Joins names: `b"a\0b\0"` gives `/b/a`.
fn path_of(names: &[u8]) -> Vec<u8> {
    let names: Vec<&[u8]> = names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    let mut path = Vec::new();
    for name in names.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// The device of one of our own mounts, by its number.
pub fn device_of(mount: u64) -> Option<Device> {
    device_in(&contents("/proc/self/mountinfo").ok()?, mount)
}

fn device_in(bytes: &[u8], mount: u64) -> Option<Device> {
    let number = mount.to_string();
    let mut found = lines(bytes).filter(|line| line.number == number.as_bytes());
    found.next().map(|line| line.device)
}

/// Reads the mounts of a process; if it is gone, our own.
fn read(pid: u32) -> List {
    let bytes = contents(&format!("/proc/{pid}/mountinfo"))
        .ok()
        .filter(|bytes| !bytes.is_empty())
        .or_else(|| contents("/proc/self/mountinfo").ok());
    parse(&bytes.unwrap_or_default())
}

fn contents(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LIST_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> List {
    let mut list = List::default();
    for line in lines(bytes) {
        let mount = Mount {
            root: unescape(line.root),
            point: unescape(line.point),
        };
        list.entry(line.device).or_default().push(mount);
    }
    list
}

/// A line of a list, as far as it is used. Paths are escaped.
struct Line<'l> {
    number: &'l [u8],
    device: Device,
    root: &'l [u8],
    point: &'l [u8],
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split(|&byte| byte == b'\n').filter_map(|line| {
        let words: Vec<&[u8]> = line.splitn(6, |&byte| byte == b' ').collect();
        let [number, _, device, root, point, _] = words[..] else {
            return None;
        };
        let (major, minor) = std::str::from_utf8(device).ok()?.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        Some(Line {
            number,
            device: Device { major, minor },
            root,
            point,
        })
    })
}

/// Unescapes blanks, line ends and backslashes, which are written as three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = digits.map(|digits| {
            digits
                .iter()
                .fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'))
        });
        if let Some(byte) = value.and_then(|value| u8::try_from(value).ok()) {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"22 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
        31 22 254:0 /var/lib/x/_data /data rw - ext4 /dev/vda rw\n\
        32 22 8:1 /sub /mnt/a\\040b\\134c rw - ext4 /dev/sda1 rw\n\
        bad line\n33 22 x:y / /z rw\n";

    fn path(device: (u32, u32), names: &[u8]) -> String {
        let list = parse(LIST);
        let device = Device {
            major: device.0,
            minor: device.1,
        };
        let inside = path_of(names);
        let mount = list.get(&device).and_then(|mounts| best(mounts, &inside));
        String::from_utf8(mount.map_or(b"?".to_vec(), |mount| mount.path(&inside))).unwrap()
    }

    #[test]
    fn a_mount_has_a_device() {
        let list = b"22 1 0:21 / / rw shared:1 - virtiofs root rw\n122 22 259:3 / /mnt rw - ext4 /dev/vda rw\n";
        let found = |list, mount| device_in(list, mount).map(|device| (device.major, device.minor));
        assert_eq!(found(list, 122), Some((259, 3)));
        assert_eq!(found(list, 1), None);
        assert_eq!(found(b"1 \n1 2 x /\n\n", 1), None);
    }

    #[test]
    fn names_get_their_mount_point() {
        assert_eq!(path((254, 0), b"libc.so.6\0lib\0usr\0"), "/usr/lib/libc.so.6");
        assert_eq!(path((254, 0), b"f\0_data\0x\0lib\0var\0"), "/var/lib/x/_data/f");
        assert_eq!(path((0, 25), b"f\0"), "/tmp/f");
        assert_eq!(path((0, 25), b""), "/tmp");
        assert_eq!(path((254, 0), b""), "/");
        assert_eq!(path((8, 1), b"f\0sub\0"), "/mnt/a b\\c/f");
        assert_eq!(path((8, 1), b"f\0subway\0"), "?");
        assert_eq!(path((9, 9), b"f\0"), "?");
    }

    #[test]
    fn escapes_are_decoded_and_other_text_is_kept() {
        for (text, plain) in [("\\040", " "), ("a\\", "a\\"), ("\\08", "\\08"), ("\\777", "\\777")] {
            assert_eq!(unescape(text.as_bytes()), plain.as_bytes());
        }
    }

    #[test]
    fn our_own_executable_has_its_path() {
        use std::os::unix::fs::MetadataExt as _;
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let device = own.metadata().unwrap().dev();
        let device = Device {
            major: nix::sys::stat::major(device).try_into().unwrap(),
            minor: nix::sys::stat::minor(device).try_into().unwrap(),
        };
        let mounts = read(std::process::id());
        let Some(point) = mounts
            .get(&device)
            .and_then(|mounts| mounts.iter().find(|mount| mount.root == b"/"))
        else {
            println!("skipped: no mount shows the root of this program's file system");
            return;
        };
        let point = String::from_utf8(point.point.clone()).unwrap();
        let inside = own.strip_prefix(&point).unwrap();
        let mut names: Vec<u8> = Vec::new();
        for name in inside.iter().rev() {
            names.extend(name.as_encoded_bytes());
            names.push(0);
        }
        let path = Mounts::default().path(std::process::id(), device, &names);
        assert_eq!(String::from_utf8(path).unwrap(), own.to_str().unwrap());
    }
}
