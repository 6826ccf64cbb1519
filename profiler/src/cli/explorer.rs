//! The page-fault explorer of a recording: its document and critical paths for the server, and the self-contained page
//! of `ngmi faults --html`.

use std::io::{Read, Write as _, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use web::PathQuery;

use super::faults::{warn_of_budget, why_none};
use super::output::{file_of, must_differ, to_stdout};
use super::scratch::Scratch;
use super::source::{self, Kind};
use super::waits::WAITS;
use crate::fact::Tables;
use crate::record::spool::Output;
use crate::report::explorer::path::{PathRequest, PathSource, empty};
use crate::report::explorer::{Facts, write};
use crate::report::faults::{Selection, Selector, View};
use crate::report::path::PathFacts;
use crate::terminal::print_note;

/// The compressed document of all faults of a profile, which the server returns for
/// `web::explorer::DATA`. Without faults, it contains the reason.
///
/// # Errors
/// When the profile can't be read.
pub fn document(profile: impl Read, name: &Path) -> Result<Vec<u8>> {
    let read = |facts: &mut Facts| {
        let tables = source::profile(profile, facts);
        Ok((
            tables.with_context(|| format!("cannot read {}", name.display()))?,
            Kind::Profile,
        ))
    };
    of_selected(name, read, &Selection::default(), false)
}

/// The critical paths of a profile, which is read for the first one.
#[derive(Default)]
pub struct Paths {
    source: OnceLock<Result<Followed, String>>,
}

/// What paths are followed through, or why there are none.
type Followed = Result<PathSource, String>;

impl Paths {
    /// A path as JSON, which the server returns for `web::explorer::PATH`. Without waits, it contains the reason.
    ///
    /// # Errors
    /// When the profile can't be read; a sentence.
    pub fn answer(&self, profile: impl Read, name: &Path, query: PathQuery) -> Result<Vec<u8>, String> {
        let read = || {
            let mut facts = PathFacts::default();
            let tables = source::profile(profile, &mut facts);
            let tables = tables.map_err(|error| format!("cannot read {}: {error:#}", name.display()))?;
            let why = WAITS.why_none(&tables.recording, tables.recording.waits_seen);
            Ok(PathSource::new(tables, facts).ok_or(format!("This recording contains no waits{why}.")))
        };
        let answer = match self.source.get_or_init(read).as_ref()? {
            Ok(source) => source.answer(&PathRequest {
                thread: query.thread,
                from_ns: query.from_ns,
                to_ns: query.to_ns,
            }),
            Err(why) => empty(why),
        };
        answer.map_err(|error| error.to_string())
    }
}

/// Builds the document from the facts that `read` yields for `input`.
fn of_selected(
    input: &Path,
    read: impl FnOnce(&mut Facts) -> Result<(Tables, Kind)>,
    selection: &Selection,
    must_have_faults: bool,
) -> Result<Vec<u8>> {
    let scratch = Scratch::new();
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let (tables, kind) = read(&mut facts)?;
    facts.faults.is_without_mappings = kind == Kind::Profile;
    let why = facts.faults.rows.is_empty().then(|| why_none(&tables.recording));
    match why {
        Some(why) if must_have_faults => bail!("{} contains no page faults{why}", input.display()),
        _ => warn_of_budget(&tables, facts.faults.rows.faults()),
    }
    let view = View::new(&tables, &facts.faults);
    let selector = Selector::new(&view, selection).with_context(|| input.display().to_string())?;
    let mut document = Vec::new();
    let why = why.map(|why| format!("This recording contains no page faults{why}."));
    write(&mut document, &view, &selector, &facts, why.as_deref())?;
    scratch.was_whole()?;
    Ok(document)
}

/// Writes the page with the selected faults to `html`, or to standard output for `-`.
pub fn page(input: &Path, html: &Path, selection: &Selection) -> Result<ExitCode> {
    let page = || {
        let document = of_selected(input, |facts| source::read(input, facts), selection, true)?;
        anyhow::Ok(web::explorer::single_page(&document)?)
    };
    if file_of(Some(html)).is_none() {
        let page = page()?;
        return to_stdout(&mut stdout().lock(), |out| out.write_all(page.as_bytes()));
    }
    must_differ(html, input)?;
    let mut output = Output::create(html)?;
    let page = page()?;
    let cannot = || format!("cannot write {}; free disk space, or name another file", html.display());
    output.file().write_all(page.as_bytes()).with_context(cannot)?;
    let bytes = output.finish()?;
    print_note(format_args!(
        "{} ({}): open it in any browser; no network is needed",
        html.display(),
        report::text::bytes(bytes)
    ));
    Ok(ExitCode::SUCCESS)
}
