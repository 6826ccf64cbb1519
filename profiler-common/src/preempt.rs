//! Placeholder calls in the object that user space replaces: numbers that no helper has.

/// Placeholder for `bpf_preempt_disable`.
pub const DISABLE: u32 = 0x7f6e_676d;
/// Placeholder for `bpf_preempt_enable`.
pub const ENABLE: u32 = 0x7f6e_676e;
