//! The user that runs the program, and its environment: under sudo, the user who typed the command, not root.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::unistd::{self, Gid, Uid, User};

use crate::capture::proc::capabilities::has_extra_rights;

/// Environment variables of a user's display and session.
const SESSION: [&str; 6] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_SESSION_TYPE",
];

/// Variables of root's environment that another user gets in addition to `LC_*`: how the terminal displays text.
const TERMINAL: [&str; 5] = ["TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE"];

/// The search path for another user's programs; root's own `PATH` may name folders of root's.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Bytes of a process's environment that are read, at most; the kernel lets a process claim a size as large as its
/// memory.
const ENVIRONMENT_LIMIT: u64 = 8 << 20;

/// The environment of a process.
pub type Environment = BTreeMap<OsString, OsString>;

/// The user and environment of the program.
#[derive(Debug, Clone)]
pub struct Identity {
    /// `None`: the current user.
    user: Option<User>,
    /// The program's environment.
    pub environment: Environment,
}

impl Identity {
    /// Finds the user: `--user`, else `SUDO_UID`, else the current one.
    ///
    /// # Errors
    /// An unknown user, or `--user` without being root.
    pub fn find(asked: Option<&str>) -> Result<Self> {
        let own = own_environment();
        let root = Uid::effective().is_root();
        if let Some(name) = asked {
            let user = User::from_name(name)
                .with_context(|| format!("looking up user `{name}`"))?
                .with_context(|| format!("there is no user `{name}`; `getent passwd` lists them"))?;
            if user.uid == Uid::effective() {
                return Ok(Self {
                    user: None,
                    environment: own,
                });
            }
            if !root {
                bail!("only root can run the command as `{name}`; use `sudo ngmi record --user {name} -- ...`");
            }
            let environment = of_user(&own, &user);
            return Ok(Self {
                user: Some(user),
                environment,
            });
        }
        let sudo_uid = own
            .get(OsStr::new("SUDO_UID"))
            .and_then(|v| v.to_str()?.parse().ok())
            .filter(|&uid| uid != 0);
        match sudo_uid {
            Some(uid) if root => {
                let user = User::from_uid(Uid::from_raw(uid))
                    .context("looking up SUDO_UID")?
                    .with_context(|| format!("SUDO_UID is {uid}, but no user has that id; name one with --user"))?;
                let environment = of_sudos_parent(&user).unwrap_or_else(|| of_user(&own, &user));
                Ok(Self {
                    user: Some(user),
                    environment,
                })
            }
            _ => Ok(Self {
                user: None,
                environment: own,
            }),
        }
    }

    /// Becomes that user permanently. Call it after everything that needs root was started.
    ///
    /// # Errors
    /// When the kernel refuses the change.
    pub fn assume(&self) -> Result<()> {
        let Some(user) = &self.user else { return Ok(()) };
        let name = CString::new(user.name.as_bytes()).context("the user's name contains a NUL")?;
        let change = || -> nix::Result<()> {
            unistd::initgroups(&name, user.gid)?;
            unistd::setresgid(user.gid, user.gid, user.gid)?;
            unistd::setresuid(user.uid, user.uid, user.uid)
        };
        change().with_context(|| format!("becoming user `{}`", user.name))?;
        if Uid::effective() != user.uid || Gid::effective() != user.gid {
            bail!("the kernel did not drop root privileges; refusing to run the command as root by mistake");
        }
        hide_from_its_user()
    }

    /// The ordinary user that this process becomes; `None`: it does not change.
    pub fn user(&self) -> Option<u32> {
        self.user.as_ref().map(|user| user.uid.as_raw()).filter(|&uid| uid != 0)
    }

    /// Finds `program` as the shell would: as a path if it has a slash, else in the identity's `PATH`. Call it as
    /// that user: root can see all users' folders.
    ///
    /// # Errors
    /// When it does not exist or is not executable, in words.
    pub fn resolve(&self, program: &OsStr) -> Result<PathBuf> {
        if program.as_bytes().contains(&b'/') {
            let path = PathBuf::from(program);
            return match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => bail!("{} is a directory; name a program", path.display()),
                Ok(_) if may_execute(&path) => Ok(path),
                Ok(_) => bail!(
                    "{} is not executable; make it executable with `chmod +x`",
                    path.display()
                ),
                Err(error) => Err(error).with_context(|| format!("cannot run {}", path.display())),
            };
        }
        let fallback = OsString::from(PATH);
        let path = self.environment.get(OsStr::new("PATH")).unwrap_or(&fallback);
        let found: Vec<PathBuf> = std::env::split_paths(path)
            .map(|dir| dir.join(program))
            .filter(|file| file.is_file())
            .collect();
        match found.iter().find(|file| may_execute(file)) {
            Some(file) => Ok(file.clone()),
            None if found.is_empty() => {
                bail!("`{}` is not in PATH; give its path or install it", program.display())
            }
            None => bail!(
                "{} is not executable; make it executable with `chmod +x`",
                found[0].display()
            ),
        }
    }
}

fn may_execute(path: &Path) -> bool {
    unistd::access(path, unistd::AccessFlags::X_OK).is_ok()
}

/// Prevents other processes of the same user from taking this one's descriptors, such as the socket to the privileged
/// helper (`ptrace_may_access` in kernel/ptrace.c). The processes it starts are ordinary again.
///
/// # Errors
/// When the kernel refuses.
pub fn hide_from_its_user() -> Result<()> {
    nix::sys::prctl::set_dumpable(false).context("hiding from other processes")
}

