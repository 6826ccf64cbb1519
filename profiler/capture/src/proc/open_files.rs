//! The limit of open files: recorder and privileged helper hold a descriptor for each of many files, and several for
//! each CPU.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// A raised limit; dropping this restores the old one.
#[derive(Debug)]
#[must_use]
pub struct Raised {
    before: rlim_t,
}

/// Raises the limit as far as possible. Processes started meanwhile inherit it.
pub fn raise() -> Raised {
    let (before, highest) = limits();
    if before < highest {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, highest, highest); // the old limit suffices for most recordings
    }
    Raised { before }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let (now, highest) = limits();
        // With more files open than the old limit allows, none could be opened. They can't be counted without a free
        // descriptor either.
        let open = std::fs::read_dir("/proc/self/fd").map_or(usize::MAX, Iterator::count);
        if self.before < now && (open as u64) < self.before {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, self.before, highest); // the limit stays raised in that case
        }
    }
}

/// The limit, and the maximum it can be raised to.
fn limits() -> (rlim_t, rlim_t) {
    getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024))
}

/// Whether a new descriptor is in the last quarter, which is reserved for everything but held files: the kernel
/// assigns the lowest free number.
pub fn is_of_the_last(descriptor: &impl AsRawFd) -> bool {
    let (limit, _) = limits();
    u64::try_from(descriptor.as_raw_fd()).is_ok_and(|number| number >= limit - limit / 4)
}

/// The limit and its remedy, for messages.
pub fn remedy() -> String {
    let (limit, _) = limits();
    format!("no more than {limit} files may be open: raise that limit (`ulimit -n`)")
}

/// Whether an error means that the limit is reached.
pub fn is_reached(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

/// Runs this test again in a separate process with this limit of open files. True: this is that process.
///
/// # Panics
/// When the test fails there.
#[cfg(test)]
pub fn is_limited(test: &str, limit: u32) -> bool {
    const MARK: &str = "NGMI_TEST_LIMITED";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let script = format!("ulimit -n {limit} && exec \"$0\" --exact \"$1\" --test-threads 1 --nocapture");
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(MARK, "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    false
}

/// Opens files until no descriptor is left.
#[cfg(test)]
pub fn take_all() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_for_a_while() {
        if !is_limited("proc::open_files::tests::the_limit_is_raised_for_a_while", 64) {
            return;
        }
        setrlimit(Resource::RLIMIT_NOFILE, 32, 64).unwrap();
        let raised = raise();
        assert_eq!(limits(), (64, 64));
        let all = take_all();
        assert!(is_of_the_last(all.last().unwrap()) && !is_of_the_last(&all[0]));
        drop(raised);
        assert_eq!(limits().0, 64, "more files are open than the old limit allows");
        let raised = raise();
        drop(all);
        drop(raised);
        assert_eq!(limits().0, 64, "this was the limit when it was raised again");
        setrlimit(Resource::RLIMIT_NOFILE, 32, 64).unwrap();
        drop(raise());
        assert_eq!(limits(), (32, 64));
    }

    #[test]
    fn the_limit_and_its_remedy_are_named() {
        if !is_limited("proc::open_files::tests::the_limit_and_its_remedy_are_named", 48) {
            return;
        }
        let all = take_all();
        let error = std::fs::File::open("/dev/null").unwrap_err();
        drop(all);
        assert!(is_reached(&error) && !is_reached(&io::ErrorKind::NotFound.into()));
        assert_eq!(
            remedy(),
            "no more than 48 files may be open: raise that limit (`ulimit -n`)"
        );
    }
}
