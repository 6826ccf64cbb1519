//! The processor's exception, with which a fault begins (tiers 1 and 2): one file for each processor.

#[cfg(bpf_target_arch = "aarch64")]
mod aarch64;
#[cfg(bpf_target_arch = "x86_64")]
mod x86_64;
