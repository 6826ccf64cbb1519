//! Findings: what to look at first. Each names the file or function that wastes the most, and the subcommand that helps next. docs/faults.md
//! has the rules.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::functions::Functions;
use super::text::{WIDTH, bytes, columns, count, duration, fit, fit_middle, percent};
use crate::lifetime::lifetime;
use base::addr::{PAGE, ns};
use fact::account::{is_exact_touch, misses_faults};
use fact::reduce::finding_inputs::{FindingInputs, is_library};
use fact::{FrameId, MappedFile, MappedFileId, StackId, Tables, upwards};

/// The smallest number of wasted or copied pages to report: a MiB.
const MANY: u64 = 256;
/// The smallest number of separate places of code for which a new order is worthwhile.
const SCATTERED: u64 = 64;
/// Code is scattered if its places have fewer pages than this on average.
const SHORT: u64 = 8;
/// The shortest wait for reads to report, in ns.
const LONG: u64 = 100_000_000;
/// The smallest share of the thread's lifetime that such a wait must have: one in `SHARE`.
const SHARE: u64 = 5;
/// Largest width of a file or function name in a line, in columns.
const NAME: usize = 32;
/// Width to which names are shortened at most, to keep the words around them whole.
const SHORT_NAME: usize = 8;
/// Width of the head before the words, in columns.
const HEAD: usize = 9;

/// The kind of waste.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A function wrote to many pages that a fork had shared.
    CopiedAfterFork,
    /// Much of what was read of a file was never touched.
    WastedReadAhead,
    /// The code that ran is scattered over its file.
    ScatteredCode,
    /// The command's main thread waited for reads of files.
    ColdReads,
}

/// The worst case of a cause, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of waste.
    pub cause: Cause,
    /// The file, if the cause is about one.
    pub file: Option<String>,
    /// The responsible function, if known.
    pub function: Option<String>,
    /// The name of the process, if the cause is about one.
    pub process: Option<String>,
    /// The memory that was copied, wasted, or is scattered, in bytes.
    pub bytes: u64,
    /// The time that it took in ns, or 0 if unknown.
    pub time_ns: u64,
    /// The description for a report.
    pub words: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    /// One line of at most 80 columns, with the remedy if it fits.
    pub fn line(&self) -> String {
        let line = format!("{:<HEAD$}{}", self.head(), self.words);
        let longer = format!("{line}; {}", self.remedy);
        let shown = if columns(&longer) <= WIDTH { longer } else { line };
        fit(&shown, WIDTH)
    }

    fn head(&self) -> &'static str {
        match self.cause {
            Cause::CopiedAfterFork => "copied:",
            Cause::WastedReadAhead => "wasted:",
            Cause::ScatteredCode => "scatter:",
            Cause::ColdReads => "disk:",
        }
    }

    /// The complete text, wrapped to lines.
    pub fn lines(&self) -> Vec<String> {
        let words = format!("{}; {}", self.words, self.remedy);
        super::text::wrapped_words(&format!("{:<8}", self.head()), &words)
    }
}

/// The findings of a recording: the worst case of each cause, most bytes first, then cold reads.
pub fn find(tables: &Tables, inputs: &FindingInputs) -> Vec<Finding> {
    // Resolving the functions of all stacks takes time, and most recordings do not need it.
    let sum = |pages: &mut dyn Iterator<Item = u64>| pages.fold(0, u64::saturating_add);
    let copied = sum(&mut inputs.copies.iter().map(|one| one.pages));
    let wasted = sum(&mut inputs.wasted.iter().map(|one| one.pages));
    let functions = (copied >= MANY || wasted >= MANY).then(|| Functions::new(tables));
    let functions = functions.unwrap_or_default();
    let finder = Finder {
        tables,
        functions: &functions,
    };
    let found = [finder.copies(inputs), finder.wasted(inputs), scattered(tables, inputs)];
    let mut found: Vec<Finding> = found.into_iter().flatten().collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    found.extend(cold(tables, inputs));
    found
}

