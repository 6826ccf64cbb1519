//! Unwind tables of real files, held against what gimli and framehop make of the same files.
