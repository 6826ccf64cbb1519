//! Names the frames of a recording, the file offsets that faults touched, and the futexes: each module's addresses are
//! looked up in one batch, and modules in parallel.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use symbols::kallsyms::KernelSymbols;
use symbols::{AddressName, BinaryRequest, Config, Symbolicator};

use super::binaries::OpenBinaries;
use super::places::{self, Places};
use crate::capture::proc::machine;
use crate::event::FileId;
use crate::fact::replay::files::FileIndex;
use crate::fact::{
    FrameId, FrameName, Location, ModuleId, ModuleKind, SourceFrame, Tables, nameless, place_of_nameless, short_path,
};

/// The addresses of one module that need a name, relative to its base.
struct Wanted {
    /// `None`: no frame is in it.
    module: Option<ModuleId>,
    request: BinaryRequest,
    /// Those of the frames, then those of the file offsets and futexes.
    addresses: Vec<u32>,
    frames: Vec<FrameId>,
    places: Option<Places>,
}

/// Names every frame that has no name yet, and every offset and futex in `files`, also with symbols from `servers`. What has no
/// symbols stays unnamed, and the module gives the reason.
pub fn resolve(
    tables: &mut Tables,
    (files, binaries): (Option<&FileIndex>, &OpenBinaries),
    servers: Config,
    progress: &(dyn Fn(usize, usize) + Sync),
) {
    note_cut_files(tables, binaries);
    let places = files.map_or_else(Vec::new, |files| places::sections(tables, files, binaries));
    let wanted = with_places(tables, wanted(tables, binaries), places);
    binaries.unmap();
    let symbolicator = match Symbolicator::new(servers) {
        Ok(symbolicator) => symbolicator,
        Err(error) => {
            tables
                .recording
                .notes
                .push(format!("functions have no names: no thread could be started ({error})"));
            return;
        }
    };
    let requests: Vec<_> = wanted
        .iter()
        .map(|one| (one.request.clone(), one.addresses.clone()))
        .collect();
    let answers = symbolicator.resolve_many(&requests, |done| progress(done, requests.len()));
    tables.recording.notes.extend(symbolicator.notes());
    let mut texts = Texts::default();
    for (one, answer) in wanted.into_iter().zip(answers) {
        match answer {
            Ok(mut names) => {
                let file = short_path(&one.request.path.to_string_lossy()).to_owned();
                names.iter_mut().flatten().for_each(|name| spell(name, &file));
                let mut of_places = names.split_off(one.frames.len().min(names.len()));
                let base = one
                    .module
                    .map_or(0, |module| tables.modules[module.index()].base_svma.0);
                for (frame, name) in one.frames.iter().zip(names) {
                    if let Some(name) = name {
                        tables.names.insert(*frame, in_svma(name, base, &mut texts));
                    }
                }
                if let Some(places) = one.places {
                    let of_futexes = of_places.split_off(places.bytes.len().min(of_places.len()));
                    let file = &mut tables.files[places.file.index()];
                    places::note_variables(file, &places.futexes, of_futexes);
                    places::note(file, &places.bytes, of_places);
                }
            }
            Err(error) => {
                if let Some(module) = one.module {
                    let problem = &mut tables.modules[module.index()].problem;
                    problem.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }
}

/// Notes in modules that their stacks may be wrong.
fn note_cut_files(tables: &mut Tables, binaries: &OpenBinaries) {
    for module in &mut tables.modules {
        if module.kind == ModuleKind::File && binaries.was_cut(module.file, &module.path) {
            let why = "the file was truncated while it was read: stacks through it may end early";
            module.problem.get_or_insert_with(|| why.to_owned());
        }
    }
}

fn wanted(tables: &Tables, binaries: &OpenBinaries) -> Vec<Wanted> {
    let mut by_module: FxHashMap<ModuleId, Wanted> = FxHashMap::default();
    // Another kernel's vdso has its functions elsewhere.
    let is_same_kernel = tables.recording.kernel == machine::kernel().0;
    for (index, frame) in (0u32..).zip(&tables.frames) {
        let id = FrameId(index);
        let Location::Module { module, svma } = frame.location else {
            continue;
        };
        let known = &tables.modules[module.index()];
        let is_here = match known.kind {
            ModuleKind::File => true,
            ModuleKind::Vdso => is_same_kernel,
            _ => false,
        };
        let is_named = |name: &FrameName| place_of_nameless(&name.symbol).is_none();
        if !is_here || tables.names.get(&id).is_some_and(is_named) {
            continue;
        }
        let lookup = svma.0.saturating_sub(u64::from(frame.is_return_address));
        let Some(address) = lookup
            .checked_sub(known.base_svma.0)
            .and_then(|a| u32::try_from(a).ok())
        else {
            continue;
        };
        let one = by_module.entry(module).or_insert_with(|| Wanted {
            module: Some(module),
            places: None,
            request: BinaryRequest {
                open_path: binaries.open_path(known.file, &known.path, &known.build_id),
                path: PathBuf::from(&known.path),
                build_id: known.build_id.clone(),
            },
            addresses: Vec::new(),
            frames: Vec::new(),
        });
        one.addresses.push(address);
        one.frames.push(id);
    }
    let mut wanted: Vec<Wanted> = by_module.into_values().collect();
    wanted.sort_by_key(|one| one.module);
    wanted
}

/// Each file is read once: its offsets are looked up together with its frames.
fn with_places(tables: &Tables, mut wanted: Vec<Wanted>, places: Vec<Places>) -> Vec<Wanted> {
    let mut by_file: FxHashMap<(FileId, PathBuf), usize> = FxHashMap::default();
    for (index, one) in wanted.iter().enumerate() {
        if let Some(module) = one.module.map(|module| &tables.modules[module.index()]) {
            by_file.insert((module.file, PathBuf::from(&module.path)), index);
        }
    }
    for places in places {
        let addresses: Vec<u32> = places.addresses().collect();
        if addresses.is_empty() {
            continue;
        }
        let known = by_file.remove(&(places.mapped_as, places.request.path.clone()));
        if let Some(one) = known.and_then(|index| wanted.get_mut(index)) {
            one.addresses.extend(addresses);
            one.places = Some(places);
        } else {
            wanted.push(Wanted {
                module: None,
                request: places.request.clone(),
                addresses,
                frames: Vec::new(),
                places: Some(places),
            });
        }
    }
    wanted
}

/// Functions without a name have the same label everywhere, and not that of samply-symbols.
fn spell(name: &mut AddressName, file: &str) {
    if name.is_nameless {
        let placeholder = std::mem::replace(&mut name.symbol, nameless(file, name.symbol_start.into()));
        for frame in name
            .inline_chain
            .iter_mut()
            .filter(|frame| frame.function == placeholder)
        {
            frame.function.clone_from(&name.symbol);
        }
    }
}

fn in_svma(name: AddressName, base: u64, texts: &mut Texts) -> FrameName {
    FrameName {
        symbol: texts.one(name.symbol),
        symbol_start: base + u64::from(name.symbol_start),
        symbol_size: name.symbol_size.map(u64::from),
        inline_chain: name
            .inline_chain
            .into_iter()
            .map(|frame| SourceFrame {
                function: texts.one(frame.function),
                file: frame.file.map(|file| texts.one(file)),
                line: frame.line,
            })
            .collect(),
    }
}

/// Texts that are stored once each: a function's name occurs at each of its addresses, and a source's in each of its
/// functions.
#[derive(Default)]
struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    fn one(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.0.get(text.as_str()) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

/// Names kernel frames from this machine's own symbol table: for the log of a killed recorder, in the same boot.
pub fn resolve_kernel(tables: &mut Tables) {
    let unnamed: Vec<(FrameId, u64, bool)> = (0u32..)
        .zip(&tables.frames)
        .filter_map(|(index, frame)| match frame.location {
            Location::Kernel { offset, .. } => Some((FrameId(index), offset.0, frame.is_return_address)),
            _ => None,
        })
        .filter(|(id, ..)| !tables.names.contains_key(id))
        .collect();
    if unnamed.is_empty() {
        return;
    }
    let symbols = File::open("/proc/kallsyms")
        .ok()
        .and_then(|file| KernelSymbols::parse(BufReader::new(file)).ok());
    let Some((symbols, text)) = symbols.and_then(|symbols| symbols.text_base().map(|text| (symbols, text))) else {
        tables.recording.notes.push(
            "kernel functions have no names: /proc/kallsyms hides them; convert the log as root in the same boot"
                .to_owned(),
        );
        return;
    };
    for (id, offset, is_return) in unnamed {
        let address = text.wrapping_add(offset).wrapping_sub(u64::from(is_return));
        if let Some(found) = symbols.lookup(address).filter(|found| stays(found.module)) {
            let name: Arc<str> = match found.module {
                Some(module) => format!("{} [{module}]", found.name).into(),
                None => found.name.into(),
            };
            let frame = SourceFrame {
                function: Arc::clone(&name),
                file: None,
                line: None,
            };
            let start = found.start.wrapping_sub(text);
            tables.names.insert(
                id,
                FrameName {
                    symbol: name,
                    symbol_start: start,
                    symbol_size: None,
                    inline_chain: vec![frame],
                },
            );
        }
    }
}

/// Whether code of this module stays in place while the system runs. BPF programs and trampolines are added and
/// removed (`bpf_get_kallsym`, `ftrace_mod_get_kallsym` in kernel/kallsyms.c), and their addresses may be reused.
fn stays(module: Option<&str>) -> bool {
    !module.is_some_and(|module| module == "bpf" || module.starts_with("__builtin__"))
}

#[cfg(test)]
mod tests {
    use super::stays;

    #[test]
    fn transient_kernel_code_has_no_name() {
        assert!(stays(None) && stays(Some("ext4")));
        assert!(!stays(Some("bpf")) && !stays(Some("__builtin__ftrace")) && !stays(Some("__builtin__kprobes")));
    }
}
