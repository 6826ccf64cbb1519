//! Programs with debug info, compiled for the test, as libraries of a profile.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // Not every test file uses every helper.
#![allow(clippy::format_collect, clippy::format_push_string)] // Short code matters more than speed here.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use symbols::server::{Library, Named};

/// A program with many inlined functions.
const CPP: &str = r#"
#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <vector>
namespace shapes {
template <typename T> static inline T leaf(T x) { return x * 3 + 1; }
struct Box { int w, h; inline int area() const { return leaf(w) * leaf(h); } };
__attribute__((noinline)) int outer(const Box &box, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += box.area() ^ i;
    return sum;
}
}
__attribute__((noinline)) static int words(const std::string &text) {
    std::map<std::string, int> counts;
    std::regex word("[a-z]+");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), word); it != std::sregex_iterator(); ++it) counts[it->str()]++;
    std::vector<int> sorted;
    for (auto &pair : counts) sorted.push_back(pair.second);
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted.back();
}
int main(int argc, char **argv) {
    shapes::Box box{argc, argc + 1};
    std::printf("%d %d\n", shapes::outer(box, 1000), words(argc > 1 ? argv[1] : "a b a"));
}
"#;

const RUST: &str = r#"
use std::collections::BTreeMap;
#[inline(always)]
fn leaf(x: u64) -> u64 { x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7) }
#[inline(never)]
fn outer(n: u64) -> u64 { (0..n).map(leaf).fold(0, |a, b| a ^ b) }
fn main() {
    let mut counts = BTreeMap::new();
    for word in std::env::args().flat_map(|a| a.split(' ').map(str::to_owned).collect::<Vec<_>>()) { *counts.entry(word).or_insert(0u64) += outer(1000); }
    println!("{counts:?}");
}
"#;

/// A compiled program.
pub struct Program {
    pub path: PathBuf,
    pub library: Library,
}

/// Compiles the example program; `None` if the compiler is not installed.
pub fn compile(folder: &Path, name: &str, compiler: &str, arguments: &[&str]) -> Option<Program> {
    let (source, text) = if compiler == "rustc" {
        ("program.rs", RUST)
    } else {
        ("program.cpp", CPP)
    };
    compile_text(folder, (name, source, text), compiler, arguments)
}

pub fn compile_text(
    folder: &Path,
    (name, source, text): (&str, &str, &str),
    compiler: &str,
    arguments: &[&str],
) -> Option<Program> {
    fs::write(folder.join(source), text).unwrap();
    let build_id = if compiler == "rustc" {
        "-Clink-arg=-Wl,--build-id"
    } else {
        "-Wl,--build-id"
    };
    let mut command = Command::new(compiler);
    command
        .current_dir(folder)
        .args(arguments)
        .args([build_id, "-o", name, source]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join(name).canonicalize().unwrap();
    let library = library(&path);
    Some(Program { path, library })
}

/// Library entry of a profile for this file.
pub fn library(path: &Path) -> Library {
    let elf = symbols::elf::ElfFile::open(fs::File::open(path).unwrap()).unwrap();
    let id = elf.build_id();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let upper = |bytes: &mut dyn Iterator<Item = &u8>| bytes.map(|byte| format!("{byte:02X}")).collect::<String>();
    // A GUID: three little-endian numbers, then bytes; followed by the age, 0.
    let parts = [&id[..4], &id[4..6], &id[6..8]].map(|part| upper(&mut part.iter().rev()));
    let breakpad_id = format!("{}{}0", parts.concat(), upper(&mut id[8..16].iter()));
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let path = path.to_str().unwrap().to_owned();
    Library {
        debug_name: name.clone(),
        debug_path: path.clone(),
        name,
        path,
        breakpad_id,
        code_id: Some(hex(id)),
        arch: Some("x86_64".into()),
    }
}

impl Program {
    /// The names of a profile with this program and these sources.
    pub fn named(&self, sources: &[&str]) -> Named {
        Named {
            libraries: vec![self.library.clone()],
            sources: sources.iter().map(|&source| source.to_owned()).collect::<HashSet<_>>(),
        }
    }

    /// Relative addresses, sizes and names of functions, from `nm`.
    pub fn functions(&self) -> Vec<(u32, u32, String)> {
        let output = Command::new("nm")
            .args(["-S", "--defined-only"])
            .arg(&self.path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let function = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_code = matches!(*words.get(2)?, "t" | "T" | "w" | "W");
            let start = u32::from_str_radix(words[0], 16).ok()?;
            let size = u32::from_str_radix(words[1], 16).ok()?;
            (is_code && size > 0).then(|| (start, size, words[3].to_owned()))
        };
        text.lines().filter_map(function).collect()
    }

    /// Pseudorandom addresses within functions, the same in every run.
    pub fn addresses(&self, count: usize) -> Vec<u32> {
        let functions = self.functions();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 11).unwrap() % below
        };
        let mut one = || {
            let (start, size, _) = &functions[next(functions.len())];
            start + u32::try_from(next(*size as usize)).unwrap()
        };
        let mut addresses: Vec<u32> = (0..count).map(|_| one()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}
