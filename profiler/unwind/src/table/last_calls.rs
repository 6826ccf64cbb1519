//! Finds where musl calls `main` and thread functions: musl has no unwind information, so these
//! frames are not otherwise known to have no caller. Their return value goes directly to `exit` or
//! `pthread_exit`, which is recognized at known places. No other code of the file is read, because
//! reading it would load it into the page cache.

use std::ops::Range;

use symbols::elf::{Arch, ElfFile};

/// Maximum bytes of a function that are examined: these functions are short.
const FUNCTION: u64 = 96;
/// Bytes before `pthread_create` that contain a thread's first function: both are in one object
/// file.
const NEARBY: u64 = 1024;
/// `call REL`, `jmp REL`, and their length in bytes.
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const CALL_LEN: u64 = 5;
/// `lea OFFSET(%rip), %rax` to `%rdx`, without the last byte.
const LEA: [u8; 2] = [0x48, 0x8d];
const LEA_RIP: [u8; 3] = [0x05, 0x0d, 0x15];
/// `mov %eax, %edi`, `mov %rax, %rdi`, `movslq %eax, %rdi`
const PASSES_ON: [&[u8]; 3] = [&[0x48, 0x89, 0xc7], &[0x48, 0x63, 0xf8], &[0x89, 0xc7]];

/// Returns the stated addresses of those calls.
pub fn find(elf: &ElfFile) -> Vec<Range<u64>> {
    if elf.arch() != Arch::X86_64 || elf.entry() == 0 || elf.section(".interp").is_some() {
        return Vec::new();
    }
    let Some(text) = elf.section(".text") else {
        return Vec::new();
    };
    let code = Code {
        start: text.svma.start,
        bytes: &text.bytes,
    };
    let [start, create, exit] = elf.functions_named(["__libc_start_main", "pthread_create", "pthread_exit"]);
    let Some(main) = start
        .or_else(|| code.start_main(elf.entry()))
        .and_then(|start| code.call_of_main(start))
    else {
        return Vec::new();
    };
    let threads = create.zip(exit).map_or_else(Vec::new, |(create, exit)| {
        let is_exit = |target| target == exit;
        code.last_calls(create.saturating_sub(NEARBY)..create, is_exit)
    });
    [main].into_iter().chain(threads).collect()
}

/// The bytes of a section.
struct Code<'c> {
    start: u64,
    bytes: &'c [u8],
}

impl Code<'_> {
    /// The part of `range` that is in the section.
    fn part(&self, range: &Range<u64>) -> (u64, &[u8]) {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        let (from, to) = (range.start.clamp(self.start, end), range.end.clamp(self.start, end));
        let index = |at: u64| usize::try_from(at - self.start).unwrap_or(usize::MAX);
        (from, self.bytes.get(index(from)..index(to)).unwrap_or_default())
    }

    /// The target of the instruction at `at`, which is `len` bytes long and ends with a relative
    /// 32-bit offset.
    fn target(&self, at: u64, len: u64) -> Option<u64> {
        let end = at.checked_add(len)?;
        let (_, relative) = self.part(&(end.checked_sub(4)?..end));
        let relative = i32::from_le_bytes(*relative.first_chunk()?);
        end.checked_add_signed(relative.into())
    }

    /// The target of the first instruction with this prefix in the function at `function`.
    fn first(&self, function: u64, begins: impl Fn(&[u8]) -> bool, len: u64) -> Option<u64> {
        let (start, code) = self.part(&(function..function.saturating_add(FUNCTION)));
        let mut places = (0..code.len()).filter(|at| begins(&code[*at..]));
        self.target(start + places.next()? as u64, len)
    }

    /// `__libc_start_main` of a static program: `_start` calls a function that ends with a jump to
    /// it.
    fn start_main(&self, entry: u64) -> Option<u64> {
        let start_c = self.first(entry, |code| code[0] == CALL, CALL_LEN)?;
        self.first(start_c, |code| code[0] == JUMP, CALL_LEN)
    }

    /// The call of `main`: in `__libc_start_main`, or in the function whose address is taken there.
    fn call_of_main(&self, start_main: u64) -> Option<Range<u64>> {
        let begins = |code: &[u8]| code.starts_with(&LEA) && code.get(2).is_some_and(|byte| LEA_RIP.contains(byte));
        let stage_2 = self.first(start_main, begins, 7);
        let functions = [Some(start_main), stage_2];
        let mut calls = functions
            .into_iter()
            .flatten()
            .flat_map(|function| self.last_calls(function..function.saturating_add(FUNCTION), |_| true));
        calls.next()
    }

    /// The calls through a pointer whose result goes to a function that `is_exit` accepts.
    fn last_calls(&self, range: Range<u64>, is_exit: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let (start, code) = self.part(&range);
        let call = |at: usize| {
            let passes_on = PASSES_ON.iter().find(|passes_on| code[..at].ends_with(passes_on))?;
            let behind = at - passes_on.len();
            let [opcode, operand] = *code[..behind].last_chunk::<2>()?;
            // `call *REGISTER`, `call *(REGISTER)`
            let is_call = opcode == 0xff && matches!(operand, 0xd0..=0xd7 | 0x10..=0x13 | 0x16 | 0x17);
            let address = start + at as u64;
            let is_last = is_call && is_exit(self.target(address, CALL_LEN)?);
            is_last.then(|| start + behind as u64 - 2..address + CALL_LEN)
        };
        let places = code.iter().enumerate().filter(|(_, byte)| **byte == CALL);
        places.filter_map(|(at, _)| call(at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exit_calls_with_a_functions_result() {
        let found = |bytes: &[u8], exit: u64| {
            let code = Code { start: 0x1000, bytes };
            let calls = code.last_calls(0..u64::MAX, |target| target == exit).into_iter();
            calls.map(|call| (call.start, call.end)).collect::<Vec<_>>()
        };
        // call *%rbx; mov %eax, %edi; call 0x1000
        let main = [0x90, 0xff, 0xd3, 0x89, 0xc7, 0xe8, 0xf6, 0xff, 0xff, 0xff];
        assert_eq!(found(&main, 0x1000), [(0x1001, 0x100a)]);
        assert!(found(&main, 0x1001).is_empty());
        // call *(%rbx); mov %rax, %rdi; call 0x1000
        let thread = [0xff, 0x13, 0x48, 0x89, 0xc7, 0xe8, 0xf6, 0xff, 0xff, 0xff];
        assert_eq!(found(&thread, 0x1000), [(0x1000, 0x100a)]);
        for other in [&main[2..], &main[..9], &[0xe8], &[]] {
            assert!(found(other, 0x1000).is_empty(), "{other:x?}");
        }
    }
}
