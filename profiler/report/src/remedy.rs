//! How to get the symbols of a file, for each distribution.

/// Where a file without symbols is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A build from Mozilla, and whether its server was asked.
    Mozilla(Asked),
    /// The distribution's package, if its name is known.
    Package(Option<&'a str>),
    /// Neither: it was built here, or installed without a package.
    Elsewhere,
}

/// Whether Mozilla's server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It has no symbols for the build, or failed, as another note says.
    Yes,
    /// `--no-network` forbids it.
    Forbidden,
    /// The recording is not of this machine's last start.
    Foreign,
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
        Some(match (self, package) {
            (Self::Debian | Self::Ubuntu, "libc6") => "sudo apt install libc6-dbg".to_owned(),
            (Self::Debian | Self::Ubuntu, _) => format!("sudo apt install {package}-dbgsym"),
            (Self::Fedora | Self::Enterprise, _) => format!("sudo dnf debuginfo-install {package}"),
            (Self::Suse, _) => format!("sudo zypper --plus-content debug install {package}-debuginfo"),
            (Self::Arch | Self::Other, _) => return None,
        })
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
pub fn remedies(distribution: Distribution, path: &str, origin: Origin<'_>) -> Vec<String> {
    match origin {
        Origin::Mozilla(Asked::Forbidden) => vec!["without --no-network, Mozilla's server is asked".to_owned()],
        Origin::Mozilla(Asked::Foreign) => vec!["--symbol-server https://symbols.mozilla.org".to_owned()],
        Origin::Mozilla(Asked::Yes) | Origin::Elsewhere => {
            vec!["--symbol-server URL, or a build with -g that is not stripped".to_owned()]
        }
        Origin::Package(package) => {
            let package = package.map(str::to_owned);
            let package = package.or_else(|| distribution.find(&quoted(path)?));
            let install = package.and_then(|package| distribution.install(&package));
            let server = distribution.debuginfod().map(|url| format!("DEBUGINFOD_URLS={url}"));
            let known: Vec<String> = install.into_iter().chain(server).collect();
            if known.is_empty() {
                vec!["the debug info package of your distribution, or DEBUGINFOD_URLS with its server".to_owned()]
            } else {
                known
            }
        }
    }
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

    #[test]
    fn each_distribution_has_its_commands() {
        let lines = |text: &str, package| {
            let path = "/usr/lib/firefox/libxul.so";
            remedies(Distribution::of(text), path, Origin::Package(package))
        };
        for (text, package, expected) in [
            (
                DEBIAN,
                Some("firefox-esr"),
                &[
                    "sudo apt install firefox-esr-dbgsym",
                    "DEBUGINFOD_URLS=https://debuginfod.debian.net",
                ][..],
            ),
            (
                DEBIAN,
                None,
                &[
                    "sudo apt install $(dpkg -S /usr/lib/firefox/libxul.so | cut -d: -f1)-dbgsym",
                    "DEBUGINFOD_URLS=https://debuginfod.debian.net",
                ],
            ),
            (
                UBUNTU,
                Some("libc6"),
                &[
                    "sudo apt install libc6-dbg",
                    "DEBUGINFOD_URLS=https://debuginfod.ubuntu.com",
                ],
            ),
            (
                MINT,
                Some("thunderbird"),
                &[
                    "sudo apt install thunderbird-dbgsym",
                    "DEBUGINFOD_URLS=https://debuginfod.ubuntu.com",
                ],
            ),
            (
                FEDORA,
                None,
                &[
                    "sudo dnf debuginfo-install $(rpm -qf --qf '%{NAME}' /usr/lib/firefox/libxul.so)",
                    "DEBUGINFOD_URLS=https://debuginfod.fedoraproject.org",
                ],
            ),
            (ROCKY, Some("firefox"), &["sudo dnf debuginfo-install firefox"]),
            (ARCH, None, &["DEBUGINFOD_URLS=https://debuginfod.archlinux.org"]),
            (
                TUMBLEWEED,
                Some("MozillaFirefox"),
                &[
                    "sudo zypper --plus-content debug install MozillaFirefox-debuginfo",
                    "DEBUGINFOD_URLS=https://debuginfod.opensuse.org",
                ],
            ),
            (
                OTHER,
                None,
                &["the debug info package of your distribution, or DEBUGINFOD_URLS with its server"],
            ),
            (
                "",
                None,
                &["the debug info package of your distribution, or DEBUGINFOD_URLS with its server"],
            ),
        ] {
            assert_eq!(lines(text, package), expected, "{text}");
        }
        assert_eq!(Distribution::of(LEAP), Distribution::Suse);
    }

    #[test]
    fn names_of_files_cannot_run_commands() {
        let lines = |path| remedies(Distribution::Debian, path, Origin::Package(None));
        assert_eq!(
            lines("/usr/lib/a b;reboot $(x)'y")[0],
            r"sudo apt install $(dpkg -S '/usr/lib/a b;reboot $(x)'\''y' | cut -d: -f1)-dbgsym"
        );
        assert_eq!(
            lines("/usr/lib/a\nreboot"),
            ["DEBUGINFOD_URLS=https://debuginfod.debian.net"]
        );
    }

    #[test]
    fn builds_from_mozilla_need_no_package() {
        let line = |asked| remedies(Distribution::Debian, "/opt/firefox/libxul.so", Origin::Mozilla(asked)).remove(0);
        assert!(line(Asked::Forbidden).contains("--no-network"));
        assert!(line(Asked::Foreign).contains("https://symbols.mozilla.org"));
        assert!(line(Asked::Yes).contains("--symbol-server URL"));
    }
}
