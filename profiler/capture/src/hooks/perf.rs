//! The kernel's perf events: opening them and reading their rings. Format: `perf_event_open(2)`.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// `PERF_ATTR_SIZE_VER5`: known since Linux 4.1.
const ATTR_SIZE: u32 = 112;
const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const BPF_LINK_CREATE: libc::c_long = 28;
/// `enum bpf_attach_type` of include/uapi/linux/bpf.h.
const BPF_PERF_EVENT: u32 = 41;
/// Offsets of the heads in the ring's first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// `struct perf_event_attr` up to version 5.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_freq: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == ATTR_SIZE as usize);

/// `union bpf_attr` for `BPF_LINK_CREATE` on a perf event (kernel 5.15 and later).
#[repr(C)]
struct Link {
    program: i32,
    event: i32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

// Bits of `Attr::flags`.
const DISABLED: u64 = 1 << 0;
const EXCLUDE_HV: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const FREQ: u64 = 1 << 10;
const MMAP_DATA: u64 = 1 << 17;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_GUEST: u64 = 1 << 20;
const MMAP2: u64 = 1 << 23;
const USE_CLOCKID: u64 = 1 << 25;

/// The event that triggers samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The CPU's cycle counter: `PERF_COUNT_HW_CPU_CYCLES`.
    Cycles,
    /// A timer of the kernel: `PERF_COUNT_SW_CPU_CLOCK`.
    CpuClock,
}

impl Clock {
    /// As `perf list` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }
}

/// Opens a sampling event on a CPU, not enabled yet.
pub fn open_sampling(clock: Clock, cpu: u32, hz: u32) -> io::Result<OwnedFd> {
    let kind = match clock {
        Clock::Cycles => 0,
        Clock::CpuClock => 1,
    };
    let attr = Attr {
        kind,
        sample_freq: u64::from(hz),
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED,
        flags: DISABLED | FREQ | EXCLUDE_GUEST | EXCLUDE_HV,
        ..Attr::default()
    };
    // Some drivers have no guests and no hypervisor to exclude.
    open(attr, cpu).or_else(|_| {
        open(
            Attr {
                flags: attr.flags & !(EXCLUDE_GUEST | EXCLUDE_HV),
                ..attr
            },
            cpu,
        )
    })
}

/// A software count of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// `PERF_COUNT_SW_PAGE_FAULTS_MIN`
    MinorFaults = 5,
    /// `PERF_COUNT_SW_PAGE_FAULTS_MAJ`
    MajorFaults = 6,
}

/// Opens an event that fires whenever something is counted on a CPU, not enabled yet.
pub fn open_count(count: Count, cpu: u32) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: 1,
        config: count as u64,
        sample_freq: 1, // without FREQ it is the period
        flags: DISABLED,
        ..Attr::default()
    };
    // No fields of a record: a program runs, which emits its own records, and the kernel would gather the fields for
    // each fault (some 190 ns).
    open_plain(attr, cpu)
}

/// Opens an event that counts nothing and reports every mapping created on a CPU, of code and of data.
pub fn open_mappings(cpu: u32) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: 1,
        config: 9, // PERF_COUNT_SW_DUMMY
        flags: DISABLED | MMAP | MMAP2 | MMAP_DATA,
        ..Attr::default()
    };
    open(attr, cpu)
}

/// Opens an event that counts nothing and reports the mappings that the calling thread creates, not enabled yet.
pub fn open_own_mappings() -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: 1,
        config: 9, // PERF_COUNT_SW_DUMMY
        sample_type: PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        flags: DISABLED | MMAP | MMAP2 | MMAP_DATA | SAMPLE_ID_ALL,
        ..Attr::default()
    };
    open_for(attr, 0, -1)
}

fn open(mut attr: Attr, cpu: u32) -> io::Result<OwnedFd> {
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    attr.flags |= SAMPLE_ID_ALL | USE_CLOCKID;
    attr.clockid = libc::CLOCK_MONOTONIC;
    open_plain(attr, cpu)
}

fn open_plain(attr: Attr, cpu: u32) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    open_for(attr, -1, cpu)
}

/// Opens an event for a thread or all threads (-1), on a CPU or on all (-1).
fn open_for(mut attr: Attr, thread: libc::pid_t, cpu: i32) -> io::Result<OwnedFd> {
    attr.size = ATTR_SIZE;
    // SAFETY: the kernel reads `attr.size` bytes of a struct that lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            thread,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    owned(fd)
}

/// The descriptor that a system call has just returned, or its error.
fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn control(event: BorrowedFd<'_>, request: libc::c_ulong, argument: libc::c_long) -> io::Result<()> {
    // SAFETY: these requests of perf events take a number.
    if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Attaches a program that runs whenever the event fires.
pub fn set_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    control(event, IOC_SET_BPF, program.as_raw_fd().into())
}

