//! What to type for the symbols of the modules that cost most and have none, on this machine.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use symbols::mozilla;

use super::servers::NameServers;
use crate::report::Summary;
use crate::report::remedy::{Asked, Distribution, Origin, remedies};
use crate::report::text::estimate;

/// Where the distribution introduces itself.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Longest text of it that is read.
const MAX_RELEASE: u64 = 64 << 10;
/// The lists of the files in Debian's packages.
const DPKG: &str = "/var/lib/dpkg/info";
/// Longest of these lists that is read; the longest has 20 MB.
const MAX_LIST: u64 = 64 << 20;
/// Folders of files that packages install.
const OF_PACKAGES: [&str; 4] = ["/usr/", "/lib/", "/lib64/", "/bin/"];

/// Adds remedies to the modules without symbols, and a note for each.
pub fn advise(summary: &mut Summary, servers: &NameServers) {
    let release = OS_RELEASE.iter().find_map(|path| {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_RELEASE).read_to_string(&mut text));
        read.ok().map(|_| text)
    });
    let distribution = Distribution::of(&release.unwrap_or_default());
    for module in &mut summary.nameless {
        let path = Path::new(&module.path);
        let package = owner(Path::new(DPKG), &module.path);
        let is_of_package = OF_PACKAGES.iter().any(|folder| module.path.starts_with(folder));
        let origin = match &package {
            Some(package) => Origin::Package(Some(package)),
            None if mozilla::is_build(path) => Origin::Mozilla(asked(servers)),
            None if is_of_package && !module.path.starts_with("/usr/local/") => Origin::Package(None),
            None => Origin::Elsewhere,
        };
        module.remedies = remedies(distribution, &module.path, origin);
        summary.notes.push(format!(
            "{} has no symbols ({} of the samples); for its names, also when `ngmi load` opens the profile: {}",
            module.module,
            estimate(module.samples, summary.samples),
            module.remedies.join(", or ")
        ));
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
}
