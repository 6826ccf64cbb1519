//! How to get the symbols of a file, for each distribution.

/// Where a file without symbols is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The distribution's package, if there is one, and its name, if that is known.
    pub package: Option<Option<&'a str>>,
    /// It is a build of Mozilla's source, which the distribution may have built, too: whether Mozilla's server was asked.
    pub mozilla: Option<Asked>,
}

/// Whether a server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It has no symbols for the build, or failed, as another note says.
    Yes,
    /// `--no-network` forbids it.
    Forbidden,
    /// The recording is not of this machine's last start.
    Foreign,
}

/// What this machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// Its distribution.
    pub distribution: Distribution,
    /// apt knows the archive with packages of debug info.
    pub has_debug_archive: bool,
    /// Whether the distribution's debuginfod was asked; `None`: no setting names it.
    pub debuginfod: Option<Asked>,
}

/// The package manager and the servers of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Debian, and what is made of its packages.
    Debian,
    /// Ubuntu, and what is made of its packages.
    Ubuntu,
    /// Fedora.
    Fedora,
    /// Red Hat Enterprise Linux and its rebuilds.
    Enterprise,
    /// Arch Linux, and what is made of its packages.
    Arch,
    /// openSUSE and SUSE Linux Enterprise.
    Suse,
    /// Another one.
    Other,
}

impl Distribution {
    /// From the text of `/etc/os-release`: its `ID`, or else the first known one in `ID_LIKE`.
    /// <https://www.freedesktop.org/software/systemd/man/latest/os-release.html>
    pub fn of(os_release: &str) -> Self {
        let value = |key: &str| {
            let line = os_release.lines().rev().find_map(|line| line.trim().strip_prefix(key));
            line.unwrap_or_default().trim_matches(['"', '\''])
        };
        let words = value("ID=")
            .split_whitespace()
            .chain(value("ID_LIKE=").split_whitespace());
        words
            .map(Self::from_id)
            .find(|one| *one != Self::Other)
            .unwrap_or(Self::Other)
    }

    fn from_id(id: &str) -> Self {
        match id {
            "debian" | "raspbian" => Self::Debian,
            "ubuntu" => Self::Ubuntu,
            "fedora" => Self::Fedora,
            "rhel" | "centos" | "rocky" | "almalinux" | "ol" => Self::Enterprise,
            "arch" | "manjaro" => Self::Arch,
            "suse" | "sles" => Self::Suse,
            id if id.starts_with("opensuse") => Self::Suse,
            _ => Self::Other,
        }
    }

    /// Its debuginfod server: <https://sourceware.org/elfutils/Debuginfod.html>.
    pub fn debuginfod(self) -> Option<&'static str> {
        match self {
            Self::Debian => Some("https://debuginfod.debian.net"),
            Self::Ubuntu => Some("https://debuginfod.ubuntu.com"),
            Self::Fedora => Some("https://debuginfod.fedoraproject.org"),
            Self::Arch => Some("https://debuginfod.archlinux.org"),
            Self::Suse => Some("https://debuginfod.opensuse.org"),
            Self::Enterprise | Self::Other => None,
        }
    }

    /// The command that installs the debug info of a package; `None`: there are no such packages.
    fn install(self, package: &str) -> Option<String> {
        Some(match self {
            Self::Debian | Self::Ubuntu if package == "libc6" => "sudo apt install libc6-dbg".to_owned(),
            Self::Debian | Self::Ubuntu => format!("sudo apt install {package}-dbgsym"),
            Self::Fedora | Self::Enterprise => format!("sudo dnf debuginfo-install {package}"),
            Self::Suse => format!("sudo zypper --plus-content debug install {package}-debuginfo"),
            Self::Arch | Self::Other => return None,
        })
    }

    /// The archive with packages of debug info, if apt does not know it by default.
    /// <https://wiki.debian.org/AutomaticDebugPackages>, <https://documentation.ubuntu.com/server/reference/debugging/debug-symbol-packages/>
    fn debug_archive(self) -> Option<&'static str> {
        match self {
            Self::Debian => Some("debian-debug"),
            Self::Ubuntu => Some("ddebs.ubuntu.com"),
            _ => None,
        }
    }

    /// Prints the package with a file, for a command line; the file's name is quoted by the caller.
    fn find(self, file: &str) -> Option<String> {
        match self {
            Self::Debian | Self::Ubuntu => Some(format!("$(dpkg -S {file} | cut -d: -f1)")),
            Self::Fedora | Self::Enterprise | Self::Suse => Some(format!("$(rpm -qf --qf '%{{NAME}}' {file})")),
            Self::Arch | Self::Other => None,
        }
    }
}

