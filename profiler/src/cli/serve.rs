//! Serves a profile until Ctrl-C and opens it, for `load` and at the end of `record`.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use symbols::server::{ServerConfig, SourceRoots, SymbolServer};
use tokio::signal::unix::{SignalKind, signal};
use web::{Explorer, Server, Site};

use super::args::Serve;
use super::explorer::Paths;
use super::source;
use crate::record::identity::Environment;
use crate::record::servers::NameServers;
use crate::record::sources::SourcePlaces;
use crate::terminal::{print_note, say};

/// Serves `opened`; returns on Ctrl-C, SIGTERM or SIGHUP.
///
/// # Errors
/// The address is in use.
pub fn run(
    opened: Served,
    options: &Serve,
    (roots, servers): (&[PathBuf], &NameServers),
    environment: &Environment,
) -> Result<()> {
    let address = options.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let profile = opened.name.clone();
    let site = Site {
        profile: profile.clone(),
        address,
        port: options.port,
        profiler: options.profiler_url.clone(),
        symbols: Some(Arc::new(symbol_server(
            opened.clone(),
            (options, servers),
            SourcePlaces::new(roots, environment).roots(),
        )?)),
        explorer: Some(explorer_of(opened)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the server")?;
    runtime.block_on(async {
        let server = Server::bind(site).await?;
        introduce(&profile, address, &server);
        if !options.no_open {
            match server.entrance_url() {
                Some(entrance) => open(&entrance, environment),
                None => print_note(
                    "no browser was started: other users of this machine could read its arguments, and this system does not show \
                     which user connects; open the address above yourself",
                ),
            }
        }
        server.run_until(asked_to_end()).await;
        Ok(())
    })
}

fn symbol_server(
    opened: Served,
    (options, servers): (&Serve, &NameServers),
    roots: SourceRoots,
) -> Result<SymbolServer> {
    let config = ServerConfig {
        roots,
        debuginfod: servers.debuginfod(),
        symbol_servers: servers.symbol_servers(),
        fetch_source: options.fetch_source && !servers.offline,
    };
    let named = move || {
        let from_the_start = opened.reader();
        profile::named(from_the_start).map_err(|error| format!("cannot read {}: {error}", opened.name.display()))
    };
    SymbolServer::new(config, named).context("starting the symbol server")
}

/// The page-fault explorer; its document is built when it is first opened, and what paths need for the first one.
fn explorer_of(opened: Served) -> Explorer {
    let (faults, waits) = (opened.clone(), opened);
    let paths = Paths::default();
    Explorer::new(
        move || super::explorer::document(faults.reader(), &faults.name).map_err(|error| format!("{error:#}")),
        move |query| paths.answer(waits.reader(), &waits.name, query),
    )
}

fn introduce(profile: &Path, address: IpAddr, server: &Server) {
    let profile = profile.display();
    if address.is_loopback() {
        print_note(format_args!(
            "serving {profile} on this machine only; press Ctrl-C to stop"
        ));
    } else {
        print_note(format_args!("serving {profile} on {address}; press Ctrl-C to stop"));
        print_note(
            "warning: with --host, anyone on the network with the link can read the profile and its sources, unencrypted",
        );
    }
    say(server.page_url());
    if let Some(explorer) = server.explorer_url() {
        print_note(format_args!("page-fault explorer: {explorer}"));
    }
    print_note("the browser may ask for permission to access this machine: allow it, or the profile does not load");
}

/// Opens `page` in a browser; every user of the machine can read this URL.
fn open(page: &str, environment: &Environment) {
    let started = Command::new("xdg-open")
        .arg(page)
        .env_clear()
        .envs(environment)
        // A browser that was not running yet would stay in this process group: Ctrl-C and the
        // terminal's hangup are for the server only.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Reaped, to avoid a zombie while the server runs.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(_) => print_note("no browser could be started (xdg-open is missing): open the address above yourself"),
    }
}

async fn asked_to_end() {
    let one = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            // Then the signal has its default effect.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = one(SignalKind::interrupt()) => {}
        () = one(SignalKind::terminate()) => {}
        () = one(SignalKind::hangup()) => {}
    }
}

/// The profile that the server opened at its start, even if another file replaces it.
#[derive(Clone)]
pub struct Served {
    file: Arc<File>,
    /// The path as the user gave it.
    name: PathBuf,
}

impl Served {
    /// Opens a profile.
    ///
    /// # Errors
    /// It can't be read, or is no profile.
    pub fn open(profile: &Path) -> Result<Self> {
        let file = File::open(profile).with_context(|| {
            format!(
                "cannot read {}; name the profile that `ngmi record` wrote",
                profile.display()
            )
        })?;
        let served = Self {
            file: Arc::new(file),
            name: profile.to_owned(),
        };
        let start = source::start_of(served.reader()).with_context(|| format!("cannot read {}", profile.display()))?;
        source::expect_profile(profile, &start)?;
        Ok(served)
    }

    /// Refuses a profile that is cut: the browser would only say that it can't open it.
    ///
    /// # Errors
    /// It is cut, damaged, or can't be read.
    pub fn expect_whole(&self) -> Result<()> {
        source::expect_whole(&self.name, self.reader())
    }

    /// A reader from the start of the file, independent of other readers.
    fn reader(&self) -> ReadAt<'_> {
        ReadAt {
            file: &self.file,
            at: 0,
        }
    }
}

/// Reads a file from its own position.
struct ReadAt<'f> {
    file: &'f File,
    at: u64,
}

impl std::io::Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_browser_is_in_a_group_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        // A shell replaces the browser, and the page is its script: no executable file has to be
        // written.
        symlink("/bin/sh", folder.path().join("xdg-open")).unwrap();
        let (page, group) = (folder.path().join("page"), folder.path().join("group"));
        let path = std::env::var("PATH").unwrap();
        let script = "cut -d ' ' -f 5 /proc/$$/stat > \"$0.part\" && mv \"$0.part\" \"${0%page}group\"";
        std::fs::write(&page, script).unwrap();
        let environment = [("PATH".into(), format!("{}:{path}", folder.path().display()).into())];
        open(page.to_str().unwrap(), &environment.into_iter().collect());
        let begin = Instant::now();
        while !group.exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never ran");
            std::thread::sleep(Duration::from_millis(5));
        }
        let group: i32 = std::fs::read_to_string(&group).unwrap().trim().parse().unwrap();
        assert_ne!(group, nix::unistd::getpgrp().as_raw());
    }

    #[test]
    fn a_file_replacing_the_profile_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json.gz");
        std::fs::write(&path, "{first}").unwrap();
        let opened = Served::open(&path).unwrap();
        std::fs::write(folder.path().join("new"), "second").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        for _ in 0..2 {
            assert_eq!(std::io::read_to_string(opened.reader()).unwrap(), "{first}");
        }
    }
}