/// Formats words with names that are as long as a line permits.
fn in_line(words: impl Fn(&dyn Fn(&str) -> String) -> String) -> String {
    let of_width = |width: usize| words(&|name| fit_middle(name, width));
    let fits = |words: &String| HEAD + columns(words) <= WIDTH;
    let longest = (SHORT_NAME..=NAME).rev().map(of_width).find(fits);
    longest.unwrap_or_else(|| of_width(SHORT_NAME))
}

/// Attributes waste to functions and files.
struct Finder<'a> {
    tables: &'a Tables,
    functions: &'a Functions,
}

impl Finder<'_> {
    /// The innermost function outside of the C library: the caller of `memset` is responsible, not `memset`.
    fn function(&self, stack: Option<StackId>) -> Option<&str> {
        let functions = upwards(self.tables, stack?).flat_map(|frame| self.functions.of_frame(frame));
        let known = functions.filter_map(|id| self.functions.get(*id));
        let mut own = known.filter(|function| {
            let module = function.module.map_or("", |module| self.tables.module_name(module));
            function.is_known && !is_library(module)
        });
        let innermost = || self.functions.get(self.functions.innermost(stack)?);
        Some(own.next().or_else(innermost)?.name.as_str())
    }

    /// The innermost known function of a frame, or its innermost function if none is known.
    fn function_at(&self, frame: FrameId) -> Option<&str> {
        let of_frame = || {
            self.functions
                .of_frame(frame)
                .iter()
                .filter_map(|id| self.functions.get(*id))
        };
        let known = of_frame().find(|function| function.is_known);
        Some(known.or_else(|| of_frame().next())?.name.as_str())
    }

    fn copies(&self, inputs: &FindingInputs) -> Option<Finding> {
        let mut sums: FxHashMap<(&str, Option<&str>), (u64, u64, u64)> = FxHashMap::default();
        for one in &inputs.copies {
            let process = self.tables.processes.get(one.process.index());
            let key = (
                process.map_or("", |process| &*process.name),
                one.frame.and_then(|frame| self.function_at(frame)),
            );
            let sum = sums.entry(key).or_default();
            *sum = (
                sum.0.saturating_add(one.pages),
                sum.1.saturating_add(ns(one.time)),
                sum.2.saturating_add(one.counted),
            );
        }
        let ((process, function), (pages, time_ns, counted)) =
            sums.into_iter().max_by_key(|(key, sum)| (*sum, *key))?;
        let all = pages.saturating_mul(PAGE);
        let name = function.unwrap_or("an unknown function");
        let about = if counted > 0 { "about " } else { "" };
        let words = in_line(|short| {
            let (pages, all) = (count(pages), bytes(all));
            format!(
                "{about}{pages} pages ({all}) after a fork, by {} in {}",
                short(name),
                fit(process, 15)
            )
        });
        (pages >= MANY).then(|| Finding {
            cause: Cause::CopiedAfterFork,
            file: None,
            function: function.map(str::to_owned),
            process: Some(process.to_owned()),
            bytes: all,
            time_ns,
            words,
            remedy: "a write to a page that a fork shares copies it: fork before filling the memory, call exec soon, or exclude the memory \
                     from the child (MADV_DONTFORK)"
                .to_owned(),
        })
    }

    fn wasted(&self, inputs: &FindingInputs) -> Option<Finding> {
        if inputs.wasted.is_empty() || misses_faults(self.tables) {
            return None;
        }
        let mut files: FxHashMap<MappedFileId, (u64, u64)> = FxHashMap::default();
        for one in &inputs.wasted {
            let sum = files.entry(one.file).or_default();
            *sum = (sum.0.saturating_add(one.pages), one.of);
        }
        let most = |(file, (pages, _)): &(MappedFileId, (u64, u64))| (*pages, *file);
        let worst = files
            .into_iter()
            .filter(|(_, (pages, of))| pages.saturating_mul(4) >= *of);
        let (id, (pages, of)) = worst.max_by_key(most).filter(|(_, (pages, _))| *pages >= MANY)?;
        let file = self.tables.files.get(id.index())?;
        let mut readers: FxHashMap<&str, u64> = FxHashMap::default();
        for one in inputs.wasted.iter().filter(|one| one.file == id) {
            if let Some(function) = self.function(one.stack) {
                let sum = readers.entry(function).or_default();
                *sum = sum.saturating_add(one.pages);
            }
        }
        let function = readers.into_iter().max_by_key(|(name, pages)| (*pages, *name));
        let function = function.map(|(name, _)| name);
        let (all, read) = (pages.saturating_mul(PAGE), of.saturating_mul(PAGE));
        Some(Finding {
            cause: Cause::WastedReadAhead,
            file: Some(file.path.to_string()),
            function: function.map(str::to_owned),
            process: None,
            bytes: all,
            time_ns: 0,
            words: in_line(|short| {
                let by = function.map_or(String::new(), |name| format!(" by {}", short(name)));
                let (all, read, name) = (bytes(all), bytes(read), short(&file.short_name()));
                format!("{all} of {read} read of {name}{by}, never mapped")
            }),
            remedy: if file.sections.is_empty() {
                "use madvise(MADV_RANDOM) where pages are touched far apart"
            } else {
                "`ngmi order` groups the code that runs, `ngmi preload` reads only what is used"
            }
            .to_owned(),
        })
    }
}

