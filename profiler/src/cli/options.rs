//! Converts arguments to checked options.

mod quantities;
mod scope;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use self::quantities::in_seconds;
use self::quantities::{max_overhead, number, off_cpu, seconds};
use super::args;
use crate::capture::hooks::disks::BlockMode;
use crate::capture::hooks::faults::{FaultMode, FaultSource, Faults};
use crate::record::options::{
    Gecko, PageCache, RATE_LIMIT, RecordOptions, ResultOptions, STACK_COPY_LIMIT, Target, Wanted,
};
use crate::record::servers::NameServers;

impl TryFrom<args::Record> for RecordOptions {
    type Error = anyhow::Error;

    fn try_from(mut args: args::Record) -> Result<Self> {
        let command = (!args.command.is_empty()).then(|| std::mem::take(&mut args.command));
        if command.as_ref().is_some_and(|c| c[0].is_empty()) {
            bail!("the command's name is empty; name the program to run after `--`");
        }
        let (target, user) = scope::target(&mut args, command)?;
        let rate = number(&args.rate, "rate (-F)", 1, RATE_LIMIT)?;
        let stack_copy = number(&args.stack_copy, "--stack-copy", 0, STACK_COPY_LIMIT)?;
        let duration = args.duration.as_deref().map(seconds).transpose()?;
        if args.firefox_jit && target.command().is_none() {
            bail!("--firefox-jit requires a command: a running process can't be made to write names");
        }
        let is_running = matches!(target, Target::Pids(_));
        if args.gecko == args::GeckoArg::Ipc && is_running {
            bail!(
                "--gecko=ipc requires a command: a running Firefox chooses what its profiler collects; use --gecko=on"
            );
        }
        let wants_gecko = matches!(args.gecko, args::GeckoArg::On | args::GeckoArg::Ipc);
        if wants_gecko && target.command().is_none() && !is_running {
            bail!("--gecko requires a command, or a running Firefox (`-p PID`); drop it, or name one");
        }
        if args.exact_touch && args.faults == args::FaultsArg::Off {
            bail!("--exact-touch requires page faults, but --faults off records none; drop one of them");
        }
        let page_cache = page_cache(args.cold, args.warm, args.cold_file, &target)?;
        Ok(Self {
            target,
            page_cache,
            output: args.output,
            rate,
            duration,
            user,
            keep_events: args.keep_events,
            stack_copy,
            check_walks: args.check_walks,
            self_account: args.self_account,
            max_overhead: max_overhead(
                args.max_overhead.as_deref(),
                args.faults == args::FaultsArg::Auto && args.run.is_none(),
            )?,
            faults: Faults {
                mode: args.faults.into(),
                source: args.fault_source.into(),
            },
            off_cpu: off_cpu(&args.off_cpu)?,
            block: match args.block {
                args::BlockArg::All => BlockMode::All,
                args::BlockArg::Off => BlockMode::Off,
            },
            exact_touch: args.exact_touch,
            firefox_jit: args.firefox_jit,
            gecko: match args.gecko {
                args::GeckoArg::Auto => Gecko::Auto,
                args::GeckoArg::On => Gecko::On,
                args::GeckoArg::Ipc => Gecko::Ipc,
                args::GeckoArg::Off => Gecko::Off,
            },
            source_roots: args.sources.source_root,
            servers: args.servers.into(),
            result: args.result.try_into()?,
        })
    }
}

impl From<args::Servers> for NameServers {
    fn from(args: args::Servers) -> Self {
        Self {
            urls: args.symbol_server.into_iter().filter(|url| !url.is_empty()).collect(),
            mozilla: true,
            mozilla_folders: None,
            offline: args.no_network,
        }
    }
}

impl From<args::FaultsArg> for FaultMode {
    fn from(arg: args::FaultsArg) -> Self {
        match arg {
            args::FaultsArg::Auto => Self::Auto,
            args::FaultsArg::All => Self::All,
            args::FaultsArg::Major => Self::Major,
            args::FaultsArg::File => Self::File,
            args::FaultsArg::Off => Self::Off,
        }
    }
}

impl From<args::FaultSourceArg> for Option<FaultSource> {
    fn from(arg: args::FaultSourceArg) -> Self {
        match arg {
            args::FaultSourceArg::Auto => None,
            args::FaultSourceArg::Fentry => Some(FaultSource::Fentry),
            args::FaultSourceArg::Tracepoint => Some(FaultSource::Tracepoint),
            args::FaultSourceArg::Perf => Some(FaultSource::Perf),
        }
    }
}

impl TryFrom<args::ResultArgs> for ResultOptions {
    type Error = anyhow::Error;

    fn try_from(args: args::ResultArgs) -> Result<Self> {
        if args.max_samples == 0 {
            bail!("--max-samples 0 would drop all samples; the default is 1000000");
        }
        Ok(Self {
            json: args.json,
            fail_on_loss: args.fail_on_loss,
            max_samples: args.max_samples,
            include_source: args.include_source,
        })
    }
}