/// What to type for the symbols of the file at `path`, the best first.
pub fn remedies(system: System, path: &str, origin: Origin<'_>) -> Vec<String> {
    let mut known = origin
        .package
        .map_or_else(Vec::new, |package| of_package(system, path, package));
    match origin.mozilla {
        Some(Asked::Forbidden) => known.push("without --no-network, Mozilla's server is asked".to_owned()),
        Some(Asked::Foreign) => known.push("--symbol-server https://symbols.mozilla.org".to_owned()),
        Some(Asked::Yes) | None => {}
    }
    if known.is_empty() {
        let last = if origin.package.is_some() && system.debuginfod.is_none() {
            "the debug info package of your distribution, or DEBUGINFOD_URLS with its server"
        } else {
            "--symbol-server URL, or a build with -g that is not stripped"
        };
        known.push(last.to_owned());
    }
    known
}

/// The remedies of a distribution for the file of a package.
fn of_package(system: System, path: &str, package: Option<&str>) -> Vec<String> {
    let distribution = system.distribution;
    let package = package.map(str::to_owned);
    let package = package.or_else(|| distribution.find(&quoted(path)?));
    // Debian keeps the debug info of its C library with everything else.
    let missing = distribution.debug_archive().filter(|_| !system.has_debug_archive);
    let missing = missing.filter(|_| package.as_deref() != Some("libc6"));
    let install = package.and_then(|package| distribution.install(&package));
    let install = match (install, missing) {
        (Some(install), Some(archive)) => Some(format!("{install} (with {archive} among apt's sources)")),
        (install, _) => install,
    };
    let server = match (distribution.debuginfod(), system.debuginfod) {
        (Some(_), Some(Asked::Forbidden)) => Some("without --no-network, debuginfod is asked".to_owned()),
        (Some(url), None) => Some(format!("export DEBUGINFOD_URLS={url}")),
        _ => None,
    };
    // What works at once is the best.
    let both = if missing.is_some() {
        [server, install]
    } else {
        [install, server]
    };
    both.into_iter().flatten().collect()
}

