//! The functions that a file's symbol tables name, as linkers spell them.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolKind};
use rustc_hash::FxHashMap;

use super::ElfFile;

const SHF_EXECINSTR: u64 = 4;
/// Functions that are told at most: five times a browser's.
const MAX_FUNCTIONS: usize = 1 << 22;
/// Longest name that is told: longer ones are not in order files of people.
const MAX_NAME: usize = 1 << 14;

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Stated address of its first byte.
    pub svma: u64,
    /// Bytes.
    pub size: u64,
    /// Mangled; of several at one address one that other files see.
    pub name: String,
    /// No other file sees it: others may have the same name.
    pub local: bool,
    /// Other names at this address.
    pub aliases: u32,
}

impl ElfFile {
    /// Its functions with a size, by address, each address once; those of `.dynsym` alone if the file has been stripped, and none if it was cut
    /// off meanwhile.
    pub fn functions(&self) -> Vec<FunctionSymbol> {
        let Ok(object) = self.object() else { return Vec::new() };
        let is_code = |section: &object::Section<'_, '_>| matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR != 0);
        let code: Vec<(u64, u64)> = (object.sections().filter(is_code))
            .map(|section| (section.address(), section.address().saturating_add(section.size())))
            .collect();
        let mut functions: Vec<FunctionSymbol> = Vec::new();
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut names: FxHashMap<u64, Vec<String>> = FxHashMap::default();
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let (svma, size) = (symbol.address(), symbol.size());
            let is_function = symbol.kind() == SymbolKind::Text && size > 0 && !symbol.is_undefined();
            if !is_function || !code.iter().any(|(start, end)| (*start..*end).contains(&svma)) {
                continue;
            }
            // A name that is no text could not be written, and one with a line break would be two.
            let Some(name) = symbol.name().ok().filter(|name| is_writable(name)) else {
                continue;
            };
            let function = FunctionSymbol {
                svma,
                size,
                name: name.to_owned(),
                local: symbol.is_local(),
                aliases: 0,
            };
            let Some(&index) = known.get(&svma) else {
                if functions.len() < MAX_FUNCTIONS {
                    known.insert(svma, functions.len());
                    functions.push(function);
                }
                continue;
            };
            // Both tables have what is exported.
            let others = names.entry(svma).or_default();
            let before = &mut functions[index];
            if before.name == function.name || others.contains(&function.name) {
                continue;
            }
            before.aliases += 1;
            before.size = before.size.max(size);
            others.push(function.name.clone());
            if before.local && !function.local {
                others.push(std::mem::replace(&mut before.name, function.name));
                before.local = false;
            }
        }
        if self.was_cut() {
            return Vec::new();
        }
        functions.sort_unstable_by_key(|function| function.svma);
        functions
    }
}

impl ElfFile {
    /// Where functions of these names are, by `.dynsym`, or else by `.symtab`.
    pub fn functions_named<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let mut found = [None; N];
        let Ok(object) = self.object() else { return found };
        let mut note = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name_bytes().unwrap_or_default();
            let wanted = names.iter().position(|wanted| wanted.as_bytes() == name);
            if let Some(place) = wanted
                .filter(|_| !symbol.is_undefined())
                .and_then(|index| found.get_mut(index))
            {
                *place = Some(symbol.address());
            }
        };
        object.dynamic_symbols().for_each(&mut note);
        if object.dynamic_symbols().next().is_none() {
            object.symbols().for_each(note);
        }
        found
    }
}

fn is_writable(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
