//! Checks the references and times of the bit-exact lists while they are read.

use super::Big;
use crate::error::ReadError;
use base::addr::Timestamp;
use fact::{DeviceId, MappedFileId, StackId, Tables, ThreadId};

/// The stack that each row of the stack table completes.
#[derive(Debug)]
pub struct StackRows {
    /// `None`: the row completes none.
    pub stacks: Vec<Option<StackId>>,
    /// The first labelled row.
    pub labels: usize,
}

impl StackRows {
    /// Whether a row ends in a label, which means that it belongs to a wait.
    pub fn is_labelled(&self, row: Option<i64>) -> bool {
        row.and_then(|row| usize::try_from(row).ok())
            .is_some_and(|row| row >= self.labels)
    }

    /// The stack at a row, which must be the innermost row of a stack.
    pub fn stack(&self, row: Option<i64>) -> Result<Option<StackId>, ReadError> {
        let Some(row) = row else { return Ok(None) };
        let stack = usize::try_from(row)
            .ok()
            .and_then(|row| self.stacks.get(row).copied().flatten());
        stack.map(Some).ok_or(ReadError::Damaged("stack number"))
    }
}

/// What a profile's facts may refer to.
#[derive(Clone, Copy)]
pub struct References<'a> {
    /// The tables of the facts.
    pub tables: &'a Tables,
    /// The stack at each row of the stack table.
    pub rows: &'a StackRows,
    /// The profile's time 0.
    pub zero: Timestamp,
    /// The list that is damaged if a reference leads nowhere.
    pub list: &'static str,
}

impl References<'_> {
    /// For another list.
    pub fn in_list(self, list: &'static str) -> Self {
        Self { list, ..self }
    }

    /// The error for this list.
    pub fn damaged(&self) -> ReadError {
        ReadError::Damaged(self.list)
    }

    /// A time, from its distance to time 0.
    pub fn time(&self, since_zero: Big) -> Result<Timestamp, ReadError> {
        self.after(self.zero, since_zero)
    }

    /// A time, from its distance to another one.
    pub fn after(&self, time: Timestamp, more: Big) -> Result<Timestamp, ReadError> {
        time.0.checked_add(more.0).map(Timestamp).ok_or_else(|| self.damaged())
    }

    /// A stack, from its row.
    pub fn stack(&self, row: Option<u32>) -> Result<Option<StackId>, ReadError> {
        self.rows.stack(row.map(i64::from))
    }

    /// Checks a thread.
    pub fn thread(&self, thread: ThreadId) -> Result<ThreadId, ReadError> {
        self.within(thread.index(), self.tables.threads.len())?;
        Ok(thread)
    }

    /// Checks a file, if there is one.
    pub fn file(&self, file: Option<MappedFileId>) -> Result<Option<MappedFileId>, ReadError> {
        if let Some(file) = file {
            self.within(file.index(), self.tables.files.len())?;
        }
        Ok(file)
    }

    /// Checks a device.
    pub fn device(&self, device: DeviceId) -> Result<DeviceId, ReadError> {
        self.within(device.index(), self.tables.devices.len())?;
        Ok(device)
    }

    fn within(&self, index: usize, len: usize) -> Result<(), ReadError> {
        if index < len { Ok(()) } else { Err(self.damaged()) }
    }
}