fn scattered(tables: &Tables, inputs: &FindingInputs) -> Option<Finding> {
    let exact = is_exact_touch(&tables.recording);
    // Which of the pages that the kernel mapped around faults ran is unknown.
    let is_seen = |windows: u64, pages: u64| exact || pages >= windows.saturating_mul(2);
    let scattered = inputs.code.iter().filter(|code| {
        let places = code.places >= SCATTERED && code.pages < code.places.saturating_mul(SHORT);
        places && is_seen(code.windows, code.pages)
    });
    let code = scattered.max_by_key(|code| (code.pages, code.file))?;
    let file = tables.files.get(code.file.index())?;
    Some(Finding {
        cause: Cause::ScatteredCode,
        file: Some(file.path.to_string()),
        function: None,
        process: None,
        bytes: code.pages.saturating_mul(PAGE),
        time_ns: ns(code.time),
        words: in_line(|short| {
            let (pages, places) = (count(code.pages), count(code.places));
            format!(
                "code of {} ran on {pages} pages in {places} places",
                short(&file.short_name())
            )
        }),
        remedy: "see `ngmi order`".to_owned(),
    })
}

fn cold(tables: &Tables, inputs: &FindingInputs) -> Option<Finding> {
    let process = tables.processes.get(tables.command_process()?.index())?;
    let main = process.main_thread?;
    let wall = ns(lifetime(tables, tables.threads.get(main.index())?));
    let own = || inputs.waits.iter().filter(|one| one.thread == main);
    let time_ns = own().fold(0_u64, |sum, one| sum.saturating_add(ns(one.time)));
    if time_ns < LONG || time_ns.saturating_mul(SHARE) < wall {
        return None;
    }
    let most = own().max_by_key(|one| (one.time, one.file))?;
    let file = most.file.and_then(|file| tables.files.get(file.index()));
    let name = file.map_or_else(|| "swap".to_owned(), MappedFile::short_name);
    let share = percent(time_ns, wall);
    Some(Finding {
        cause: Cause::ColdReads,
        file: file.map(|file| file.path.to_string()),
        function: None,
        process: Some(process.name.clone()),
        bytes: 0,
        time_ns,
        words: in_line(|short| {
            format!(
                "{} ({share}) for reads, mostly from {}",
                duration(time_ns),
                short(&name)
            )
        }),
        remedy: "see `ngmi preload`".to_owned(),
    })
}

#[cfg(test)]
mod tests;
