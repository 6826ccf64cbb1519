//! Serves a profile until Ctrl-C, and opens it: what `load` does, and `record` at its end.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use symbols::Debuginfod;
use symbols::server::{ServerConfig, SourceRoots, SymbolServer};
use tokio::signal::unix::{SignalKind, signal};
use web::{Explorer, ProfilerUrl, Server, Site};

use super::args::Serve;
use super::terminal::{say, tell};
use crate::record::identity::Environment;
use crate::record::sources::SourcePlaces;

/// Serves `profile`; returns at Ctrl-C, SIGTERM or SIGHUP.
///
/// # Errors
/// The profile can't be read, or the address is taken.
pub fn run(profile: &Path, options: &Serve, roots: &[PathBuf], environment: &Environment) -> Result<()> {
    let address = options.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let site = Site {
        profile: profile.to_owned(),
        address,
        port: options.port,
        profiler: ProfilerUrl::new(&options.profiler_url)?,
        symbols: Some(Arc::new(symbol_server(
            profile,
            options,
            SourcePlaces::new(roots, environment).roots(),
        )?)),
        explorer: Some(explorer_of(profile)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the server")?;
    runtime.block_on(async {
        let server = Server::bind(site).await?;
        let page = server.page_url();
        introduce(profile, address, &server, &page);
        if !options.no_open {
            open(&page, environment);
        }
        server.run_until(asked_to_end()).await;
        Ok(())
    })
}

fn symbol_server(profile: &Path, options: &Serve, roots: SourceRoots) -> Result<SymbolServer> {
    let config = ServerConfig {
        roots,
        debuginfod: Debuginfod::from_env(),
        fetch_source: options.fetch_source,
    };
    // The server keeps this file even if another takes its place.
    let file = File::open(profile).with_context(|| {
        format!(
            "cannot read {}; name the profile that `ngmi record` wrote",
            profile.display()
        )
    })?;
    let shown = profile.display().to_string();
    let named = move || {
        let from_the_start = ReadAt { file: &file, at: 0 };
        crate::profile::named(from_the_start).map_err(|error| format!("cannot read {shown}: {error}"))
    };
    SymbolServer::new(config, named).context("starting the symbol server")
}

/// The page of page faults; its document is made when it is first opened.
fn explorer_of(profile: &Path) -> Explorer {
    let profile = profile.to_owned();
    Explorer::new(move || super::explorer::document(&profile).map_err(|error| format!("{error:#}")))
}

fn introduce(profile: &Path, address: IpAddr, server: &Server, page: &str) {
    let profile = profile.display();
    if address.is_loopback() {
        tell(format_args!("serving {profile} on this machine only; Ctrl-C ends it"));
    } else {
        tell(format_args!("serving {profile} on {address}; Ctrl-C ends it"));
        tell(
            "warning: with --host, whoever learns the link reads the profile and its sources from the network, unencrypted",
        );
    }
    say(page);
    if let Some(explorer) = server.explorer_url() {
        tell(format_args!("its page faults: {explorer}"));
    }
    tell("the browser may ask whether the page may reach this machine: allow it, or nothing loads");
}

fn open(page: &str, environment: &Environment) {
    let started = Command::new("xdg-open")
        .arg(page)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Reaped, or it would stay a zombie while the server runs.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(_) => tell("no browser could be started (xdg-open is missing): open the address above yourself"),
    }
}

async fn asked_to_end() {
    let one = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            // The signal has its usual effect then.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = one(SignalKind::interrupt()) => {}
        () = one(SignalKind::terminate()) => {}
        () = one(SignalKind::hangup()) => {}
    }
}

/// Reads a file from a place of its own.
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
