//! What the tests' machine is: of those that run in guests.

/// Whether all this runs under emulation, several times slower than on a machine: `tests/kernels/check` says so.
pub fn is_emulated() -> bool {
    std::env::var_os("NGMI_FAULT_SLOW").is_some()
}
