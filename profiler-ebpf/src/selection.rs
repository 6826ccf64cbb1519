//! Which threads are recorded by what they are: their cgroup, name, program, user or process.
//!
//! Nothing is remembered about a thread: each event looks at what its thread is then, so a thread that moves, executes a program, changes
//! its user or its name is recorded from the next event on, or not any more.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::{Array, HashMap, LruHashMap, PerCpuArray};
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::Loss;
use profiler_common::glob::{self, Positions, step};
use profiler_common::selection::{
    BY_CGROUP, BY_EXE, BY_NAME, BY_PID, BY_USER, CGROUP_PATH_LEN, CHANGES, CHOSEN, COVERAGE, CgroupPath, EXCLUDED,
    GENERATION, Key, LIMITED,
};
use profiler_common::task::COMM_LEN;

use crate::emit::{lose, ring_doorbell};
use crate::kernel::{Cgroup, Task};
use crate::maps::{config, volatile};
use crate::preempt::Held;

/// Values of conditions, and whether they choose or exclude. User space sets the size.
#[map]
static SELECTED: HashMap<Key, u32> = HashMap::with_max_entries(1, 0);

/// Ids of cgroups whose threads are not recorded, by their last bits. They stay right: an id is never used again, and what a cgroup is to
/// the recording is known before a thread can be in it.
#[map]
static OTHERS: Array<u64> = Array::with_max_entries(OTHERS_LEN, 0);
const OTHERS_LEN: u32 = 1 << 10;

/// Positions in patterns of names, by byte: [`profiler_common::glob`].
#[map]
static GLOBS: Array<Positions> = Array::with_max_entries(glob::ENTRIES, 0);

/// What the patterns say of names that were seen.
#[map]
static NAMES: LruHashMap<[u64; 2], u32> = LruHashMap::with_max_entries(1 << 12, 0);

/// Cgroups that are chosen or excluded whenever they are created, by path or by name alone. User space sets the size.
#[map]
static AWAITED: HashMap<CgroupPath, u32> = HashMap::with_max_entries(1, 0);

/// Which perf events count, by [`profiler_common::selection::CHANGES`] and the like.
#[map]
static EVENTS: Array<u64> = Array::with_max_entries(3, 0);

/// The path that is looked up there.
#[map]
static PATH: PerCpuArray<CgroupPath> = PerCpuArray::with_max_entries(1, 0);

/// Whether cgroups decide which threads are recorded.
#[inline(always)]
pub fn is_by_cgroup() -> bool {
    uses(BY_CGROUP)
}

/// Whether threads are recorded by what they are.
#[inline(always)]
pub fn is_used() -> bool {
    config!(required) != 0 || config!(excluding) != 0
}

/// Whether a thread is not recorded because of its cgroup, as far as that is remembered: on a busy machine this is the answer for most
/// events, and takes no look-up in a hash table.
///
/// Not inlined, as [`contains`].
#[inline(never)]
pub fn is_elsewhere(task: Task) -> bool {
    let id = task.cgroup().id();
    id != 0 && OTHERS.get(id as u32 % OTHERS_LEN).map_or(0, volatile) == id
}

/// Whether a thread is one of those to record. `is_recorded`: it was until now.
///
/// Not inlined, which would double the object; not exported, so that the verifier knows the type of the pointer.
#[inline(never)]
pub fn contains(task: Task, is_recorded: bool) -> bool {
    if uses(BY_CGROUP) {
        let id = task.cgroup().id();
        if !allows(BY_CGROUP, value(&Key::new(BY_CGROUP, id))) {
            if let Some(place) = OTHERS.get_ptr_mut(id as u32 % OTHERS_LEN) {
                // SAFETY: one word, which any CPU may replace.
                unsafe { core::ptr::write_volatile(place, id) };
            }
            return false;
        }
    }
    if uses(BY_USER) && !allows(BY_USER, value(&Key::new(BY_USER, u64::from(task.user())))) {
        return false;
    }
    if uses(BY_PID) {
        let values = if task.is_last_of_process() {
            as_before(is_recorded) // its key may be gone
        } else {
            value(&Key::new(BY_PID, u64::from(task.pid())))
        };
        if !allows(BY_PID, values) {
            return false;
        }
    }
    if uses(BY_EXE) {
        let values = match task.program() {
            Some((device, inode)) => value(&Key {
                kind: BY_EXE,
                device,
                number: inode,
            }),
            None if task.is_kernel_thread() => 0,
            // At its end a thread gives up its address space, and with it its program.
            None => as_before(is_recorded),
        };
        if !allows(BY_EXE, values) {
            return false;
        }
    }
    !uses(BY_NAME) || allows(BY_NAME, by_name(task))
}

