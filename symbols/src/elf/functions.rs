//! The functions in a file's symbol tables, with the names that linkers use.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolKind};
use rustc_hash::FxHashMap;

use super::ElfFile;

const SHF_EXECINSTR: u64 = 4;
/// Maximum number of functions: five times a browser's.
const MAX_FUNCTIONS: usize = 1 << 22;
/// Maximum length of a name: longer ones are not used in order files.
const MAX_NAME: usize = 1 << 14;

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Stated address of its first byte.
    pub svma: u64,
    /// Size in bytes.
    pub size: u64,
    /// The mangled name; of several at one address, one that is visible to other files.
    pub name: String,
    /// Whether the symbol is local: other files may have the same name.
    pub local: bool,
    /// Other names at this address.
    pub aliases: u32,
}

impl ElfFile {
    /// The functions with a size, sorted by address, one per address; only those of `.dynsym` if
    /// the file has been stripped, and none if it was cut off meanwhile.
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
            // A name that is not text could not be written to an order file, and one with a line
            // break would become two.
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
            // Exported functions are in both tables.
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
    /// Addresses of functions with these names, from `.dynsym` or else `.symtab`.
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
