//! From arguments to what is recorded.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::unistd::User;

use super::super::args;
use crate::capture::proc::selection::{Conditions, Selection};
use crate::record::options::Target;
use crate::similar;

/// What is recorded, and the user to run the command as.
pub fn target(args: &mut args::Record, command: Option<Vec<OsString>>) -> Result<(Target, Option<String>)> {
    let pids = checked_pids(std::mem::take(&mut args.pid))?;
    // With a command, `--user` says who runs it.
    let run_as = args.user.take_if(|_| command.is_some());
    let scope = &args.scope;
    let mut chosen = Conditions {
        cgroups: scope.cgroup.clone(),
        units: scope.unit.clone(),
        containers: scope.container.clone(),
        pods: scope.pod.clone(),
        names: scope.name.clone(),
        programs: absolute(&scope.exe)?,
        users: args.user.iter().map(|name| user_id(name)).collect::<Result<_>>()?,
        pids: Vec::new(),
    };
    let excluded = excluded(&scope.exclude)?;
    if args.all && !chosen.is_empty() {
        bail!("-a records everything: drop it, or drop --cgroup, --name and the like");
    }
    let waits = scope.wait;
    if waits && chosen.is_empty() {
        bail!("--wait requires --cgroup, --unit, --container, --pod, --name, --exe or --user: name what to wait for");
    }
    let target = match (args.all, pids.is_empty(), command) {
        (true, _, command) if excluded.is_empty() => Target::System(command),
        (false, false, _) if chosen.is_empty() && excluded.is_empty() => Target::Pids(pids),
        (is_all, has_none, command) if is_all || !has_none || !chosen.is_empty() => {
            chosen.pids = pids;
            let selection = Selection {
                chosen,
                excluded,
                waits,
            };
            Target::Selected(Box::new(selection), command)
        }
        (_, _, _) if !excluded.is_empty() => {
            bail!("--exclude requires -a, -p, --cgroup, --unit, --container, --pod, --name, --exe or --user")
        }
        (_, _, Some(command)) => Target::Command(command),
        (_, _, None) => bail!(
            "nothing to record: name a program (`ngmi record -- firefox`), a process (`ngmi record -p PID`), a cgroup \
             (`ngmi record --cgroup PATH`) or the whole system (`ngmi record -a`)"
        ),
    };
    Ok((target, run_as))
}

fn checked_pids(mut pids: Vec<u32>) -> Result<Vec<u32>> {
    pids.sort_unstable();
    pids.dedup();
    if let Some(&bad) = pids.iter().find(|&&pid| pid == 0 || pid > i32::MAX as u32) {
        bail!("invalid process id: {bad}; `pgrep -a NAME` lists process ids");
    }
    Ok(pids)
}

fn excluded(words: &[String]) -> Result<Conditions> {
    let mut excluded = Conditions::default();
    for word in words {
        let (kind, value) = word.split_once('=').unwrap_or((word, ""));
        if value.is_empty() {
            bail!("--exclude {word} has no value; write for example --exclude cgroup=PATH");
        }
        let value = value.to_owned();
        match kind {
            "cgroup" => excluded.cgroups.push(value),
            "unit" => excluded.units.push(value),
            "container" => excluded.containers.push(value),
            "pod" => excluded.pods.push(value),
            "name" => excluded.names.push(value),
            "exe" => excluded.programs.extend(absolute(&[value])?),
            "user" => excluded.users.push(user_id(&value)?),
            "pid" => {
                let pid = value.parse().with_context(|| format!("invalid process id: {value}"))?;
                excluded.pids.extend(checked_pids(vec![pid])?);
            }
            _ => bail!(
                "unknown kind `{kind}` of --exclude; expected one of cgroup, unit, container, pod, name, exe, user, pid"
            ),
        }
    }
    Ok(excluded)
}