/// What decides about a thread at its end, when nothing else does any more.
#[inline(always)]
fn as_before(is_recorded: bool) -> u32 {
    if is_recorded { CHOSEN } else { EXCLUDED }
}

#[inline(always)]
fn uses(kind: u32) -> bool {
    (config!(required) | config!(excluding)) & kind != 0
}

#[inline(always)]
fn allows(kind: u32, values: u32) -> bool {
    if config!(excluding) & kind != 0 && values & EXCLUDED != 0 {
        return false;
    }
    config!(required) & kind == 0 || values & CHOSEN != 0
}

#[inline(always)]
fn value(key: &Key) -> u32 {
    // SAFETY: a value is one word.
    unsafe { SELECTED.get(key) }.copied().unwrap_or(0)
}

/// What the patterns say of the thread's name and of its process's.
#[inline(always)]
fn by_name(task: Task) -> u32 {
    let own = of_name(task);
    match task.group_leader() {
        Some(leader) => own | of_name(leader),
        None => own,
    }
}

#[inline(always)]
fn of_name(task: Task) -> u32 {
    let name = task.name_words();
    // SAFETY: a value is one word.
    match unsafe { NAMES.get(&name) } {
        Some(&known) => known,
        None => match_name(name[0], name[1]),
    }
}

/// What the patterns say of a name, which is then remembered.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn match_name(first: u64, second: u64) -> u32 {
    let name = [first, second];
    let (Some(&start), Some(stays)) = (GLOBS.get(glob::FIRST), GLOBS.get(glob::STAYS)) else {
        return 0;
    };
    let mut at = start;
    let mut rest = name;
    for _ in 0..COMM_LEN - 1 {
        let byte = rest[0] as u8;
        if byte == 0 {
            break;
        }
        rest = [rest[0] >> 8 | rest[1] << 56, rest[1] >> 8];
        let Some(of_byte) = GLOBS.get(u32::from(byte)) else {
            break;
        };
        for word in 0..glob::WORDS {
            at[word] = step(at[word], of_byte[word], stays[word]);
        }
    }
    let (Some(chosen), Some(excluded)) = (GLOBS.get(glob::CHOSEN), GLOBS.get(glob::EXCLUDED)) else {
        return 0;
    };
    let (mut is_chosen, mut is_excluded) = (0, 0);
    for word in 0..glob::WORDS {
        is_chosen |= at[word] & chosen[word];
        is_excluded |= at[word] & excluded[word];
    }
    let values = u32::from(is_chosen != 0) * CHOSEN | u32::from(is_excluded != 0) * EXCLUDED;
    let _ = NAMES.insert(&name, &values, 0); // it is matched again otherwise
    values
}

/// A process was created: it belongs to what its creator belongs to.
#[inline(always)]
pub fn process_born(creator: u32, child: u32) {
    if !uses(BY_PID) || creator == child {
        return;
    }
    let values = value(&Key::new(BY_PID, u64::from(creator)));
    let key = Key::new(BY_PID, u64::from(child));
    if values == 0 {
        let _ = SELECTED.remove(&key); // of a process that had the number before
    } else {
        insert(&key, values);
    }
}

