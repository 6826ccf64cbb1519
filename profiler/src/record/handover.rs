//! Warns when a command ends while other processes do its work: one that handed over to a running instance, or one
//! that continues in the background. The warning includes a workaround.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::session::Captured;
use crate::record::options::RecordOptions;
use crate::terminal::print_note;

/// A command that ran for less than this may have handed over.
const SHORT: Duration = Duration::from_secs(1);
/// ... if it has fewer samples than this.
const FEW: u64 = 500;
/// Processes that are named.
const NAMED: usize = 3;
/// Characters of a thread's name that the kernel stores.
const COMM: usize = 15;

/// Programs that hand over to a running instance.
struct HandsOver {
    /// Names of the command.
    commands: &'static [&'static str],
    /// The name of the process that takes over; `None`: that of the command.
    server: Option<&'static str>,
    /// Arguments that start a separate instance; `None`: record the running one instead.
    own: Option<&'static str>,
}

const fn same(commands: &'static [&'static str], own: &'static str) -> HandsOver {
    HandsOver {
        commands,
        server: None,
        own: Some(own),
    }
}

/// According to their manuals.
const HAND_OVER: [HandsOver; 17] = [
    same(
        &[
            "firefox",
            "firefox-esr",
            "firefox-bin",
            "firefox-nightly",
            "librewolf",
            "waterfox",
            "thunderbird",
            "seamonkey",
        ],
        "--no-remote --profile \"$(mktemp -d)\"",
    ),
    same(
        &[
            "chromium",
            "chromium-browser",
            "chrome",
            "google-chrome",
            "google-chrome-stable",
            "brave-browser",
            "brave",
            "microsoft-edge",
            "vivaldi",
            "opera",
        ],
        "--user-data-dir=\"$(mktemp -d)\"",
    ),
    same(
        &["code", "code-insiders", "codium", "vscodium"],
        "--wait --user-data-dir \"$(mktemp -d)\"",
    ),
    HandsOver {
        commands: &["gnome-terminal"],
        server: Some("gnome-terminal-server"),
        own: None,
    },
    HandsOver {
        commands: &["emacsclient"],
        server: Some("emacs"),
        own: Some("--alternate-editor=emacs --socket-name=recorded"),
    },
    same(&["xfce4-terminal"], "--disable-server"),
    same(&["mate-terminal"], "--disable-factory"),
    same(&["terminator"], "--no-dbus"),
    same(&["tilix"], "--new-process"),
    same(&["lxterminal"], "--no-remote"),
    same(&["konsole"], "--separate"),
    same(&["wezterm", "wezterm-gui"], "start --always-new-process"),
    same(&["tmux"], "-L recorded"),
    same(&["gedit", "gnome-text-editor"], "--standalone"),
    same(&["kate"], "--new"),
    same(
        &["libreoffice", "soffice", "soffice.bin", "lowriter", "localc"],
        "\"-env:UserInstallation=file://$(mktemp -d)\"",
    ),
    same(&["vlc"], "--no-one-instance"),
];

/// Warns the user if the command has ended and others continue: `left` of its own processes, or another instance.
pub fn warn(options: &RecordOptions, captured: &Captured, left: &[(u32, String)]) {
    let Some(name) = options
        .target
        .command()
        .and_then(|command| Path::new(&command[0]).file_name())
    else {
        return;
    };
    if captured.status.is_none() {
        return;
    }
    let left: Vec<&(u32, String)> = left.iter().filter(|(pid, name)| is_running(*pid, name)).collect();
    let few = captured.wall < SHORT && captured.ended.progress.samples < FEW;
    if !left.is_empty() {
        print_note(in_background(name, &left));
    } else if captured.status.is_some_and(|status| status.success()) && few {
        let running: Vec<(u32, Vec<u8>)> = processes().collect();
        if let Some(words) = handed_over(name, &running) {
            print_note(words);
        }
    }
}

