//! Locks of the kernel: their addresses stay here, since those of objects would show where the kernel's memory is.

use std::cell::OnceCell;

use rustc_hash::{FxHashMap, FxHashSet};

use base::addr::KernelOffset;
use base::event::LockId;

/// Distinct locks that are distinguished; all others have one number.
const LIMIT: usize = 1 << 20;
/// Variables that are named.
const VARIABLES_LIMIT: usize = 1 << 16;

/// The locks that threads waited for.
#[derive(Default)]
pub struct Locks {
    numbers: FxHashMap<u64, u64>,
    variables: FxHashSet<u64>,
    /// End of the kernel's own variables, once it was asked for.
    end: OnceCell<Option<u64>>,
}

impl Locks {
    /// The identity of the lock at an address. The kernel's own variables are between `text` and the `end`, if known.
    pub fn id(&mut self, text: u64, address: u64, end: impl FnOnce() -> Option<u64>) -> LockId {
        let end = *self.end.get_or_init(end);
        if end.is_some_and(|end| (text..end).contains(&address)) {
            if self.variables.len() < VARIABLES_LIMIT {
                self.variables.insert(address);
            }
            return LockId::Static(KernelOffset(address.wrapping_sub(text)));
        }
        if let Some(number) = self.numbers.get(&address) {
            return LockId::Number(*number);
        }
        if self.numbers.len() >= LIMIT {
            return LockId::Number(0);
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(address, number);
        LockId::Number(number)
    }

    /// Addresses of the kernel's variables among them, in order.
    pub fn variables(&self) -> Vec<u64> {
        let mut addresses: Vec<u64> = self.variables.iter().copied().collect();
        addresses.sort_unstable();
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_numbers_and_variables_offsets() {
        let mut locks = Locks::default();
        let mut id = |address| locks.id(0x1000, address, || Some(0x2000));
        assert_eq!(id(0x1f00), LockId::Static(KernelOffset(0xf00)));
        assert_eq!(id(0x2000), LockId::Number(1));
        assert_eq!(id(0x10), LockId::Number(2));
        assert_eq!(id(0x2000), LockId::Number(1));
        assert_eq!(locks.variables(), [0x1f00]);
    }

    #[test]
    fn without_a_known_end_all_have_numbers() {
        let mut locks = Locks::default();
        assert_eq!(locks.id(0x1000, 0x1f00, || None), LockId::Number(1));
        assert!(locks.variables().is_empty());
    }
}
