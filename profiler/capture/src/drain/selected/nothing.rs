//! What to say when nothing is one of those to record: similar names.

use std::io;

use anyhow::{Error, anyhow, bail};

use super::Selected;
use crate::proc::cgroups::Cgroup;
use crate::proc::procfs;
use base::{owner, similar};

impl Selected {
    /// Why no thread is one of those to record, with similar names.
    pub fn nothing(&self) -> Error {
        let chosen = &self.selection.chosen;
        let is_only = |values: &[String]| !values.is_empty() && values.len() == chosen.len();
        let wait = "use --wait to wait for one";
        let processes = || procfs::processes().unwrap_or_default().into_iter();
        if is_only(&chosen.names) {
            let name = |pid| Some(String::from_utf8_lossy(&procfs::stat(pid, pid).ok()?.name).into_owned());
            let similar = similar::sentence(&chosen.names[0].replace(['*', '?'], ""), processes().filter_map(name));
            return anyhow!(
                "no thread or process is called {}{similar}; {wait}",
                any_of(&chosen.names)
            );
        }
        if is_only(&chosen.programs) {
            let similar = similar::sentence(&chosen.programs[0], programs());
            return anyhow!("no process executes {}{similar}; {wait}", any_of(&chosen.programs));
        }
        if is_only(&chosen.units) {
            let similar = similar::sentence(&chosen.units[0], self.units());
            return anyhow!(
                "no process belongs to the unit {}{similar}; {wait}",
                any_of(&chosen.units)
            );
        }
        if is_only(&chosen.cgroups) {
            return anyhow!("there is no process in the cgroup {}; {wait}", any_of(&chosen.cgroups));
        }
        if is_only(&chosen.containers) {
            return anyhow!(
                "there is no process in the container {}; {wait}",
                any_of(&chosen.containers)
            );
        }
        if is_only(&chosen.pods) {
            return anyhow!("there is no process in the pod {}; {wait}", any_of(&chosen.pods));
        }
        if chosen.len() == chosen.users.len() && !chosen.users.is_empty() {
            let users: Vec<String> = chosen.users.iter().map(u32::to_string).collect();
            return anyhow!("there is no process of user {}; {wait}", users.join(" or "));
        }
        anyhow!("no process meets all of these conditions; drop one, or {wait}")
    }

    /// The units that have a cgroup.
    fn units(&self) -> Vec<String> {
        let mut units = Vec::new();
        if let Some(hierarchy) = &self.hierarchy {
            hierarchy.walk("/", |path, _| units.extend(owner::of(path).unit));
        }
        units
    }
}

/// The programs of running processes.
fn programs() -> impl Iterator<Item = String> {
    let processes = procfs::processes().unwrap_or_default().into_iter();
    let programs = processes.filter_map(|pid| String::from_utf8(procfs::program(pid).0).ok());
    programs.filter(|path| !path.is_empty())
}

/// Why a program can't be recorded, with similar ones that run.
pub(super) fn no_program(path: &str, error: &io::Error) -> Error {
    anyhow!(
        "there is no program `{}`: {error}{}",
        path.escape_debug(),
        similar::sentence(path, programs())
    )
}

fn any_of(values: &[String]) -> String {
    let all: Vec<String> = values.iter().map(|one| format!("`{}`", one.escape_debug())).collect();
    all.join(" or ")
}

/// Fails unless a cgroup exists, with similar ones.
pub(super) fn require(cgroup: &Cgroup) -> anyhow::Result<()> {
    if cgroup.exists() {
        return Ok(());
    }
    let mut paths = Vec::new();
    cgroup.hierarchy.walk("/", |path, _| paths.push(path.to_owned()));
    let base = cgroup.path.rsplit('/').next().unwrap_or_default();
    // First those in the same folder, or with the same name elsewhere.
    let folder = &cgroup.path[..cgroup.path.len() - base.len()];
    let near = paths
        .iter()
        .filter(|path| path.starts_with(folder) || path.rsplit('/').next() == Some(base));
    let near: Vec<String> = near.cloned().collect();
    bail!(
        "there is no cgroup `{}` in {}{}; use --wait to wait for it",
        cgroup.path.escape_debug(),
        cgroup.hierarchy.mount.display(),
        similar::sentence(&cgroup.path, if near.is_empty() { paths } else { near })
    )
}
