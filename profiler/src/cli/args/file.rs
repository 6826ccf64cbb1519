//! Output paths that must be files: a profile is renamed into place when it is complete, and a
//! recorded program writes to standard output itself.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser as _};

/// Parser for any path except `-`, which means standard output in other subcommands.
pub fn file() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == Path::new("-") {
            Err("standard output is not supported here; name a file (`./-` for a file of this name)")
        } else {
            Ok(path)
        }
    })
}
