//! The processor's exception, with which a fault begins (tiers 1 and 2): one file for each processor.

mod x86_64;
