//! The capabilities of this process: which ones its executable file grants, and how they are given up.
//!
//! File capabilities may grant an ordinary user what recording needs (docs/privilege.md). Only the privileged helper uses them: every
//! other subcommand gives them up before it parses its arguments, and the privileged helper keeps only those of [`NEEDED`].

use std::ffi::OsStr;
use std::io;
use std::sync::OnceLock;

use anyhow::{Context as _, bail};

/// A capability that recording can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its name, as `setcap` spells it.
    pub name: &'static str,
    /// Its number in `include/uapi/linux/capability.h`.
    number: u32,
    /// What is lost without it.
    pub without: &'static str,
    /// Nothing can be recorded without it.
    pub is_essential: bool,
}

/// What recording can use. Any other capability that a file grants is given up at once.
pub const NEEDED: [Capability; 4] = [
    Capability {
        name: "cap_bpf",
        number: 39,
        without: "eBPF programs and maps: nothing can be recorded",
        is_essential: true,
    },
    Capability {
        name: "cap_perfmon",
        number: 38,
        without: "eBPF programs that trace, and sampling: nothing can be recorded",
        is_essential: true,
    },
    Capability {
        name: "cap_syslog",
        number: 34,
        without: "names of kernel functions, where kernel.kptr_restrict or kernel.perf_event_paranoid hide addresses",
        is_essential: false,
    },
    Capability {
        name: "cap_checkpoint_restore",
        number: 40,
        without: "functions of program files that were deleted or replaced while they ran, and of those in memory only",
        is_essential: false,
    },
];

/// The argument of `setcap`, for docs and remedies.
pub const RECIPE: &str = "cap_bpf,cap_perfmon,cap_syslog,cap_checkpoint_restore+ep";

/// `struct __user_cap_header_struct`
#[repr(C)]
struct Head {
    version: u32,
    pid: i32,
}

/// Version 3 (`_LINUX_CAPABILITY_VERSION_3`), of the calling thread.
static HEAD: Head = Head {
    version: 0x2008_0522,
    pid: 0,
};

/// `struct __user_cap_data_struct`: the kernel takes two, for the low words and the high words.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Capability {
    fn bit(self) -> u64 {
        1 << self.number
    }
}

/// A set of capabilities, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Set(u64);

impl Set {
    /// A set with these bits, by number.
    #[cfg(test)]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The capabilities of [`NEEDED`].
    pub fn needed() -> Self {
        Self(NEEDED.into_iter().fold(0, |set, one| set | one.bit()))
    }

    /// Whether the set holds this capability.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Whether the set holds the capability with this number.
    pub fn has_number(self, number: u32) -> bool {
        self.0 & 1 << number != 0
    }

    /// Whether recording is possible with this set.
    pub fn records(self) -> bool {
        NEEDED.into_iter().all(|one| !one.is_essential || self.has(one))
    }

    /// The capabilities of [`NEEDED`] in this set, as `setcap` spells them.
    pub fn names(self) -> String {
        let held = NEEDED.into_iter().filter(|one| self.has(*one));
        held.map(|one| one.name).collect::<Vec<_>>().join(" ")
    }
}

/// The capabilities that this thread is permitted now.
///
/// # Errors
/// When the kernel is too old for this system call.
pub fn permitted() -> io::Result<Set> {
    let data = get()?;
    Ok(Set(u64::from(data[0].permitted) | u64::from(data[1].permitted) << 32))
}

