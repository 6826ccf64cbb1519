//! The header of the table (`pcHeader`), and where each version of Go puts what it describes.

/// Bytes before the first number of the header: magic, two zeros, size of instructions, size of pointers.
const START: usize = 8;

/// Places in a function's record (`_func`), relative to the end of its entry point.
pub(super) const NAME: usize = 0;
pub(super) const PC_FILE: usize = 16;
pub(super) const PC_LINE: usize = 20;
pub(super) const PCDATA_COUNT: usize = 24;
pub(super) const UNIT: usize = 28;

/// A format, by the first Go release with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Go1_2,
    Go1_16,
    Go1_18,
    Go1_20,
}

/// The places in an inlined call (`inlinedCall`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InlinedCall {
    pub size: usize,
    pub name: usize,
    pub parent: usize,
}

/// The header. The offsets are those of bytes of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub version: Version,
    /// Size in bytes of the smallest instruction.
    pub quantum: u32,
    /// Size of a pointer in bytes.
    pub word: usize,
    /// Number of functions.
    pub functions: usize,
    /// Base address of entry points, before relocation; zero if it is not here.
    pub text: u64,
    /// Names of functions.
    pub names: usize,
    /// Offsets of paths.
    pub units: usize,
    /// Paths.
    pub files: usize,
    /// Tables of values by address.
    pub values: usize,
    /// Entry points, each with the offset of its record.
    list: usize,
    /// What those offsets are relative to.
    records: usize,
    /// `None`: inlined calls of this version are not read.
    pub inlined: Option<InlinedCall>,
}

impl Header {
    /// Reads the header at the start of `table`, and checks that the list of functions is complete.
    pub(super) fn parse(table: &[u8]) -> Option<Self> {
        let (&[a, b, c, d, 0, 0, quantum @ (1 | 2 | 4), word @ (4 | 8)], _) = table.split_first_chunk::<START>()?
        else {
            return None;
        };
        let version = match u32::from_le_bytes([a, b, c, d]) {
            0xffff_fffb => Version::Go1_2,
            0xffff_fffa => Version::Go1_16,
            0xffff_fff0 => Version::Go1_18,
            0xffff_fff1 => Version::Go1_20,
            _ => return None,
        };
        let word = usize::from(word);
        let number = |index: usize| word_at(table, START + index * word, word);
        let offset = |index: usize| {
            usize::try_from(number(index)?)
                .ok()
                .filter(|offset| *offset < table.len())
        };
        let functions = usize::try_from(number(0)?).ok()?;
        let mut header = Self {
            version,
            quantum: quantum.into(),
            word,
            functions,
            text: 0,
            names: 0,
            units: 0,
            files: 0,
            values: 0,
            list: START + word,
            records: 0,
            inlined: None,
        };
        if version > Version::Go1_2 {
            // Go 1.18 added the base address.
            let first = if version >= Version::Go1_18 { 3 } else { 2 };
            let [names, units, files, values, list] = [0, 1, 2, 3, 4].map(|index| offset(first + index));
            (header.names, header.units, header.files) = (names?, units?, files?);
            (header.values, header.list, header.records) = (values?, list?, list?);
        }
        if version >= Version::Go1_18 {
            header.text = number(2)?;
        }
        header.inlined = match version {
            Version::Go1_2 | Version::Go1_16 => None,
            Version::Go1_18 => Some(InlinedCall {
                size: 20,
                name: 12,
                parent: 16,
            }),
            Version::Go1_20 => Some(InlinedCall {
                size: 16,
                name: 4,
                parent: 8,
            }),
        };
        let end = header.list_at(functions, 1).filter(|end| *end <= table.len())?;
        if version == Version::Go1_2 {
            header.units = usize::try_from(number_at(table, end)?).ok()?;
        }
        Some(header)
    }

    /// The entry point of function `index`; behind the last one, its end.
    pub(super) fn entry(&self, table: &[u8], index: usize) -> Option<u64> {
        word_at(table, self.list_at(index, 0)?, self.entry_size())
    }

    /// Where the record of function `index` is.
    pub(super) fn record(&self, table: &[u8], index: usize) -> Option<usize> {
        let offset = word_at(table, self.list_at(index, 1)?, self.entry_size())?;
        self.records.checked_add(usize::try_from(offset).ok()?)
    }

    /// Size in bytes of an entry point.
    pub(super) fn entry_size(&self) -> usize {
        if self.version >= Version::Go1_18 { 4 } else { self.word }
    }

    /// Where pcdata is, behind the last field of a record. `None`: it is not read.
    pub(super) fn tail(&self) -> Option<usize> {
        match self.version {
            Version::Go1_2 | Version::Go1_16 => None,
            Version::Go1_18 => Some(40),
            Version::Go1_20 => Some(44),
        }
    }

    fn list_at(&self, index: usize, field: usize) -> Option<usize> {
        let fields = index.checked_mul(2)?.checked_add(field)?;
        self.list.checked_add(fields.checked_mul(self.entry_size())?)
    }
}

/// The 32-bit number at `at`.
pub(super) fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// The number of `size` bytes, 4 or 8, at `at`.
pub(super) fn word_at(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    if size == 4 {
        return number_at(bytes, at).map(u64::from);
    }
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}
