//! Parser for `/proc/PID/smaps` and `smaps_rollup` (`fs/proc/task_mmu.c`). It is safe for any input.

use std::ops::AddAssign;

use serde::Serialize;

use base::event::FileId;

/// Maximum number of regions of a process: `vm.max_map_count` allows as many.
const MAX_REGIONS: usize = 1 << 20;
/// Maximum length of a stored name, in bytes.
const MAX_NAME: usize = 4096;

/// The line with this number is not in the kernel's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not in the kernel's format")]
pub struct Malformed(pub usize);

/// Amounts of memory in bytes, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Resident set size: pages in memory.
    #[serde(rename = "rss_bytes")]
    pub rss: u64,
    /// Proportional set size: each page in memory divided by the number of its mappings; `None` if unknown.
    #[serde(rename = "pss_bytes")]
    pub pss: Option<u64>,
    /// Also mapped by other processes, unmodified.
    #[serde(rename = "shared_clean_bytes")]
    pub shared_clean: u64,
    /// Also mapped by other processes, modified.
    #[serde(rename = "shared_dirty_bytes")]
    pub shared_dirty: u64,
    /// Mapped by this process only, unmodified.
    #[serde(rename = "private_clean_bytes")]
    pub private_clean: u64,
    /// Mapped by this process only, modified.
    #[serde(rename = "private_dirty_bytes")]
    pub private_dirty: u64,
    /// Part of the RSS that belongs to no file, including copies of a file's pages.
    #[serde(rename = "anonymous_bytes")]
    pub anonymous: u64,
    /// Swapped-out pages.
    #[serde(rename = "swap_bytes")]
    pub swap: u64,
    /// Huge pages of hugetlbfs, which no other field includes.
    #[serde(rename = "hugetlb_bytes")]
    pub hugetlb: u64,
}

impl Default for Amounts {
    fn default() -> Self {
        Self {
            rss: 0,
            pss: Some(0),
            shared_clean: 0,
            shared_dirty: 0,
            private_clean: 0,
            private_dirty: 0,
            anonymous: 0,
            swap: 0,
            hugetlb: 0,
        }
    }
}

impl Amounts {
    /// Bytes also mapped by other processes.
    pub fn shared(&self) -> u64 {
        self.shared_clean.saturating_add(self.shared_dirty)
    }

    /// Whether the amounts are equal except for the PSS, which the kernel rounds down to a kB per region.
    pub fn agrees(&self, other: &Self) -> bool {
        let pss = other.pss;
        Self { pss, ..*self } == *other
    }

