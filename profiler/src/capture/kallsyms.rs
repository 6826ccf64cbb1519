//! Names of the kernel's functions, and where the kernel is: addresses leave this half only as offsets from `_text`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::addr::KernelOffset;

const KALLSYMS: &str = "/proc/kallsyms";
/// Distinct kernel addresses that are named at the end.
const ADDRESSES_LIMIT: usize = 1 << 20;
/// The kernel's code for eBPF programs and trampolines has no end in /proc/kallsyms; none of it is as long as this.
const LOOSE_CODE_LIMIT: u64 = 64 << 10;

/// The addresses that samples hit.
pub struct KernelAddresses {
    text: u64,
    seen: FxHashSet<u64>,
}

impl KernelAddresses {
    /// `None`: the kernel hides its addresses (`kernel.kptr_restrict`), so that frames can't be told apart from where the
    /// kernel is.
    pub fn new() -> io::Result<Option<Self>> {
        for line in BufReader::new(File::open(KALLSYMS)?).split(b'\n') {
            if let Some(symbol) = parse_symbol(&line?).filter(|symbol| symbol.name == b"_text") {
                return Ok((symbol.address != 0).then_some(symbol.address).map(Self::at));
            }
        }
        Ok(None)
    }

    /// With `_text` at this address.
    fn at(text: u64) -> Self {
        Self {
            text,
            seen: FxHashSet::default(),
        }
    }

    /// Takes an address note and returns its offset.
    pub fn offset(&mut self, address: u64) -> KernelOffset {
        if self.seen.len() < ADDRESSES_LIMIT {
            self.seen.insert(address);
        }
        KernelOffset(address.wrapping_sub(self.text))
    }

    /// Names every address that was seen, as far as the kernel has a name: address, start of the function, name.
    pub fn names(&self) -> io::Result<Vec<(KernelOffset, KernelOffset, Vec<u8>)>> {
        let modules = modules(BufReader::new(File::open("/proc/modules")?))?;
        let symbols = symbols(BufReader::new(File::open(KALLSYMS)?))?;
        Ok(self.look_up(symbols, &modules))
    }

    fn look_up(
        &self,
        mut symbols: Vec<Symbol>,
        modules: &FxHashMap<Vec<u8>, (u64, u64)>,
    ) -> Vec<(KernelOffset, KernelOffset, Vec<u8>)> {
        symbols.sort_by_key(|symbol| symbol.address);
        let offset = |address: u64| KernelOffset(address.wrapping_sub(self.text));
        let mut addresses: Vec<u64> = self.seen.iter().copied().collect();
        addresses.sort_unstable();
        let named = addresses.into_iter().filter_map(|address| {
            let last = symbols
                .get(..symbols.partition_point(|symbol| symbol.address <= address))?
                .last()?;
            // The first of several names at one address.
            let first = symbols.partition_point(|symbol| symbol.address < last.address);
            let symbol = symbols.get(first)?;
            symbol
                .covers(address, modules)
                .then(|| (offset(address), offset(symbol.address), symbol.full_name()))
        });
        named.collect()
    }
}

/// A line of /proc/kallsyms.
#[derive(Debug, PartialEq, Eq)]
struct Symbol {
    address: u64,
    name: Vec<u8>,
    /// Empty: the kernel itself.
    module: Vec<u8>,
}

impl Symbol {
    /// Whether an address behind this symbol and before the next one belongs to it.
    fn covers(&self, address: u64, modules: &FxHashMap<Vec<u8>, (u64, u64)>) -> bool {
        if let Some(&(start, end)) = modules.get(&self.module) {
            return (start..end).contains(&address);
        }
        let boundary = self.name.starts_with(b"_e") && self.name.ends_with(b"text"); // _etext, _einittext
        !boundary && (self.module.is_empty() || address - self.address < LOOSE_CODE_LIMIT)
    }

    fn full_name(&self) -> Vec<u8> {
        let mut name = self.name.clone();
        if !self.module.is_empty() {
            name.extend([b" [", self.module.as_slice(), b"]"].concat());
        }
        name
    }
}

/// Reads the symbols of code.
fn symbols(reader: impl BufRead) -> io::Result<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for line in reader.split(b'\n') {
        symbols.extend(parse_symbol(&line?));
    }
    Ok(symbols)
}

/// `address type name[TAB[module]]`
fn parse_symbol(line: &[u8]) -> Option<Symbol> {
    let mut fields = line.splitn(3, |&byte| byte == b' ');
    let address = u64::from_str_radix(std::str::from_utf8(fields.next()?).ok()?, 16).ok()?;
    if !matches!(fields.next()?, b"t" | b"T" | b"w" | b"W") {
        return None;
    }
    let mut names = fields.next()?.split(|&byte| byte == b'\t');
    let name = names.next()?.to_vec();
    let module = names
        .next()
        .and_then(|module| module.strip_prefix(b"[")?.strip_suffix(b"]"))
        .unwrap_or_default()
        .to_vec();
    Some(Symbol { address, name, module })
}

/// Where each module's code is: `name size uses users state address`.
fn modules(reader: impl BufRead) -> io::Result<FxHashMap<Vec<u8>, (u64, u64)>> {
    let mut modules = FxHashMap::default();
    for line in reader.lines() {
        let line = line?;
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [name, size, _, _, _, address, ..] = fields[..] {
            let range = size
                .parse::<u64>()
                .ok()
                .zip(u64::from_str_radix(address.trim_start_matches("0x"), 16).ok());
            if let Some((size, start)) = range {
                modules.insert(name.as_bytes().to_vec(), (start, start.saturating_add(size)));
            }
        }
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_a_wrong_neighbour() {
        let text = b"ffff1000 T _text\nffff1000 t alias_of_text\nffff1100 T vfs_read\nffff1180 d some_data\n\
            ffff2000 T _etext\nffffa010 t ext4_open\t[ext4]\nffffb000 t bpf_prog_1_x\t[bpf]\n";
        let symbols = symbols(&text[..]).unwrap();
        let modules = modules(&b"ext4 4096 1 - Live 0xffffa000\n"[..]).unwrap();
        let mut kernel = KernelAddresses::at(0xffff_1000);
        for address in [
            0xffff_1000,
            0xffff_1005,
            0xffff_1190,
            0xffff_2001,
            0xffff_a020,
            0xffff_afff,
            0xffff_b123,
            0xffff_0fff,
        ] {
            assert_eq!(kernel.offset(address).0, u64::wrapping_sub(address, 0xffff_1000));
        }
        let mut names = kernel.look_up(symbols, &modules);
        names.sort();
        let expected = [
            (0, 0, "_text"),
            (5, 0, "_text"),
            (0x190, 0x100, "vfs_read"),
            (0x9020, 0x9010, "ext4_open [ext4]"),
            (0x9fff, 0x9010, "ext4_open [ext4]"),
            (0xa123, 0xa000, "bpf_prog_1_x [bpf]"),
        ];
        let expected =
            expected.map(|(offset, start, name)| (KernelOffset(offset), KernelOffset(start), name.as_bytes().to_vec()));
        assert_eq!(names, expected);
    }

    #[test]
    fn garbage_is_skipped() {
        assert_eq!(
            symbols(&b"\n\xff\xff\nzz T x\nffff T\nffff1000 T \n"[..])
                .unwrap()
                .len(),
            1
        );
        assert!(modules(&b"x\n\nx y z\n"[..]).unwrap().is_empty());
    }
}