fn get() -> io::Result<[Data; 2]> {
    let mut data = [Data::default(); 2];
    // SAFETY: the kernel reads the header and writes two structs of this layout, which is that of version 3.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const HEAD, data.as_mut_ptr()) } == 0 {
        Ok(data)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives up everything but `kept`, for this thread and those that it starts. Also empties the sets that other programs inherit (the
/// inheritable and the ambient set).
///
/// # Errors
/// When the kernel refuses: something is wrong, and the caller should stop.
pub fn keep(kept: Set) -> io::Result<()> {
    let mut data = get()?;
    for (index, word) in data.iter_mut().enumerate() {
        let mask = u32::try_from(kept.0 >> (32 * index) & u64::from(u32::MAX)).unwrap_or(0);
        word.permitted &= mask;
        word.effective = word.permitted;
        word.inheritable = 0;
    }
    set_data(&data)
}

fn set_data(data: &[Data; 2]) -> io::Result<()> {
    // SAFETY: the kernel reads the header and two structs of this layout.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const HEAD, data.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH` of `include/uapi/linux/capability.h`, as a set: either one allows reading every file.
pub const READ_FILES: u64 = 1 << 1 | 1 << 2;

/// Allows this thread to read every file, as far as its permitted set goes, or stops it from doing so.
///
/// # Errors
/// When the kernel refuses.
pub fn read_files(may: bool) -> io::Result<()> {
    let mut data = get()?;
    let set = u32::try_from(READ_FILES).unwrap_or(0);
    let [low, _] = &mut data;
    low.effective = if may {
        low.effective | (low.permitted & set)
    } else {
        low.effective & !set
    };
    set_data(&data)
}

/// Whether the kernel gave this program more rights than its caller has: the caller's environment can't be trusted then.
pub fn has_extra_rights() -> bool {
    // SAFETY: reads a number that the kernel passed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// What the executable file granted at the start of this process.
static GRANTED: OnceLock<Set> = OnceLock::new();

/// What the executable file of this process grants; empty: nothing, or this is root.
pub fn granted() -> Set {
    GRANTED.get().copied().unwrap_or_default()
}

/// Gives up what the subcommand does not need, in an ordinary user's process. `main` does this first, while there is one thread.
///
/// # Errors
/// When the file is set-user-id or set-group-id, which is not supported, or capabilities can't be given up.
pub fn settle() -> anyhow::Result<()> {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    if getuid() != geteuid() || getgid() != getegid() {
        bail!(
            "ngmi's file is set-user-id or set-group-id, which gives it rights that it does not need: run `sudo chmod ug-s {0}`, and \
             `sudo setcap {RECIPE} {0}` to record without sudo",
            std::env::current_exe().map_or_else(|_| "ngmi".to_owned(), |exe| exe.display().to_string())
        );
    }
    if geteuid().is_root() {
        return Ok(());
    }
    let permitted = permitted().context("reading our capabilities")?;
    if has_extra_rights() {
        let _ = GRANTED.set(permitted);
    }
    let subcommand = std::env::args_os().nth(1).unwrap_or_default();
    let uses_them = ["__capture", "__open", "doctor"]
        .iter()
        .any(|word| subcommand == OsStr::new(word));
    let kept = if uses_them { Set::needed() } else { Set::default() };
    keep(kept).context("giving up capabilities")?;
    if !uses_them {
        // This process holds nothing that its user may not see, and the privileged helper must see the process that becomes the command.
        nix::sys::prctl::set_dumpable(true).context("making this process dumpable")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setcap_recipe_lists_the_required_capabilities() {
        let names: Vec<&str> = NEEDED.iter().map(|one| one.name).collect();
        assert_eq!(RECIPE, format!("{}+ep", names.join(",")));
        assert!(Set::needed().records());
        assert!(!Set::default().records());
        assert_eq!(Set::default().names(), "");
    }

    /// In a separate thread: the other threads keep their capabilities.
    #[test]
    fn dropped_capabilities_are_gone() {
        std::thread::spawn(|| {
            let before = permitted().unwrap();
            keep(Set::needed()).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            let expected = before.0 & Set::needed().0;
            assert_eq!((line("CapPrm:"), line("CapEff:")), (expected, expected));
            assert_eq!((line("CapInh:"), line("CapAmb:")), (0, 0));
            keep(Set::default()).unwrap();
            assert_eq!(permitted().unwrap(), Set::default());
            keep(Set::needed()).unwrap();
            assert_eq!(
                permitted().unwrap(),
                Set::default(),
                "a dropped capability can't be regained"
            );
        })
        .join()
        .unwrap();
    }
}
