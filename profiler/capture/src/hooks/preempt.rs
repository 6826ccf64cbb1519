//! Completes the calls of `profiler_common::preempt` in the object before it is loaded.
//!
//! A call of a kernel function is a call instruction that is marked in its source register and has the function's BTF
//! id as its number (instruction set: Documentation/bpf/standardization/instruction-set.rst of the kernel).

use profiler_common::preempt::{DISABLE, ENABLE};

use super::btf::Btf;

/// `BPF_JMP | BPF_CALL`
const CALL: u8 = 0x85;
/// `BPF_PSEUDO_KFUNC_CALL`, as source register.
const KERNEL_FUNCTION: u8 = 2 << 4;
/// `r0 = 0`: a removed call may have changed r0, and its result is not used.
const NOTHING: [u8; 8] = [0xb7, 0, 0, 0, 0, 0, 0, 0];
/// The first version in which the verifier allows calls of our exported functions with preemption disabled; older
/// kernels that have the functions are seldom preemptible.
const USEFUL_SINCE: (u32, u32) = (6, 15);

/// Whether threads lose their CPU within programs at the ends of functions, judging by the version.
pub fn is_usual(kernel: Option<(u32, u32)>) -> bool {
    kernel.is_some_and(|version| version >= USEFUL_SINCE)
}

/// The BTF ids of `bpf_preempt_disable` and `bpf_preempt_enable`, where they are useful.
pub fn functions(btf: &Btf, kernel: Option<(u32, u32)>) -> Option<[u32; 2]> {
    is_usual(kernel).then_some(())?;
    Some([
        btf.function("bpf_preempt_disable")?,
        btf.function("bpf_preempt_enable")?,
    ])
}

/// Writes the ids into the calls, or removes the calls.
pub fn complete(object: &mut [u8], functions: Option<[u32; 2]>) {
    for instruction in object.as_chunks_mut::<8>().0 {
        let [CALL, 0, 0, 0, a, b, c, d] = *instruction else {
            continue;
        };
        let id = match u32::from_le_bytes([a, b, c, d]) {
            DISABLE => functions.map(|ids| ids[0]),
            ENABLE => functions.map(|ids| ids[1]),
            _ => continue,
        };
        match id {
            Some(id) => {
                let [a, b, c, d] = id.to_le_bytes();
                *instruction = [CALL, KERNEL_FUNCTION, 0, 0, a, b, c, d];
            }
            None => *instruction = NOTHING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u32) -> [u8; 8] {
        let [a, b, c, d] = number.to_le_bytes();
        [CALL, 0, 0, 0, a, b, c, d]
    }

    #[test]
    fn only_our_calls_are_changed() {
        let code = [call(DISABLE), call(5), call(ENABLE)].concat();
        let mut without = code.clone();
        complete(&mut without, None);
        assert_eq!(without, [NOTHING, call(5), NOTHING].concat());
        let mut with = code;
        complete(&mut with, Some([0x1234, 0x5678]));
        assert_eq!(with[..8], [CALL, 0x20, 0, 0, 0x34, 0x12, 0, 0]);
        assert_eq!(with[8..16], call(5));
        assert_eq!(with[16..], [CALL, 0x20, 0, 0, 0x78, 0x56, 0, 0]);
    }
}
