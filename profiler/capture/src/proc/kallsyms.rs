//! Addresses of kernel functions: they leave the privileged helper only as offsets from `_text`, with the functions'
//! names.

mod ask;
mod locks;
mod name;

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use anyhow::Context as _;
use rustc_hash::FxHashSet;
use symbols::kallsyms::KernelSymbols;

use self::locks::Locks;
use self::name::Namer;
use base::addr::KernelOffset;
use base::event::{Event, LockId};

const KALLSYMS: &str = "/proc/kallsyms";
/// Distinct kernel addresses that are named at the end.
const ADDRESSES_LIMIT: usize = 1 << 20;

/// A function of the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    /// First address.
    start: u64,
    /// Address after the last one.
    end: u64,
    /// With its module, if it is of one: `ext4_open [ext4]`.
    name: String,
}

/// The kernel addresses that samples hit.
pub struct KernelAddresses {
    text: u64,
    /// The addresses to name.
    seen: FxHashSet<u64>,
    locks: Locks,
}

impl KernelAddresses {
    /// Finds the kernel's base address. `None`: the kernel hides its addresses (`kernel.kptr_restrict`), and naming a
    /// frame would reveal them.
    pub fn new() -> io::Result<Option<Self>> {
        let text = find_text(BufReader::new(File::open(KALLSYMS)?))?;
        Ok(text.map(|text| Self {
            text,
            seen: FxHashSet::default(),
            locks: Locks::default(),
        }))
    }

    /// The identity of a lock. Variables of the kernel are named at the end.
    pub fn lock(&mut self, address: u64) -> LockId {
        self.locks
            .id(self.text, address, || addresses(["_end"]).ok().and_then(|[end]| end))
    }

    /// Notes an address and returns its offset. A return address is noted as the call before it: after a call that
    /// never returns, another function may begin.
    pub fn offset(&mut self, address: u64, is_return_address: bool) -> KernelOffset {
        if self.seen.len() < ADDRESSES_LIMIT {
            self.seen.insert(address.wrapping_sub(u64::from(is_return_address)));
        }
        KernelOffset(address.wrapping_sub(self.text))
    }

    /// Names every noted address, if the kernel has a name for it.
    pub fn names(&self) -> anyhow::Result<Vec<Event<'static>>> {
        if let Ok(names) = self.ask() {
            return Ok(names);
        }
        let list = File::open(KALLSYMS).with_context(|| format!("cannot read {KALLSYMS}"))?;
        Ok(self.look_up(&KernelSymbols::parse(BufReader::new(list))?))
    }

    /// As [`Self::names`], from the kernel's answers for each function.
    fn ask(&self) -> io::Result<Vec<Event<'static>>> {
        let kernel = Namer::new()?;
        let mut names = Vec::new();
        let mut function: Option<Function> = None;
        for address in self.sorted() {
            if function.as_ref().is_none_or(|function| address >= function.end) {
                function = kernel.function(address)?;
            }
            names.extend(
                function
                    .as_ref()
                    .map(|of| self.name(address, of.start, of.name.clone())),
            );
        }
        for address in self.locks.variables() {
            let variable = kernel.function(address)?;
            names.extend(variable.map(|of| self.name(address, of.start, of.name)));
        }
        Ok(names)
    }

    fn look_up(&self, symbols: &KernelSymbols) -> Vec<Event<'static>> {
        let names = self.sorted().into_iter().filter_map(|address| {
            let symbol = symbols.lookup(address)?;
            let name = match symbol.module {
                Some(module) => format!("{} [{module}]", symbol.name),
                None => symbol.name.to_owned(),
            };
            Some(self.name(address, symbol.start, name))
        });
        names.collect()
    }

    fn sorted(&self) -> Vec<u64> {
        let mut addresses: Vec<u64> = self.seen.iter().copied().collect();
        addresses.sort_unstable();
        addresses
    }

    fn name(&self, address: u64, start: u64, name: String) -> Event<'static> {
        let offset = |address: u64| KernelOffset(address.wrapping_sub(self.text));
        Event::KernelSymbol {
            offset: offset(address),
            start: offset(start),
            name: name.into_bytes(),
        }
    }
}

