//! The files that a command will map, compared with ldd.

use std::process::Command;

use super::*;

/// Paths that ldd lists; `None` if ldd or the program is missing.
fn ldd(program: &Path, library_path: &str) -> Option<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LD_LIBRARY_PATH", library_path)
        .output()
        .ok();
    let Some(output) = output.filter(|output| output.status.success()) else {
        eprintln!("skipped: ldd is missing, or prints nothing about {}", program.display());
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        let path = path.split_once(" (")?.0;
        path.starts_with('/').then(|| fs::canonicalize(path).unwrap())
    });
    Some(paths.collect())
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn canonical(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.iter().map(|path| fs::canonicalize(path).unwrap()).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[track_caller]
fn same_as_ldd(program: &Path, found: &[PathBuf]) {
    let Some(mut expected) = ldd(program, "") else { return };
    expected.push(fs::canonicalize(program).unwrap());
    assert_eq!(canonical(found), canonical(&expected), "{}", program.display());
}

#[test]
fn libraries_match_ldd() {
    let exe = std::env::current_exe().unwrap();
    for program in [
        Path::new("/bin/bash"),
        &exe,
        Path::new("/usr/bin/gdb"),
        Path::new("/usr/bin/git"),
    ] {
        if program.exists() {
            same_as_ldd(program, &closure(program, &environment(&[])));
        }
    }
}

#[test]
fn firefox_and_its_own_libraries() {
    let folder = Path::new("/usr/lib/firefox-esr");
    if !folder.join("libxul.so").exists() {
        eprintln!("skipped: firefox-esr is not installed");
        return;
    }
    let found = closure(&folder.join("firefox-esr"), &environment(&[]));
    let xul = ldd(&folder.join("libxul.so"), "/usr/lib/firefox-esr").unwrap_or_default();
    for library in xul.iter().chain([&folder.join("libxul.so")]) {
        assert!(canonical(&found).contains(library), "{}", library.display());
    }
    // Firefox's copy, and not the distribution's library of the same name.
    let nss = found.iter().filter(|path| path.ends_with("libnss3.so")).count();
    assert_eq!(nss, 1, "{found:?}");
    // Debian's wrapper script.
    let found = closure(Path::new("/usr/bin/firefox"), &environment(&[("PATH", "/usr/bin")]));
    assert!(found.contains(&folder.join("libxul.so")), "{found:?}");
    assert!(
        canonical(&found).contains(&fs::canonicalize("/bin/sh").unwrap()),
        "{found:?}"
    );
}

/// A program that needs `liba.so` in the `lib` folder next to it, which needs `libb.so` in the same
/// folder.
struct Built {
    folder: tempfile::TempDir,
}

fn build(tags: &str) -> Option<Built> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("lib")).unwrap();
    fs::write(at("b.c"), "int b(void) { return 1; }").unwrap();
    fs::write(at("a.c"), "int b(void); int a(void) { return b(); }").unwrap();
    fs::write(at("main.c"), "int a(void); int main(void) { return a(); }").unwrap();
    for arguments in [
        "-shared -fPIC -o lib/libb.so b.c".to_owned(),
        format!("-shared -fPIC -o lib/liba.so a.c -Llib -lb -Wl,{tags},-rpath,${{ORIGIN}}"),
        format!("-o main main.c -Llib -la -Wl,{tags},-rpath,$ORIGIN/lib -Wl,-rpath-link,lib"),
        "-o bare main.c -Llib -la -Wl,-rpath-link,lib".to_owned(),
    ] {
        let status = Command::new("gcc")
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .status();
        let Ok(status) = status else {
            eprintln!("skipped: gcc is not installed");
            return None;
        };
        assert!(status.success(), "{arguments}");
    }
    Some(Built { folder })
}

#[test]
fn libraries_next_to_the_program() {
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let Some(built) = build(tags) else { return };
        let at = |name: &str| built.folder.path().join(name);
        let found = closure(&at("main"), &environment(&[]));
        same_as_ldd(&at("main"), &found);
        assert!(
            canonical(&found).contains(&fs::canonicalize(at("lib/libb.so")).unwrap()),
            "{found:?}"
        );
    }
}

#[test]
fn the_environment_and_scripts() {
    let Some(built) = build("--enable-new-dtags") else {
        return;
    };
    let at = |name: &str| built.folder.path().join(name);
    let has = |found: &[PathBuf], name: &str| found.contains(&at(name));
    let found = closure(&at("bare"), &environment(&[]));
    assert!(!has(&found, "lib/liba.so"));
    let lib = at("lib").to_str().unwrap().to_owned();
    let found = closure(&at("bare"), &environment(&[("LD_LIBRARY_PATH", &lib)]));
    assert!(has(&found, "lib/liba.so") && has(&found, "lib/libb.so"), "{found:?}");
    let preload = at("lib/libb.so").to_str().unwrap().to_owned();
    let found = closure(&at("bare"), &environment(&[("LD_PRELOAD", &preload)]));
    assert!(has(&found, "lib/libb.so"), "{found:?}");

    fs::write(at("script"), format!("#! {} -x\n", at("main").display())).unwrap();
    fs::write(at("outer"), format!("#!{}\n", at("script").display())).unwrap();
    fs::write(at("by_env"), "#!/usr/bin/env main\n").unwrap();
    fs::write(at("round"), format!("#!{}\n", at("round").display())).unwrap();
    let folder = built.folder.path().to_str().unwrap().to_owned();
    for script in ["script", "outer", "by_env"] {
        let found = closure(&at(script), &environment(&[("PATH", &folder)]));
        assert!(has(&found, "main") && has(&found, "lib/liba.so"), "{script}: {found:?}");
    }
    assert_eq!(closure(&at("round"), &environment(&[])), Vec::<PathBuf>::new());
    assert_eq!(closure(Path::new("/nowhere"), &environment(&[])), Vec::<PathBuf>::new());
    assert_eq!(closure(built.folder.path(), &environment(&[])), Vec::<PathBuf>::new());
}
