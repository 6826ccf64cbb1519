//! Frames as short strings, bit-exact: JavaScript numbers are exact only up to 2⁵³, and addresses
//! are larger.
//!
//! A letter for the kind, table indices in decimal, addresses in hexadecimal after `+`, and `r` at
//! the end of a return address: `m3+1a2br` is the return address 0x1a2b in module 3.
//! `j2.5+7f00+1a+3`: 0x1a bytes into the function at 0x7f00 of process 5, the third piece of code
//! in its jitdump.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use base::addr::{Avma, FileOffset, KernelOffset, Svma};
use fact::{Frame, Location, ModuleId, ProcessId, TruncationReason};

/// Encodes a frame.
pub fn encode(frame: &Frame) -> String {
    let place = match &frame.location {
        Location::Module { module, svma } => format!("m{}+{:x}", module.0, svma.0),
        Location::FileOffset { module, offset } => format!("f{}+{:x}", module.0, offset.0),
        Location::Kernel { module, offset } => format!("k{}+{:x}", module.0, offset.0),
        Location::Jit {
            module,
            process,
            start,
            offset,
            code,
        } => {
            let place = format!("j{}.{}+{:x}+{offset:x}", module.0, process.0, start.0);
            if *code == 0 { place } else { format!("{place}+{code:x}") }
        }
        Location::Anonymous { module, process, avma } => format!("a{}.{}+{:x}", module.0, process.0, avma.0),
        Location::Unmapped { process, avma } => format!("u{}+{:x}", process.0, avma.0),
        Location::Truncated(reason) => format!("t{reason:?}"),
    };
    if frame.is_return_address { place + "r" } else { place }
}

/// Decodes what [`encode`] wrote; `None` for anything else.
pub fn decode(text: &str) -> Option<Frame> {
    if let Some(reason) = text.strip_prefix('t') {
        // A reason's name may itself end in `r`.
        return match truncated(reason) {
            Some(reason) => Some(Frame {
                location: Location::Truncated(reason),
                is_return_address: false,
            }),
            None => truncated(reason.strip_suffix('r')?).map(|reason| Frame {
                location: Location::Truncated(reason),
                is_return_address: true,
            }),
        };
    }
    let (place, is_return_address) = text.strip_suffix('r').map_or((text, false), |place| (place, true));
    let kind = place.chars().next()?;
    let (table, address) = place.get(kind.len_utf8()..)?.split_once('+')?;
    let location = match kind {
        'm' => Location::Module {
            module: module(table)?,
            svma: Svma(hex(address)?),
        },
        'f' => Location::FileOffset {
            module: module(table)?,
            offset: FileOffset(hex(address)?),
        },
        'k' => Location::Kernel {
            module: module(table)?,
            offset: KernelOffset(hex(address)?),
        },
        'u' => Location::Unmapped {
            process: process(table)?,
            avma: Avma(hex(address)?),
        },
        'j' | 'a' => {
            let (of_module, of_process) = table.split_once('.')?;
            let (module, process) = (module(of_module)?, process(of_process)?);
            if kind == 'j' {
                let (start, rest) = address.split_once('+')?;
                let (offset, code) = rest.split_once('+').unwrap_or((rest, "0"));
                Location::Jit {
                    module,
                    process,
                    start: Avma(hex(start)?),
                    offset: hex(offset)?,
                    code: u32::try_from(hex(code)?).ok()?,
                }
            } else {
                Location::Anonymous {
                    module,
                    process,
                    avma: Avma(hex(address)?),
                }
            }
        }
        _ => return None,
    };
    Some(Frame {
        location,
        is_return_address,
    })
}

/// Encodes start and size of a symbol: `1a00+40`, or `1a00` if the size is unknown.
pub fn encode_range(start: u64, size: Option<u64>) -> String {
    size.map_or_else(|| format!("{start:x}"), |size| format!("{start:x}+{size:x}"))
}

/// Decodes what [`encode_range`] wrote.
pub fn decode_range(text: &str) -> Option<(u64, Option<u64>)> {
    match text.split_once('+') {
        Some((start, size)) => Some((hex(start)?, Some(hex(size)?))),
        None => Some((hex(text)?, None)),
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn module(text: &str) -> Option<ModuleId> {
    text.parse().ok().map(ModuleId)
}

fn process(text: &str) -> Option<ProcessId> {
    text.parse().ok().map(ProcessId)
}

fn truncated(name: &str) -> Option<TruncationReason> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    TruncationReason::deserialize(name).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn location() -> impl Strategy<Value = Location> {
        use TruncationReason::{BadChain, CopyTooShort, Limit, NoUnwindInfo, NotCaptured};
        let reason = prop::sample::select(vec![BadChain, CopyTooShort, Limit, NoUnwindInfo, NotCaptured]);
        let ids = (any::<u32>().prop_map(ModuleId), any::<u32>().prop_map(ProcessId));
        let code = prop_oneof![Just(0), any::<u32>()];
        (0u8..7, ids, any::<u64>(), any::<u64>(), code, reason).prop_map(
            |(kind, (module, process), a, offset, code, reason)| match kind {
                0 => Location::Module { module, svma: Svma(a) },
                1 => Location::FileOffset {
                    module,
                    offset: FileOffset(a),
                },
                2 => Location::Kernel {
                    module,
                    offset: KernelOffset(a),
                },
                3 => Location::Jit {
                    module,
                    process,
                    start: Avma(a),
                    offset,
                    code,
                },
                4 => Location::Anonymous {
                    module,
                    process,
                    avma: Avma(a),
                },
                5 => Location::Unmapped { process, avma: Avma(a) },
                _ => Location::Truncated(reason),
            },
        )
    }

    proptest! {
        #[test]
        fn a_frame_round_trips(location in location(), is_return_address: bool) {
            let frame = Frame { location, is_return_address };
            prop_assert_eq!(decode(&encode(&frame)), Some(frame));
        }

        #[test]
        fn a_range_round_trips(start: u64, size: Option<u64>) {
            prop_assert_eq!(decode_range(&encode_range(start, size)), Some((start, size)));
        }

        #[test]
        fn garbage_is_rejected(text in "[mfkjautr]?[0-9a-fr.+é-]{0,20}") {
            let _ = decode(&text);
            let _ = decode_range(&text);
        }
    }

    #[test]
    fn the_text_format_is_fixed() {
        let frame = Frame {
            location: Location::Module {
                module: ModuleId(3),
                svma: Svma(0x1a2b),
            },
            is_return_address: true,
        };
        assert_eq!(encode(&frame), "m3+1a2br");
        assert_eq!(decode("m3+"), None);
        assert_eq!(decode("z3+1"), None);
        assert_eq!(decode(""), None);
    }
}
