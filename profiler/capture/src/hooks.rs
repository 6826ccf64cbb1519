//! What runs in the kernel: the eBPF object, its programs and perf events, hook by hook, and what the kernel counts
//! about them. What the hooks report is read in `drain`.

pub mod ahead;
pub(crate) mod arch;
pub mod attach;
pub(crate) mod bounds;
pub mod btf;
pub mod coverage;
pub mod disks;
pub mod exact_touch;
pub mod faults;
pub mod governor;
pub(crate) mod hook;
pub(crate) mod hotplug;
pub mod load;
pub mod losses;
pub mod meter;
pub(crate) mod missed;
pub(crate) mod perf;
pub(crate) mod pid_namespace;
mod preempt;
pub mod selection;
pub(crate) mod sleepers;
pub mod waits;
