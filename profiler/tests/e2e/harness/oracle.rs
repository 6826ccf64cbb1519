//! Builds the programs of `tests/oracles`, once per content.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::page::page_flag;

/// A built program or library.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Path of the file.
    pub path: PathBuf,
}

/// A function of a built program.
#[derive(Debug, Clone)]
pub struct Symbol {
    /// Address as stated in the file.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Demangled name.
    pub name: String,
}

/// Usual flags of C programs: optimised, without frame pointers, as distributions ship them.
const C: &[&str] = &["-O2", "-g", "-fomit-frame-pointer", "-pthread"];

impl Oracle {
    /// A C program with this name; `folder/name` is in a subfolder.
    pub fn c(name: &str) -> Self {
        let output = name.rsplit('/').next().unwrap_or(name);
        build("gcc", C, &format!("{name}.c"), output)
    }

    /// A C program or library from `source`, named `output`, with these flags after the usual ones.
    pub fn c_with(source: &str, output: &str, flags: &[&str]) -> Self {
        build("gcc", &[C, flags].concat(), source, output)
    }

    /// A C program with this name and the C library musl; `None` if musl is not installed.
    pub fn musl(name: &str, flags: &[&str]) -> Option<Self> {
        Command::new("musl-gcc").arg("--version").output().ok()?;
        Some(build("musl-gcc", &[C, flags].concat(), &format!("{name}.c"), name))
    }

    /// A 32-bit C program with this name; `None` if the compiler can't build it.
    pub fn c_32_bit(name: &str) -> Option<Self> {
        let mut libraries = Command::new("gcc");
        let found = libraries
            .args(["-m32", "-print-file-name=libc.so"])
            .output()
            .ok()?
            .stdout;
        // gcc prints the bare name if it does not have the library.
        found
            .starts_with(b"/")
            .then(|| build("gcc", &[C, &["-m32"]].concat(), &format!("{name}.c"), name))
    }

    /// A C library from `source`, with a busy function named `function`.
    pub fn library(source: &str, function: &str) -> Self {
        let spin = format!("-DSPIN={function}");
        Self::c_with(source, &format!("lib{function}.so"), &["-shared", "-fPIC", &spin])
    }

    /// A C++ program with this name, without frame pointers, with symbols.
    pub fn cpp(name: &str) -> Self {
        build("g++", C, &format!("{name}.cpp"), name)
    }

    /// A Rust program with this name, optimised, with debug information.
    pub fn rust(name: &str) -> Self {
        build(
            "rustc",
            &["--edition=2024", "-Copt-level=2", "-g"],
            &format!("{name}.rs"),
            name,
        )
    }

    /// A copy without symbols and debug information, with the same base name.
    pub fn stripped(&self) -> Self {
        let dir = self.path.with_extension("stripped.d");
        let path = dir.join(self.path.file_name().unwrap());
        if !path.exists() {
            std::fs::create_dir_all(&dir).unwrap();
            let scratch = scratch_name(&path);
            run(Command::new("strip").arg("-o").arg(&scratch).arg(&self.path));
            std::fs::rename(scratch, &path).unwrap();
        }
        Self { path }
    }

    /// A copy at `to`.
    pub fn copied(&self, to: &Path) -> Self {
        std::fs::copy(&self.path, to).unwrap();
        Self { path: to.to_owned() }
    }

    /// Address of a function from the symbol table, as `0x…`.
    pub fn address_of(&self, function: &str) -> String {
        let symbol = self.symbols().into_iter().find(|symbol| symbol.name == function);
        format!(
            "{:#x}",
            symbol
                .unwrap_or_else(|| panic!("no {function} in {}", self.path.display()))
                .start
        )
    }

    /// Functions from binutils, demangled, sorted by address; a table of stubs (`.plt`) is one function with the section's name.
    pub fn symbols(&self) -> Vec<Symbol> {
        let text = self.asked("nm", &["-nSC", "--defined-only"]);
        let symbol = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            // Functions of the C runtime have no size.
            let (size, rest) = match rest.split_once(' ') {
                Some((size, rest)) if size.len() == 16 => (u64::from_str_radix(size, 16).ok()?, rest),
                _ => (0, rest),
            };
            let (kind, name) = rest.split_once(' ')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let name = name.to_owned();
            "tTwW".contains(kind).then_some(Symbol { start, size, name })
        };
        let mut symbols: Vec<Symbol> = text.lines().filter_map(symbol).chain(self.stubs()).collect();
        symbols.sort_by_key(|symbol| symbol.start);
        let next: Vec<u64> = symbols.iter().skip(1).map(|symbol| symbol.start).collect();
        for (symbol, next) in symbols.iter_mut().zip(next).filter(|(symbol, _)| symbol.size == 0) {
            symbol.size = next - symbol.start;
        }
        symbols
    }

    /// Sections of stubs that the linker created for calls to other files, which have no symbols.
    fn stubs(&self) -> Vec<Symbol> {
        let text = self.asked("readelf", &["-SW"]);
        let stub = |line: &str| {
            let fields: Vec<&str> = line.split_once(']')?.1.split_whitespace().collect();
            let [name, "PROGBITS", start, _offset, size, ..] = fields[..] else {
                return None;
            };
            let number = |text| u64::from_str_radix(text, 16).ok();
            let (start, size, name) = (number(start)?, number(size)?, name.to_owned());
            name.starts_with(".plt").then_some(Symbol { start, size, name })
        };
        text.lines().filter_map(stub).collect()
    }

    fn asked(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).arg(&self.path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Base name of the file.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap().to_string_lossy().into_owned()
    }
}

impl AsRef<OsStr> for Oracle {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

/// The source text of an oracle program.
pub fn source(file: &str) -> String {
    std::fs::read_to_string(source_dir().join(file)).unwrap()
}

pub fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles")
}

/// The text of all headers next to the source, which it may include.
fn headers(source_file: &str) -> Vec<String> {
    let folder = source_dir().join(source_file).parent().unwrap().to_owned();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut headers: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|found| found == "h"))
        .collect();
    headers.sort();
    headers
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn build(compiler: &str, flags: &[&str], source_file: &str, output: &str) -> Oracle {
    let page = page_flag().filter(|_| Path::new(source_file).extension().is_some_and(|name| name == "c"));
    let flags: Vec<&str> = flags.iter().copied().chain(page.as_deref()).collect();
    let mut hasher = DefaultHasher::new();
    (compiler, &flags, source(source_file), headers(source_file)).hash(&mut hasher);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("oracle-{:016x}", hasher.finish()));
    let path = dir.join(output);
    if !path.exists() {
        std::fs::create_dir_all(&dir).unwrap();
        let scratch = scratch_name(&path);
        run(Command::new(compiler)
            .args(flags)
            .arg("-o")
            .arg(&scratch)
            .arg(source_dir().join(source_file)));
        // Tests build concurrently: the last one wins, with equal bytes.
        std::fs::rename(scratch, &path).unwrap();
    }
    Oracle { path }
}

fn scratch_name(path: &Path) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.tmp", std::process::id()))
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
