//! Folders with sources. A profile may be from an untrusted source, and name any file: see
//! docs/server.md.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::source;
use crate::vetted::Vetted;

/// Folders in which packages, containers and build farms keep sources and headers.
const SYSTEM: &[&str] = &["/usr", "/opt", "/build", "/nix/store", "/gnu/store"];
/// Folders without sources, even if they are named as a root.
const NEVER: &[&str] = &[
    "/etc",
    "/run",
    "/boot",
    "/var/lib",
    "/var/log",
    "/var/mail",
    "/var/spool",
];
/// Hidden folders with sources. Other hidden folders may contain keys or mail.
const HIDDEN: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".rustup/toolchains",
    ".conan",
    ".conan2",
    ".cache/bazel",
];

/// Maximum number of entries of a root that are allowed individually.
const ENTRIES: usize = 10_000;

/// Folders below which sources may be opened.
#[derive(Debug, Clone, Default)]
pub struct SourceRoots {
    /// Roots named by the user: hidden folders below them are included.
    named: Vec<PathBuf>,
    /// Default roots.
    usual: Vec<PathBuf>,
}

impl SourceRoots {
    /// The default roots (the home folder, the working directory, the system's packages), and those
    /// named by the user. Missing folders are skipped, and `/` is only a root if it is named.
    pub fn new(home: Option<&Path>, working: Option<&Path>, named: &[PathBuf]) -> Self {
        let real = |path: &Path| path.canonicalize().ok();
        let system = SYSTEM.iter().map(Path::new);
        let usual = home.into_iter().chain(working).chain(system).filter_map(real);
        Self {
            named: named.iter().filter_map(|path| real(path)).collect(),
            usual: usual.filter(|path| path.parent().is_some()).collect(),
        }
    }

    /// A small set of files and folders that contains every readable source: hidden entries at the
    /// top of a default root are excluded.
    pub fn readable(&self) -> Vec<PathBuf> {
        let usual = self.usual.iter().flat_map(|root| {
            let visible = root.read_dir().into_iter().flatten().flatten().take(ENTRIES);
            let visible = visible.map(|entry| entry.path()).filter(|path| self.contain(path));
            visible.chain(HIDDEN.iter().map(|hidden| root.join(hidden)))
        });
        self.named.iter().cloned().chain(usual).collect()
    }

    /// Returns the text of a source file.
    ///
    /// # Errors
    /// It does not exist, may not be read, or is not text; the reason is a sentence for the user.
    pub fn read(&self, path: &Path) -> Result<String, String> {
        source::text_of(&self.open(path)?)
    }

    /// Opens a source file.
    ///
    /// # Errors
    /// It does not exist or may not be served; the reason is a sentence for the user.
    fn open(&self, path: &Path) -> Result<File, String> {
        let path = without_dots(path).ok_or("the path of the source is not absolute")?;
        let shown = path.display();
        let vetted = Vetted::new(&path).map_err(|error| format!("{shown}: {error}"))?;
        if !self.contain(&vetted.path) {
            return Err(format!(
                "{shown} is not below a folder with sources; name its folder with --source-root"
            ));
        }
        let is_public = vetted.metadata.mode() & 0o004 != 0;
        if !is_public && vetted.metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(format!(
                "{shown} belongs to another user and is not readable by everyone"
            ));
        }
        vetted.open().map_err(|error| format!("{shown}: {error}"))
    }

    /// `real` is a path without symbolic links.
    fn contain(&self, real: &Path) -> bool {
        if NEVER.iter().any(|never| real.starts_with(never)) {
            return false;
        }
        self.named.iter().any(|root| real.starts_with(root))
            || self
                .usual
                .iter()
                .any(|root| real.strip_prefix(root).is_ok_and(|below| !is_hidden(below)))
    }
}

/// Resolves `.` and `..` lexically, as compilers do when they join their working directory and a
/// path. `None`: the path is not absolute.
fn without_dots(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    Some(plain)
}

