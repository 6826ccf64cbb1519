//! Compiles small programs, and gets the addresses of their functions from `nm`.
#![allow(dead_code)] // Not every test file uses every helper.

pub mod served;
pub mod sym;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use symbols::{AddressNames, BinaryRequest, Config, SymbolError, Symbolicator};

/// A compiled program in a separate directory.
pub struct Build {
    pub directory: tempfile::TempDir,
    pub binary: PathBuf,
    /// The output of `nm` before stripping.
    symbols: Vec<Symbol>,
    base: u64,
}

/// A function in the output of `nm`; relative addresses.
#[derive(Debug, Clone)]
pub struct Symbol {
    pub name: String,
    pub start: u32,
    pub size: u32,
}

impl Symbol {
    pub fn end(&self) -> u32 {
        self.start + self.size
    }

    /// Some addresses inside it: first, middle, last.
    pub fn probes(&self) -> [u32; 3] {
        [self.start, self.start + self.size / 2, self.end() - 1]
    }
}

impl Build {
    /// Compiles `source` in `language` (`c`, `cpp`, `rs`).
    pub fn new(name: &str, language: &str, source: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("symbols-test-").tempdir().unwrap();
        Self::in_directory(directory, name, language, source, arguments)
    }

    pub fn in_directory(
        directory: tempfile::TempDir,
        name: &str,
        language: &str,
        source: &str,
        arguments: &[&str],
    ) -> Self {
        let binary = directory.path().join(name);
        let source_path = directory.path().join(format!("{name}.{language}"));
        fs::write(&source_path, source).unwrap();
        let compiler = match language {
            "c" => "gcc",
            "cpp" => "g++",
            "rs" => "rustc",
            other => panic!("no compiler for {other}"),
        };
        let mut command = Command::new(compiler);
        if compiler == "rustc" {
            command.arg("-Clink-arg=-Wl,--build-id=sha1");
        } else {
            command.arg("-Wl,--build-id=sha1");
        }
        run(command
            .current_dir(&directory)
            .args(arguments)
            .arg("-o")
            .arg(&binary)
            .arg(&source_path));
        let base = symbols::elf::ElfFile::open(fs::File::open(&binary).unwrap())
            .unwrap()
            .base_svma();
        Self {
            symbols: nm(&binary, base),
            directory,
            binary,
            base,
        }
    }

    /// The function `name` (as mangled).
    pub fn symbol(&self, name: &str) -> Symbol {
        let found = self.symbols.iter().find(|symbol| symbol.name == name);
        found.unwrap_or_else(|| panic!("nm lists no {name}")).clone()
    }

    /// The function with `part` in its mangled name.
    pub fn symbol_with(&self, part: &str) -> Symbol {
        let found = self.symbols.iter().find(|symbol| symbol.name.contains(part));
        found.unwrap_or_else(|| panic!("nm lists nothing with {part}")).clone()
    }

    /// All functions that `nm` listed with a size.
    pub fn functions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.size > 0)
    }

    /// The same directory, with the program `name` in it.
    pub fn reread(self, name: &str) -> Self {
        let binary = self.directory.path().join(name);
        let base = symbols::elf::ElfFile::open(fs::File::open(&binary).unwrap())
            .unwrap()
            .base_svma();
        Self {
            symbols: nm(&binary, base),
            binary,
            base,
            ..self
        }
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    /// Runs a binutils-like tool in the directory of the program.
    pub fn tool(&self, program: &str, arguments: &[&str]) {
        run(Command::new(program).current_dir(&self.directory).args(arguments));
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The build id, in hexadecimal.
    pub fn build_id(&self) -> String {
        self.request()
            .build_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat()
    }

    pub fn request(&self) -> BinaryRequest {
        request(&self.binary)
    }

    pub fn resolve(&self, addresses: &[u32]) -> Result<AddressNames, SymbolError> {
        symbolicator().resolve(&self.request(), addresses)
    }
}

pub fn request(binary: &Path) -> BinaryRequest {
    let elf = symbols::elf::ElfFile::open(fs::File::open(binary).unwrap()).unwrap();
    let build_id = elf.build_id().to_vec();
    BinaryRequest {
        open_path: binary.to_path_buf(),
        path: binary.to_path_buf(),
        build_id,
    }
}

/// A symbolicator that searches only the default locations.
pub fn symbolicator() -> Symbolicator {
    Symbolicator::new(Config::default()).unwrap()
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The functions of `binary` that `nm` lists.
pub fn functions_of(binary: &Path) -> Vec<Symbol> {
    let elf = symbols::elf::ElfFile::open(fs::File::open(binary).unwrap()).unwrap();
    nm(binary, elf.base_svma())
}

fn nm(binary: &Path, base: u64) -> Vec<Symbol> {
    let output = Command::new("nm")
        .arg("-S")
        .arg("--defined-only")
        .arg(binary)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = u32::from_str_radix(words.next()?, 16).ok()?;
        matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
        Some(Symbol {
            name: words.next()?.to_owned(),
            start: u32::try_from(start - base).ok()?,
            size,
        })
    };
    text.lines().filter_map(symbol).collect()
}
