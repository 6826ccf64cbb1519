//! Reads /sys/kernel/btf/vmlinux: the offsets of the fields that the programs read, in the running kernel.
//!
//! Format: Documentation/bpf/btf.rst of the kernel. The kernel writes the file, yet every read is bounded.

mod bytes;
mod fields;

use std::io;

use rustc_hash::FxHashMap;
use zerocopy::IntoBytes as _;

use bytes::Bytes;
pub use fields::locate;

/// Where the kernel exports its types.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// The helper that takes the walk as its callback (kernel 5.17 and later).
pub const WALKER_NEEDS: &str = "bpf_loop";

/// The helper that finds the mapping of a fault (kernel 5.17 and later).
pub const FIND_VMA: &str = "bpf_find_vma";

/// Depth to which anonymous members and modifiers are followed; the kernel's own structs nest four deep.
const DEPTH_LIMIT: u32 = 16;

/// Bytes of a name that are read (`KSYM_NAME_LEN` of the kernel).
const NAME_LIMIT: usize = 512;

/// The first word of the format: its magic number and version 1.
const MAGIC: u32 = 0x0001_eb9f;

const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FORWARD: u32 = 7;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNCTION: u32 = 12;
const KIND_SECTION: u32 = 15;
/// The section of variables that each CPU has.
const OF_CPUS: &[u8] = b".data..percpu";
/// How the kernel names the type of a tracepoint's function.
const TRACEPOINT: &[u8] = b"btf_trace_";
/// Kinds that only rename or qualify the type in their third word: typedef, volatile, const, restrict, type tag.
const MODIFIERS: [u32; 5] = [8, 9, 10, 11, 18];

