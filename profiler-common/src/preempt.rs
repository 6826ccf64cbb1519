//! Calls in the object that user space completes: numbers that no helper has.

/// Stands for `bpf_preempt_disable`.
pub const DISABLE: u32 = 0x7f6e_676d;
/// Stands for `bpf_preempt_enable`.
pub const ENABLE: u32 = 0x7f6e_676e;
