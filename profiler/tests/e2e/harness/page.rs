//! The size of a page, which is 16 or 64 KiB on some arm64 machines.

use nix::unistd::{SysconfVar, sysconf};

/// Bytes of a page. `NGMI_PAGE_SIZE` is that of the guest for which programs are built in advance.
pub fn page_size() -> u64 {
    if let Ok(bytes) = std::env::var("NGMI_PAGE_SIZE") {
        return bytes.parse().unwrap();
    }
    u64::try_from(sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap()).unwrap()
}

/// Unit of recorded offsets and of pages read, whatever the size of a page.
pub const UNIT: u64 = 4096;

/// The compiler's flag for C programs, which assume 4 KiB without it.
pub fn page_flag() -> Option<String> {
    let bytes = page_size();
    (bytes != UNIT).then(|| format!("-DPAGE={bytes}ul"))
}
