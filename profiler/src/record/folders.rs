//! What a Firefox is told to write about itself, and the folders where it writes that. A value that the person set wins.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::identity::Environment;

/// Tells Firefox to write its own markers, and where.
const MARKER_SWITCH: (&str, &str) = ("MOZ_USE_PERFORMANCE_MARKER_FILE", "1");
const MARKER_FOLDER: &str = "MOZ_PERFORMANCE_MARKER_DIR";
/// Tells Firefox's `SpiderMonkey` to write a jitdump with a name for each function, and where.
const JIT_SWITCH: (&str, &str) = ("IONPERF", "func");
const JIT_FOLDER: &str = "PERF_SPEW_DIR";
/// Lets content processes open files, and so write jitdumps.
const NO_SANDBOX: (&str, &str) = ("MOZ_DISABLE_CONTENT_SANDBOX", "1");

/// A folder that the program writes to.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Removes the folder when it is dropped; `None`: the folder is the person's.
    own: Option<TempDir>,
}

impl Folder {
    /// That of the variable if it is set, or a new and private one, which the variable then names.
    fn prepare(environment: &mut Environment, variable: &str, prefix: &str) -> Option<Self> {
        if let Some(theirs) = environment.get(OsStr::new(variable)) {
            return Some(Self {
                path: theirs.into(),
                own: None,
            });
        }
        let own = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .ok()?;
        environment.insert(variable.into(), own.path().into());
        Some(Self {
            path: own.path().to_owned(),
            own: Some(own),
        })
    }
}

/// The folders of one recording, gone when it is finished.
#[derive(Debug, Default)]
pub struct Folders {
    markers: Option<Folder>,
    jit: Option<Folder>,
}

impl Folders {
    /// Adds the variables to the program's environment: those for markers, and with `jit` those for names of JIT code, which
    /// turn off Firefox's content sandbox.
    pub fn prepare(environment: &mut Environment, jit: bool) -> Self {
        let mut set = |(name, value): (&str, &str)| {
            environment.entry(name.into()).or_insert_with(|| value.into());
        };
        set(MARKER_SWITCH);
        if jit {
            set(JIT_SWITCH);
            set(NO_SANDBOX);
        }
        let markers = Folder::prepare(environment, MARKER_FOLDER, "ngmi-markers-");
        let jit = jit
            .then(|| Folder::prepare(environment, JIT_FOLDER, "ngmi-jit-"))
            .flatten();
        Self { markers, jit }
    }

    /// Whether names of JIT code were asked for.
    pub fn wants_jit(&self) -> bool {
        self.jit.is_some()
    }

    /// Where the program was told to write.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.markers, &self.jit]
            .into_iter()
            .flatten()
            .map(|folder| &*folder.path)
    }

    /// Those of them that are not the person's, and are to be removed.
    pub fn own(&self) -> Vec<PathBuf> {
        let folders = [&self.markers, &self.jit].into_iter().flatten();
        folders
            .filter_map(|folder| Some(folder.own.as_ref()?.path().to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(environment: &Environment, name: &str) -> Option<String> {
        environment
            .get(OsStr::new(name))
            .map(|value| value.to_string_lossy().into_owned())
    }

    #[test]
    fn a_value_that_the_person_set_wins() {
        let mut environment = Environment::new();
        for (name, value) in [
            (MARKER_SWITCH.0, "0"),
            (MARKER_FOLDER, "/theirs"),
            (JIT_SWITCH.0, "src"),
            (JIT_FOLDER, "/spew"),
        ] {
            environment.insert(name.into(), value.into());
        }
        let folders = Folders::prepare(&mut environment, true);
        assert_eq!(
            folders.paths().collect::<Vec<_>>(),
            [Path::new("/theirs"), Path::new("/spew")]
        );
        assert!(folders.own().is_empty());
        assert_eq!(value(&environment, MARKER_SWITCH.0).as_deref(), Some("0"));
        assert_eq!(value(&environment, JIT_SWITCH.0).as_deref(), Some("src"));
        assert_eq!(value(&environment, NO_SANDBOX.0).as_deref(), Some("1"));
    }

    #[test]
    fn the_sandbox_stays_unless_jit_names_were_asked_for() {
        let mut environment = Environment::new();
        let folders = Folders::prepare(&mut environment, false);
        assert!(!folders.wants_jit() && folders.own().len() == 1);
        for name in [JIT_SWITCH.0, JIT_FOLDER, NO_SANDBOX.0] {
            assert_eq!(value(&environment, name), None);
        }
    }

    #[test]
    fn our_folders_are_private_and_go_away() {
        let mut environment = Environment::new();
        let folders = Folders::prepare(&mut environment, true);
        let own = folders.own();
        assert_eq!(own.len(), 2);
        for folder in &own {
            assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(value(&environment, JIT_FOLDER).as_deref(), own[1].to_str());
        drop(folders);
        assert!(own.iter().all(|folder| !folder.exists()));
    }
}