/// The addresses of the kernel's own variables, if it lists them (`CONFIG_KALLSYMS_ALL`) and does not hide its
/// addresses.
pub fn addresses<const N: usize>(names: [&str; N]) -> io::Result<[Option<u64>; N]> {
    ask::addresses(names).or_else(|_| find(BufReader::with_capacity(1 << 16, File::open(KALLSYMS)?), names))
}

fn find<const N: usize>(mut list: impl BufRead, names: [&str; N]) -> io::Result<[Option<u64>; N]> {
    let mut found = [None; N];
    let mut line = Vec::new();
    while !found.iter().all(Option::is_some) {
        line.clear();
        if list.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let line = line.trim_ascii_end();
        if line.ends_with(b"]") {
            break; // modules, and everything else that was loaded, are at the end
        }
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let (Some(address), _, Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if let Some(place) = names.iter().position(|wanted| wanted.as_bytes() == name) {
            let digits = std::str::from_utf8(address).ok();
            found[place] = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        }
    }
    // Hidden addresses are all zero; an offset among per-CPU variables may be, too.
    Ok(if found.iter().flatten().all(|&address| address == 0) {
        [None; N]
    } else {
        found
    })
}

/// The address of `_text`, which is near the beginning of the list.
fn find_text(list: impl BufRead) -> io::Result<Option<u64>> {
    for line in list.split(b'\n') {
        let line = line?;
        if line.ends_with(b" T _text") || line.ends_with(b" t _text") {
            let digits = line
                .split(|&byte| byte == b' ')
                .next()
                .and_then(|digits| std::str::from_utf8(digits).ok());
            return Ok(digits
                .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                .filter(|&text| text != 0));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"0000 A per_cpu_start\nffff1000 T _text\nffff1100 T vfs_read\nffff1200 T vfs_write\nffff2000 T _etext\nffffa010 t ext4_open\t[ext4]\n";

    #[test]
    fn names_contain_the_module_but_no_address() {
        let mut kernel = KernelAddresses {
            text: find_text(LIST).unwrap().unwrap(),
            seen: FxHashSet::default(),
            locks: Locks::default(),
        };
        assert_eq!(kernel.offset(0xffff_1105, false), KernelOffset(0x105));
        assert_eq!(kernel.offset(0xffff_a020, true), KernelOffset(0x9020));
        assert_eq!(kernel.offset(0xffff_2500, true), KernelOffset(0x1500));
        // As a return address, the same address follows a call in the previous function.
        assert_eq!(kernel.offset(0xffff_1200, false), KernelOffset(0x200));
        assert_eq!(kernel.offset(0xffff_1200, true), KernelOffset(0x200));
        let names = kernel.look_up(&KernelSymbols::parse(LIST).unwrap());
        let symbol = |offset: u64, start: u64, name: &[u8]| Event::KernelSymbol {
            offset: KernelOffset(offset),
            start: KernelOffset(start),
            name: name.to_vec(),
        };
        assert_eq!(
            names,
            [
                symbol(0x105, 0x100, b"vfs_read"),
                symbol(0x1ff, 0x100, b"vfs_read"),
                symbol(0x200, 0x200, b"vfs_write"),
                symbol(0x901f, 0x9010, b"ext4_open [ext4]")
            ]
        );
    }

    #[test]
    fn variables_are_found_by_name() {
        let found = find(LIST, ["vfs_write", "vfs_readv", "_text"]).unwrap();
        assert_eq!(found, [Some(0xffff_1200), None, Some(0xffff_1000)]);
        let found = find(&b"ffff1000 D a\nffffa000 d c\t[ext4]\nffffb000 D b\n"[..], ["a", "b"]).unwrap();
        assert_eq!(found, [Some(0xffff_1000), None]);
        let hidden = &b"0000000000000000 D a\n0000000000000000 D b\n"[..];
        assert_eq!(find(hidden, ["a", "b"]).unwrap(), [None, None]);
    }

    #[test]
    fn hidden_kernel_addresses_are_none() {
        assert_eq!(find_text(&b"0000000000000000 T _text\n"[..]).unwrap(), None);
        assert_eq!(find_text(&b"\n\xff\n"[..]).unwrap(), None);
    }
}
