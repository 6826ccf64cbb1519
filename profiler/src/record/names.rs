//! Names for the frames of a recording: each module's addresses are looked up at once, in parallel.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use symbols::kallsyms::KernelSymbols;
use symbols::{AddressName, BinaryRequest, Symbolicator};

use super::binaries::OpenBinaries;
use crate::fact::{FrameId, FrameName, Location, ModuleId, ModuleKind, SourceFrame, Tables};

/// The addresses of one module that want a name, relative to its base.
struct Wanted {
    module: ModuleId,
    request: BinaryRequest,
    addresses: Vec<u32>,
    frames: Vec<FrameId>,
}

/// Names every frame that has no name yet. What has no symbols stays without a name, and the module says why.
pub fn resolve(tables: &mut Tables, binaries: &OpenBinaries, progress: &(dyn Fn(usize, usize) + Sync)) {
    let wanted = wanted(tables, binaries);
    let symbolicator = match Symbolicator::new(symbols::Config::from_env()) {
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
    for (one, answer) in wanted.into_iter().zip(answers) {
        match answer {
            Ok(names) => {
                let base = tables.modules[one.module.index()].base_svma.0;
                for (frame, name) in one.frames.iter().zip(names) {
                    if let Some(name) = name {
                        tables.names.insert(*frame, in_svma(name, base));
                    }
                }
            }
            Err(error) => {
                tables.modules[one.module.index()]
                    .problem
                    .get_or_insert_with(|| error.to_string());
            }
        }
    }
}

fn wanted(tables: &Tables, binaries: &OpenBinaries) -> Vec<Wanted> {
    let mut by_module: FxHashMap<ModuleId, Wanted> = FxHashMap::default();
    for (index, frame) in (0u32..).zip(&tables.frames) {
        let id = FrameId(index);
        let Location::Module { module, svma } = frame.location else {
            continue;
        };
        let known = &tables.modules[module.index()];
        if !matches!(known.kind, ModuleKind::File | ModuleKind::Vdso) || tables.names.contains_key(&id) {
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
            module,
            request: BinaryRequest {
                open_path: binaries.open_path(known.file, &known.path),
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

fn in_svma(name: AddressName, base: u64) -> FrameName {
    FrameName {
        symbol: name.symbol,
        symbol_start: base + u64::from(name.symbol_start),
        symbol_size: name.symbol_size.map(u64::from),
        inline_chain: name
            .inline_chain
            .into_iter()
            .map(|frame| SourceFrame {
                function: frame.function,
                file: frame.file,
                line: frame.line,
            })
            .collect(),
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
        if let Some(found) = symbols.lookup(address) {
            let name = match found.module {
                Some(module) => format!("{} [{module}]", found.name),
                None => found.name.to_owned(),
            };
            let frame = SourceFrame {
                function: name.clone(),
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
