//! Asks the kernel for the names of its functions by address: the text of all symbols takes it 75 ms to write, and a
//! recording contains one or two thousand functions.

use std::io;

use super::Function;
use crate::proc::ask::{Instruction, Question, Text, add, call_helper, copy, end, load, set, store};

/// `bpf_snprintf` (kernel 5.13): where to, size, format, data and its size.
const PRINT: i32 = 165;
/// A symbol with its module, `vfs_read+0x5/0x1a0 [ext4]`; the address in hexadecimal if there is none
/// (Documentation/core-api/printk-formats.rst of the kernel).
const SYMBOL: [u8; 8] = *b"%pS\0\0\0\0\0";
/// Words of a printed symbol. Names of the kernel have up to 512 bytes, but a program's stack has no more.
const WORDS: usize = 48;
/// Place of the text below the frame pointer, and of the address below the text.
const TEXT: i16 = -8 * 48;
const ADDRESS: i16 = TEXT - 8;
/// Beginnings of the names of eBPF programs and what calls them: in the list, they belong to the module `bpf`.
const OF_BPF: [&str; 3] = ["bpf_prog_", "bpf_trampoline_", "bpf_dispatcher_"];

/// The context: an address, and the text that it is replaced by.
type Context = [u64; WORDS];

/// Knows the functions at addresses.
pub struct Namer(Question);

impl Namer {
    /// # Errors
    /// If the kernel or its policy has no such programs.
    pub fn new() -> io::Result<Self> {
        // The program keeps the text.
        Question::new(&program(&Text::new(SYMBOL)?)).map(Self)
    }

    /// The function at an address; `None`: there is none.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn function(&self, address: u64) -> io::Result<Option<Function>> {
        let mut context: Context = [0; WORDS];
        context[0] = address;
        self.0.ask(&mut context)?;
        let bytes: Vec<u8> = context.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(parse(&String::from_utf8_lossy(text), address))
    }
}

/// Replaces the address at the beginning of the context by its symbol.
fn program(format: &Text) -> Vec<Instruction> {
    let mut code = vec![copy(6, 1), load(1, 6, 0), store(10, ADDRESS, 1), set(1, 0)];
    let words = || (TEXT..0).step_by(8);
    code.extend(words().map(|place| store(10, place, 1)));
    code.extend([copy(1, 10), add(1, TEXT), set(2, i32::from(-TEXT))]);
    code.extend(format.address(3));
    code.extend([copy(4, 10), add(4, ADDRESS), set(5, 8), call_helper(PRINT)]);
    code.extend(words().flat_map(|place| [load(1, 10, place), store(6, place - TEXT, 1)]));
    code.extend(end());
    code
}

/// `name+0xOFFSET/0xSIZE [module]`
fn parse(text: &str, address: u64) -> Option<Function> {
    let (symbol, module) = match text.split_once(" [") {
        Some((symbol, module)) => (symbol, module.strip_suffix(']')),
        None => (text, None),
    };
    let (name, place) = symbol.rsplit_once("+0x")?;
    let (offset, size) = place.split_once("/0x")?;
    let (offset, size) = (u64::from_str_radix(offset, 16), u64::from_str_radix(size, 16));
    let start = address.checked_sub(offset.ok()?)?;
    let of_bpf = OF_BPF.iter().any(|of| name.starts_with(of)).then_some("bpf");
    Some(Function {
        start,
        end: start.checked_add(size.ok()?)?,
        name: match module.or(of_bpf) {
            Some(module) => format!("{name} [{module}]"),
            None => name.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_a_place_and_perhaps_a_module() {
        let function = |start, end, name: &str| {
            Some(Function {
                start,
                end,
                name: name.to_owned(),
            })
        };
        assert_eq!(
            parse("vfs_read+0x5/0x1a0", 0x1005),
            function(0x1000, 0x11a0, "vfs_read")
        );
        assert_eq!(
            parse("ext4_open+0x0/0x10 [ext4]", 0x1000),
            function(0x1000, 0x1010, "ext4_open [ext4]")
        );
        assert_eq!(
            parse("bpf_prog_6deef7357e7b4530_sample+0x1/0x2", 0x1001),
            function(0x1000, 0x1002, "bpf_prog_6deef7357e7b4530_sample [bpf]")
        );
        for other in [
            "",
            "0xffffffff81000000",
            "a+0x",
            "a+0x5",
            "a+0x5/0x",
            "a+0xfffff/0x1",
            "+0x1/0xffffffffffffffff1",
        ] {
            assert_eq!(parse(other, 0x1000), None, "{other:?}");
        }
    }

    /// The list may have several names for one address.
    #[test]
    fn the_kernel_answers_as_its_list_does() {
        let Ok(namer) = Namer::new() else {
            println!("skipped: this kernel, its policy or this user has no such programs");
            return;
        };
        let list = std::fs::read_to_string(super::super::KALLSYMS).unwrap();
        let mut checked = 0;
        for line in list.lines().step_by(97) {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some("t" | "T"), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap();
            let Some(function) = namer.function(address + 1).unwrap() else {
                continue;
            };
            let plain = function.name.split(' ').next().unwrap();
            let is_alias = || {
                let place = format!("{:016x} ", function.start);
                list.lines()
                    .any(|line| line.starts_with(&place) && line.contains(plain))
            };
            assert!(
                function.start == address && plain == name || is_alias(),
                "{line}: {function:x?}"
            );
            checked += 1;
        }
        assert!(checked > 100, "{checked}");
        assert_eq!(namer.function(1).unwrap(), None);
    }
}
