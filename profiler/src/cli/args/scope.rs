//! Which processes and threads `record` records, by what they are.

use clap::Args;

/// Conditions of recorded threads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scope")]
pub struct ScopeArgs {
    /// Record the processes in this cgroup and those below it: a path below /sys/fs/cgroup, or as in
    /// /proc/PID/cgroup (repeatable; any may match)
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Record this unit of systemd, of the system or a user; a service needs no suffix (repeatable)
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
    /// Record this container of Docker, Podman, containerd or CRI-O (repeatable)
    #[arg(long, value_name = "NAME|ID")]
    pub container: Vec<String>,
    /// Record this pod of Kubernetes (repeatable)
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub pod: Vec<String>,
    /// Record threads and processes with this name, in which `*` matches any text and `?` any
    /// byte (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub name: Vec<String>,
    /// Record processes that execute this file (repeatable)
    #[arg(long, value_name = "PATH")]
    pub exe: Vec<String>,
    /// Exclude matching threads: `cgroup=PATH`, `name=GLOB`, `exe=PATH`, `user=NAME`,
    /// `pid=PID`, `unit=NAME`, `container=NAME` or `pod=NAME`
    /// (repeatable)
    #[arg(long, value_name = "KIND=VALUE")]
    pub exclude: Vec<String>,
    /// Wait for the first matching process, even if its cgroup does not exist yet; -d counts from
    /// that process on
    #[arg(long)]
    pub wait: bool,
}