/// The environment this process was started with. With file capabilities the C library has removed some variables
/// (`LD_LIBRARY_PATH`, `TMPDIR`), which the command, which has none of the capabilities, needs.
pub fn own_environment() -> Environment {
    let whole = has_extra_rights().then(|| environment_of(std::process::id())).flatten();
    whole.unwrap_or_else(|| std::env::vars_os().collect())
}

/// The environment of the process that started sudo: that of the user's shell.
fn of_sudos_parent(user: &User) -> Option<Environment> {
    let mut pid = std::process::id();
    for _ in 0..16 {
        let (name, parent) = name_and_parent(pid)?;
        if pid != std::process::id() && name != "sudo" && owner(pid) == Some(user.uid) {
            return environment_of(pid);
        }
        pid = parent;
    }
    None
}

fn owner(pid: u32) -> Option<Uid> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}"))
        .ok()
        .map(|meta| Uid::from_raw(meta.uid()))
}

fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let parent = stat.get(close + 2..)?.split(' ').nth(1)?.parse().ok()?;
    Some((stat.get(open + 1..close)?.to_owned(), parent))
}

fn environment_of(pid: u32) -> Option<Environment> {
    let mut bytes = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(ENVIRONMENT_LIMIT).read_to_end(&mut bytes).ok()?;
    let pairs = bytes.split(|&b| b == 0).filter_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=').filter(|&at| at > 0)?;
        Some((
            OsString::from_vec(pair[..at].to_vec()),
            OsString::from_vec(pair[at + 1..].to_vec()),
        ))
    });
    Some(pairs.collect()).filter(|environment: &Environment| !environment.is_empty())
}

/// A new environment for that user, like that of a login: nothing of ours except how the terminal displays text, and
/// the display and session bus of one of the user's own processes.
fn of_user(own: &Environment, user: &User) -> Environment {
    let is_shared = |name: &OsStr| name.as_bytes().starts_with(b"LC_") || TERMINAL.iter().any(|one| name == *one);
    let mut environment = own.clone();
    environment.retain(|name, _| is_shared(name));
    let mut set = |name: &str, value: OsString| environment.insert(name.into(), value);
    set("PATH", PATH.into());
    set("HOME", user.dir.clone().into());
    set("USER", user.name.clone().into());
    set("LOGNAME", user.name.clone().into());
    set("SHELL", user.shell.clone().into());
    environment.extend(session_of(user.uid));
    environment
}

fn session_of(uid: Uid) -> Environment {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut best = Environment::new();
    for pid in pids.filter(|&pid| owner(pid) == Some(uid)) {
        let mut found = environment_of(pid).unwrap_or_default();
        found.retain(|name, _| SESSION.iter().any(|s| name == s));
        if found.len() > best.len() {
            best = found;
        }
    }
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    if runtime.is_dir() {
        let bus = runtime.join("bus");
        best.entry("XDG_RUNTIME_DIR".into()).or_insert_with(|| runtime.into());
        if bus.exists() {
            best.entry("DBUS_SESSION_BUS_ADDRESS".into())
                .or_insert_with(|| format!("unix:path={}", bus.display()).into());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_gets_only_the_terminal_environment() {
        let own = [
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("LC_ALL", "C"),
            ("LD_PRELOAD", "/opt/roots/x.so"),
            ("PATH", "/opt/roots/bin:/usr/bin"),
            ("SUDO_COMMAND", "ngmi"),
            ("TERM", "xterm"),
            ("XAUTHORITY", "/opt/roots/.Xauthority"),
        ];
        let own = own.map(|(name, value)| (name.into(), value.into())).into();
        let user = User::from_uid(Uid::from_raw(65534)).unwrap().unwrap();
        let environment = of_user(&own, &user);
        let get = |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(
            (get("LC_ALL"), get("TERM"), get("PATH")),
            (Some("C"), Some("xterm"), Some(PATH))
        );
        assert_eq!(get("HOME"), user.dir.to_str());
        for name in ["AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "SUDO_COMMAND"] {
            assert_eq!(get(name), None, "{name}");
        }
        assert!(
            !environment
                .values()
                .any(|value| value.as_bytes().starts_with(b"/opt/roots"))
        );
    }

    #[test]
    fn an_unknown_user_is_named() {
        let error = format!("{:#}", Identity::find(Some("no-such-user-here")).unwrap_err());
        assert!(error.contains("no-such-user-here"), "{error}");
    }

    #[test]
    fn programs_are_found_through_path() {
        let identity = Identity::find(None).unwrap();
        assert!(identity.resolve(OsStr::new("sh")).is_ok());
        assert!(format!("{:#}", identity.resolve(OsStr::new("/etc/passwd")).unwrap_err()).contains("not executable"));
        assert!(format!("{:#}", identity.resolve(OsStr::new("/etc")).unwrap_err()).contains("directory"));
        assert!(format!("{:#}", identity.resolve(OsStr::new("no-such-program-x")).unwrap_err()).contains("PATH"));
        assert!(identity.resolve(OsStr::new("/no/such")).is_err());
    }

    #[test]
    fn our_process_has_a_parent_and_an_environment() {
        let (_, parent) = name_and_parent(std::process::id()).unwrap();
        assert!(parent > 0);
        assert!(
            environment_of(std::process::id())
                .unwrap()
                .contains_key(OsStr::new("PATH"))
        );
    }
}
