//! `ngmi order`: writes the functions of a file in execution order for a linker, and predicts the
//! savings.

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use symbols::elf::ElfFile;

use super::args::Order;
use super::output::{file_of, must_differ, print_json, to_file_or_stdout};
use super::source;
use crate::event::EXACT_TOUCH;
use crate::fact::{MappedFileId, ModuleId, Recording, Tables};
use crate::plural::counted;
use crate::record::cache::evict::open_regular;
use crate::report::order::touch::{Chosen, ambiguous};
use crate::report::order::{Format, Layout, Touches, format, text};
use crate::report::select::glob;
use crate::report::text::{fit_end, percent};
use crate::terminal::{print_note, say};

pub fn run(args: &Order) -> Result<ExitCode> {
    let output = file_of(args.output.as_deref());
    if args.json && output.is_none() {
        bail!("--json prints to standard output, as does the order; name a file for the order with -o");
    }
    output.map_or(Ok(()), |output| must_differ(output, &args.input))?;
    let mut seen = Touches::default();
    let (tables, _) = source::read_any(&args.input, &mut seen)?;
    source::note_damage(&args.input, &tables.recording);
    let (elf, chosen) = find(&tables, &args.file)?;
    let shown = fit_end(&args.file.to_string_lossy(), 40);
    let functions = elf.functions();
    if functions.is_empty() {
        bail!("{shown} has no function symbols: it is stripped; name an unstripped copy of the same build");
    }
    let touched = seen.functions(&tables, &chosen, &functions, elf.segments());
    if touched.is_empty() {
        bail!(
            "no sample, wait or page fault is in a function of {shown}: if it is stripped, name an unstripped copy; otherwise record \
             with `--cold --exact-touch`"
        );
    }
    let layout = Layout {
        functions: &functions,
        segments: elf.segments(),
        page: tables.recording.page(),
    };
    let faulted = seen.pages(&chosen, layout.bytes(), layout.page);
    let prediction = layout.predict(&touched, faulted);
    let linker = Format::from(args.format);
    let code = to_file_or_stdout(output, |mut out| format::write(&mut out, linker, &functions, &touched))?;
    if args.json {
        return print_json(&prediction);
    }
    for line in text::lines(&prediction, &shown) {
        say(line);
    }
    warn_of_names(&layout, &shown);
    warn(&tables.recording, &seen, ambiguous(&functions, &touched));
    print_note(linker.usage());
    Ok(code)
}

