//! Assembles functions with known rules and looks up their rows.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use profiler::unwind::table::{Table, compile};
use profiler_common::unwind::Row;
use symbols::elf::ElfFile;

/// Functions in the assembler files start at multiples of this.
pub const FUNCTION: u64 = 0x100;

/// A library built from an assembler file or from C.
pub struct Library {
    pub elf: ElfFile,
    pub table: Table,
}

/// The bytes of a library; `None`, with a note on standard error, if the compiler is not installed.
pub fn bytes(compiler: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("library.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(source);
    let status = Command::new(compiler)
        .args(["-shared", "-nostdlib", "-o"])
        .arg(&library)
        .args(flags)
        .arg(&source)
        .status();
    let Ok(status) = status else {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    };
    assert!(status.success(), "{compiler} {}: {status}", source.display());
    Some(std::fs::read(library).unwrap())
}

/// A library and its table.
pub fn library(compiler: &str, source: &str, flags: &[&str]) -> Option<Library> {
    let elf = ElfFile::from_bytes(bytes(compiler, source, flags)?.into()).unwrap();
    let table = compile(&elf).unwrap();
    Some(Library { elf, table })
}

/// Whether gcc can link with lld.
pub fn has_lld() -> bool {
    Command::new("ld.lld").arg("--version").output().is_ok()
}

/// An ELF file, if it exists.
pub fn open(path: &Path) -> Option<ElfFile> {
    ElfFile::open(File::open(path).ok()?).ok()
}

impl Library {
    /// The row for a byte of the function with this number, without its address.
    pub fn row(&self, function: u64, byte: u64) -> Row {
        let text = self.elf.section(".text").unwrap().svma.start;
        Row {
            pc: 0,
            ..self.table.lookup(text + function * FUNCTION + byte)
        }
    }
}
