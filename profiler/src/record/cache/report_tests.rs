//! What a person reads.
