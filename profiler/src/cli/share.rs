//! `ngmi share`: uploads a profile after listing what it reveals; lists and deletes shared
//! profiles.

mod person;
mod prepare;
mod store;

use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::{Builder, Runtime};
use web::ProfilerUrl;
use web::share::{ShareError, Storage, Uploaded, public_url};

use super::args::Share;
use crate::report::text::{WIDTH, bytes as size_words, fit};
use crate::terminal::{out, plain, print_note, say};
use store::{Shared, Store};

pub fn run(args: &Share) -> Result<ExitCode> {
    if args.list {
        return list();
    }
    match &args.delete {
        Some(link) => delete(link),
        None => share(args),
    }
}

fn share(args: &Share) -> Result<ExitCode> {
    let profiler = args.profiler_url.clone();
    let storage = Storage::new(&args.api_url)?;
    let prepared = prepare::prepare(args)?;
    print_note(format_args!(
        "anyone with the link will be able to read, in {}:",
        args.profile.display()
    ));
    for line in &prepared.disclosures {
        say(format_args!("  {line}"));
    }
    if !args.sanitize {
        print_note("--sanitize removes home folders, user and machine names, addresses, and arguments");
    }
    if !prepared.common_words.is_empty() {
        print_note(format_args!(
            "common words, therefore removed only from home folders and accounts (`~NAME`, `NAME@HOST`): {}",
            fit(&prepared.common_words.join(", "), WIDTH)
        ));
    }
    // Before the upload: afterwards, there would be a profile that can't be deleted.
    let room = Store::open().and_then(|store| store.reserve());
    let room = room.context("not uploaded: the deletion token could not be saved")?;
    let size = prepared.file.metadata().context("reading the profile")?.len();
    if !args.yes && !agreed(&storage_host(&args.api_url), size)? {
        print_note("nothing was uploaded");
        return Ok(ExitCode::FAILURE);
    }
    let runtime = runtime()?;
    let bar = progress(size);
    let moving = bar.clone();
    let uploaded = runtime.block_on(storage.upload(prepared.file, move |bytes| moving.set_position(bytes)));
    bar.finish_and_clear();
    let uploaded = uploaded?;
    drop(room);
    let shared = kept(args, &storage, &profiler, uploaded, size)?;
    let shown = shortened(&runtime, &storage, shared);
    let printed = out(&shown);
    print_note(format_args!("to delete it: `ngmi share --delete {shown}`"));
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the profile to the list before any further step, so that it can be deleted even if this
/// program is killed later.
fn kept(args: &Share, storage: &Storage, profiler: &ProfilerUrl, uploaded: Uploaded, size: u64) -> Result<Shared> {
    let by_hand = storage.delete_command(&uploaded);
    let shared = Shared {
        link: public_url(profiler, &uploaded.profile_token),
        short_link: None,
        api: args.api_url.clone(),
        profile_token: uploaded.profile_token,
        deletion_token: uploaded.deletion_token,
        file: args.profile.display().to_string(),
        size,
        time: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
    };
    let kept = Store::open().and_then(|store| store.put(&shared));
    if kept.is_err() {
        print_note(format_args!("the profile is shared: {}; to delete it:", shared.link));
        say(format_args!("  {by_hand}"));
    }
    kept.context("the deletion token could not be saved; keep the command above")?;
    Ok(shared)
}

/// The link to pass on: a short one, if it exists and was saved.
fn shortened(runtime: &Runtime, storage: &Storage, shared: Shared) -> String {
    // The service shortens only addresses of Mozilla's front end.
    let short_link = shared
        .link
        .starts_with(web::PROFILER_URL)
        .then(|| runtime.block_on(storage.shorten(&shared.link)))
        .flatten();
    let Some(short_link) = short_link else {
        return shared.link;
    };
    let shorter = Shared {
        short_link: Some(short_link.clone()),
        ..shared
    };
    match Store::open().and_then(|store| store.put(&shorter)) {
        Ok(()) => short_link,
        Err(error) => {
            print_note(format_args!("the short link could not be saved: {error:#}"));
            shorter.link
        }
    }
}

fn agreed(host: &str, size: u64) -> Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("cannot ask for confirmation without a terminal; add --yes");
    }
    print_note(format_args!("upload {} to {host}? [y/N]", size_words(size)));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// The host in a URL that was checked before.
fn storage_host(url: &str) -> String {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.split('/').next().unwrap_or_default().to_owned()
}

fn list() -> Result<ExitCode> {
    let list = Store::open()?.list()?;
    if list.is_empty() {
        print_note("no shared profiles");
    }
    for shared in list {
        let link = shared.short_link.as_ref().unwrap_or(&shared.link);
        out(format_args!(
            "{}  {:>8} kB  {link}  {}",
            date(shared.time),
            shared.size.div_ceil(1000),
            plain(&shared.file)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn delete(link: &str) -> Result<ExitCode> {
    let store = Store::open()?;
    let Some(shared) = store.list()?.into_iter().find(|shared| shared.is_called(link)) else {
        bail!("{link} was not shared from this machine; `ngmi share --list` lists shared profiles");
    };
    let storage = Storage::new(&shared.api)?;
    let uploaded = Uploaded {
        profile_token: shared.profile_token.clone(),
        deletion_token: shared.deletion_token.clone(),
    };
    match runtime()?.block_on(storage.delete(&uploaded)) {
        Ok(()) => print_note(format_args!("deleted: {}", shared.file)),
        Err(ShareError::Gone) => print_note(format_args!("already deleted: {}", shared.file)),
        Err(other) => return Err(other.into()),
    }
    store.remove(&shared)?;
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("preparing the upload")
}

fn progress(size: u64) -> ProgressBar {
    let bar = ProgressBar::new(size);
    if let Ok(style) = ProgressStyle::with_template("{msg:>10} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message("uploading")
}

/// `2026-11-22`, in UTC. After Howard Hinnant's algorithm: years begin in March, and 400 of them
/// have 146,097 days.
fn date(unix_seconds: u64) -> String {
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_305_600, "2026-11-22"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
