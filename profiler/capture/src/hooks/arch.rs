//! What recording depends on: the processor of this machine, one file for each.
//!
//! Another processor is a file with the same items, chosen here; profiler-ebpf and profiler/unwind have such a folder,
//! too. Without one, recording is refused, and everything that reads recordings works.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unsupported;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use unsupported::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

use profiler_common::config::CALL_WORDS;

/// Adds system calls with these numbers to a set.
fn mark(calls: &mut [u32; CALL_WORDS], numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        if let Some(word) = calls.get_mut(number / 32) {
            *word |= 1 << (number % 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_its_bit() {
        let mut calls = [0; CALL_WORDS];
        mark(&mut calls, [0, 33, 511, 512].into_iter());
        assert_eq!((calls[0], calls[1], calls[15]), (1, 2, 1 << 31));
        assert_eq!(calls.iter().map(|word| word.count_ones()).sum::<u32>(), 3);
    }
}