/// As [`set_program`], with a number that the program reads by `bpf_get_attach_cookie`. Dropping the result detaches.
pub fn link_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let link = Link {
        program: program.as_raw_fd(),
        event: event.as_raw_fd(),
        attach_type: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: the kernel reads that many bytes of a struct that lives through the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const link, size_of::<Link>()) };
    owned(fd)
}

/// Starts an event.
pub fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    control(event, IOC_ENABLE, 0)
}

/// Stops an event.
pub fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    control(event, IOC_DISABLE, 0)
}

/// How long a sampling event has been enabled, in ns. It does not advance while the event is off its CPU.
pub fn time_enabled(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = [0; 16]; // the count, and the time
    match nix::unistd::read(event, &mut bytes)? {
        16 => Ok(u64::from_ne_bytes(bytes[8..].try_into().map_err(io::Error::other)?)),
        // An event in the error state returns end of file.
        _ => Ok(0),
    }
}

/// An event with its ring of records.
pub struct Ring {
    event: OwnedFd,
    memory: NonNull<u8>,
    page: usize,
    /// Bytes for records, a power of two.
    size: usize,
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `bytes` (a power of two) for records, or of a page if that is more.
    pub fn new(event: OwnedFd, bytes: usize) -> io::Result<Self> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.map_or(4096, i64::unsigned_abs);
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let size = bytes.max(page);
        let length = NonZeroUsize::new(size + page).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                event.as_fd(),
                0,
            )?
        };
        Ok(Self {
            event,
            memory: memory.cast(),
            page,
            size,
            scratch: Vec::new(),
        })
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned u64 in the first page, which both sides access atomically.
        unsafe { self.memory.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Bytes of pending records.
    fn pending(&self) -> u64 {
        self.position(DATA_HEAD)
            .load(Ordering::Acquire)
            .wrapping_sub(self.position(DATA_TAIL).load(Ordering::Relaxed))
    }

    /// Passes every pending record to `each`: its type, its `misc` bits, and what follows its header.
    pub fn drain(&mut self, mut each: impl FnMut(u32, u16, &[u8])) {
        let mut tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        let head = tail.wrapping_add(self.pending());
        while head.wrapping_sub(tail) >= 8 {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
            let size = u64::from(u16::from_ne_bytes([s0, s1]));
            if size < 8 || size > head.wrapping_sub(tail) {
                tail = head; // never seen: the kernel writes whole records
                break;
            }
            let mut record = std::mem::take(&mut self.scratch);
            record.resize(usize::try_from(size - 8).unwrap_or(0), 0);
            self.copy(tail.wrapping_add(8), &mut record);
            each(
                u32::from_ne_bytes([k0, k1, k2, k3]),
                u16::from_ne_bytes([m0, m1]),
                &record,
            );
            self.scratch = record;
            tail = tail.wrapping_add(size);
        }
        self.position(DATA_TAIL).store(tail, Ordering::Release);
    }

    /// Copies bytes that the kernel has published, which may wrap around the ring's end.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let start = usize::try_from(from % self.size as u64).unwrap_or(0);
        let first = to.len().min(self.size - start);
        let (to_first, to_rest) = to.split_at_mut(first);
        // SAFETY: both parts lie in the ring, and the kernel does not write to them before the tail moves on.
        unsafe {
            let data = self.memory.add(self.page);
            data.add(start)
                .copy_to_nonoverlapping(NonNull::from(to_first).cast(), first);
            data.copy_to_nonoverlapping(NonNull::from(&mut *to_rest).cast(), to_rest.len().min(start));
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, with no references left. On failure it stays mapped.
        let _ = unsafe { munmap(self.memory.cast(), self.size + self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_our_own_mappings() {
        let cpus = aya::util::online_cpus().unwrap();
        let rings: io::Result<Vec<Ring>> = cpus
            .iter()
            .map(|&cpu| Ring::new(open_mappings(cpu)?, 16 << 12))
            .collect();
        let Ok(mut rings) = rings else {
            println!("skipped: needs root");
            return;
        };
        for ring in &rings {
            enable(ring.as_fd()).unwrap();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 12).unwrap();
        // Many more than fit into the ring at once, to make records wrap around.
        let mut names = 0;
        for _ in 0..2000 {
            // SAFETY: the file does not change.
            let map = unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap();
            for ring in &mut rings {
                ring.drain(|kind, _, record| {
                    let record = crate::space::mappings::parse(kind, 0, record);
                    if let Some(crate::space::mappings::Record::Mapping(mapping)) = record {
                        names += usize::from(mapping.path == file.path().as_os_str().as_encoded_bytes());
                    }
                });
            }
            drop(map);
        }
        assert_eq!(names, 2000);
    }
}
