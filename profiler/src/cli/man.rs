//! `ngmi man`: manual pages, generated from the text of `--help`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::args::{self, Cli};

/// Prints one page, or writes all of them to a folder.
///
/// # Errors
/// Unknown subcommand, or the folder is not writable.
pub fn run(args: &args::Man) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.to {
        write_all(folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    Man::new(command_of(args.subcommand.as_deref())?).render(&mut page)?;
    super::print(&page)
}

fn write_all(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))
}

/// The command that a page describes, built so that it includes its full name.
fn command_of(subcommand: Option<&str>) -> anyhow::Result<Command> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let Some(subcommand) = subcommand else { return Ok(all) };
    let found = all
        .get_subcommands()
        .find(|one| one.get_name() == subcommand && !one.is_hide_set());
    found
        .cloned()
        .with_context(|| format!("unknown subcommand {subcommand:?}: `ngmi help` lists all subcommands"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subcommand_has_a_man_page_with_its_options() {
        let mut page = Vec::new();
        Man::new(command_of(Some("record")).unwrap()).render(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(
            page.contains("ngmi\\-record") && page.contains("\\-\\-off\\-cpu"),
            "{page}"
        );
        assert!(command_of(Some("__capture")).is_err());
        assert!(
            command_of(Some("recrod"))
                .unwrap_err()
                .to_string()
                .contains("ngmi help")
        );
    }

    #[test]
    fn all_visible_man_pages_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("new").join("man1");
        write_all(&pages).unwrap();
        assert!(pages.join("ngmi.1").exists() && pages.join("ngmi-preload-run.1").exists());
        let names = std::fs::read_dir(&pages)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("__")));
    }
}
