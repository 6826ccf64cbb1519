//! The kernel's function symbols, from the text of `/proc/kallsyms`.

use std::io::{self, BufRead, Read as _};

/// Longer lines are skipped: the kernel's names have at most 512 bytes (`KSYM_NAME_LEN`).
const MAX_LINE: usize = 1024;
/// A list with more symbols is rejected; kernels have about 200,000.
const MAX_SYMBOLS: usize = 8 << 20;
/// A list with more bytes in its names is rejected.
const MAX_NAME_BYTES: usize = 256 << 20;
/// Maximum extent of a module's last function, in bytes: the list does not include the end of a
/// module.
const LAST_FUNCTION_SIZE: u64 = 4096;
/// [`Entry::name`] of an address at which a function ends and none starts.
const NO_FUNCTION: u32 = u32::MAX;

/// Why there are no kernel symbols.
#[derive(Debug, thiserror::Error)]
pub enum KallsymsError {
    /// The list can't be read.
    #[error("the list of kernel symbols can't be read: {0}")]
    Io(#[from] io::Error),
    /// Every address is zero.
    #[error("the kernel hides its addresses: run as root, or run `sudo sysctl kernel.kptr_restrict=0` first")]
    Hidden,
    /// No line names a function.
    #[error("there is no function in the list of kernel symbols: the kernel needs CONFIG_KALLSYMS")]
    Empty,
    /// More symbols than any kernel has.
    #[error("the list of kernel symbols is too long to be one: read it from /proc/kallsyms")]
    TooLarge,
}

/// A function of the kernel or of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its address.
    pub start: u64,
    /// Its name.
    pub name: &'a str,
    /// Its module; `bpf` for eBPF programs. `None`: the kernel itself.
    pub module: Option<&'a str>,
}

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Sorted by address, one per address.
    entries: Vec<Entry>,
    /// All names, concatenated.
    names: String,
    modules: Vec<String>,
    text_base: Option<u64>,
    skipped_lines: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    /// Offset of the name, or [`NO_FUNCTION`].
    name: u32,
    name_len: u16,
    /// Zero for the kernel, else an index into `modules` plus one.
    module: u16,
}

struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    module: Option<&'a str>,
}

/// The meaning of a line for its address; lower is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Global,
    Weak,
    Local,
    /// The linker script's mark for the start of a part, such as `_stext`: better than no name.
    StartMark,
    /// An end, or the start of something that is not code.
    Boundary,
}

impl KernelSymbols {
    /// Reads a list in the format of `/proc/kallsyms`. Lines in other formats are skipped and
    /// counted.
    ///
    /// Errors: [`KallsymsError`].
    pub fn parse(mut reader: impl BufRead) -> Result<Self, KallsymsError> {
        let mut symbols = Self::default();
        let mut ranked: Vec<(Rank, Entry)> = Vec::new();
        let mut line = Vec::new();
        let mut saw_function = false;
        while read_line(&mut reader, &mut line)? {
            let Some(parsed) = std::str::from_utf8(&line).ok().and_then(parse_line) else {
                symbols.skipped_lines += 1;
                continue;
            };
            saw_function |= is_text(parsed.kind);
            if parsed.address == 0 || parsed.kind.eq_ignore_ascii_case(&b'a') {
                // Offsets in the per-CPU area, or hidden.
                continue;
            }
            if ranked.len() >= MAX_SYMBOLS || symbols.names.len() > MAX_NAME_BYTES {
                return Err(KallsymsError::TooLarge);
            }
            if parsed.name == "_text" || (parsed.name == "_stext" && symbols.text_base.is_none()) {
                symbols.text_base = Some(parsed.address);
            }
            let rank = rank(&parsed);
            let entry = symbols.entry(&parsed, rank)?;
            ranked.push((rank, entry));
        }
        if !ranked.iter().any(|(rank, _)| *rank != Rank::Boundary) {
            return Err(if saw_function {
                KallsymsError::Hidden
            } else {
                KallsymsError::Empty
            });
        }
        symbols.index(ranked);
        Ok(symbols)
    }

    /// The address of `_text`, where the kernel's code starts.
    pub fn text_base(&self) -> Option<u64> {
        self.text_base
    }

