//! The user's folders for files of programs, without those of another user's `HOME` that root
//! inherited.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// `XDG_CACHE_HOME` of this process, or `.cache` in its `HOME`; `None`: there is none, or it
/// belongs to another user.
pub fn cache_folder() -> Option<PathBuf> {
    cache_folder_of(|name| env::var_os(name))
}

/// The same for another environment.
pub fn cache_folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folder(variable, "XDG_CACHE_HOME", ".cache")
}

/// `XDG_STATE_HOME` of this process, or `.local/state` in its `HOME`; `None`: there is none, or it
/// belongs to another user.
pub fn state_folder() -> Option<PathBuf> {
    folder(|name| env::var_os(name), "XDG_STATE_HOME", ".local/state")
}

fn folder(variable: impl Fn(&str) -> Option<OsString>, name: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (place, folder) = match absolute(name) {
        Some(place) => (place.clone(), place),
        // Accounts of services have a home that does not exist, and must stay so.
        None => absolute("HOME")
            .filter(|home| home.is_dir())
            .map(|home| (home.clone(), home.join(in_home)))?,
    };
    is_own(&place).then_some(folder)
}

/// Files that root creates in another user's folder (`su`, `sudo -E`) could not be changed by that
/// user. For other users, the kernel checks permissions.
fn is_own(place: &Path) -> bool {
    let existing = place.ancestors().find_map(|path| path.metadata().ok());
    !Uid::effective().is_root() || existing.is_some_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    fn cache(variables: &[(&str, &Path)]) -> Option<PathBuf> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        cache_folder_of(|name| find(name).map(|(_, path)| path.as_os_str().to_owned()))
    }

    #[test]
    fn root_uses_no_folder_of_another_user() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        assert_eq!(cache(&[("HOME", home)]), Some(home.join(".cache")));
        assert_eq!(cache(&[("HOME", Path::new("relative"))]), None);
        assert_eq!(cache(&[("HOME", &home.join("missing"))]), None);
        if !Uid::effective().is_root() {
            eprintln!("skipped: only root can change the owner of a folder");
            return;
        }
        chown(home, Some(65534), None).unwrap();
        assert_eq!(cache(&[("HOME", home)]), None);
        assert_eq!(cache(&[("XDG_CACHE_HOME", &home.join("not/there"))]), None);
        let own = tempfile::tempdir().unwrap();
        let both = [("HOME", home), ("XDG_CACHE_HOME", own.path())];
        assert_eq!(cache(&both), Some(own.path().to_owned()));
    }
}
