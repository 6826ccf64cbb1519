//! Tests that can't run here print the reason, and `scripts/test` counts them with the file named by `NGMI_SKIP_FILE`.

use std::io::Write as _;
use std::path::Path;

/// Returns from the test, counted as skipped, unless this process may record.
macro_rules! needs_capture {
    () => {
        if let Some(reason) = $crate::harness::skip::no_capture() {
            $crate::harness::skip::skip(&reason);
            return;
        }
    };
}
pub(crate) use needs_capture;

/// Prints and counts that the current test is skipped. The caller must return.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(file) = std::env::var_os("NGMI_SKIP_FILE") {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .expect("NGMI_SKIP_FILE");
        file.write_all(line.as_bytes()).expect("NGMI_SKIP_FILE");
    }
}

/// Why recording is impossible here, determined without `ngmi`: a broken `ngmi` must fail, not skip the tests.
pub fn no_capture() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("the kernel has no BTF".to_owned());
    }
    None
}
