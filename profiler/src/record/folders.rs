//! Environment variables that make Firefox write data about itself, and the folders for that data. A value that the
//! user set takes precedence.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::unistd::Uid;
use symbols::Config;
use tempfile::TempDir;

use super::gecko::{self, Collects};
use super::identity::Environment;

/// Makes Firefox write its own markers, and sets their folder.
const MARKER_SWITCH: (&str, &str) = ("MOZ_USE_PERFORMANCE_MARKER_FILE", "1");
const MARKER_FOLDER: &str = "MOZ_PERFORMANCE_MARKER_DIR";
/// Makes Firefox's `SpiderMonkey` write a jitdump with a name for each function, and sets its folder.
const JIT_SWITCH: (&str, &str) = ("IONPERF", "func");
const JIT_FOLDER: &str = "PERF_SPEW_DIR";
/// Lets content processes open files, which they need to write jitdumps.
const NO_SANDBOX: (&str, &str) = ("MOZ_DISABLE_CONTENT_SANDBOX", "1");
/// Prefixes of our folders' names.
const MARKERS: &str = "ngmi-markers-";
const JIT: &str = "ngmi-jit-";
const GECKO: &str = "ngmi-gecko-";
const SCRATCH: &str = "ngmi-scratch-";
/// A younger folder may belong to another recorder that has not locked it yet.
const YOUNG: Duration = Duration::from_mins(1);

/// A folder that the program writes to.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Removes the folder when dropped, with the lock that keeps other recorders from removing it; `None`: the folder
    /// is the user's.
    own: Option<(TempDir, Option<File>)>,
}

impl Folder {
    /// The folder in the variable if it is set, or a new private one, with the variable set to it.
    fn prepare(environment: &mut Environment, variable: &str, prefix: &str) -> Option<Self> {
        if let Some(theirs) = environment.get(OsStr::new(variable)) {
            return Some(Self {
                path: theirs.into(),
                own: None,
            });
        }
        let folder = Self::new(&std::env::temp_dir(), prefix)?;
        environment.insert(variable.into(), folder.path.clone().into());
        Some(folder)
    }

    /// Creates a new private folder.
    fn new(place: &Path, prefix: &str) -> Option<Self> {
        Self::create(place, prefix).ok()
    }

    /// For the file of a Firefox whose profiler is about to be started.
    fn for_gecko(place: &Path) -> Result<Self> {
        Self::create(place, GECKO).with_context(|| {
            format!(
                "--gecko: cannot create a folder in {}; free space there, or set TMPDIR to another folder",
                place.display()
            )
        })
    }

    fn create(place: &Path, prefix: &str) -> io::Result<Self> {
        let own = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place)?;
        let lock = lock(own.path());
        Ok(Self {
            path: own.path().to_owned(),
            own: Some((own, lock)),
        })
    }
}

/// The folders of one recording, removed when it is finished.
#[derive(Debug, Default)]
pub struct Folders {
    markers: Option<Folder>,
    jit: Option<Folder>,
    gecko: Option<Folder>,
    /// Whether the program is to write to it by itself.
    expects_gecko: bool,
    /// For our own use only.
    scratch: Option<Folder>,
}

/// Locks a folder until the file is closed; `None`: it is not one of our folders, or a recorder is using it.
fn lock(folder: &Path) -> Option<File> {
    let mut options = File::options();
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let opened = options.read(true).custom_flags(flags).open(folder).ok()?;
    let is_own = opened.metadata().ok()?.uid() == Uid::effective().as_raw();
    (is_own && opened.try_lock().is_ok()).then_some(opened)
}