fn is_hidden(below: &Path) -> bool {
    let after = HIDDEN.iter().find_map(|known| below.strip_prefix(known).ok());
    after
        .unwrap_or(below)
        .components()
        .any(|component| component.as_os_str().as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn dots_are_resolved_by_name() {
        let plain = |path: &str| without_dots(Path::new(path)).unwrap();
        assert_eq!(plain("/a/b/../c/./d.c"), Path::new("/a/c/d.c"));
        assert_eq!(plain("/../../etc/shadow"), Path::new("/etc/shadow"));
        assert_eq!(without_dots(Path::new("a/../b.c")), None);
    }

    /// A home folder with a source, a key, and links that lead outside.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in ["project", ".ssh", ".cargo/registry/src/crate"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (file, text) in [
            ("project/main.c", "int main;"),
            (".ssh/id_ed25519", "key"),
            (".cargo/registry/src/crate/lib.rs", "fn f() {}"),
        ] {
            fs::write(at(file), text).unwrap();
        }
        symlink("/etc/passwd", at("project/escape.c")).unwrap();
        symlink("../.ssh/id_ed25519", at("project/key.c")).unwrap();
        symlink("main.c", at("project/alias.c")).unwrap();
        symlink("/dev/zero", at("project/zero.c")).unwrap();
        symlink("/proc/self/environ", at("project/environ.c")).unwrap();
        symlink("/proc/self/fd/0", at("project/fd.c")).unwrap();
        home
    }

    fn read(roots: &SourceRoots, path: &Path) -> Result<String, String> {
        let mut text = String::new();
        roots
            .open(path)?
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn hidden_files_are_not_readable() {
        let home = home();
        let roots = SourceRoots::new(Some(home.path()), None, &[]);
        let readable = roots.readable();
        let real = home.path().canonicalize().unwrap();
        let is_in = |name: &str| readable.iter().any(|place| real.join(name).starts_with(place));
        assert!(is_in("project/main.c") && is_in(".cargo/registry/src/crate/lib.rs"));
        assert!(!is_in(".ssh/id_ed25519") && !is_in(".bashrc"));
    }

    #[test]
    fn only_sources_below_a_root_are_opened() {
        let home = home();
        let roots = SourceRoots::new(Some(home.path()), None, &[]);
        let at = |name: &str| home.path().join(name);
        for (path, text) in [
            ("project/main.c", "int main;"),
            ("project/alias.c", "int main;"),
            ("project/sub/../main.c", "int main;"),
            (".cargo/registry/src/crate/lib.rs", "fn f() {}"),
        ] {
            assert_eq!(read(&roots, &at(path)).as_deref(), Ok(text), "{path}");
        }
        for path in [
            at(".ssh/id_ed25519"),
            at("project/escape.c"),
            at("project/key.c"),
            at("project/zero.c"),
            at("project/environ.c"),
            at("project/fd.c"),
            at("project"),
            at("project/absent.c"),
            at("project/../../../../../../etc/passwd"),
            "/etc/shadow".into(),
            "/etc/passwd".into(),
            "/proc/self/environ".into(),
            "/proc/self/root/etc/passwd".into(),
            "/dev/null".into(),
            "project/main.c".into(),
            "".into(),
        ] {
            assert!(read(&roots, &path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn a_named_root_excludes_system_secrets() {
        let home = home();
        let key = home.path().join(".ssh/id_ed25519");
        let named = |root: &Path| SourceRoots::new(None, None, &[root.to_owned()]);
        assert_eq!(read(&named(home.path()), &key).as_deref(), Ok("key"));
        assert!(read(&named(Path::new("/")), Path::new("/etc/passwd")).is_err());
        assert!(
            read(&SourceRoots::new(Some(Path::new("/")), None, &[]), &key).is_err(),
            "`/` by accident"
        );
    }

    #[test]
    fn files_of_other_users_are_not_opened() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can read files of other users");
            return;
        }
        let home = home();
        let file = home.path().join("project/main.c");
        std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let roots = SourceRoots::new(Some(home.path()), None, &[]);
        assert!(read(&roots, &file).unwrap_err().contains("another user"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&roots, &file).is_ok());
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_writer() {
        let home = home();
        let pipe = home.path().join("project/pipe.c");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let roots = SourceRoots::new(Some(home.path()), None, &[]);
        assert!(read(&roots, &pipe).unwrap_err().contains("not a regular file"));
    }
}
