//! Counts the processes whose recording ended before they did.

use crate::proc::procfs;
use base::plural::counted;

/// Processes that the kernel side no longer records although they still run.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The log is for a user who may not inspect all processes.
    pub looks: bool,
    count: u32,
}

impl LeftOut {
    /// Notes that the recording of a process ended.
    pub fn ended(&mut self, pid: u32) {
        if self.looks && procfs::stat(pid, pid).is_ok_and(|stat| !stat.has_ended) {
            self.count = self.count.saturating_add(1);
        }
    }

    /// A warning for the user, if any process was left out.
    pub fn sentence(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "not recorded to the end: {} that hid memory from the user while running (set-user-id programs, or files without read \
                 permission); use a root shell, or `sudo ngmi record -a`, to record them completely",
                counted(u64::from(self.count), "process")
            )
        })
    }
}
