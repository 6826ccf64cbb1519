//! Writes the Breakpad symbol file of a program from its DWARF, as Mozilla's `dump_syms` does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use symbols::{AddressName, SourceFrame};

use super::{Build, Symbol};

/// Numbers of texts, in the order in which they first occur.
#[derive(Default)]
struct Numbered(BTreeMap<String, usize>);

impl Numbered {
    fn number(&mut self, text: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    fn lines(&self, keyword: &str) -> String {
        let mut all: Vec<_> = self.0.iter().map(|(text, number)| (number, text)).collect();
        all.sort();
        all.iter().fold(String::new(), |mut lines, (number, text)| {
            writeln!(lines, "{keyword} {number} {text}").unwrap();
            lines
        })
    }
}

/// Ranges of addresses with equal values.
fn runs<T: PartialEq>(start: u32, values: impl Iterator<Item = T>) -> Vec<(u32, u32, T)> {
    let mut runs: Vec<(u32, u32, T)> = Vec::new();
    for (address, value) in (start..).zip(values) {
        match runs.last_mut() {
            Some((_, size, last)) if *last == value => *size += 1,
            _ => runs.push((address, 1, value)),
        }
    }
    runs
}

/// The id of the build in the form of symbol servers.
pub fn debug_id(build: &Build) -> String {
    let id = &build.request().build_id;
    let hex = |bytes: &[u8]| {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        digits.concat()
    };
    let reversed = |bytes: &[u8]| hex(&bytes.iter().rev().copied().collect::<Vec<_>>());
    let guid = [
        reversed(&id[..4]),
        reversed(&id[4..6]),
        reversed(&id[6..8]),
        hex(&id[8..16]),
    ];
    format!("{}0", guid.concat())
}

/// The symbol file of a program with DWARF, which must not be stripped yet.
pub fn symbol_file(build: &Build) -> String {
    let (mut files, mut origins, mut functions) = (Numbered::default(), Numbered::default(), String::new());
    let mut symbols: Vec<&Symbol> = build.symbols.iter().filter(|symbol| symbol.size > 0).collect();
    symbols.sort_by_key(|symbol| (symbol.start, symbol.size));
    symbols.dedup_by_key(|symbol| symbol.start);
    for symbol in symbols {
        let addresses: Vec<u32> = (symbol.start..symbol.end()).collect();
        let names: Vec<AddressName> = build
            .resolve(&addresses)
            .unwrap()
            .into_iter()
            .map(Option::unwrap)
            .collect();
        let (start, size) = (symbol.start, symbol.size);
        writeln!(functions, "FUNC {start:x} {size:x} 0 {}", names[0].symbol).unwrap();
        let file = |frame: &SourceFrame| frame.file.clone().unwrap_or_default();
        // The chain from the outermost function in: each call, and the function that it inlines.
        let depth = names.iter().map(|name| name.inline_chain.len()).max().unwrap();
        for level in 0..depth - 1 {
            let call = |name: &AddressName| {
                let chain: Vec<_> = name.inline_chain.iter().rev().cloned().collect();
                let callee = chain.get(level + 1)?.function.clone();
                Some((chain[..=level].to_vec(), callee))
            };
            for (address, length, call) in runs(start, names.iter().map(call)) {
                let Some((callers, callee)) = call else { continue };
                let (line, file) = (callers[level].line.unwrap_or(0), files.number(&file(&callers[level])));
                let origin = origins.number(&callee);
                writeln!(
                    functions,
                    "INLINE {level} {line} {file} {origin} {address:x} {length:x}"
                )
                .unwrap();
            }
        }
        let place = |name: &AddressName| (file(&name.inline_chain[0]), name.inline_chain[0].line);
        for (address, length, (file, line)) in runs(start, names.iter().map(place)) {
            if let (Some(line), false) = (line, file.is_empty()) {
                writeln!(functions, "{address:x} {length:x} {line} {}", files.number(&file)).unwrap();
            }
        }
    }
    let name = build.binary.file_name().unwrap().to_str().unwrap();
    format!(
        "MODULE Linux x86_64 {} {name}\nINFO CODE_ID {}\n{}{}{functions}",
        debug_id(build),
        build.build_id().to_uppercase(),
        files.lines("FILE"),
        origins.lines("INLINE_ORIGIN"),
    )
}