fn page_cache(cold: Option<args::Cold>, warm: bool, also: Vec<PathBuf>, target: &Target) -> Result<Option<PageCache>> {
    let wanted = match (cold, warm) {
        (None, false) if also.is_empty() => return Ok(None),
        (None, false) => bail!("--cold-file requires --cold or --warm; add one of them"),
        (None, true) => Wanted::Warm,
        (Some(args::Cold::Files), _) => Wanted::Cold,
        (Some(args::Cold::System), _) => Wanted::ColdSystem,
    };
    if target.command().is_none() {
        bail!("--cold and --warm require a command: running processes have their files in memory already");
    }
    Ok(Some(PageCache { wanted, also }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    fn parse(line: &[&str]) -> Result<RecordOptions> {
        match args::Cli::try_parse_from(line)?.subcommand {
            args::Action::Record(record) => record.try_into(),
            other => bail!("{other:?}"),
        }
    }

    #[test]
    fn a_command_is_a_target() {
        let options = parse(&["ngmi", "record", "-F", "99", "-d", "1.5", "--", "ls", "-l"]).unwrap();
        assert_eq!(options.target, Target::Command(vec!["ls".into(), "-l".into()]));
        assert_eq!(
            (options.rate, options.duration),
            (99, Some(Duration::from_millis(1500)))
        );
    }

    #[test]
    fn bad_numbers_name_the_option_and_its_range() {
        for (line, word) in [
            (vec!["-F", "0"], "between 1 and 20000"),
            (vec!["-F", "10000000"], "between 1 and 20000"),
            (vec!["-F", "fast"], "whole number"),
            (vec!["-d", "-1"], "between"),
            (vec!["-d", "nan"], "give seconds"),
            (vec!["--stack-copy", "1000000"], "between 0 and 65536"),
            (vec!["--port", "all"], "give a whole number"),
            (vec!["--max-samples", "1e6"], "give a whole number"),
            (vec!["--profiler-url", "file:///etc"], "not a valid profiler URL"),
        ] {
            let mut all = vec!["ngmi", "record"];
            all.extend(line);
            all.extend(["--", "true"]);
            let error = format!("{:#}", parse(&all).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn nothing_to_record_shows_usage() {
        let error = format!("{:#}", parse(&["ngmi", "record"]).unwrap_err());
        assert!(error.contains("ngmi record -- firefox"), "{error}");
    }

    #[test]
    fn pid_and_command_exclude_each_other() {
        assert!(parse(&["ngmi", "record", "-p", "1", "--", "ls"]).is_err());
        assert_eq!(
            parse(&["ngmi", "record", "-p", "7", "-p", "7"]).unwrap().target,
            Target::Pids(vec![7])
        );
        assert!(parse(&["ngmi", "record", "-p", "0"]).is_err());
    }

    #[test]
    fn firefoxs_markers_need_a_command_or_a_process() {
        let gecko = |line: &[&str]| parse(&[&["ngmi", "record"], line].concat()).map(|options| options.gecko);
        assert_eq!(gecko(&["--", "ls"]).unwrap(), Gecko::Auto);
        assert_eq!(gecko(&["--gecko", "--", "ls"]).unwrap(), Gecko::On);
        assert_eq!(gecko(&["--gecko=off", "-a"]).unwrap(), Gecko::Off);
        assert_eq!(gecko(&["--gecko", "-p", "1"]).unwrap(), Gecko::On);
        let error = gecko(&["--gecko", "-a"]).unwrap_err().to_string();
        assert!(error.contains("running Firefox"), "{error}");
    }

    #[test]
    fn cold_and_warm_are_for_a_command_and_exclude_each_other() {
        let wanted = |flag| {
            parse(&["ngmi", "record", flag, "--", "ls"])
                .unwrap()
                .page_cache
                .unwrap()
                .wanted
        };
        assert_eq!(wanted("--cold"), Wanted::Cold);
        assert_eq!(wanted("--cold=system"), Wanted::ColdSystem);
        assert_eq!(wanted("--warm"), Wanted::Warm);
        let both = parse(&[
            "ngmi",
            "record",
            "--cold",
            "--cold-file",
            "/a",
            "--cold-file=/b",
            "--",
            "ls",
        ])
        .unwrap();
        assert_eq!(
            both.page_cache.unwrap().also,
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
        for bad in [
            &["--cold", "--warm", "--", "ls"][..],
            &["--cold", "-p", "1"],
            &["--warm", "-a"],
            &["--cold=disk", "--", "ls"],
            &["--cold"],
        ] {
            let line = [&["ngmi", "record"], bad].concat();
            assert!(parse(&line).is_err(), "{line:?}");
        }
        let error = format!(
            "{:#}",
            parse(&["ngmi", "record", "--cold-file", "/a", "--", "ls"]).unwrap_err()
        );
        assert!(error.contains("--cold or --warm"), "{error}");
    }
}
