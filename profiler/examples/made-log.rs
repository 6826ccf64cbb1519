//! `made-log FILE SIZE [STACKS]`: writes a synthetic event log of SIZE events, or of SIZE bytes if
//! it ends with G (GiB) or M (MiB).

use std::fs::File;
use std::process::ExitCode;

use fixtures::synthetic_log::{self, Size};

fn main() -> std::io::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let size = words.get(1).and_then(|word| size(word));
    let (Some(path), Some(size)) = (words.first(), size) else {
        eprintln!("made-log FILE SIZE [STACKS]: SIZE is a number of events, or of bytes with the suffix G or M");
        return Ok(ExitCode::from(2));
    };
    let stacks = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(400_000);
    let events = synthetic_log::write(File::create(path)?, size, stacks)?;
    println!("{events} events");
    Ok(ExitCode::SUCCESS)
}

fn size(word: &str) -> Option<Size> {
    let shifted = |number: &str, shift: u32| number.parse::<u64>().ok()?.checked_mul(1 << shift).map(Size::Bytes);
    if let Some(number) = word.strip_suffix('G') {
        return shifted(number, 30);
    }
    if let Some(number) = word.strip_suffix('M') {
        return shifted(number, 20);
    }
    word.parse().ok().map(Size::Events)
}
