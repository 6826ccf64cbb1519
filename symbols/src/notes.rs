//! Problems that the user should see, each once.

use std::sync::{Mutex, PoisonError};

/// Notes, at most.
const MOST: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    /// Adds a note, unless it is known or there are many.
    pub(crate) fn add(&self, note: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MOST && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
