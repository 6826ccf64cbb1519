//! Detects emulated machines, for tests that run in guests.

/// Whether the tests run under emulation, several times slower than on hardware, as set by `tests/kernels/check`.
pub fn is_emulated() -> bool {
    std::env::var_os("NGMI_FAULT_SLOW").is_some()
}