/// A thread is switched out, maybe for the last time, or about to be.
#[inline(always)]
pub fn thread_ended(task: Task, is_about_to: bool) {
    if uses(BY_PID) && (is_about_to || task.is_dead()) && task.is_last_of_process() {
        let _ = SELECTED.remove(&Key::new(BY_PID, u64::from(task.pid()))); // mostly there is none
    }
}

/// `cgroup_mkdir(struct cgroup *cgrp, const char *path)`: a cgroup is created, still without processes. `path` is that in its hierarchy.
#[btf_tracepoint(function = "cgroup_mkdir")]
pub fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let cgroup = Cgroup::new(ctx.arg::<*const c_void>(0));
    if cgroup.hierarchy() != config!(hierarchy) {
        return 0;
    }
    let awaited = awaited_at(ctx.arg::<u64>(1)) | awaited_at(cgroup.name());
    let values = awaited | value(&Key::new(BY_CGROUP, cgroup.parent().id()));
    if values != 0 {
        insert(&Key::new(BY_CGROUP, cgroup.id()), values);
    }
    changed(awaited);
    0
}

/// `cgroup_notify_populated(struct cgroup *cgrp, const char *path, int val)`: the first process is in the cgroup or one below it, or the
/// last one has left. An empty one may be removed and created again.
#[btf_tracepoint(function = "cgroup_notify_populated")]
pub fn cgroup_notify_populated(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let cgroup = Cgroup::new(ctx.arg::<*const c_void>(0));
    if ctx.arg::<u32>(2) == 0 && cgroup.hierarchy() == config!(hierarchy) {
        changed(awaited_at(ctx.arg::<u64>(1)) | awaited_at(cgroup.name()));
    }
    0
}

/// A cgroup with these values was created, or became empty: perf events that are limited to others may have to be widened.
#[inline(always)]
fn changed(values: u32) {
    if values & CHOSEN == 0 || event_setting(COVERAGE) != LIMITED {
        return;
    }
    if let Some(changes) = EVENTS.get_ptr_mut(CHANGES) {
        // SAFETY: one word. Of two changes at once one may not be counted: user space sees that there was one.
        unsafe { core::ptr::write_volatile(changes, core::ptr::read_volatile(changes) + 1) };
    }
    ring_doorbell();
}

#[inline(always)]
fn event_setting(place: u32) -> u64 {
    EVENTS.get(place).map_or(0, volatile)
}

/// Whether a perf event with this cookie counts: while user space replaces events, there are two for each thing that happens.
#[inline(always)]
pub fn counts(cookie: u64) -> bool {
    cookie >> 32 == event_setting(GENERATION)
}

/// Whether perf events are, or were, limited to cgroups: they do not show what a thread does after another process moved it elsewhere.
#[inline(always)]
pub fn was_limited() -> bool {
    event_setting(COVERAGE) != 0
}

/// Whether the path, or the name, at an address is awaited.
#[inline(always)]
fn awaited_at(from: u64) -> u32 {
    let Some(path) = PATH.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own entry, and preemption is off.
    unsafe {
        *path = [0; CGROUP_PATH_LEN];
        bpf_probe_read_kernel_str(path.cast(), CGROUP_PATH_LEN as u32, from as *const c_void);
        AWAITED.get(&*path).copied().unwrap_or(0)
    }
}

/// `cgroup_release(struct cgroup *cgrp, const char *path)`: nothing refers to the cgroup any more.
#[btf_tracepoint(function = "cgroup_release")]
pub fn cgroup_release(ctx: BtfTracePointContext) -> i32 {
    let cgroup = Cgroup::new(ctx.arg::<*const c_void>(0));
    if cgroup.hierarchy() == config!(hierarchy) {
        let _ = SELECTED.remove(&Key::new(BY_CGROUP, cgroup.id())); // mostly there is none
    }
    0
}

#[inline(always)]
fn insert(key: &Key, values: u32) {
    if SELECTED.insert(key, &values, 0).is_err() {
        lose(Loss::SelectionFull);
    }
}
