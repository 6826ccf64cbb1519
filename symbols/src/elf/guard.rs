//! A mapped file that another program truncates raises SIGBUS at the next read beyond its new end.
//! The guard handles it: the mapping reads as zeros from then on and reports that it was cut.
//! docs/decisions/0003-mapped-files.md.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::libc::{self, BUS_ADRERR, c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Number of mappings in one part of the register.
const PART: usize = 64;

/// The register that the handler reads: parts are appended and never removed, and entries are
/// reused.
static REGISTER: Link = Link::new();
/// Unused entries. The handler never takes this lock.
static FREE: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());
/// The previous action for SIGBUS.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

type Link = OnceLock<&'static Part>;

struct Part {
    places: [Place; PART],
    next: Link,
}

fn places() -> impl Iterator<Item = &'static Place> {
    std::iter::successors(REGISTER.get(), |part| part.next.get()).flat_map(|part| &part.places)
}

/// The register's entry of one mapping.
struct Place {
    /// First address; 0 while there is no mapping.
    start: AtomicUsize,
    /// End address (exclusive).
    end: AtomicUsize,
    cut: AtomicBool,
}

impl Place {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
        }
    }

    /// Finds the mapping that contains `address`. An entry may change concurrently: it is accepted
    /// only if its start is the same before and after its end is read.
    fn range_around(&self, address: usize) -> Option<Range<usize>> {
        let start = self.start.load(Ordering::SeqCst);
        let range = start..self.end.load(Ordering::SeqCst);
        (start != 0 && self.start.load(Ordering::SeqCst) == start && range.contains(&address)).then_some(range)
    }
}

/// A mapping in the register. It must be dropped before the memory is unmapped.
pub(super) struct Guard(&'static Place);

impl Guard {
    /// Registers mapped memory, and installs the SIGBUS handler if necessary.
    ///
    /// # Errors
    /// The system rejects the handler.
    pub(super) fn new(memory: &[u8]) -> io::Result<Self> {
        install()?;
        let place = free_place();
        let range = memory.as_ptr_range();
        place.cut.store(false, Ordering::SeqCst);
        place.end.store(range.end.addr(), Ordering::SeqCst);
        place.start.store(range.start.addr(), Ordering::SeqCst);
        Ok(Self(place))
    }

    /// Whether bytes that were read may be zeros that the file never contained.
    pub(super) fn was_cut(&self) -> bool {
        self.0.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::SeqCst);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

fn free_place() -> &'static Place {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = free.pop() {
        return place;
    }
    let part: &'static Part = Box::leak(Box::new(Part {
        places: [const { Place::new() }; PART],
        next: Link::new(),
    }));
    let mut end = &REGISTER;
    while let Some(known) = end.get() {
        end = &known.next;
    }
    let _ = end.set(part); // only done with the lock held
    let [first, rest @ ..] = &part.places;
    free.extend(rest);
    first
}

#[allow(unsafe_code)]
fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_RESTART;
    let action = SigAction::new(SigHandler::SigAction(on_bus_error), flags, SigSet::empty());
    // SAFETY: the handler reads atomics and `OnceLock`s and makes system calls, all of which a signal handler may do.
    let before = unsafe { sigaction(Signal::SIGBUS, &action) }?;
    let _ = BEFORE.set(before); // first and only time
    *installed = true;
    Ok(())
}

/// A fault in a registered mapping replaces it with zeros; any other fault is left to the previous
/// action for SIGBUS.
#[allow(unsafe_code)]
extern "C" fn on_bus_error(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let errno = Errno::last_raw();
    // SAFETY: the kernel passes a valid `info` to a handler with SA_SIGINFO; a SIGBUS raised by the
    // kernel contains an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let answered = code == BUS_ADRERR && answer(address);
    if !answered {
        give_back(code);
    }
    Errno::set_raw(errno);
}

#[allow(unsafe_code)]
fn answer(address: usize) -> bool {
    let found = places().find_map(|place| place.range_around(address).map(|range| (place, range)));
    let Some((place, range)) = found else { return false };
    // Before any thread reads the first zero.
    place.cut.store(true, Ordering::SeqCst);
    // The whole mapping at once: otherwise, the other program could cause a fault for each page.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is one of our mappings, created by `Mapping::new`: the faulting thread
    // keeps it alive, so it can't be unmapped meanwhile. It stays readable, and readers treat its
    // bytes as untrusted: they may change at any time.
    let zeros = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(range.start),
            range.len(),
            libc::PROT_READ,
            flags,
            -1,
            0,
        )
    };
    zeros != libc::MAP_FAILED
}

/// The faulting access is repeated when the handler returns, unless the signal was sent by a
/// process.
#[allow(unsafe_code)]
fn give_back(code: c_int) {
    if let Some(before) = BEFORE.get() {
        // SAFETY: it was the process's previous action; Rust's reports a stack overflow.
        let _ = unsafe { sigaction(Signal::SIGBUS, before) };
    }
    if code <= 0 {
        let _ = nix::sys::signal::raise(Signal::SIGBUS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More mappings than fit in one part, twice: entries are reused.
    #[test]
    fn every_mapping_has_a_slot() {
        let memory = vec![0_u8; 4096 * 3 * PART];
        let own = memory.as_ptr_range();
        for _ in 0..2 {
            let guards: Vec<Guard> = memory.chunks(4096).map(|page| Guard::new(page).unwrap()).collect();
            for (index, guard) in guards.iter().enumerate() {
                let address = own.start.addr() + index * 4096 + 17;
                let found: Vec<_> = places().filter_map(|place| place.range_around(address)).collect();
                assert!(
                    found.len() == 1 && found[0] == (address - 17..address - 17 + 4096),
                    "{found:x?}"
                );
                assert!(!guard.was_cut());
            }
        }
        assert!(places().all(|place| place.range_around(own.start.addr()).is_none()));
    }
}
