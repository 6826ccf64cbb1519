//! The ring of everything but task events: converts records to events, and adds what only the privileged helper
//! knows.

use aya::maps::RingBuf;
use profiler_common::block::{PendingRequest, REQUEST_UNFINISHED};
use profiler_common::switch::WAIT_UNSEEN_START;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{CYCLE_LIMIT, Drain};
use crate::drain::fill::Fill;
use crate::drain::records;
use base::addr::Timestamp;
use base::event::{At, Device, Event, FileName};

impl Drain {
    /// Empties the ring into the log; returns the number of records and of bytes.
    pub(super) fn read_bulk(&mut self) -> (usize, usize) {
        let (mut count, mut bytes, mut found) = (0, 0, Vec::new());
        self.fill.iter_mut().for_each(Fill::look);
        // Records and frames are borrowed while an event is completed.
        let (mut ring, mut scratch) = (self.bulk.take(), std::mem::take(&mut self.frames));
        while count < CYCLE_LIMIT
            && let Some(record) = ring.as_mut().and_then(RingBuf::next)
        {
            count += 1;
            bytes += record.len();
            if let Some((pid, file, key, names)) = records::file_name(&record) {
                let path = self.mounts.path(pid, Device::of(&file), names);
                let number = self.file_names.arrived(key, &path);
                let name = number.map(|number| FileName {
                    file: self.spaces.generations.of_record(file),
                    number,
                    path,
                });
                if let Some((log, name)) = self.log.as_mut().zip(name) {
                    log.event(&Event::FileName(name), &mut self.losses);
                }
                continue;
            }
            let Some(mut event) = records::bulk_event(&record, self.kernel.as_mut(), &mut scratch) else {
                continue;
            };
            let at = self.complete(&mut event);
            if let Some(at) = at
                && let Some(address) = records::unmapped(&record)
                && let Some(mapping) = self.spaces.find(at, address)
            {
                found.push(mapping);
            }
            let Some(log) = &mut self.log else { continue };
            for mapping in found.drain(..) {
                if self.files.is_new(&mapping) {
                    self.new_files.push(mapping.clone());
                }
                log.event(&Event::Mapping(mapping), &mut self.losses);
            }
            log.event(&event, &mut self.losses);
        }
        (self.bulk, self.frames) = (ring, scratch);
        (count, bytes)
    }

    /// Numbers files and flags as the log does, and counts. Returns the process if its stack may have left the known
    /// mappings.
    fn complete(&mut self, event: &mut Event<'_>) -> Option<At> {
        match event {
            Event::Sample(sample) => {
                if let Some(time) = self.nominal_time {
                    sample.cpu_time = time << sample.stacks.represents();
                }
                let counts = &mut self.counts.of_recorded;
                counts.samples += 1;
                counts.cpu_time = counts.cpu_time.saturating_add(sample.cpu_time);
                Some(sample.at)
            }
            Event::Fault(fault) => {
                self.counts.faults += 1 + u64::from(fault.others.count);
                if let Some(file) = fault.vma.as_mut().and_then(|vma| vma.file.as_mut()) {
                    file.file = self.spaces.generations.of_record(file.file);
                }
                Some(fault.at)
            }
            Event::PagesRead(pages) => {
                self.note(pages.at.tid, pages.since);
                pages.file = self.spaces.generations.of_record(pages.file);
                None
            }
            Event::Wait(wait) => {
                self.counts.of_recorded.waits += u64::from(wait.count);
                self.note(wait.at.tid, wait.out);
                if wait.flags & WAIT_UNSEEN_START != 0
                    && let Some(unseen) = self.asleep.remove(&(wait.at.tid, wait.out))
                {
                    unseen.complete(wait);
                }
                if let Some(open) = wait.call.as_mut().and_then(|call| call.file.as_mut()) {
                    open.file = self.spaces.generations.of_record(open.file);
                    open.name = self.file_names.number(open.name);
                }
                Some(wait.at)
            }
            Event::StackAhead(stack) => Some(stack.at),
            Event::Bio(bio) => {
                bio.operation = self.flags.of_log(bio.operation);
                if let Some(file) = &mut bio.file {
                    *file = self.spaces.generations.of_record(*file);
                }
                bio.name = self.file_names.number(bio.name);
                None
            }
            Event::Request(request) => {
                request.operation = self.flags.of_log(request.operation);
                self.disks.saw(request.device);
                None
            }
            _ => None,
        }
    }

    fn note(&mut self, tid: u32, since: Timestamp) {
        if let Some(reported_waits) = &mut self.reported_waits {
            reported_waits.insert((tid, since));
        }
    }

    /// Writes an event as the kernel side would have sent it.
    pub fn write_complete(&mut self, mut event: Event<'static>) {
        self.complete(&mut event);
        self.write(&event);
    }

    /// Writes the requests that the devices have not completed.
    pub fn write_open_requests(&mut self, time: Timestamp) {
        let open = self.requests.iter().filter_map(|entry| {
            let (_, words) = entry.ok()?;
            PendingRequest::read_from_bytes(words.as_bytes()).ok()
        });
        let open: Vec<PendingRequest> = open.collect();
        for pending in open {
            let low_word = |shift: u32| u32::try_from(pending.who >> shift & u64::from(u32::MAX)).unwrap_or_default();
            let (pid, tid) = (low_word(32), low_word(0));
            let mut request = records::request_of(At { time, pid, tid }, &pending.body);
            request.flags |= REQUEST_UNFINISHED;
            self.write_complete(Event::Request(request));
        }
    }
}
