//! Address to function, inline chain, file and line. Knows no eBPF and no profile.