/// Finds the file, and its identity in the recording: by build id, or else by name.
fn find(tables: &Tables, wanted: &Path) -> Result<(ElfFile, Chosen)> {
    let pattern = wanted.to_string_lossy();
    let base = wanted
        .file_name()
        .map_or(pattern.clone(), |name| name.to_string_lossy());
    let opened = if wanted.exists() { Some(open(wanted)?) } else { None };
    let own_id = opened.as_ref().map_or(&[][..], ElfFile::build_id);
    let whole = fs::canonicalize(wanted).unwrap_or_else(|_| wanted.to_owned());
    let agree = |build_id: &[u8]| build_id.is_empty() || own_id.is_empty() || build_id == own_id;
    let is_it = |path: &str, build_id: &[u8]| Path::new(path) == whole && agree(build_id);
    let all_files = || tables.files.iter().map(|file| (&*file.path, &*file.build_id));
    let all_modules = || tables.modules.iter().map(|module| (&*module.path, &*module.build_id));
    // Any file can claim its build id.
    let is_there = all_files()
        .chain(all_modules())
        .any(|(path, build_id)| is_it(path, build_id));
    let fits = |path: &str, build_id: &[u8]| {
        if is_there {
            return is_it(path, build_id);
        }
        if !own_id.is_empty() && !build_id.is_empty() {
            return own_id == build_id;
        }
        let own = path.rsplit('/').next().unwrap_or(path);
        glob(&pattern, path) || (opened.is_some() && own == base) || (!pattern.contains('/') && glob(&pattern, own))
    };
    let files = (0u32..)
        .zip(&tables.files)
        .filter(|(_, file)| fits(&file.path, &file.build_id));
    let modules = (0u32..)
        .zip(&tables.modules)
        .filter(|(_, module)| fits(&module.path, &module.build_id));
    let chosen = Chosen {
        files: files.clone().map(|(id, _)| MappedFileId(id)).collect(),
        modules: modules.clone().map(|(id, _)| ModuleId(id)).collect(),
    };
    let mut known: Vec<(&str, &[u8])> = modules
        .map(|(_, module)| (&*module.path, &*module.build_id))
        .chain(files.map(|(_, file)| (&*file.path, &*file.build_id)))
        .collect();
    known.sort_unstable();
    known.dedup();
    // Either of the tables may lack the build id.
    let Some(&(path, build_id)) = known.iter().find(|file| !file.1.is_empty()).or(known.first()) else {
        return Err(unknown(tables, &pattern, &base, opened.is_some()));
    };
    if known
        .iter()
        .any(|other| other.0 != path && !other.1.is_empty() && other.1 != build_id)
    {
        bail!("`{pattern}` matches several files of the recording, such as {path}; give the full path");
    }
    let elf = match opened {
        Some(elf) => elf,
        None => open(Path::new(path))?,
    };
    if elf.build_id() != build_id {
        bail!(
            "{path} has changed since the recording: its build id differs; record again, or name a copy of the recorded build"
        );
    }
    if build_id.is_empty() {
        print_note(
            "the file has no build id (`-Wl,--build-id`): it is assumed to be the recorded one because of its name",
        );
    }
    Ok((elf, chosen))
}

fn unknown(tables: &Tables, pattern: &str, base: &str, exists: bool) -> anyhow::Error {
    let same_name = |path: &str| path.rsplit('/').next() == Some(base);
    let other = tables.modules.iter().find(|module| same_name(&module.path));
    match other {
        Some(module) if exists => anyhow!(
            "{pattern} is not the build of {} that was recorded; record again, or name a copy of that build",
            module.path
        ),
        _ => anyhow!("no file of the recording is called `{pattern}`; `ngmi faults FILE` lists the files"),
    }
}

fn open(path: &Path) -> Result<ElfFile> {
    let shown = path.display();
    let file: File = open_regular(path)
        .with_context(|| format!("cannot read {shown}; name the program or library, or a copy of it"))?;
    ElfFile::open(file).with_context(|| format!("cannot use {shown}"))
}

/// Warns about a stripped file, in which only exported functions have a name.
fn warn_of_names(layout: &Layout<'_>, shown: &str) {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let named = sum(&mut layout.functions.iter().map(|function| function.size));
    let code = layout.segments.iter().filter(|segment| segment.executable);
    let code = sum(&mut code.map(|segment| segment.file_size));
    if named < code / 2 {
        print_note(format_args!(
            "only {} of the code of {shown} is in functions with a name; if it is stripped, name an unstripped copy of the same build (--file)",
            percent(named, code)
        ));
    }
}

/// Warnings before relinking.
fn warn(recording: &Recording, touches: &Touches, ambiguous: usize) {
    let is_exact = recording
        .hooks
        .iter()
        .any(|hook| hook.hook == EXACT_TOUCH && hook.refused.is_none());
    if touches.faults() == 0 {
        print_note(
            "the recording contains no page faults: only functions on stacks are known; record with `--cold --exact-touch`",
        );
    } else if !is_exact {
        print_note(
            "recorded without --exact-touch: on pages that were mapped around a fault, only functions on stacks are known",
        );
    }
    if !recording.folded_faults.is_empty() {
        print_note("the profile does not contain all faults: use the event log instead (`ngmi record --keep-events`)");
    }
    if ambiguous > 0 {
        print_note(format_args!(
            "{} shared by several functions: the linker moves all functions with the same name together",
            counted(ambiguous as u64, "function name")
        ));
    }
}
