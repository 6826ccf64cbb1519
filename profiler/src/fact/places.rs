//! From an address in a process to the module that it lies in: files are opened once, pseudo modules made once.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use symbols::elf::ElfFile;

use super::intern::Named;
use super::jit::JitIndex;
use super::{Location, Module, ModuleId, ModuleKind, ProcessId, Tables};
use crate::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use crate::event::FileId;
use crate::task::Tasks;
use crate::task::space::{FileKey, MappedFile};
use crate::unwind::{AddressSpace, Binaries, CodeId, Place, RawFrame, Walker};

/// What is known of a mapped file.
#[derive(Debug, Clone)]
struct Known {
    module: ModuleId,
    /// The ELF image with its number in the walker; `None`: unreadable.
    elf: Option<(Arc<ElfFile>, CodeId)>,
}

/// Finds modules.
pub struct Places<'a> {
    binaries: &'a dyn Binaries,
    files: FxHashMap<FileKey, Known>,
    pseudo: FxHashMap<ModuleKind, ModuleId>,
}

/// A process's executable mappings, as the walker asks for them.
pub struct Space<'s, 'a> {
    places: &'s mut Places<'a>,
    tables: &'s mut Tables,
    tasks: &'s Tasks,
    process: ProcessId,
}

impl AddressSpace for Space<'_, '_> {
    fn place(&mut self, avma: Avma, walker: &mut Walker) -> Option<Place> {
        let region = self
            .tasks
            .region(self.process, avma)
            .filter(|region| region.executable)?;
        let offset = region.file_offset(avma);
        let known = self.places.file(self.tasks, region.file, self.tables, Some(walker));
        let code = known.and_then(|known| {
            let (elf, code) = known.elf.as_ref()?;
            svma_of(elf, offset).map(|svma| Place {
                code: Some(*code),
                svma,
            })
        });
        Some(code.unwrap_or(Place {
            code: None,
            svma: Svma(0),
        }))
    }
}

impl<'a> Places<'a> {
    /// Nothing is open yet.
    pub fn new(binaries: &'a dyn Binaries) -> Self {
        Self {
            binaries,
            files: FxHashMap::default(),
            pseudo: FxHashMap::default(),
        }
    }

    /// The address space of a process, for one walk.
    pub fn space<'s>(&'s mut self, tasks: &'s Tasks, process: ProcessId, tables: &'s mut Tables) -> Space<'s, 'a> {
        Space {
            places: self,
            tables,
            tasks,
            process,
        }
    }

    /// Where a frame lies, with its name if it is JIT code.
    pub fn location(
        &mut self,
        tasks: &Tasks,
        process: ProcessId,
        tables: &mut Tables,
        jit: &JitIndex,
        at: (u32, Timestamp),
        frame: RawFrame,
    ) -> Named {
        let back = u64::from(frame.is_return_address);
        let avma = frame.avma;
        let lookup = Avma(avma.0.saturating_sub(back));
        let Some(region) = tasks.region(process, lookup) else {
            return Location::Unmapped { process, avma }.into();
        };
        if let Some(known) = self.file(tasks, region.file, tables, None) {
            let offset = region.file_offset(lookup);
            let module = known.module;
            let svma = known.elf.as_ref().and_then(|(elf, _)| svma_of(elf, offset));
            return match svma {
                Some(svma) => Location::Module {
                    module,
                    svma: Svma(svma.0 + back),
                },
                None => Location::FileOffset {
                    module,
                    offset: FileOffset(offset.0 + back),
                },
            }
            .into();
        }
        if let Some(function) = jit.lookup(at.0, at.1, lookup) {
            let module = self.pseudo(ModuleKind::Jit, "[JIT]", tables);
            let offset = avma.0.saturating_sub(function.start.0);
            let location = Location::Jit {
                module,
                process,
                start: function.start,
                offset,
            };
            return Named {
                location,
                name: Some((function.start.0, function.name)),
            };
        }
        let module = self.pseudo(ModuleKind::Anonymous, "[anonymous]", tables);
        Location::Anonymous { module, process, avma }.into()
    }

    /// Where a kernel frame lies.
    pub fn kernel(&mut self, tables: &mut Tables, offset: KernelOffset) -> Location {
        Location::Kernel {
            module: self.pseudo(ModuleKind::Kernel, "[kernel]", tables),
            offset,
        }
    }

    /// What the file of a mapping is; `None`: it is anonymous memory.
    fn file(
        &mut self,
        tasks: &Tasks,
        key: FileKey,
        tables: &mut Tables,
        walker: Option<&mut Walker>,
    ) -> Option<&Known> {
        if !self.files.contains_key(&key) {
            let mapped = tasks.files.get(key);
            if mapped.is_anonymous() {
                return None;
            }
            let known = self.open(&mapped, tables, walker);
            self.files.insert(key, known);
        }
        self.files.get(&key)
    }

    fn open(&self, mapped: &MappedFile, tables: &mut Tables, walker: Option<&mut Walker>) -> Known {
        let opened = self.binaries.elf(mapped.file, &mapped.path, &mapped.build_id);
        let (elf, problem) = match (opened, walker) {
            (Ok(elf), Some(walker)) => {
                let code = walker.add_code(&elf);
                (Some((elf, code)), None)
            }
            (Ok(_), None) => (None, Some("not executable when it was met first".to_owned())),
            (Err(problem), _) => (None, Some(problem)),
        };
        let name = mapped
            .path
            .rsplit('/')
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or(&mapped.path);
        let image = elf.as_ref().map(|(elf, _)| elf);
        tables.modules.push(Module {
            kind: if mapped.is_vdso() {
                ModuleKind::Vdso
            } else {
                ModuleKind::File
            },
            name: name.to_owned(),
            path: mapped.path.clone(),
            file: mapped.file,
            build_id: image.map_or_else(|| mapped.build_id.clone(), |elf| elf.build_id().to_vec()),
            base_svma: Svma(image.map_or(0, |elf| elf.base_svma())),
            deleted: mapped.deleted,
            problem,
        });
        Known {
            module: last_module(tables),
            elf,
        }
    }

    fn pseudo(&mut self, kind: ModuleKind, name: &str, tables: &mut Tables) -> ModuleId {
        *self.pseudo.entry(kind).or_insert_with(|| {
            tables.modules.push(Module {
                kind,
                name: name.to_owned(),
                path: String::new(),
                file: FileId::default(),
                build_id: Vec::new(),
                base_svma: Svma(0),
                deleted: false,
                problem: None,
            });
            last_module(tables)
        })
    }
}

fn last_module(tables: &Tables) -> ModuleId {
    ModuleId(
        u32::try_from(tables.modules.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1),
    )
}

fn svma_of(elf: &ElfFile, offset: FileOffset) -> Option<Svma> {
    let segment = elf
        .segments()
        .iter()
        .filter(|segment| segment.executable)
        .find(|segment| {
            // A mapping is whole pages: the first one may begin before the segment, the last one end behind it.
            (segment.file_offset & !0xfff
                ..segment
                    .file_offset
                    .saturating_add(segment.file_size)
                    .saturating_add(0xfff)
                    & !0xfff)
                .contains(&offset.0)
        })?;
    Some(Svma(
        segment.svma.wrapping_add(offset.0).wrapping_sub(segment.file_offset),
    ))
}

/// Display name of the module at a frame, for the account of stack ends.
pub fn module_name(tables: &Tables, location: &Location) -> String {
    match location.module() {
        Some(module) => tables.module_name(module).to_owned(),
        None => "[unmapped]".to_owned(),
    }
}