    /// The amount that the kernel calls `name`.
    fn field(&mut self, name: &[u8]) -> Option<&mut u64> {
        Some(match name {
            b"Rss" => &mut self.rss,
            b"Pss" => self.pss.get_or_insert(0),
            b"Shared_Clean" => &mut self.shared_clean,
            b"Shared_Dirty" => &mut self.shared_dirty,
            b"Private_Clean" => &mut self.private_clean,
            b"Private_Dirty" => &mut self.private_dirty,
            b"Anonymous" => &mut self.anonymous,
            b"Swap" => &mut self.swap,
            b"Shared_Hugetlb" | b"Private_Hugetlb" => &mut self.hugetlb,
            _ => return None,
        })
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, more: Self) {
        self.pss = self.pss.zip(more.pss).map(|(sum, more)| sum.saturating_add(more));
        for (sum, more) in [
            (&mut self.rss, more.rss),
            (&mut self.shared_clean, more.shared_clean),
            (&mut self.shared_dirty, more.shared_dirty),
            (&mut self.private_clean, more.private_clean),
            (&mut self.private_dirty, more.private_dirty),
            (&mut self.anonymous, more.anonymous),
            (&mut self.swap, more.swap),
            (&mut self.hugetlb, more.hugetlb),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A mapping and its memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Region {
    /// Start address.
    pub start: u64,
    /// End address (exclusive).
    pub end: u64,
    /// The mapping is executable.
    pub executable: bool,
    /// File offset of the first byte.
    pub offset: u64,
    /// Mapped file; inode 0: none.
    pub file: FileId,
    /// Path or pseudo name (`[heap]`) as the kernel prints it; empty: none.
    pub name: Vec<u8>,
    /// Memory of the region.
    pub amounts: Amounts,
}

/// Parses the regions of `smaps`.
///
/// # Errors
/// When a line is neither the header of a region nor one of its amounts.
pub fn regions(text: &[u8]) -> Result<Vec<Region>, Malformed> {
    let mut regions: Vec<Region> = Vec::new();
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        if let Some(region) = head(line) {
            if regions.len() >= MAX_REGIONS {
                return Err(Malformed(number));
            }
            regions.push(region);
        } else {
            let region = regions.last_mut().ok_or(Malformed(number))?;
            amount(&mut region.amounts, line).ok_or(Malformed(number))?;
        }
    }
    Ok(regions)
}

/// Parses the sums of `smaps_rollup`.
///
/// # Errors
/// As [`regions`].
pub fn rollup(text: &[u8]) -> Result<Amounts, Malformed> {
    let regions = regions(text)?;
    match &regions[..] {
        [all] => Ok(all.amounts),
        _ => Err(Malformed(1)),
    }
}

/// Parses `start-end rwxp offset major:minor inode          name`.
fn head(line: &[u8]) -> Option<Region> {
    let mut rest = line;
    let mut word = || {
        let start = rest.iter().position(|&byte| byte != b' ')?;
        let word = rest.get(start..)?;
        let end = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        let (word, behind) = word.split_at_checked(end)?;
        rest = behind;
        std::str::from_utf8(word).ok()
    };
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let name = rest.trim_ascii_start();
    let region = Region {
        start: hex(start)?,
        end: hex(end)?,
        executable: rights.get(2) == Some(&b'x'),
        offset,
        file: FileId {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
            inode,
            generation: 0,
        },
        name: name.get(..MAX_NAME).unwrap_or(name).to_vec(),
        amounts: Amounts::default(),
    };
    (rights.len() == 4 && region.start <= region.end).then_some(region)
}

/// Parses `Name:   123 kB`. Other lines, such as `VmFlags`, are not amounts and are ignored.
fn amount(amounts: &mut Amounts, line: &[u8]) -> Option<()> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    if let Some(field) = amounts.field(name) {
        let value = std::str::from_utf8(value.get(1..)?).ok()?;
        let kb: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        *field = field.saturating_add(kb.checked_mul(1024)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] =
        b"560de4504000-560de4506000 r-xp 00002000 fe:1a 247030                     /usr/bin/a b (deleted)
Size:                  8 kB
Rss:                   8 kB
Pss:                   3 kB
Shared_Clean:          4 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
Swap:                 12 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    2048 kB
THPeligible:           0
VmFlags: rd mr mw me
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  16 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0
";

    #[test]
    fn kernel_smaps_is_parsed() {
        let regions = regions(TEXT).unwrap();
        let amounts = Amounts {
            rss: 8192,
            pss: Some(3072),
            shared_clean: 4096,
            private_dirty: 4096,
            anonymous: 4096,
            swap: 12288,
            hugetlb: 4 << 20,
            ..Amounts::default()
        };
        let first = Region {
            start: 0x560d_e450_4000,
            end: 0x560d_e450_6000,
            executable: true,
            offset: 0x2000,
            file: FileId {
                major: 0xfe,
                minor: 0x1a,
                inode: 247_030,
                generation: 0,
            },
            name: b"/usr/bin/a b (deleted)".to_vec(),
            amounts,
        };
        assert_eq!(regions[0], first);
        assert_eq!((&regions[1].name[..], regions[1].amounts.rss), (&b"[stack]"[..], 16384));
        assert_eq!((regions.len(), &regions[2].name[..]), (3, &b""[..]));
    }

    #[test]
    fn invalid_smaps_is_rejected() {
        for (text, line) in [
            (&b"Rss: 4 kB"[..], 1),
            (b"1-2 r--p 0 0:0 0\nRss: x kB", 2),
            (b"1-2 r--p 0 0:0 0\nnonsense", 2),
            (b"1-2 r--p 0 0:0 0\nRss: 18446744073709551615 kB", 2),
            (b"2-1 r--p 0 0:0 0", 1),
        ] {
            assert_eq!(regions(text), Err(Malformed(line)));
        }
        assert_eq!(rollup(b""), Err(Malformed(1)));
    }

    proptest! {
        #[test]
        fn damage_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20), cut: prop::sample::Index) {
            let mut text = TEXT.to_vec();
            for (place, value) in changes {
                let place = place.index(text.len());
                text[place] = value;
            }
            text.truncate(cut.index(text.len()));
            let _ = regions(&text);
            let _ = rollup(&text);
        }
    }
}
