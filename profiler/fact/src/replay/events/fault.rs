//! Converts events of page faults and reads to facts.

use profiler_common::fault::{FAULT_HAS_VMA, FAULT_REMOTE};

use super::{EventKind, Replay};
use crate::ProcessId;
use crate::fault::{Mapped, MappedFileId, PageRange, PagesBy, PagesReadFact};
use crate::replay::faults::{self, Found, Memory};
use crate::replay::mapped;
use base::addr::{Avma, PAGE};
use base::event::{Fault, PagesPopulated, PagesRead};
use task::space::Region;

/// Maximum number of mappings that one system call is known to have populated.
const MAX_POPULATED: usize = 1 << 10;

impl Replay<'_, '_> {
    pub(super) fn fault(&mut self, fault: &Fault<'_>) {
        let thread = self.tasks.thread_at(&fault.at);
        let stack = self.stack_of(&fault.at, thread, &fault.stacks, EventKind::Fault);
        let recording = &mut self.tables.recording;
        recording.faults_seen = recording.faults_seen.saturating_add(1 + u64::from(fault.others.count));
        let process = self.tasks.threads[thread.index()].process;
        // The time line covers the thread's own memory.
        let own = fault.flags & FAULT_REMOTE == 0;
        let region = if own {
            self.tasks.region(process, fault.address)
        } else {
            None
        };
        let (files, list) = (&self.tasks.files, &mut self.tables.files);
        let mapped = region.as_ref().map(|region| files.get(region.file));
        let vma = fault.vma.filter(|_| fault.flags & FAULT_HAS_VMA != 0);
        let (memory, place) = match (vma, &region, &mapped) {
            (Some(vma), region, mapped) => {
                let file = vma.file.as_ref();
                let place = file.and_then(|file| self.files.place(list, files, file, fault.address, region.as_ref()));
                (Some(Memory::of_vma(&vma, mapped.as_deref())), place)
            }
            (None, Some(region), Some(mapped)) => {
                let place = self.files.place_in_region(list, files, fault.address, region);
                (Some(Memory::of_region(region, mapped)), place)
            }
            _ => (None, None),
        };
        let mapped = fault.mapped.zip(place).and_then(|(mut there, place)| {
            if vma.is_none() {
                let region = region.as_ref()?;
                there.keep_range(mapped::within(fault.address, &(region.start..region.end)));
            }
            // What another process's page table holds is not this process's.
            Some(if own {
                self.blocks.new_pages(process, fault.address, place, there)
            } else {
                Mapped::new(there, mapped::own(fault.address))
            })
        });
        let fact = faults::fact(
            fault,
            Found {
                thread,
                stack,
                memory,
                place,
                mapped,
            },
        );
        let bss = region
            .filter(|_| fact.place.is_none())
            .and_then(|region| self.bss_of(process, &region));
        self.show_tasks();
        self.sink.fault(&self.tables, &fact);
        if let Some(file) = bss {
            self.sink.bss(&self.tables, &fact, file);
        }
        self.show_tasks();
        self.join.fault(&self.tables, &fact);
        self.emit_causes();
    }

    /// The file whose data a region continues.
    fn bss_of(&mut self, process: ProcessId, region: &Region) -> Option<MappedFileId> {
        let before = self.data_before(process, region)?;
        self.files.of_region(&mut self.tables.files, &self.tasks.files, &before)
    }

    /// The file's data that a region continues: memory without a file, mapped later, right behind the file's own
    /// writable pages.
    pub(super) fn data_before(&self, process: ProcessId, region: &Region) -> Option<Region> {
        let files = &self.tasks.files;
        if !files.get(region.file).is_anonymous() {
            return None;
        }
        let before = self.tasks.region(process, Avma(region.start.0.checked_sub(1)?))?;
        let is_data = before.writable && !before.shared && before.made <= region.made;
        (is_data && files.get(before.file).file.inode != 0).then_some(before)
    }

    pub(super) fn pages_read(&mut self, pages: &PagesRead) {
        let thread = self.tasks.thread_at(&pages.at);
        let file = self
            .files
            .of_file(&mut self.tables.files, &self.tasks.files, (pages.file, 0));
        let Some(file) = file.filter(|_| pages.count > 0) else {
            return;
        };
        let fact = PagesReadFact {
            time: pages.since.max(self.tables.recording.start).min(pages.at.time),
            thread,
            file,
            pages: PageRange {
                first: pages.first,
                count: pages.count,
            },
            by: if pages.in_fault { PagesBy::Fault } else { PagesBy::Call },
            order: pages.order,
        };
        self.show_tasks();
        self.sink.pages_read(&self.tables, &fact);
        self.show_tasks();
    }

    /// The time line knows which files are mapped there.
    pub(super) fn pages_populated(&mut self, pages: &PagesPopulated) {
        let thread = self.tasks.thread_at(&pages.at);
        let process = self.tasks.threads[thread.index()].process;
        let end = Avma(pages.start.0.saturating_add(pages.len));
        let mut at = pages.start;
        for _ in 0..MAX_POPULATED {
            let Some(region) = self.tasks.region(process, at).filter(|_| at < end) else {
                break;
            };
            let to = region.end.min(end);
            let (files, list) = (&self.tasks.files, &mut self.tables.files);
            if let Some(place) = self.files.place_in_region(list, files, at, &region) {
                let count = to.0.saturating_sub(at.0).div_ceil(PAGE);
                let fact = PagesReadFact {
                    time: pages.at.time,
                    thread,
                    file: place.file,
                    pages: PageRange {
                        first: place.offset.0 / PAGE,
                        count: u32::try_from(count).unwrap_or(u32::MAX),
                    },
                    by: PagesBy::Populate,
                    order: None,
                };
                self.show_tasks();
                self.sink.pages_read(&self.tables, &fact);
                self.show_tasks();
            }
            at = to;
        }
    }
}
