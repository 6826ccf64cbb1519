//! The tables of a recording of threads by what they are, and the hooks that keep those of cgroups up to date.

use anyhow::{Context as _, bail};
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData};
use profiler_common::config::{Config, MISSING};
use profiler_common::glob::Globs;
use profiler_common::selection::{BY_CGROUP, BY_EXE, BY_NAME, BY_PID, BY_USER, CGROUP_PATH_LEN, CgroupPath, Key};
use zerocopy::IntoBytes as _;

use super::btf::Btf;
use super::hook;
use super::load::Sizes;
use crate::proc::cgroups::{Cgroup, Hierarchy};
use base::event::HookStatus;

/// Programs that follow cgroups from their creation to their end.
const OF_CGROUPS: [&str; 2] = ["cgroup_mkdir", "cgroup_release"];
/// The program that reports when one is empty.
const OF_ENDS: &str = "cgroup_notify_populated";
/// The program that follows processes which move between them.
const OF_MOVES: &str = "cgroup_attach_task";
/// Cgroups and processes that are recorded at one time.
const SELECTED: u32 = 1 << 16;

/// A key as words: `aya::Pod` can't be implemented for a foreign type.
type KeyWords = [u64; size_of::<Key>() / 8];

/// What the kernel side has to know. Values are of [`profiler_common::selection::CHOSEN`] and the like.
#[derive(Debug, Default)]
pub struct Tables {
    /// Kinds of conditions that a thread has to meet.
    pub required: u32,
    /// Kinds of conditions that a thread must not meet.
    pub excluding: u32,
    /// Users, processes and files of programs.
    pub values: Vec<(Key, u32)>,
    /// Patterns of names.
    pub globs: Globs,
    /// The hierarchy of the cgroups.
    pub hierarchy: Option<Hierarchy>,
    /// Cgroups by path.
    pub cgroups: Vec<(Cgroup, u32)>,
    /// Cgroups by name, wherever they are.
    pub names: Vec<(String, u32)>,
}

impl Tables {
    /// Whether threads are recorded by what they are.
    pub fn is_used(&self) -> bool {
        self.required | self.excluding != 0
    }

    fn uses(&self, kind: u32) -> bool {
        (self.required | self.excluding) & kind != 0
    }

    /// Configures the programs and the sizes of the tables.
    ///
    /// # Errors
    /// When this kernel does not show what a condition needs.
    pub fn configure(&self, config: &mut Config, sizes: &mut Sizes, types: &Btf) -> anyhow::Result<()> {
        if !self.is_used() {
            return Ok(());
        }
        (config.required, config.excluding) = (self.required, self.excluding);
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        sizes.selected = SELECTED.saturating_add(count);
        sizes.awaited = u32::try_from(self.cgroups.len() + self.names.len())
            .unwrap_or(u32::MAX)
            .max(1);
        if let Some(hierarchy) = &self.hierarchy {
            locate(hierarchy, config, types)?;
        }
        let of_cgroups = [
            config.task_cgroups,
            config.css_set_cgroup,
            config.cgroup_node,
            config.node_id,
        ];
        let of_children = [
            config.cgroup_parent,
            config.css_cgroup,
            config.cgroup_root,
            config.cgroup_root_hierarchy,
        ];
        let needed = [
            (BY_CGROUP, "cgroups of threads", &of_cgroups[..]),
            (BY_CGROUP, "hierarchies of cgroups", &of_children[..]),
            (BY_USER, "users of threads", &[config.task_cred, config.cred_user][..]),
            (
                BY_EXE,
                "programs of processes",
                &[config.task_mm, config.mm_exe_file, config.file_inode, config.inode_sb][..],
            ),
            (
                BY_NAME,
                "names of threads",
                &[config.task_comm, config.task_group_leader][..],
            ),
            (
                BY_PID,
                "ends of processes",
                &[config.task_signal, config.signal_live][..],
            ),
        ];
        for (kind, what, offsets) in needed {
            if self.uses(kind) && offsets.contains(&MISSING) {
                bail!("this kernel does not show the {what}, so they can't be recorded separately; use -p or -a");
            }
        }
        Ok(())
    }

    /// Fills the tables and attaches the hooks of cgroups, before any hook that records. True: they also report which cgroups are created
    /// and empty.
    ///
    /// # Errors
    /// When the kernel refuses one: it would be unknown what to record.
    pub fn begin(&self, ebpf: &mut Ebpf, types: &aya::Btf, status: &mut Vec<HookStatus>) -> anyhow::Result<bool> {
        if !self.is_used() {
            return Ok(false);
        }
        let map = ebpf.map_mut("GLOBS").context(NO_MAP)?;
        let mut globs: Array<&mut MapData, profiler_common::glob::Positions> = Array::try_from(map)?;
        for (index, set) in (0..).zip(&self.globs.table) {
            globs.set(index, set, 0)?;
        }
        let mut selected = selected(ebpf)?;
        for (key, value) in &self.values {
            selected.insert(words(key), value, 0)?;
        }
        if !self.uses(BY_CGROUP) {
            return Ok(false);
        }
        let map = ebpf.map_mut("AWAITED").context(NO_MAP)?;
        let mut awaited: HashMap<&mut MapData, CgroupPath, u32> = HashMap::try_from(map)?;
        let paths = self
            .cgroups
            .iter()
            .map(|(cgroup, value)| (cgroup.path.as_str(), *value));
        let names = self.names.iter().map(|(name, value)| (name.as_str(), *value));
        for (path, value) in merged(paths.chain(names)) {
            awaited.insert(padded(path)?, value, 0)?;
        }
        let mut attach = |ebpf: &mut Ebpf, name: &str| {
            let result = hook::attach_tracepoint(ebpf, name, types);
            let attached = hook::hook_of("task", &format!("tp_btf/{name}"), result.as_ref().map(|&()| ()));
            status.push(attached);
            result.with_context(|| {
                format!("tp_btf/{name} was refused, so cgroups can't be recorded separately; use -p or -a")
            })
        };
        for name in OF_CGROUPS {
            attach(ebpf, name)?;
        }
        self.add_existing(ebpf)?;
        // The programs remember which cgroups are others, so none that looks at threads may run before this.
        attach(ebpf, OF_MOVES)?;
        let ends = hook::attach_tracepoints(ebpf, types, ("task", &[OF_ENDS]), NOT_LIMITED);
        let reports_ends = ends.iter().all(|status| status.refused.is_none());
        status.extend(ends);
        Ok(reports_ends)
    }

