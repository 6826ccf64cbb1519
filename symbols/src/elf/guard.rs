//! A mapped file that another program cuts off raises SIGBUS at the next read beyond its new end. The guard answers it: the mapping
//! shows zeros from then on and says that it was cut. docs/decisions/0003-mapped-files.md.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::libc::{self, BUS_ADRERR, c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Mappings that one part of the register holds.
const PART: usize = 64;

/// The register that the handler reads: parts are added at the end and never removed, and a place is used again.
static REGISTER: Link = Link::new();
/// Places without a mapping. The handler never takes this lock.
static FREE: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());
/// What SIGBUS did before.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

type Link = OnceLock<&'static Part>;

struct Part {
    places: [Place; PART],
    next: Link,
}

fn places() -> impl Iterator<Item = &'static Place> {
    std::iter::successors(REGISTER.get(), |part| part.next.get()).flat_map(|part| &part.places)
}

/// Where the register has one mapping.
struct Place {
    /// First address; 0 while there is no mapping.
    start: AtomicUsize,
    /// Address behind it.
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

    /// The mapping that `address` is in. A mapping that comes or goes meanwhile is another one than the one that was read: it is
    /// taken only if its start is the same before and after its end was read.
    fn range_around(&self, address: usize) -> Option<Range<usize>> {
        let start = self.start.load(Ordering::SeqCst);
        let range = start..self.end.load(Ordering::SeqCst);
        (start != 0 && self.start.load(Ordering::SeqCst) == start && range.contains(&address)).then_some(range)
    }
}

/// A mapping in the register. To be dropped before the memory is unmapped.
pub(super) struct Guard(&'static Place);

impl Guard {
    /// Registers mapped memory, and makes sure that SIGBUS is answered.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub(super) fn new(memory: &[u8]) -> io::Result<Self> {
        install()?;
        let place = free_place();
        let range = memory.as_ptr_range();
        place.cut.store(false, Ordering::SeqCst);
        place.end.store(range.end.addr(), Ordering::SeqCst);
        place.start.store(range.start.addr(), Ordering::SeqCst);
        Ok(Self(place))
    }

    /// Bytes that were read may be zeros that the file never had.
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
    let _ = end.set(part); // nobody else does so without the lock
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

/// A fault in a registered mapping puts zeros in its place; any other is left to what SIGBUS did before.
#[allow(unsafe_code)]
extern "C" fn on_bus_error(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let errno = Errno::last_raw();
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid `info`; SIGBUS of the kernel's own has an address in it.
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
    // Before anybody reads the first zero.
    place.cut.store(true, Ordering::SeqCst);
    // The whole mapping at once: a fault for each page would be the other program's to ask for.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is a mapping of ours, made by `Mapping::new`: whoever faulted in it keeps it alive, so that it can't be
    // unmapped meanwhile. It stays readable, and readers treat its bytes as hostile: they may change at any time.
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

/// What raised the signal does so again when the handler returns, unless somebody sent it.
#[allow(unsafe_code)]
fn give_back(code: c_int) {
    if let Some(before) = BEFORE.get() {
        // SAFETY: it was the process's own action before; Rust's is to say that a stack overflowed.
        let _ = unsafe { sigaction(Signal::SIGBUS, before) };
    }
    if code <= 0 {
        let _ = nix::sys::signal::raise(Signal::SIGBUS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More mappings than one part holds, twice: places are used again.
    #[test]
    fn every_mapping_has_a_place() {
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
