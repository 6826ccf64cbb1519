//! `ngmi load`: serves a profile to the Firefox Profiler's page and opens it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::args::Load;
use super::terminal::{say, tell};

pub fn run(args: &Load) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the server")?;
    runtime.block_on(async {
        let server = web::Server::bind(&args.profile, args.port).await?;
        let page = server.page_url()?;
        tell(format_args!(
            "serving {} on this machine only; Ctrl-C ends it",
            args.profile.display()
        ));
        say(&page);
        tell("the browser may ask whether the page may reach this machine: allow it, or nothing loads");
        if !args.no_open {
            open(&page);
        }
        server.run().await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn open(page: &str) {
    let started = Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        tell("no browser could be started (xdg-open is missing): open the address above yourself");
    }
}
