//! `ngmi __tables`: what the unwind tables of files come to, for measuring.

use std::fs::File;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use symbols::elf::ElfFile;

use super::args::Tables as Args;
use super::terminal::out;
use crate::unwind::table::compile;

/// One line a file.
pub fn run(args: &Args) -> Result<ExitCode> {
    out(format_args!(
        "{:>9} {:>9} {:>10} {:>11} {:>7} {:>9}  file",
        "functions", "rows", "bytes", "unsupported", "damaged", "ms"
    ));
    for path in &args.files {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let elf = ElfFile::open(file).with_context(|| format!("cannot read {}", path.display()))?;
        let start = Instant::now();
        match compile(&elf) {
            Ok(table) => out(format_args!(
                "{:>9} {:>9} {:>10} {:>11} {:>7} {:>9.1}  {}",
                table.stats.functions,
                table.rows.len(),
                table.size(),
                table.stats.unsupported_rows,
                table.stats.damaged,
                start.elapsed().as_secs_f64() * 1e3,
                path.display()
            )),
            Err(error) => out(format_args!("{}: {error}", path.display())),
        }
    }
    Ok(ExitCode::SUCCESS)
}
