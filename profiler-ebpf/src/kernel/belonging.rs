//! What a task belongs to: its cgroup, user and program.

use core::ffi::c_void;

use super::Task;
use crate::maps::config;
use crate::read::load;

/// `struct cgroup *`
#[derive(Clone, Copy)]
pub struct Cgroup(*const c_void);

impl Task {
    /// Its cgroup in the hierarchy that is recorded.
    #[inline(always)]
    pub fn cgroup(self) -> Cgroup {
        let set: *const c_void = load(self.0, config!(task_cgroups)).unwrap_or(core::ptr::null());
        let cgroup: *const c_void = load(set, config!(css_set_cgroup)).unwrap_or(core::ptr::null());
        // Of a controller: its state in the cgroup.
        Cgroup(load(cgroup, config!(state_cgroup)).unwrap_or(cgroup))
    }

    /// Its effective user.
    #[inline(always)]
    pub fn user(self) -> u32 {
        let credentials: *const c_void = load(self.0, config!(task_cred)).unwrap_or(core::ptr::null());
        load(credentials, config!(cred_user)).unwrap_or(u32::MAX)
    }

    /// The file of its program: device and inode. `None`: it has no address space.
    #[inline(always)]
    pub fn program(self) -> Option<(u32, u64)> {
        let file: *const c_void = load(self.mm()?.0, config!(mm_exe_file))?;
        let inode: *const c_void = load(file, config!(file_inode))?;
        let superblock: *const c_void = load(inode, config!(inode_sb))?;
        Some((load(superblock, config!(sb_dev))?, load(inode, config!(inode_ino))?))
    }

    /// All threads of its process are exiting or have ended.
    #[inline(always)]
    pub fn is_last_of_process(self) -> bool {
        let signal: Option<*const c_void> = load(self.0, config!(task_signal));
        signal
            .and_then(|signal| load::<u32>(signal, config!(signal_live)))
            .is_some_and(|live| live == 0)
    }
}

impl Cgroup {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Its id, which is also the inode of its folder; 0: unknown.
    #[inline(always)]
    pub fn id(self) -> u64 {
        let node: *const c_void = load(self.0, config!(cgroup_node)).unwrap_or(core::ptr::null());
        load(node, config!(node_id)).unwrap_or(0)
    }

    /// Address of its name, in kernel memory; 0: unknown.
    #[inline(always)]
    pub fn name(self) -> u64 {
        let node: *const c_void = load(self.0, config!(cgroup_node)).unwrap_or(core::ptr::null());
        load(node, config!(node_name)).unwrap_or(0)
    }

    /// The cgroup that contains it.
    #[inline(always)]
    pub fn parent(self) -> Self {
        let state: *const c_void = load(self.0, config!(cgroup_parent)).unwrap_or(core::ptr::null());
        Self(load(state, config!(css_cgroup)).unwrap_or(core::ptr::null()))
    }

    /// The number of its hierarchy; 0: version 2.
    #[inline(always)]
    pub fn hierarchy(self) -> u32 {
        let root: *const c_void = load(self.0, config!(cgroup_root)).unwrap_or(core::ptr::null());
        load(root, config!(cgroup_root_hierarchy)).unwrap_or(u32::MAX)
    }
}