/// Removes empty folders of recorders that were killed.
fn remove_left(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_like_ours = [MARKERS, JIT, GECKO, SCRATCH]
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        let is_old = || {
            entry
                .metadata()
                .ok()?
                .modified()
                .ok()?
                .elapsed()
                .ok()
                .filter(|age| *age >= YOUNG)
        };
        if is_like_ours && is_old().is_some() && lock(&entry.path()).is_some() {
            // Fails if there is something in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Folders {
    /// Adds the variables to the program's environment: those for markers, and with `jit` those for names of JIT
    /// code, which turn off Firefox's content sandbox; with `gecko` those that start Firefox's own profiler to collect this.
    pub fn prepare(environment: &mut Environment, jit: bool, gecko: Option<Collects>) -> Self {
        let mut set = |(name, value): (&str, &str)| {
            environment.entry(name.into()).or_insert_with(|| value.into());
        };
        remove_left(&std::env::temp_dir());
        set(MARKER_SWITCH);
        if jit {
            set(JIT_SWITCH);
            set(NO_SANDBOX);
        }
        let markers = Folder::prepare(environment, MARKER_FOLDER, MARKERS);
        let jit = jit.then(|| Folder::prepare(environment, JIT_FOLDER, JIT)).flatten();
        let gecko = gecko.and_then(|collects| {
            let folder = Folder::new(&std::env::temp_dir(), GECKO)?;
            gecko::configure(environment, &folder.path, collects);
            Some(folder)
        });
        Self {
            markers,
            jit,
            expects_gecko: gecko.is_some(),
            gecko,
            ..Self::without_program()
        }
    }

    /// The folders for programs that are running already.
    pub fn without_program() -> Self {
        Self {
            // A step that needs the folder reports that it is missing.
            scratch: Folder::new(&Config::scratch_folder(), SCRATCH),
            ..Self::default()
        }
    }

    /// The folders for programs that are running already, with one for the file of a Firefox's own profiler.
    ///
    /// # Errors
    /// That folder can't be created: the markers would be lost.
    pub fn for_running_firefox() -> Result<Self> {
        Ok(Self {
            gecko: Some(Folder::for_gecko(&std::env::temp_dir())?),
            ..Self::without_program()
        })
    }

    /// A separate folder for what doesn't fit into memory while the profile is built: the process that builds it then
    /// needs no access to the folders of others.
    pub fn scratch(&self) -> Option<&Path> {
        self.scratch.as_ref().map(|folder| folder.path.as_path())
    }

    /// Whether names of JIT code were requested.
    pub fn wants_jit(&self) -> bool {
        self.jit.is_some()
    }

    /// Where Firefox's own profiler writes its files.
    pub fn gecko(&self) -> Option<&Path> {
        self.gecko.as_ref().map(|folder| folder.path.as_path())
    }

    /// Whether a missing file of it is to be reported with the others: that of a running Firefox is reported when it is
    /// collected.
    pub fn expects_gecko(&self) -> bool {
        self.expects_gecko
    }

    /// The folders that the program was set up to write to.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.markers, &self.jit, &self.gecko]
            .into_iter()
            .flatten()
            .map(|folder| &*folder.path)
    }

    /// Our own folders, which are to be removed.
    pub fn own(&self) -> Vec<PathBuf> {
        let folders = [&self.markers, &self.jit, &self.gecko, &self.scratch]
            .into_iter()
            .flatten();
        folders
            .filter_map(|folder| Some(folder.own.as_ref()?.0.path().to_owned()))
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
    fn a_user_set_value_wins() {
        let mut environment = Environment::new();
        for (name, value) in [
            (MARKER_SWITCH.0, "0"),
            (MARKER_FOLDER, "/theirs"),
            (JIT_SWITCH.0, "src"),
            (JIT_FOLDER, "/spew"),
        ] {
            environment.insert(name.into(), value.into());
        }
        let folders = Folders::prepare(&mut environment, true, None);
        assert_eq!(
            folders.paths().collect::<Vec<_>>(),
            [Path::new("/theirs"), Path::new("/spew")]
        );
        assert_eq!(folders.own(), [folders.scratch().unwrap()]);
        assert_eq!(value(&environment, MARKER_SWITCH.0).as_deref(), Some("0"));
        assert_eq!(value(&environment, JIT_SWITCH.0).as_deref(), Some("src"));
        assert_eq!(value(&environment, NO_SANDBOX.0).as_deref(), Some("1"));
    }

    #[test]
    fn the_sandbox_stays_unless_jit_names_were_requested() {
        let mut environment = Environment::new();
        let folders = Folders::prepare(&mut environment, false, None);
        assert!(!folders.wants_jit() && folders.own().len() == 2);
        for name in [JIT_SWITCH.0, JIT_FOLDER, NO_SANDBOX.0] {
            assert_eq!(value(&environment, name), None);
        }
    }

    #[test]
    fn our_folders_are_private_and_removed() {
        let mut environment = Environment::new();
        let folders = Folders::prepare(&mut environment, true, None);
        let own = folders.own();
        assert_eq!(own.len(), 3);
        for folder in &own {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(value(&environment, JIT_FOLDER).as_deref(), own[1].to_str());
        drop(folders);
        assert!(own.iter().all(|folder| !folder.exists()));
    }

    #[test]
    fn firefox_writes_to_a_folder_of_its_own() {
        let mut environment = Environment::new();
        let folders = Folders::prepare(&mut environment, false, Some(gecko::MARKERS));
        let folder = folders.gecko().unwrap().to_owned();
        assert!(folders.own().contains(&folder) && folders.paths().any(|path| path == folder));
        let file = value(&environment, "MOZ_PROFILER_SHUTDOWN").unwrap();
        assert!(Path::new(&file).starts_with(&folder));
        let features = value(&environment, "MOZ_PROFILER_STARTUP_FEATURES");
        assert_eq!(features.as_deref(), Some("nostacksampling,nomarkerstacks"));
        let threads = value(&environment, "MOZ_PROFILER_STARTUP_FILTERS").unwrap();
        assert!(threads.starts_with("GeckoMain,"), "{threads}");
        assert!(folders.expects_gecko());
    }

    #[test]
    fn a_running_firefox_is_not_started_without_a_folder() {
        let error = Folder::for_gecko(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("in /nonexistent; free space"), "{error}");
        let folders = Folders::for_running_firefox().unwrap();
        assert!(folders.gecko().is_some() && !folders.expects_gecko());
    }

    #[test]
    fn empty_folders_of_killed_recorders_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            let old = std::time::SystemTime::now() - Duration::from_secs(age);
            File::open(&folder).unwrap().set_modified(old).unwrap();
            folder
        };
        let (left, jit) = (make("ngmi-markers-1", 100), make("ngmi-jit-2", 100));
        let (young, held, other) = (
            make("ngmi-markers-3", 0),
            make("ngmi-markers-4", 100),
            make("markers", 100),
        );
        let full = make("ngmi-markers-5", 0);
        fs::write(full.join("marker-1.txt"), "").unwrap();
        File::open(&full)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let recorder = lock(&held).unwrap();
        remove_left(place.path());
        assert!(!left.exists() && !jit.exists());
        assert!([&young, &held, &other, &full].iter().all(|folder| folder.exists()));
        drop(recorder);
        remove_left(place.path());
        assert!(!held.exists());
    }
}
