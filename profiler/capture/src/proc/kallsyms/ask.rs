//! Asks the kernel for the addresses of its variables by name: the text of all symbols takes the kernel 75 ms to write.

use std::io;

use crate::proc::ask::{Instruction, Question, add, call_helper, constant, copy, end, load, set, store};

/// `bpf_kallsyms_lookup_name` (kernel 5.16): name, its size, 0, and where the address is written.
const LOOKUP_NAME: i32 = 179;
/// Words that hold a name with the NUL at its end.
const NAME_WORDS: usize = 4;
/// Place of the name below the frame pointer, and of the address below the name.
const NAME: i16 = -32;
const ADDRESS: i16 = NAME - 8;

/// `-ENOENT`: the kernel has no such name.
const NONE: i64 = -2;

/// What the kernel says of a name.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Answer {
    /// 0, [`NONE`], or another error: addresses are hidden.
    returned: i64,
    address: u64,
}

/// The addresses; `None` for a name that the kernel does not have.
///
/// # Errors
/// If the kernel or its policy has no such programs, hides its addresses, or a name is longer than 31 bytes.
pub fn addresses<const N: usize>(names: [&str; N]) -> io::Result<[Option<u64>; N]> {
    let code = program(&names).ok_or(io::ErrorKind::InvalidInput)?;
    let mut found = [Answer::default(); N];
    Question::new(&code)?.ask(&mut found)?;
    if found.iter().any(|answer| ![0, NONE].contains(&answer.returned)) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(found.map(|answer| (answer.returned == 0).then_some(answer.address)))
}

/// Looks up each name, and writes the [`Answer`] of the same number to the context. `None`: a name is too long.
fn program(names: &[&str]) -> Option<Vec<Instruction>> {
    let mut code = vec![copy(6, 1)];
    for (number, name) in names.iter().enumerate() {
        let mut bytes = [0; 8 * NAME_WORDS];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let size = i32::try_from(name.len() + 1)
            .ok()
            .filter(|_| name.len() < bytes.len())?;
        for (word, place) in bytes.as_chunks::<8>().0.iter().zip((NAME..).step_by(8)) {
            code.extend(constant(1, u64::from_le_bytes(*word)));
            code.push(store(10, place, 1));
        }
        code.extend(constant(1, 0));
        code.push(store(10, ADDRESS, 1));
        code.extend([copy(1, 10), add(1, NAME), set(2, size), set(3, 0)]);
        code.extend([copy(4, 10), add(4, ADDRESS), call_helper(LOOKUP_NAME)]);
        let answer = i16::try_from(number * size_of::<Answer>()).ok()?;
        code.extend([store(6, answer, 0), load(1, 10, ADDRESS), store(6, answer + 8, 1)]);
    }
    code.extend(end());
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_refused() {
        let longest = "a".repeat(31);
        assert!(program(&[&longest, "b"]).is_some_and(|code| code.len() == 3 + 2 * (12 + 3 + 4 + 3 + 3)));
        assert!(program(&[&"a".repeat(32)]).is_none());
        assert!(addresses([&"a".repeat(80)]).is_err());
    }

    /// `_text` and `vfs_read` are in every list, whether or not it has variables.
    #[test]
    fn the_kernel_answers_as_its_list_does() {
        let names = ["_text", "vfs_read", "no_such_symbol_here"];
        let Ok(found) = addresses(names) else {
            eprintln!("skipped: this kernel, its policy or this user has no such programs");
            return;
        };
        let list = io::BufReader::new(std::fs::File::open(super::super::KALLSYMS).unwrap());
        assert_eq!(found, super::super::find(list, names).unwrap());
        assert!(found[1].is_some() && found[2].is_none());
    }
}