/// The privileged helper may have another working directory.
fn absolute(paths: &[String]) -> Result<Vec<String>> {
    let absolute = paths.iter().map(|path| {
        let absolute = std::path::absolute(Path::new(path)).with_context(|| format!("invalid path `{path}`"))?;
        absolute
            .into_os_string()
            .into_string()
            .map_err(|_| anyhow::anyhow!("the path of `{path}` is not UTF-8"))
    });
    absolute.collect()
}

/// The id of a user, by name or number.
fn user_id(name: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let user = User::from_name(name).with_context(|| format!("looking up user `{name}`"))?;
    user.map(|user| user.uid.as_raw()).with_context(|| {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let names = users
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.to_owned()));
        format!("there is no user `{name}`{}", similar::sentence(name, names))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn parse(line: &[&str]) -> Result<(Target, Option<String>)> {
        let args::Action::Record(mut record) =
            args::Cli::try_parse_from([&["ngmi", "record"], line].concat())?.subcommand
        else {
            bail!("not a recording");
        };
        let command = (!record.command.is_empty()).then(|| std::mem::take(&mut record.command));
        target(&mut record, command)
    }

    fn selection(line: &[&str]) -> Selection {
        match parse(line).unwrap().0 {
            Target::Selected(selection, _) => *selection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conditions_are_combined() {
        let all = selection(&[
            "-p",
            "7,7",
            "--cgroup",
            "/a",
            "--cgroup",
            "b c",
            "--name",
            "x*",
            "--exe",
            "/bin/../bin/sh",
            "--user",
            "0",
            "--wait",
        ]);
        assert_eq!(all.chosen.pids, [7]);
        assert_eq!(all.chosen.cgroups, ["/a", "b c"]);
        assert_eq!(all.chosen.programs, ["/bin/../bin/sh"]);
        assert_eq!(
            (all.chosen.names, all.chosen.users, all.waits),
            (vec!["x*".to_owned()], vec![0], true)
        );
        assert_eq!(selection(&["--user", "root"]).chosen.users, [0]);
        let excluded = selection(&[
            "-a",
            "--exclude",
            "cgroup=/a=b",
            "--exclude",
            "user=root",
            "--exclude",
            "pid=1",
        ]);
        assert!(excluded.chosen.is_empty() && !excluded.waits);
        assert_eq!(excluded.excluded.cgroups, ["/a=b"]);
        assert_eq!((excluded.excluded.users, excluded.excluded.pids), (vec![0], vec![1]));
        let relative = selection(&["--exe", "x"]).chosen.programs;
        assert_eq!(Path::new(&relative[0]), std::env::current_dir().unwrap().join("x"));
    }

    #[test]
    fn a_user_runs_the_command_or_is_recorded() {
        let (target, user) = parse(&["--user", "root", "--", "ls"]).unwrap();
        assert_eq!(
            (target, user),
            (Target::Command(vec!["ls".into()]), Some("root".to_owned()))
        );
        let (target, user) = parse(&["--name", "x", "--", "ls"]).unwrap();
        assert!(matches!(target, Target::Selected(_, Some(command)) if command == ["ls"]) && user.is_none());
        assert_eq!(parse(&["--user", "root"]).unwrap().1, None);
    }

    #[test]
    fn contradictions_are_refused_with_a_remedy() {
        for (line, word) in [
            (&["-a", "--cgroup", "x"][..], "drop it"),
            (&["--wait"], "requires"),
            (&["--wait", "-a"], "requires"),
            (&["--exclude", "name=x"], "requires"),
            (&["--exclude", "name=x", "--", "ls"], "requires"),
            (&["-a", "--exclude", "name"], "no value"),
            (&["-a", "--exclude", "color=red"], "expected one of"),
            (&["-a", "--exclude", "pid=0"], "invalid process id"),
            (&["-a", "--exclude", "pid=x"], "invalid process id"),
            (&["--user", "no such one"], "no user"),
        ] {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }
}