/// Why the kernel's types can't be read.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file is absent or unreadable.
    #[error("cannot read {VMLINUX}: {0}: a kernel built with CONFIG_DEBUG_INFO_BTF is needed")]
    Read(#[from] io::Error),
    /// It does not follow the format.
    #[error("{VMLINUX} is damaged: {0}")]
    Damaged(&'static str),
}

/// A member of a struct.
struct Member {
    /// Its offset in bits.
    bits: u32,
    /// Its size in bits if it is a bit field; 0: it is not one.
    width: u32,
    /// The position of its type.
    of_type: usize,
}

impl Member {
    /// Its offset in bytes; a bit field has no address.
    fn whole_bytes(&self) -> Option<u32> {
        (self.width == 0 && self.bits.is_multiple_of(8)).then_some(self.bits / 8)
    }
}

/// The types of a kernel.
pub struct Btf {
    bytes: Bytes,
    /// The position of each type in `bytes`; type ids count from 1.
    types: Vec<usize>,
    /// The position of the names.
    strings: usize,
    /// The first struct of each name that has members (the kernel also has forward declarations): some hundred of
    /// 150,000 types are looked up.
    structs: FxHashMap<Vec<u8>, usize>,
}

impl Btf {
    /// Reads the types of the running kernel.
    pub fn of_kernel() -> Result<Self, BtfError> {
        Self::of_bytes(Bytes::of_kernel()?)
    }

    /// Parses the bytes of a .BTF section. Stops at a kind of type that it does not know: what follows stays unknown.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        Self::of_bytes(Bytes::Read(bytes))
    }

    fn of_bytes(bytes: Bytes) -> Result<Self, BtfError> {
        let header = |at: usize| word(&bytes, at).ok_or(BtfError::Damaged("header cut"));
        if header(0)? & 0xffff != MAGIC & 0xffff {
            return Err(BtfError::Damaged("not BTF of this machine's byte order"));
        }
        let start = header(4)? as usize;
        let mut at = start.saturating_add(header(8)? as usize);
        let end = at.saturating_add(header(12)? as usize).min(bytes.len());
        let strings = start.saturating_add(header(16)? as usize);
        let mut btf = Self {
            bytes,
            types: Vec::new(),
            strings,
            structs: FxHashMap::default(),
        };
        while at < end {
            let Some(len) = type_len(&btf.bytes, at) else { break };
            btf.types.push(at);
            if btf.kind(at) == Some(KIND_STRUCT)
                && let Some(name) = btf.name(at).map(<[u8]>::to_vec)
            {
                btf.structs.entry(name).or_insert(at);
            }
            at += len;
        }
        Ok(btf)
    }

    /// The offset in bytes of a field such as `task_struct.se.sum_exec_runtime`.
    pub fn offset(&self, path: &str) -> Option<u32> {
        let (name, fields) = path.split_once('.')?;
        let mut of = *self.structs.get(name.as_bytes())?;
        let mut offset = 0_u32;
        for field in fields.split('.') {
            let member = self.member(of, field, DEPTH_LIMIT)?;
            offset = offset.checked_add(member.whole_bytes()?)?;
            of = member.of_type;
        }
        Some(offset)
    }

    /// The position of a one-bit field: its byte's offset, and its mask in that byte.
    pub fn bit(&self, path: &str) -> Option<(u32, u32)> {
        let (name, field) = path.split_once('.')?;
        let member = self.member(*self.structs.get(name.as_bytes())?, field, DEPTH_LIMIT)?;
        let mask = if cfg!(target_endian = "little") { 1 } else { 0x80 };
        (member.width == 1).then_some((member.bits / 8, mask << (member.bits % 8)))
    }

    /// The value of an enumerator.
    pub fn enumerator(&self, name: &str) -> Option<u32> {
        for &at in self.types.iter().filter(|&&at| self.kind(at) == Some(KIND_ENUM)) {
            for index in 0..(word(&self.bytes, at + 4)? & 0xffff) as usize {
                let member = at + 12 + index * 8;
                if self.is_named(member, name) {
                    return word(&self.bytes, member + 4);
                }
            }
        }
        None
    }

    /// The offset of a variable that each CPU has among all of these.
    pub fn cpu_variable(&self, name: &str) -> Option<u32> {
        let is = |&&at: &&usize| self.kind(at) == Some(KIND_SECTION) && self.name(at) == Some(OF_CPUS);
        let section = *self.types.iter().rev().find(is)?;
        (0..(word(&self.bytes, section + 4)? & 0xffff) as usize).find_map(|index| {
            let at = section + 12 + index * 12;
            let variable = self.type_at(word(&self.bytes, at)?)?;
            self.is_named(variable, name).then(|| word(&self.bytes, at + 4))?
        })
    }

    /// Whether the kernel has a function or helper of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.function(name).is_some()
    }

    /// The id of a function.
    pub fn function(&self, name: &str) -> Option<u32> {
        let is = |&at: &usize| self.kind(at) == Some(KIND_FUNCTION) && self.is_named(at, name);
        u32::try_from(self.types.iter().position(is)?.checked_add(1)?).ok()
    }

    /// The types that programs attach to, functions and tracepoints, under their ids in the kernel. All others are
    /// empty: the loader takes ten times longer to parse the kernel's own.
    ///
    /// # Errors
    /// When the loader does not accept them.
    pub fn attach_points(&self) -> Result<aya::Btf, aya::BtfError> {
        aya::Btf::parse(&self.only_attach_points(), aya::Endianness::default())
    }

    fn only_attach_points(&self) -> Vec<u8> {
        let names = self.bytes.get(self.strings..).unwrap_or_default();
        let len = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let types = len(self.types.len() * 12);
        let mut bytes = Vec::with_capacity(24 + self.types.len() * 12 + names.len());
        bytes.extend([MAGIC, 24, 0, types, types, len(names.len())].as_bytes());
        for &at in &self.types {
            let kind = self.kind(at);
            let is_wanted = kind == Some(KIND_FUNCTION)
                || kind == Some(KIND_TYPEDEF) && self.name(at).is_some_and(|name| name.starts_with(TRACEPOINT));
            match self.bytes.get(at..at + 12) {
                Some(own) if is_wanted => bytes.extend_from_slice(own),
                _ => bytes.extend([0, KIND_FORWARD << 24, 0].as_bytes()),
            }
        }
        bytes.extend_from_slice(names);
        bytes
    }

    /// A member, searched in anonymous members too.
    fn member(&self, of: usize, name: &str, depth: u32) -> Option<Member> {
        let depth = depth.checked_sub(1)?;
        let of = self.plain(of)?;
        if !matches!(self.kind(of)?, KIND_STRUCT | KIND_UNION) {
            return None;
        }
        let info = word(&self.bytes, of + 4)?;
        for index in 0..(info & 0xffff) as usize {
            let at = of + 12 + index * 12;
            let position = word(&self.bytes, at + 8)?;
            // With the flag, the upper byte is a bit field's width.
            let (bits, width) = if info >> 31 == 1 {
                (position & 0x00ff_ffff, position >> 24)
            } else {
                (position, 0)
            };
            let Some(member_type) = self.type_at(word(&self.bytes, at + 4)?) else {
                continue;
            };
            if self.name(at)?.is_empty() {
                if let Some(found) = self.member(member_type, name, depth) {
                    let bits = bits.checked_add(found.bits)?;
                    return Some(Member { bits, ..found });
                }
            } else if self.name(at)? == name.as_bytes() {
                return Some(Member {
                    bits,
                    width,
                    of_type: member_type,
                });
            }
        }
        None
    }

    /// The type behind typedefs and qualifiers.
    fn plain(&self, mut at: usize) -> Option<usize> {
        for _ in 0..DEPTH_LIMIT {
            if !MODIFIERS.contains(&self.kind(at)?) {
                return Some(at);
            }
            at = self.type_at(word(&self.bytes, at + 8)?)?;
        }
        None
    }

    fn type_at(&self, id: u32) -> Option<usize> {
        self.types.get((id as usize).checked_sub(1)?).copied()
    }

    fn kind(&self, at: usize) -> Option<u32> {
        Some(word(&self.bytes, at + 4)? >> 24 & 31)
    }

    /// The name of a type or member: its first word is an offset into the names.
    fn name(&self, at: usize) -> Option<&[u8]> {
        let start = self.strings.checked_add(word(&self.bytes, at)? as usize)?;
        let rest = self.bytes.get(start..)?;
        rest[..rest.len().min(NAME_LIMIT)].split(|&byte| byte == 0).next()
    }

    /// As a comparison with [`Self::name`], in less time: most names differ in their first bytes.
    fn is_named(&self, at: usize, name: &str) -> bool {
        let offset = word(&self.bytes, at).map_or(usize::MAX, |offset| offset as usize);
        let rest = self
            .strings
            .checked_add(offset)
            .and_then(|start| self.bytes.get(start..));
        let end = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
        end.and_then(|rest| rest.first()) == Some(&0)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The size in bytes of the type record at `at`; `None`: truncated, or of an unknown kind.
fn type_len(bytes: &[u8], at: usize) -> Option<usize> {
    let info = word(bytes, at.checked_add(4)?)?;
    let members = (info & 0xffff) as usize;
    let extra = match info >> 24 & 31 {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => members * 12,
        6 | 13 => members * 8,
        _ => return None,
    };
    Some(12 + extra)
}

#[cfg(test)]
mod tests;
