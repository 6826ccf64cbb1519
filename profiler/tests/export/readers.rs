//! Where the third-party readers are, if they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

/// A path below the project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn fetched(path: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let path = target.join("export-readers").join(path);
    if path.exists() {
        return Some(path);
    }
    skip("needs what tests/export/readers fetches");
    None
}

/// Runs a script of `tests/export` in the fetched Python and returns the JSON it prints.
pub fn python(script: &str, arguments: &[&Path]) -> Option<serde_json::Value> {
    fetched("venv/done")?;
    let mut command = Command::new(fetched("venv/bin/python")?);
    command.arg(root().join("tests/export").join(script)).args(arguments);
    Some(said(command))
}

/// The same in Node, for npm's pprof-format.
pub fn node(script: &str, arguments: &[&Path]) -> Option<serde_json::Value> {
    let modules = fetched("node_modules/pprof-format")?;
    let mut command = Command::new("node");
    command.arg(root().join("tests/export").join(script));
    command.arg(modules).args(arguments);
    Some(said(command))
}

/// Google's pprof.
pub fn pprof() -> Option<Command> {
    fetched("pprof").map(Command::new)
}

/// inferno's `flamegraph`.
pub fn inferno() -> Option<Command> {
    fetched("bin/inferno-flamegraph").map(Command::new)
}

fn said(mut command: Command) -> serde_json::Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
