//! Requests of the front end, and the programs that they are about.
#![allow(dead_code, clippy::unwrap_used)] // Not every test file uses every helper.

use std::path::Path;

use serde_json::{Value, json};
use symbols::server::{Named, SourceRoots};

use super::programs::{Program, compile};
use super::{Running, serve};

/// Programs with DWARF 5, split DWARF 4 (samply-symbols 0.24 does not read split DWARF 5) and Rust debug info, all with inlining.
pub fn programs(folder: &Path) -> Vec<Program> {
    let all = [
        ("whole", "g++", &["-O2", "-g", "-gdwarf-5"][..]),
        ("split", "g++", &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"]),
        ("rust", "rustc", &["-Copt-level=2", "-Cdebuginfo=2"]),
    ];
    let compiled = all.map(|(name, compiler, arguments)| {
        let program = compile(folder, name, compiler, arguments);
        if program.is_none() {
            println!("skipped: {name}: {compiler} is not installed");
        }
        program
    });
    compiled.into_iter().flatten().collect()
}

pub fn server_of(folder: &Path, named: Named, roots: SourceRoots) -> Running {
    let profile = folder.join("p.json");
    std::fs::write(&profile, "{}").unwrap();
    serve(&profile, named, roots)
}

pub fn symbolicate(program: &Program, addresses: &[u32]) -> String {
    let stack: Vec<Value> = addresses.iter().map(|address| json!([0, address])).collect();
    let library = [&program.library.debug_name, &program.library.breakpad_id];
    json!({"jobs": [{"memoryMap": [library], "stacks": [stack]}]}).to_string()
}

pub fn asm(program: &Program, start: u32, size: u32, to_the_end: bool) -> String {
    let library = &program.library;
    let hex = |number: u32| format!("0x{number:x}");
    json!({
        "name": library.name, "codeId": library.code_id, "debugName": library.debug_name, "debugId": library.breakpad_id,
        "startAddress": hex(start), "size": hex(size), "continueUntilFunctionEnd": to_the_end,
    })
    .to_string()
}

pub fn source(program: &Program, offset: u32, file: &str) -> String {
    let library = &program.library;
    json!({
        "debugName": library.debug_name, "debugId": library.breakpad_id, "moduleOffset": format!("0x{offset:x}"), "file": file,
    })
    .to_string()
}
