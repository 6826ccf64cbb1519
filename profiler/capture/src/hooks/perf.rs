//! The kernel's perf events: opening them, here, and reading their rings. Format: `perf_event_open(2)`.

mod ring;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use ring::Ring;

/// `PERF_ATTR_SIZE_VER5`: known since Linux 4.1.
const ATTR_SIZE: u32 = 112;
const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
const PERF_FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const BPF_LINK_CREATE: libc::c_long = 28;
/// `enum bpf_attach_type` of include/uapi/linux/bpf.h.
const BPF_PERF_EVENT: u32 = 41;

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
const WATERMARK: u64 = 1 << 14;
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

/// The threads that an event of a CPU is for.
#[derive(Debug, Clone, Copy)]
pub enum Target<'f> {
    /// All of them.
    All,
    /// Those in the cgroup with this folder, and in those below it. For others the event costs nothing but the switch between cgroups.
    Cgroup(BorrowedFd<'f>),
}

/// Nanoseconds between two samples of the CPU's clock: 0.3 % more than requested. Exactly 1000 Hz is a multiple of the kernel's tick,
/// at which threads take turns on a busy CPU: samples would fall on the same moments of each turn.
fn clock_period(hz: u32) -> u64 {
    1_003_000_000 / u64::from(hz.max(1))
}

/// Opens a sampling event on a CPU, not enabled yet.
pub fn open_sampling(clock: Clock, cpu: u32, hz: u32, target: Target<'_>) -> io::Result<OwnedFd> {
    let (kind, sample_freq, by_rate) = match clock {
        Clock::Cycles => (0, u64::from(hz), FREQ),
        Clock::CpuClock => (1, clock_period(hz), 0),
    };
    let attr = Attr {
        kind,
        sample_freq,
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED,
        flags: DISABLED | by_rate | EXCLUDE_GUEST | EXCLUDE_HV,
        ..Attr::default()
    };
    // Some drivers have no guests and no hypervisor to exclude.
    open(attr, cpu, target).or_else(|_| {
        let flags = attr.flags & !(EXCLUDE_GUEST | EXCLUDE_HV);
        open(Attr { flags, ..attr }, cpu, target)
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
pub fn open_count(count: Count, cpu: u32, target: Target<'_>) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: 1,
        config: count as u64,
        sample_freq: 1, // without FREQ it is the period
        flags: DISABLED,
        ..Attr::default()
    };
    // No fields of a record: a program runs, which emits its own records, and the kernel would gather the fields for
    // each fault (some 190 ns).
    open_plain(attr, cpu, target)
}

/// Opens an event that counts nothing and reports every mapping created on a CPU, of code and of data. Its ring can be read, as `poll` sees it, each
/// time that `wakeup` bytes have been written.
pub fn open_mappings(cpu: u32, wakeup: u32) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: 1,
        config: 9, // PERF_COUNT_SW_DUMMY
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED,
        flags: DISABLED | MMAP | MMAP2 | MMAP_DATA | WATERMARK,
        wakeup,
        ..Attr::default()
    };
    open(attr, cpu, Target::All)
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
    open_for(attr, 0, -1, 0)
}

fn open(mut attr: Attr, cpu: u32, target: Target<'_>) -> io::Result<OwnedFd> {
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    attr.flags |= SAMPLE_ID_ALL | USE_CLOCKID;
    attr.clockid = libc::CLOCK_MONOTONIC;
    open_plain(attr, cpu, target)
}

fn open_plain(attr: Attr, cpu: u32, target: Target<'_>) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match target {
        Target::All => open_for(attr, -1, cpu, 0),
        Target::Cgroup(folder) => open_for(attr, folder.as_raw_fd(), cpu, PERF_FLAG_PID_CGROUP),
    }
}

/// Opens an event for a thread, all threads (-1) or, with that flag, a cgroup, on a CPU or on all (-1).
fn open_for(mut attr: Attr, thread: libc::pid_t, cpu: i32, flags: libc::c_ulong) -> io::Result<OwnedFd> {
    attr.size = ATTR_SIZE;
    // SAFETY: the kernel reads `attr.size` bytes of a struct that lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            thread,
            cpu,
            -1,
            flags | PERF_FLAG_FD_CLOEXEC,
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

/// How long a sampling event, or one of mappings, has been enabled, in ns. It does not advance while the event is off its CPU, or the
/// cgroup that it is limited to.
pub fn time_enabled(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = [0; 16]; // the count, and the time
    match nix::unistd::read(event, &mut bytes)? {
        16 => Ok(u64::from_ne_bytes(bytes[8..].try_into().map_err(io::Error::other)?)),
        // An event in the error state returns end of file.
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::clock_period;

    #[test]
    fn samples_of_the_clock_do_not_keep_step_with_ticks() {
        for hz in [50, 100, 250, 500, 1000, 4000] {
            for ticks in [100, 250, 300, 1000] {
                let (period, tick) = (clock_period(hz), 1_000_000_000 / ticks);
                let (longer, shorter) = (period.max(tick), period.min(tick));
                let rest = longer % shorter;
                // A second has samples at all moments of a tick.
                assert!(
                    rest.min(shorter - rest) * u64::from(hz) >= shorter / 10,
                    "{hz} Hz, {ticks} ticks"
                );
            }
        }
        assert_eq!(clock_period(1000), 1_003_000);
    }
}
