//! This process and its machine, and what `/proc` and `/sys` say about others: requests to the kernel that are the same
//! with or without a recording. Nothing here knows a hook, a message or the log.

pub mod ask;
pub mod capabilities;
pub mod cgroup_files;
pub mod cgroups;
pub mod confinement;
pub mod conmon;
pub mod containers;
pub mod daemon;
pub(crate) mod debugfs;
pub mod dispositions;
pub mod kallsyms;
pub mod machine;
pub mod memory;
pub(crate) mod mounts;
pub mod open_files;
pub mod page_cache;
pub mod pidfd;
pub mod priority;
pub mod procfs;
pub mod selection;
