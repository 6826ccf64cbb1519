//! The commands in README and docs work as printed: each page's lines run in a folder that has the files they name.
//!
//! `firefox`, `./app` and `./program` are test programs there, process ids are those of a sleeping program,
//! and sets have two runs instead of seven.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::ngmi::binary;
use crate::harness::skip::needs_capture;

/// Runs for a while, in functions that have names.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) long hot(long turns) { volatile long sum = 0; for (long i = 0; i < turns; i++) sum += i; return sum; }
__attribute__((noinline)) char *fill(long bytes) { char *memory = malloc(bytes); memset(memory, 1, bytes); return memory; }
int main(void) { char *memory = fill(1 << 20); return hot(50000000) < 0 || memory[9] != 1; }
";

/// A folder in which the recipes of a page work.
struct Kitchen {
    folder: tempfile::TempDir,
    sleeper: Child,
    /// `--exact-touch` can be had here.
    touches_exactly: bool,
}

impl Kitchen {
    fn new() -> Self {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = tempfile::Builder::new().prefix("recipes-").tempdir_in(place).unwrap();
        let tools = folder.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        symlink(binary(), tools.join("ngmi")).unwrap();
        // Tests run as root already.
        script(&tools.join("sudo"), "exec \"$@\"");
        std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
        let sleeper = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let mut kitchen = Self {
            folder,
            sleeper,
            touches_exactly: true,
        };
        kitchen.touches_exactly = kitchen.touches();
        kitchen.succeeds("cc -O1 -g -Wl,--build-id -o program program.c; cp program app; cp program tools/firefox");
        kitchen
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether this machine lets each touch of a page be a fault.
    fn touches(&self) -> bool {
        let mut command = Command::new(binary());
        command.args([
            "record",
            "--save-only",
            "--exact-touch",
            "-o",
            "probe.json.gz",
            "--",
            "true",
        ]);
        let output = command
            .current_dir(self.path())
            .env_remove("SUDO_UID")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let is_refused = error.contains("--exact-touch is not available");
        assert!(output.status.success() || is_refused, "{error}");
        if is_refused {
            println!("recipes run without --exact-touch: {error}");
        }
        !is_refused
    }

    /// A recording of the program under all the names that pages have for one.
    fn recorded(&self, names: &str) {
        self.succeeds("ngmi record --cold --save-only --keep-events first.events -o first.json.gz -- ./program");
        self.succeeds(&format!(
            "mkdir -p runs new; for name in {names}; do case $name in *.json.gz) cp first.json.gz $name ;; *) cp first.events $name ;; esac; done; cp first.json.gz runs/run.1.json.gz; \
             cp first.json.gz new/run.1.json.gz"
        ));
    }

    /// Runs lines as a shell does, ended by the first one that fails.
    #[track_caller]
    fn succeeds(&self, lines: &str) -> String {
        let path = format!(
            "{}:{}",
            self.path().join("tools").display(),
            std::env::var("PATH").unwrap()
        );
        let lines = if self.touches_exactly {
            lines.to_owned()
        } else {
            lines.replace(" --exact-touch", "")
        };
        let mut command = Command::new("sh");
        command.args(["-ec", &lines]).current_dir(self.path()).env("PATH", path);
        // Tests may run under sudo; the recorder would then become the user who typed it.
        let output = command.env_remove("SUDO_UID").stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{lines}\n{printed}{error}");
        assert!(!error.contains("panicked"), "{error}");
        printed
    }

    /// Runs the lines of a page's blocks.
    #[track_caller]
    fn cook(&self, page: &str) {
        let page = page_of(page);
        let lines = lines_of(&page);
        assert!(!lines.is_empty(), "no recipe");
        for line in lines {
            let line = line.replace("1234", &self.sleeper.id().to_string());
            self.succeeds(&line.replace("--runs 7", "--runs 2"));
        }
    }
}

impl Drop for Kitchen {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn page_of(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The lines of blocks in no language that are commands.
fn lines_of(page: &str) -> Vec<&str> {
    let mut inside = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = inside.is_none().then_some(language);
        } else if inside == Some("")
            && ["ngmi ", "sudo ", "mkdir ", "cc "]
                .iter()
                .any(|word| line.starts_with(word))
        {
            lines.push(line);
        }
    }
    lines
}

fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
    if there.is_err() {
        println!("skipped: no {tool}");
    }
    there.is_ok()
}

#[test]
fn the_preload_page() {
    needs_capture!();
    let kitchen = Kitchen::new();
    kitchen.cook("docs/preload.md");
    assert!(kitchen.path().join("firefox.preload").exists());
}