/// A path as a word of a shell; `None`: it has characters that a terminal would interpret.
fn quoted(path: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if path.chars().all(is_plain) {
        return Some(path.to_owned());
    }
    (!path.chars().any(char::is_control)).then(|| format!("'{}'", path.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nID=debian\nVERSION_ID=\"13\"\n";
    const UBUNTU: &str = "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
    const MINT: &str = "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
    const FEDORA: &str = "NAME=\"Fedora Linux\"\nID=fedora\nVERSION_ID=42\n";
    const ROCKY: &str = "NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n";
    const ARCH: &str = "NAME=\"Arch Linux\"\nID=arch\nBUILD_ID=rolling\n";
    const TUMBLEWEED: &str = "NAME=\"openSUSE Tumbleweed\"\nID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n";
    const LEAP: &str = "NAME='openSUSE Leap'\nID='opensuse-leap'\n";
    const OTHER: &str = "NAME=Alpine\nID=alpine\n";

    fn system(os_release: &str) -> System {
        System {
            distribution: Distribution::of(os_release),
            has_debug_archive: false,
            debuginfod: None,
        }
    }

    fn package(name: Option<&str>) -> Origin<'_> {
        Origin {
            package: Some(name),
            mozilla: None,
        }
    }

    #[test]
    fn each_distribution_has_its_commands() {
        let other = "the debug info package of your distribution, or DEBUGINFOD_URLS with its server";
        for (text, name, expected) in [
            (
                DEBIAN,
                Some("firefox-esr"),
                &[
                    "export DEBUGINFOD_URLS=https://debuginfod.debian.net",
                    "sudo apt install firefox-esr-dbgsym (with debian-debug among apt's sources)",
                ][..],
            ),
            (
                DEBIAN,
                None,
                &[
                    "export DEBUGINFOD_URLS=https://debuginfod.debian.net",
                    "sudo apt install $(dpkg -S /usr/lib/firefox/libxul.so | cut -d: -f1)-dbgsym (with debian-debug among \
                     apt's sources)",
                ],
            ),
            (
                UBUNTU,
                Some("libc6"),
                &[
                    "sudo apt install libc6-dbg",
                    "export DEBUGINFOD_URLS=https://debuginfod.ubuntu.com",
                ],
            ),
            (
                MINT,
                Some("thunderbird"),
                &[
                    "export DEBUGINFOD_URLS=https://debuginfod.ubuntu.com",
                    "sudo apt install thunderbird-dbgsym (with ddebs.ubuntu.com among apt's sources)",
                ],
            ),
            (
                FEDORA,
                None,
                &[
                    "sudo dnf debuginfo-install $(rpm -qf --qf '%{NAME}' /usr/lib/firefox/libxul.so)",
                    "export DEBUGINFOD_URLS=https://debuginfod.fedoraproject.org",
                ],
            ),
            (ROCKY, Some("firefox"), &["sudo dnf debuginfo-install firefox"]),
            (ARCH, None, &["export DEBUGINFOD_URLS=https://debuginfod.archlinux.org"]),
            (
                TUMBLEWEED,
                Some("MozillaFirefox"),
                &[
                    "sudo zypper --plus-content debug install MozillaFirefox-debuginfo",
                    "export DEBUGINFOD_URLS=https://debuginfod.opensuse.org",
                ],
            ),
            (OTHER, None, &[other]),
            ("", None, &[other]),
        ] {
            let lines = remedies(system(text), "/usr/lib/firefox/libxul.so", package(name));
            assert_eq!(lines, expected, "{text}");
        }
        assert_eq!(Distribution::of(LEAP), Distribution::Suse);
    }

    #[test]
    fn what_is_set_up_is_not_offered_again() {
        let with_archive = System {
            has_debug_archive: true,
            ..system(DEBIAN)
        };
        let lines = |system, name| remedies(system, "/usr/lib/x.so", package(name));
        assert_eq!(lines(with_archive, Some("x"))[0], "sudo apt install x-dbgsym");
        let asked = |debuginfod, text| System {
            debuginfod: Some(debuginfod),
            ..system(text)
        };
        assert_eq!(
            lines(asked(Asked::Yes, FEDORA), Some("x")),
            ["sudo dnf debuginfo-install x"]
        );
        let forbidden = lines(asked(Asked::Forbidden, ARCH), None);
        assert_eq!(forbidden, ["without --no-network, debuginfod is asked"]);
        assert!(lines(asked(Asked::Yes, ARCH), None)[0].starts_with("--symbol-server URL"));
    }

    #[test]
    fn names_of_files_cannot_run_commands() {
        let lines = |path| remedies(system(DEBIAN), path, package(None));
        assert_eq!(
            lines("/usr/lib/a b;reboot $(x)'y")[1],
            r"sudo apt install $(dpkg -S '/usr/lib/a b;reboot $(x)'\''y' | cut -d: -f1)-dbgsym (with debian-debug among apt's sources)"
        );
        assert_eq!(
            lines("/usr/lib/a\nreboot"),
            ["export DEBUGINFOD_URLS=https://debuginfod.debian.net"]
        );
    }

    #[test]
    fn builds_from_mozilla_need_no_package() {
        let lines = |asked, package| {
            let origin = Origin {
                package,
                mozilla: Some(asked),
            };
            remedies(system(FEDORA), "/opt/firefox/libxul.so", origin)
        };
        let line = |asked| lines(asked, None).remove(0);
        assert!(line(Asked::Forbidden).contains("--no-network"));
        assert!(line(Asked::Foreign).contains("https://symbols.mozilla.org"));
        assert!(line(Asked::Yes).contains("--symbol-server URL"));
        // A distribution builds it from the same source.
        let both = lines(Asked::Forbidden, Some(Some("firefox")));
        assert_eq!(both[0], "sudo dnf debuginfo-install firefox");
        assert!(both[2].contains("Mozilla's server"), "{both:?}");
    }
}