    /// Number of lines in other formats.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped_lines
    }

    /// The function that covers `address`.
    pub fn lookup(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let index = self
            .entries
            .partition_point(|entry| entry.start <= address)
            .checked_sub(1)?;
        let entry = self.entries.get(index)?;
        let next = self.entries.get(index + 1);
        let is_last = next.is_none_or(|next| next.module != entry.module);
        if entry.name == NO_FUNCTION || (is_last && address - entry.start >= LAST_FUNCTION_SIZE) {
            return None;
        }
        let start = entry.name as usize;
        Some(KernelSymbol {
            start: entry.start,
            name: self.names.get(start..start + usize::from(entry.name_len))?,
            module: usize::from(entry.module)
                .checked_sub(1)
                .and_then(|index| self.modules.get(index))
                .map(String::as_str),
        })
    }

    /// Stores the name and module of `line`.
    fn entry(&mut self, line: &Line<'_>, rank: Rank) -> Result<Entry, KallsymsError> {
        let module = line.module.map_or(Ok(0), |name| self.module(name))?;
        let offset = u32::try_from(self.names.len()).unwrap_or(NO_FUNCTION);
        // A line has at most `MAX_LINE` bytes.
        let name_len = u16::try_from(line.name.len()).unwrap_or(0);
        if rank == Rank::Boundary || offset == NO_FUNCTION {
            return Ok(Entry {
                start: line.address,
                name: NO_FUNCTION,
                name_len: 0,
                module,
            });
        }
        self.names.push_str(line.name);
        Ok(Entry {
            start: line.address,
            name: offset,
            name_len,
            module,
        })
    }

    /// The index of module `name` plus one. Symbols of one module are adjacent in the list.
    fn module(&mut self, name: &str) -> Result<u16, KallsymsError> {
        if self.modules.last().is_none_or(|last| last != name) {
            self.modules.push(name.to_owned());
        }
        u16::try_from(self.modules.len()).map_err(|_| KallsymsError::TooLarge)
    }

    fn index(&mut self, mut ranked: Vec<(Rank, Entry)>) {
        // Stable: the first of equal names in the list stays first.
        ranked.sort_by_key(|(rank, entry)| (entry.start, *rank));
        ranked.dedup_by_key(|(_, entry)| entry.start);
        // In a run of boundaries only the first matters, as long as the module stays the same.
        ranked.dedup_by(|(_, next), (_, kept)| {
            next.name == NO_FUNCTION && kept.name == NO_FUNCTION && next.module == kept.module
        });
        self.entries = ranked.into_iter().map(|(_, entry)| entry).collect();
        self.names.shrink_to_fit();
    }
}

/// Reads the next line, without its end, into `line`; an overlong line is read as empty. False at
/// the end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() >= MAX_LINE {
        line.clear();
        reader.skip_until(b'\n')?;
    }
    Ok(true)
}

/// `ffffffff81000000 T _text`; for a module, followed by a tab and `[module]`.
fn parse_line(line: &str) -> Option<Line<'_>> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let &[kind] = kind.as_bytes() else { return None };
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => (name, Some(module.strip_prefix('[')?.strip_suffix(']')?)),
        None => (rest, None),
    };
    (!name.is_empty() && !address.starts_with('+')).then_some(())?;
    Some(Line {
        address: u64::from_str_radix(address, 16).ok()?,
        kind,
        name,
        module,
    })
}