#[test]
fn the_order_page() {
    needs_capture!();
    if !has("ld.lld") {
        return;
    }
    let kitchen = Kitchen::new();
    kitchen.cook("docs/order.md");
    let order = std::fs::read_to_string(kitchen.path().join("program.order")).unwrap();
    assert!(order.lines().any(|name| name == "hot"), "{order}");
    kitchen.succeeds("./a.out");
}

#[test]
fn the_smaps_page() {
    needs_capture!();
    let kitchen = Kitchen::new();
    kitchen.recorded("profile.json.gz");
    kitchen.cook("docs/smaps.md");
}

#[test]
fn the_check_page() {
    needs_capture!();
    let kitchen = Kitchen::new();
    kitchen.recorded("profile.json.gz new.events old.events");
    let page = page_of("docs/check.md");
    let budget = page.split_once("```toml\n").unwrap().1.split_once("\n```").unwrap().0;
    std::fs::write(kitchen.path().join("budget.toml"), budget).unwrap();
    kitchen.cook("docs/check.md");
    assert!(kitchen.path().join("check.xml").exists());
}

#[test]
fn the_diff_page() {
    needs_capture!();
    let kitchen = Kitchen::new();
    kitchen.recorded("old.json.gz new.json.gz old.1.json.gz new.1.json.gz");
    kitchen.cook("docs/diff.md");
    assert!(kitchen.path().join("difference.json.gz").exists());
    assert!(kitchen.path().join("old/run.2.json.gz").exists());
}

#[test]
fn the_export_page() {
    needs_capture!();
    let kitchen = Kitchen::new();
    if !has("inferno-flamegraph") {
        script(&kitchen.path().join("tools/inferno-flamegraph"), "exec cat");
    }
    kitchen.recorded("firefox.events");
    kitchen.cook("docs/export.md");
    assert!(std::fs::metadata(kitchen.path().join("faults.svg")).unwrap().len() > 0);
}

/// The commands below README's heading "Recipes", without their comments.
fn recipes(page: &str) -> Vec<String> {
    let section = page.split_once("## Recipes").unwrap().1;
    lines_of(section)
        .into_iter()
        .filter(|line| line.starts_with("ngmi "))
        .map(|line| line.split(" # ").next().unwrap_or_default().trim_end().to_owned())
        .collect()
}

#[test]
fn the_readme_recipes() {
    needs_capture!();
    let kitchen = Kitchen::new();
    kitchen.recorded("profile.json.gz old.json.gz new.json.gz");
    std::fs::write(kitchen.path().join("budget.toml"), "[total]\nfaults = 1_000_000\n").unwrap();
    let page = page_of("README.md");
    let recipes = recipes(&page);
    assert!(recipes.len() > 20, "{recipes:?}");
    for recipe in recipes {
        let is = |part: &str| recipe.contains(part);
        // These need a network or a browser; `tests/share` and `tests/e2e/serve.rs` have them.
        if is("ngmi share") || is("ngmi load") || is("LINK") {
            continue;
        }
        if is("node ") && !has("node") {
            continue;
        }
        let pid = if is("record -p") {
            // It is recorded until it ends.
            "$(sleep 5 >/dev/null 2>&1 & echo $!)".to_owned()
        } else {
            kitchen.sleeper.id().to_string()
        };
        let line = recipe
            .replace("--file PROGRAM", "--file ./program")
            .replace("PROGRAM", "./program")
            .replace("--process NAME", "--process program")
            .replace("--from 1.5 --to 3", "--from 0 --to 3")
            .replace("-d 10", "-d 1")
            .replace("PID", &pid)
            .replace("--runs 5", "--runs 2")
            .replace("ngmi record", "ngmi record --save-only");
        if !is("record") {
            // Recipes that record put theirs in its place.
            kitchen.succeeds("cp first.json.gz profile.json.gz");
        }
        if is("--addr") {
            let maps = kitchen.succeeds(&format!("cat /proc/{pid}/maps"));
            let first = maps.split('-').next().unwrap();
            kitchen.succeeds(&line.replace("7f12a0b3c4d5", first));
        } else if is("app.js") {
            std::fs::write(
                kitchen.path().join("app.js"),
                "let sum = 0; for (let i = 0; i < 1e7; i++) sum += i;\n",
            )
            .unwrap();
            kitchen.succeeds(&line);
        } else if is("ngmi doctor") {
            // It ends with 1 where a hook is refused.
            kitchen.succeeds(&format!("{line} || test $? -eq 1"));
        } else {
            kitchen.succeeds(&line);
        }
    }
}