/// The warning for a command that ended while these processes continue.
fn in_background(name: &OsStr, left: &[&(u32, String)]) -> String {
    let named: Vec<String> = left
        .iter()
        .take(NAMED)
        .map(|(pid, name)| format!("{name} {pid}"))
        .collect();
    let more = left.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(", {more} more")
    } else {
        String::new()
    };
    let pids: Vec<String> = left.iter().take(NAMED).map(|(pid, _)| format!("-p {pid}")).collect();
    format!(
        "`{name}` ended, and the recording with it, but processes that it started are still running ({}{more}): record them with `ngmi record {}`, \
         or use the option of `{name}` that keeps it in the foreground",
        named.join(", "),
        pids.join(" "),
        name = name.display()
    )
}

/// The warning for a command that ended at once, if `running` has an instance that it hands over to.
fn handed_over(name: &OsStr, running: &[(u32, Vec<u8>)]) -> Option<String> {
    let name = name.to_str()?;
    let program = HAND_OVER.iter().find(|program| program.commands.contains(&name))?;
    let server = program.server.unwrap_or(name).as_bytes();
    let server = &server[..server.len().min(COMM)];
    let (pid, _) = running.iter().find(|(_, comm)| comm == server)?;
    let head = format!(
        "`{name}` ended within a second while another instance is running: it probably handed over to that one."
    );
    Some(match program.own {
        Some(own) => format!("{head} To record a separate instance: `ngmi record -- {name} {own}`"),
        None => format!("{head} To record that one: `ngmi record -p {pid}`"),
    })
}

/// Running processes, with their names as the kernel stores them.
fn processes() -> impl Iterator<Item = (u32, Vec<u8>)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, comm(&entry.path())?)))
}

/// Whether the process exists, and is the one that was recorded.
fn is_running(pid: u32, name: &str) -> bool {
    let recorded = &name.as_bytes()[..name.len().min(COMM)];
    comm(Path::new(&format!("/proc/{pid}"))).is_some_and(|comm| comm == recorded)
}

fn comm(process: &Path) -> Option<Vec<u8>> {
    let mut comm = fs::read(process.join("comm")).ok()?;
    comm.pop();
    Some(comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(name: &str, running: &[&str]) -> Option<String> {
        let running = (1..).zip(running).map(|(pid, name)| (pid, name.as_bytes().to_vec()));
        let running: Vec<(u32, Vec<u8>)> = running.collect();
        handed_over(OsStr::new(name), &running)
    }

    #[test]
    fn advice_is_specific_to_programs_that_hand_over() {
        for name in ["bash", "python3", "true", "make", "firefox-helper"] {
            assert_eq!(advice(name, &[name]), None, "{name}");
        }
        assert_eq!(advice("firefox", &["bash"]), None, "no other instance is running");
        for (name, running, option) in [
            ("firefox-esr", "firefox-esr", "--no-remote --profile"),
            ("google-chrome-stable", "google-chrome-s", "--user-data-dir="),
        ] {
            let words = advice(name, &["init", running]).unwrap();
            assert!(words.contains(&format!("`ngmi record -- {name} {option}")), "{words}");
        }
        let words = advice("gnome-terminal", &["init", "gnome-terminal-"]).unwrap();
        assert!(words.ends_with("To record that one: `ngmi record -p 2`"), "{words}");
    }

    #[test]
    fn background_processes_are_named() {
        let left: Vec<(u32, String)> = (1..6).map(|pid| (pid, format!("d{pid}"))).collect();
        let words = in_background(OsStr::new("nginx"), &left.iter().collect::<Vec<_>>());
        assert!(words.contains("(d1 1, d2 2, d3 3, 2 more)"), "{words}");
        assert!(words.contains("`ngmi record -p 1 -p 2 -p 3`"), "{words}");
        assert!(is_running(
            std::process::id(),
            &String::from_utf8(comm(Path::new("/proc/self")).unwrap()).unwrap()
        ));
        assert!(!is_running(std::process::id(), "other"));
    }
}
