//! What to type for the symbols of the modules that cost most and have none, on this machine.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use symbols::{Debuginfod, mozilla};

use super::servers::NameServers;
use crate::fact::Tables;
use crate::fact::reduce::budget::Collected;
use crate::report::remedy::{Asked, Distribution, Origin, System, remedies};
use crate::report::summary::{NamelessModule, nameless_modules};
use crate::report::text::estimate;

/// Where the distribution introduces itself.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Longest text of it that is read.
const MAX_RELEASE: u64 = 64 << 10;
/// The lists of the files in Debian's packages.
const DPKG: &str = "/var/lib/dpkg/info";
/// The lists of the packages in the archives that apt knows.
const APT: &str = "/var/lib/apt/lists";
/// Parts of their names, of the archives with debug info.
const DEBUG_ARCHIVES: [&str; 2] = ["debian-debug", "ddebs.ubuntu.com"];
/// What is read.
pub const READS: [&str; 4] = [OS_RELEASE[0], OS_RELEASE[1], DPKG, APT];
/// Longest list of files that is read; the longest has 20 MB.
const MAX_LIST: u64 = 64 << 20;
/// Folders of files that packages install.
const OF_PACKAGES: [&str; 5] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/"];

/// The modules without symbols that cost most, each with remedies, of which it adds a note to the recording.
pub fn advise(tables: &mut Tables, collected: &Collected, servers: &NameServers) -> Vec<NamelessModule> {
    let mut modules = nameless_modules(tables, collected);
    if modules.is_empty() {
        return modules;
    }
    let system = system(servers);
    for module in &mut modules {
        let path = Path::new(&module.path);
        let package = owner(Path::new(DPKG), &module.path);
        let is_of_package = OF_PACKAGES.iter().any(|folder| module.path.starts_with(folder));
        let is_of_package = is_of_package && !module.path.starts_with("/usr/local/");
        let origin = Origin {
            package: (package.is_some() || is_of_package).then_some(package.as_deref()),
            mozilla: servers.is_mozillas(path).then(|| asked(servers)),
        };
        module.remedies = remedies(system, &module.path, origin);
    }
    let samples = (collected.threads.iter())
        .flat_map(|thread| &thread.samples)
        .fold(0_u64, |sum, sample| sum.saturating_add(sample.weight));
    tables.recording.notes.extend(notes(&modules, samples));
    modules
}

/// A note for all modules that have the same remedies.
fn notes(modules: &[NamelessModule], samples: u64) -> Vec<String> {
    let note = |same: &[NamelessModule]| {
        let joined = |text: fn(&NamelessModule, u64) -> String| {
            let texts: Vec<String> = same.iter().map(|module| text(module, samples)).collect();
            texts.join(" and ")
        };
        let (names, shares) = (
            joined(|module, _| module.module.clone()),
            joined(|module, samples| estimate(module.samples, samples)),
        );
        let (has, its) = if same.len() == 1 {
            ("has", "its")
        } else {
            ("have", "their")
        };
        let remedies = same
            .first()
            .map_or_else(String::new, |module| module.remedies.join(", or "));
        format!(
            "{names} {has} no symbols ({shares} of the samples); for {its} names, also when `ngmi load` opens the profile: \
             {remedies}"
        )
    };
    modules
        .chunk_by(|one, next| one.remedies == next.remedies)
        .map(note)
        .collect()
}

fn system(servers: &NameServers) -> System {
    let release = OS_RELEASE.iter().find_map(|path| {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_RELEASE).read_to_string(&mut text));
        read.ok().map(|_| text)
    });
    let distribution = Distribution::of(&release.unwrap_or_default());
    let is_its = |url: &String| {
        let theirs = distribution.debuginfod();
        theirs.is_some_and(|theirs| url.trim_end_matches('/') == theirs)
    };
    let is_named = Debuginfod::named(|name| env::var_os(name)).iter().any(is_its);
    System {
        distribution,
        has_debug_archive: has_debug_archive(Path::new(APT)),
        debuginfod: is_named.then_some(if servers.offline { Asked::Forbidden } else { Asked::Yes }),
    }
}