fn is_text(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

/// Marks are from the kernel's linker scripts (`include/asm-generic/vmlinux.lds.h`).
fn rank(line: &Line<'_>) -> Rank {
    if !is_text(line.kind)
        || matches!(line.name, "_etext" | "_einittext" | "__init_end")
        || line.name.ends_with("_text_end")
    {
        Rank::Boundary
    } else if matches!(line.name, "_text" | "_stext" | "_sinittext") || line.name.ends_with("_text_start") {
        Rank::StartMark
    } else {
        match line.kind {
            b'T' => Rank::Global,
            b'W' | b'w' => Rank::Weak,
            _ => Rank::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T startup_64
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_one_initcall_local
ffffffff81000100 T do_one_initcall
ffffffff81000200 W arch_weak
ffffffff81000300 T __sched_text_end
ffffffff81000400 t after_gap
ffffffff81000500 T _etext
ffffffff82000000 D data_symbol
ffffffffc0000000 t ext4_init\t[ext4]
ffffffffc0000080 t ext4_open\t[ext4]
ffffffffc0001000 d ext4_data\t[ext4]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530\t[bpf]
";

    fn name(symbols: &KernelSymbols, address: u64) -> Option<(u64, &str, Option<&str>)> {
        symbols
            .lookup(address)
            .map(|symbol| (symbol.start, symbol.name, symbol.module))
    }

    #[test]
    fn names_cover_their_ranges_only() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        assert_eq!(symbols.text_base(), Some(0xffff_ffff_8100_0000));
        assert_eq!(name(&symbols, 0xffff_ffff_80ff_ffff), None, "below _text");
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_0010),
            Some((0xffff_ffff_8100_0000, "startup_64", None))
        );
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_01ff),
            Some((0xffff_ffff_8100_0100, "do_one_initcall", None))
        );
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_02ff),
            Some((0xffff_ffff_8100_0200, "arch_weak", None))
        );
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_0300),
            None,
            "between the end of a part and the next function"
        );
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_04ff),
            Some((0xffff_ffff_8100_0400, "after_gap", None))
        );
        assert_eq!(
            name(&symbols, 0xffff_ffff_8100_0500),
            None,
            "_etext is where the code ends"
        );
        assert_eq!(name(&symbols, 0xffff_ffff_8200_0010), None, "data is not a function");
        assert_eq!(name(&symbols, u64::MAX), None);
    }

    #[test]
    fn modules_are_named_and_end() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        assert_eq!(
            name(&symbols, 0xffff_ffff_c000_0090),
            Some((0xffff_ffff_c000_0080, "ext4_open", Some("ext4")))
        );
        assert_eq!(name(&symbols, 0xffff_ffff_c000_1000), None);
        let program = Some((0xffff_ffff_c010_0000, "bpf_prog_6deef7357e7b4530", Some("bpf")));
        assert_eq!(name(&symbols, 0xffff_ffff_c010_0010), program);
        assert_eq!(
            name(&symbols, 0xffff_ffff_c010_1000),
            None,
            "no module ends a megabyte after its last function"
        );
    }

    #[test]
    fn hidden_addresses_are_distinguished_from_an_empty_list() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t other\n";
        let error = KernelSymbols::parse(hidden.as_bytes()).unwrap_err();
        assert!(matches!(error, KallsymsError::Hidden));
        assert!(error.to_string().contains("kptr_restrict"), "{error}");
        assert!(matches!(
            KernelSymbols::parse(&b""[..]).unwrap_err(),
            KallsymsError::Empty
        ));
        assert!(matches!(
            KernelSymbols::parse(&b"no symbols\n"[..]).unwrap_err(),
            KallsymsError::Empty
        ));
    }

    #[test]
    fn bad_lines_are_counted() {
        let mut list = b"zzz T bad_address\nffffffff81000000 T good\nffffffff81000010 TT bad_kind\n".to_vec();
        list.extend(std::iter::repeat_n(b'x', 100_000));
        list.extend(b"\nffffffff81000020 t \xff\xfe\nffffffff81000030 t also_good\n");
        let symbols = KernelSymbols::parse(&*list).unwrap();
        assert_eq!(symbols.skipped_lines(), 4);
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0031).unwrap().1, "also_good");
    }

    #[test]
    fn this_machine() {
        let list = std::fs::read("/proc/kallsyms").unwrap_or_default();
        match KernelSymbols::parse(&*list) {
            Ok(symbols) => {
                let base = symbols.text_base().unwrap();
                assert_eq!(symbols.lookup(base).unwrap().start, base);
                assert!(symbols.lookup(base - 1).is_none_or(|symbol| symbol.module.is_some()));
            }
            Err(reason) => println!("skipped: {reason}"),
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000), address: u64) {
            if let Ok(symbols) = KernelSymbols::parse(&*bytes) {
                symbols.lookup(address);
            }
        }

        /// Compared with a linear search of the list.
        #[test]
        fn finds_the_nearest_before(mut starts in prop::collection::btree_set(1_u64..10_000, 1..50), probe in 0_u64..12_000) {
            starts.insert(10_000);
            let list = starts.iter().map(|start| format!("{start:016x} t f{start}\n")).collect::<Vec<_>>().concat();
            let symbols = KernelSymbols::parse(list.as_bytes()).unwrap();
            let expected = starts.range(..=probe).next_back().filter(|start| **start < 10_000 || probe - **start < 4096);
            prop_assert_eq!(symbols.lookup(probe).map(|symbol| symbol.start), expected.copied());
        }
    }
}
