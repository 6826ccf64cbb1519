//! Where a Firefox that runs already writes the file of its profiler on SIGUSR2.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::{ON_SIGNAL, open};
use crate::record::identity::Environment;

/// Maximum bytes of the list of the user's folders.
const LIST: u64 = 64 << 10;
/// Maximum bytes of a process's variables.
const VARIABLES: u64 = 8 << 20;

/// The variables that it was started with.
///
/// # Errors
/// They can't be read, or are larger than 8 MiB.
pub fn environment_of(pid: u32) -> Result<Environment> {
    let path = format!("/proc/{pid}/environ");
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(VARIABLES).read_to_end(&mut bytes))
        .with_context(|| format!("--gecko: cannot read {path}"))?;
    if bytes.len() as u64 == VARIABLES {
        bail!("--gecko: {path} is larger than 8 MiB; start Firefox with fewer variables");
    }
    let variables = bytes.split(|byte| *byte == 0).filter_map(|variable| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((text(&variable[..at]), text(&variable[at + 1..])))
    });
    Ok(variables.collect())
}

/// The absolute path in its variable, or the user's folder for downloads, as `xdg-user-dirs` keeps it. A relative path
/// would be one of Firefox's working directory.
pub fn folder(environment: &Environment) -> Option<PathBuf> {
    let value = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let absolute = |name: &str| value(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if value(ON_SIGNAL).is_some() {
        return absolute(ON_SIGNAL);
    }
    let home = absolute("HOME")?;
    let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let mut list = String::new();
    let opened = open(&config.join("user-dirs.dirs"));
    let read = opened.and_then(|file| file.take(LIST).read_to_string(&mut list));
    let mut lines = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("XDG_DOWNLOAD_DIR="));
    let listed = lines
        .next_back()
        .map(|path| path.trim_matches('"'))
        .filter(|_| read.is_ok());
    let listed = listed.and_then(|path| match path.strip_prefix("$HOME") {
        Some(rest) => Some(home.join(rest.trim_start_matches('/'))),
        None => path.starts_with('/').then(|| path.into()),
    });
    Some(listed.unwrap_or_else(|| home.join("Downloads")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_folder_for_downloads_is_the_users() {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment::new();
        assert_eq!(folder(&environment), None);
        environment.insert("HOME".into(), home.path().into());
        assert_eq!(folder(&environment), Some(home.path().join("Downloads")));
        fs::create_dir(home.path().join(".config")).unwrap();
        let list = "# x\nXDG_DOWNLOAD_DIR=\"$HOME/Laden\"\nXDG_DESKTOP_DIR=\"/x\"\n";
        fs::write(home.path().join(".config/user-dirs.dirs"), list).unwrap();
        assert_eq!(folder(&environment), Some(home.path().join("Laden")));
        environment.insert(ON_SIGNAL.into(), "/elsewhere".into());
        assert_eq!(folder(&environment), Some("/elsewhere".into()));
        environment.insert(ON_SIGNAL.into(), "elsewhere".into());
        assert_eq!(folder(&environment), None);
    }
}
