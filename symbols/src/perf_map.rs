//! `perf-PID.map`: the functions that a JIT compiler made, one a line.
//! Format: `tools/perf/Documentation/jit-interface.txt` in the kernel's source.

use crate::spans::{Span, Spans};

/// Longer names are cut off.
const MAX_NAME: usize = 4096;

/// A compiled function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitSymbol<'a> {
    /// Its address in the process.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its name, as the compiler wrote it; bytes that are not UTF-8 are replaced.
    pub name: std::borrow::Cow<'a, str>,
}

/// The functions of a perf map.
#[derive(Debug, Default)]
pub struct PerfMap {
    names: Vec<u8>,
    spans: Spans<(u32, u16)>,
    bad_lines: u64,
}

impl PerfMap {
    /// Reads the contents of a perf map. Any contents will do: lines that are not `START SIZE NAME` (hexadecimal), and
    /// lines beyond four GiB, are counted. The last line may be incomplete, if the process was killed.
    pub fn parse(contents: &[u8]) -> Self {
        let mut map = Self::default();
        let mut spans = Vec::new();
        for line in contents.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match map.span(line) {
                Some(span) => spans.push(span),
                None => map.bad_lines += 1,
            }
        }
        map.spans = Spans::new(spans.into_iter());
        map.names.shrink_to_fit();
        map
    }

    /// The function at `address`. Where functions overlap the one on the later line is meant.
    pub fn lookup(&self, address: u64) -> Option<JitSymbol<'_>> {
        let span = self.spans.lookup(0, address)?;
        let (offset, len) = span.value?;
        let name = self.names.get(offset as usize..)?.get(..usize::from(len))?;
        Some(JitSymbol {
            start: span.start,
            size: span.end - span.start,
            name: String::from_utf8_lossy(name),
        })
    }

    /// Lines that could not be used.
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines.saturating_add(self.spans.dropped())
    }

    fn span(&mut self, line: &[u8]) -> Option<Span<(u32, u16)>> {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let (start, size) = (hexadecimal(words.next()?)?, hexadecimal(words.next()?)?);
        let name = words.next().map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())?;
        let name = name.get(..MAX_NAME).unwrap_or(name);
        let end = start.checked_add(size).filter(|end| *end > start)?;
        let offset = u32::try_from(self.names.len()).ok()?;
        self.names.extend_from_slice(name);
        Some(Span {
            time: 0,
            start,
            end,
            value: Some((offset, u16::try_from(name.len()).ok()?)),
        })
    }
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` would take a sign.
    (!digits.starts_with('+')).then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        map.lookup(address).map(|symbol| symbol.name.into_owned())
    }

    #[test]
    fn lines_become_functions() {
        let map = PerfMap::parse(b"7f00 100 LazyCompile:~add /a b.js:1\n0x8000 0x10 other\n");
        let symbol = map.lookup(0x7fff).unwrap();
        assert_eq!(
            (symbol.start, symbol.size, &*symbol.name),
            (0x7f00, 0x100, "LazyCompile:~add /a b.js:1")
        );
        assert_eq!(name(&map, 0x7eff), None);
        assert_eq!(name(&map, 0x8000).unwrap(), "other");
        assert_eq!(name(&map, 0x8010), None);
        assert_eq!(map.bad_lines(), 0);
    }

    #[test]
    fn later_lines_win() {
        let map = PerfMap::parse(b"1000 100 old\n1040 20 new\n");
        assert_eq!(name(&map, 0x103f).unwrap(), "old");
        assert_eq!(name(&map, 0x1040).unwrap(), "new");
        assert_eq!(name(&map, 0x105f).unwrap(), "new");
        assert_eq!(name(&map, 0x1060).unwrap(), "old");
    }

    #[test]
    fn garbage_is_counted() {
        let bad: &[&[u8]] = &[
            b"garbage",
            b"1000 0 empty",
            b"ffffffffffffffff 10 overflow",
            b"1000 10 ",
            b"1000 10",
            b"+1000 10 sign",
            b"10000000000000000 1 too_wide",
            b"-1 1 negative",
        ];
        let mut contents = bad.join(&b'\n');
        contents.extend(b"\n1000 10 caf\xe9\n\n2000 10 cut of");
        let map = PerfMap::parse(&contents);
        assert_eq!(map.bad_lines(), bad.len() as u64);
        assert_eq!(name(&map, 0x1000).unwrap(), "caf\u{fffd}");
        assert_eq!(name(&map, 0x2000).unwrap(), "cut of");
    }

    proptest! {
        #[test]
        fn any_bytes(contents in prop::collection::vec(any::<u8>(), 0..2000), address: u64) {
            PerfMap::parse(&contents).lookup(address);
        }

        #[test]
        fn nearly_valid(contents in "([0-9a-f]{0,17} [0-9a-f]{0,17} [ -~]{0,5}\n){0,20}", address in 0_u64..0x10000) {
            if let Some(symbol) = PerfMap::parse(contents.as_bytes()).lookup(address) {
                prop_assert!((symbol.start..symbol.start + symbol.size).contains(&address));
            }
        }
    }
}