fn asked(servers: &NameServers) -> Asked {
    if servers.offline {
        Asked::Forbidden
    } else if servers.mozilla || servers.urls.iter().any(|url| url == mozilla::SYMBOL_SERVER) {
        Asked::Yes
    } else {
        Asked::Foreign
    }
}

/// Whether apt has lists of an archive with debug info.
fn has_debug_archive(lists: &Path) -> bool {
    let is_of_debug = |name: &OsStr| {
        let contains = |part: &str| {
            name.as_bytes()
                .windows(part.len())
                .any(|window| window == part.as_bytes())
        };
        DEBUG_ARCHIVES.into_iter().any(contains)
    };
    let mut entries = fs::read_dir(lists).into_iter().flatten().flatten();
    entries.any(|entry| is_of_debug(&entry.file_name()))
}

/// The package of Debian that installed a file. Files that moved to `/usr` are listed with either path.
fn owner(lists: &Path, path: &str) -> Option<String> {
    let old = path
        .strip_prefix("/usr")
        .filter(|rest| rest.starts_with("/lib") || rest.starts_with("/bin"));
    let mut lists: Vec<_> = fs::read_dir(lists)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    lists.retain(|list| list.extension().is_some_and(|extension| extension == "list"));
    lists.sort();
    let names_it = |list: &&std::path::PathBuf| {
        let Ok(file) = File::open(list) else { return false };
        let lines = BufReader::new(file.take(MAX_LIST)).split(b'\n');
        lines
            .map_while(Result::ok)
            .any(|line| line == path.as_bytes() || old.is_some_and(|old| line == old.as_bytes()))
    };
    let list = lists.iter().find(names_it)?;
    let name = list.file_stem()?.to_str()?;
    // The architecture follows the name.
    let name = name.split(':').next().unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    name.chars().all(is_plain).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_list_names_its_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("libc6:amd64.list", "/.\n/lib\n/lib/x86_64-linux-gnu/libc.so.6\n"),
            ("firefox-esr.list", "/.\n/usr/lib/firefox-esr/libxul.so\n"),
            ("firefox-esr.md5sums", "/usr/lib/other\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let owner = |path| owner(folder.path(), path);
        assert_eq!(owner("/usr/lib/firefox-esr/libxul.so").as_deref(), Some("firefox-esr"));
        assert_eq!(owner("/usr/lib/x86_64-linux-gnu/libc.so.6").as_deref(), Some("libc6"));
        assert_eq!(owner("/usr/lib/other"), None);
        assert_eq!(super::owner(&folder.path().join("missing"), "/usr/lib/x"), None);
    }

    #[test]
    fn the_archive_with_debug_info_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_debug_archive(&folder.path().join("missing")));
        fs::write(folder.path().join("example.org_debian_dists_trixie_InRelease"), "").unwrap();
        assert!(!has_debug_archive(folder.path()));
        let name = "example.org_debian-debug_dists_trixie-debug_main_binary-amd64_Packages";
        fs::write(folder.path().join(name), "").unwrap();
        assert!(has_debug_archive(folder.path()));
    }

    #[test]
    fn modules_with_the_same_remedies_share_a_note() {
        let module = |name: &str, samples, remedy: &str| NamelessModule {
            module: name.to_owned(),
            path: format!("/usr/lib/{name}"),
            samples,
            remedies: vec![remedy.to_owned(), "y".to_owned()],
        };
        let modules = [
            module("libxul.so", 7000, "x"),
            module("firefox", 200, "x"),
            module("a.so", 100, "z"),
        ];
        let expected = [
            "libxul.so and firefox have no symbols (70.0 % and 2.0 % of the samples); for their names, also when `ngmi \
             load` opens the profile: x, or y",
            "a.so has no symbols (1.0 % of the samples); for its names, also when `ngmi load` opens the profile: z, or y",
        ];
        assert_eq!(notes(&modules, 10_000), expected);
    }
}
