//! `ngmi __tables`: measures the unwind tables of files.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use profiler_common::unwind::{Cfa, Row, TABLE_PAGE};
use symbols::elf::ElfFile;

use super::args::Tables as Args;
use crate::record::stamp::Stamp;
use crate::record::tables::TableCache;
use crate::terminal::out;
use crate::unwind::table::{Table, compile};

/// Prints one line per file; with `--closure`, also for the files that the command maps when it
/// starts.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut files = args.files.clone();
    if args.closure {
        let environment = std::env::vars_os().collect();
        let closure = |path| crate::record::needed::closure(path, &environment);
        files = args.files.iter().flat_map(|path| closure(path)).collect();
    }
    let tables = TableCache::new(args.cache.clone());
    out(format_args!(
        "{:>9} {:>9} {:>10} {:>9} {:>11} {:>7} {:>8} {:>9} {:>10}  file",
        "functions", "rows", "bytes", "code", "unsupported", "damaged", "ms", "ms cached", "ms stamped"
    ))?;
    for path in &files {
        line(path, &tables)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(path: &Path, tables: &TableCache) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let stamp = Stamp::of(&file);
    let elf = ElfFile::open(file).with_context(|| format!("cannot read {}", path.display()))?;
    let start = Instant::now();
    let table = match compile(&elf) {
        Ok(table) => table,
        Err(error) => {
            return out(format_args!("{}: {error}", path.display()));
        }
    };
    let cold = start.elapsed().as_secs_f64() * 1e3;
    // The first load may fill the cache.
    tables.of(&elf, None)?;
    let start = Instant::now();
    let again = tables.of(&elf, None)?;
    let cached = start.elapsed().as_secs_f64() * 1e3;
    tables.of(&elf, stamp.as_ref())?;
    let start = Instant::now();
    tables.of(&elf, stamp.as_ref())?;
    let stamped = start.elapsed().as_secs_f64() * 1e3;
    let (code, unsupported) = bytes(&table);
    out(format_args!(
        "{:>9} {:>9} {:>10} {:>9} {:>11} {:>7} {cold:>8.1} {:>9} {stamped:>10.1}  {}",
        table.stats.functions,
        table.rows.len(),
        table.size(),
        code,
        unsupported,
        table.stats.damaged,
        if again.is_cached {
            format!("{cached:.1}")
        } else {
            "-".to_owned()
        },
        path.display()
    ))
}

/// Bytes of code with rules, and bytes with rules that no row can represent.
fn bytes(table: &Table) -> (u64, u64) {
    let (mut code, mut unsupported) = (0, 0);
    let end = (table.first_page + table.pages.len() as u64 - 1) * TABLE_PAGE;
    let ends = table.rows_by_address().skip(1).map(|(svma, _)| svma).chain([end]);
    for ((svma, row), end) in table.rows_by_address().zip(ends) {
        let is = |cfa| row.rules == Row::plain(0, cfa).rules;
        code += if is(Cfa::None) { 0 } else { end - svma };
        unsupported += if is(Cfa::Unsupported) { end - svma } else { 0 };
    }
    (code, unsupported)
}
