//! Writes the event log. When the disk is full the log ends at its last whole chunk, and the recording goes on without it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use profiler_common::Loss;

use super::losses::Losses;
use crate::event::write::LogWriter;
use crate::event::{Event, Header};

/// The log of a recording.
pub struct Log {
    writer: LogWriter<File>,
    file: File,
    failure: Option<io::Error>,
}

impl Log {
    /// Begins a log in a descriptor that the record half opened.
    pub fn new(descriptor: OwnedFd, header: &Header) -> io::Result<Self> {
        let file = File::from(descriptor);
        Ok(Self {
            writer: LogWriter::new(file.try_clone()?, header)?,
            file,
            failure: None,
        })
    }

    /// Writes an event, or counts it as lost.
    pub fn event(&mut self, event: &Event<'_>, losses: &mut Losses) {
        if self.failure.is_some() {
            losses.count(Loss::LogWriteFailed, 1);
        } else if let Err(error) = self.writer.event(event) {
            losses.count(Loss::LogWriteFailed, 1);
            self.fail(error);
        }
    }

    /// Hands what was gathered to the kernel, so that it survives us.
    pub fn flush(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.writer.flush_chunk()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        // A half-written chunk at the end would be skipped by readers; without it the file is whole. A pipe has no length.
        let _ = self.file.set_len(self.writer.good_bytes());
        self.failure = Some(error);
    }

    /// Why the log can't be written any more.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Its length so far.
    pub fn bytes(&self) -> u64 {
        if self.failure.is_some() {
            self.writer.good_bytes()
        } else {
            self.writer.bytes_written()
        }
    }
}