    /// Adds the cgroups that exist. Each is added before those below it are listed: the hooks add what is created after that.
    fn add_existing(&self, ebpf: &mut Ebpf) -> anyhow::Result<()> {
        let Some(hierarchy) = &self.hierarchy else {
            return Ok(());
        };
        let mut selected = selected(ebpf)?;
        let mut result = Ok(());
        let mut add = |id: u64, value: u32| {
            let key = words(&Key::new(BY_CGROUP, id));
            let before = selected.get(&key, 0).unwrap_or(0);
            if value != 0
                && let Err(error) = selected.insert(key, before | value, 0)
            {
                result = Err(error);
            }
        };
        let mut is_whole = true;
        for (cgroup, value) in &self.cgroups {
            is_whole &= hierarchy.walk(&cgroup.path, |_, id| add(id, *value));
        }
        if !self.names.is_empty() {
            is_whole &= hierarchy.walk("/", |path, id| {
                let is_below = |name: &str| path.split('/').any(|part| part == name);
                let values = self.names.iter().filter(|(name, _)| is_below(name));
                add(id, values.fold(0, |values, (_, value)| values | value));
            });
        }
        if !is_whole {
            bail!(TOO_MANY);
        }
        result.context(TOO_MANY)
    }
}

const TOO_MANY: &str = "too many cgroups to record: name fewer, or record everything with -a";
const NOT_LIMITED: &str = "no action needed: other cgroups are interrupted as often as recorded ones (docs/scope.md)";
const NO_MAP: &str = "the eBPF object lacks a map of selections: run `scripts/build-ebpf`";

fn selected(ebpf: &mut Ebpf) -> anyhow::Result<HashMap<&mut MapData, KeyWords, u32>> {
    Ok(HashMap::try_from(ebpf.map_mut("SELECTED").context(NO_MAP)?)?)
}

fn words(key: &Key) -> KeyWords {
    let mut words = KeyWords::default();
    words.as_mut_bytes().copy_from_slice(key.as_bytes());
    words
}

/// The values of each path together.
fn merged<'p>(paths: impl Iterator<Item = (&'p str, u32)>) -> Vec<(&'p str, u32)> {
    let mut merged: Vec<(&str, u32)> = Vec::new();
    for (path, value) in paths {
        match merged.iter_mut().find(|(other, _)| *other == path) {
            Some((_, values)) => *values |= value,
            None => merged.push((path, value)),
        }
    }
    merged
}

fn padded(path: &str) -> anyhow::Result<CgroupPath> {
    let mut padded = [0; CGROUP_PATH_LEN];
    match padded.get_mut(..path.len()) {
        Some(start) if path.len() < CGROUP_PATH_LEN => start.copy_from_slice(path.as_bytes()),
        _ => bail!(
            "the path of a cgroup has {} bytes, and {} at most can be recorded: name a cgroup above it",
            path.len(),
            CGROUP_PATH_LEN - 1
        ),
    }
    Ok(padded)
}

/// Where the kernel has a thread's cgroup of this hierarchy.
fn locate(hierarchy: &Hierarchy, config: &mut Config, types: &Btf) -> anyhow::Result<()> {
    config.hierarchy = hierarchy.number;
    if hierarchy.is_version_2() {
        config.css_set_cgroup = types.offset("css_set.dfl_cgrp").unwrap_or(MISSING);
        return Ok(());
    }
    let Some(controller) = hierarchy.controller() else {
        bail!(
            "cgroups of the hierarchy {} have no controller and can't be recorded; name those of another one, such as \
             /sys/fs/cgroup/memory",
            hierarchy.name()
        );
    };
    // The kernel's own name of the controller (include/linux/cgroup_subsys.h).
    let controller = if controller == "blkio" { "io" } else { controller };
    let number = types.enumerator(&format!("{controller}_cgrp_id"));
    let list = types.offset("css_set.subsys");
    config.css_set_cgroup = list.zip(number).map_or(MISSING, |(list, number)| list + number * 8);
    config.state_cgroup = config.css_cgroup;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_padded_within_their_limit() {
        assert_eq!(padded("/a").unwrap()[..3], *b"/a\0");
        assert!(padded(&"a".repeat(CGROUP_PATH_LEN - 1)).is_ok());
        assert!(padded(&"a".repeat(CGROUP_PATH_LEN)).is_err());
    }

    #[test]
    fn a_path_may_have_both_values() {
        let paths = [("/a", 1), ("/b", 1), ("/a", 2)];
        assert_eq!(merged(paths.into_iter()), [("/a", 3), ("/b", 1)]);
    }
}
