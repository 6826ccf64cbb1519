//! What to look at first: the file or function that costs a recording most for nothing, by name, and the verb that helps next. docs/faults.md has
//! the rules.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::functions::Functions;
use super::text::{WIDTH, bytes, columns, count, duration, fit, fit_middle, percent};
use crate::addr::{PAGE, ns};
use crate::fact::account::{is_exact_touch, misses_faults};
use crate::fact::clues::{Clues, is_library};
use crate::fact::life::life;
use crate::fact::{FrameId, MappedFile, MappedFileId, StackId, Tables, upwards};

/// Pages for nothing that are worth a word: a MiB.
const MANY: u64 = 256;
/// Pages of code, and places, that are worth a new order.
const SCATTERED: u64 = 64;
/// Pages of a place of code at most, on average, that is scattered.
const SHORT: u64 = 8;
/// Time waited for reads that is worth a word, in ns, and its share of the thread's life.
const LONG: u64 = 100_000_000;
const SHARE: u64 = 5;
/// Files and functions as a line holds them, if there is room.
const NAME: usize = 32;
/// They are shortened to so much, so that the words around them are whole.
const SHORT_NAME: usize = 8;
/// Before the words.
const HEAD: usize = 9;

/// What is the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A function wrote to many pages that a fork had shared.
    CopiedAfterFork,
    /// Most of what was read of a file nobody touched.
    WastedReadAhead,
    /// The code of a file that runs is scattered over it.
    ScatteredCode,
    /// The command's main thread waited for reads of files.
    ColdReads,
}

/// A culprit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is the matter.
    pub cause: Cause,
    /// The file, as far as it is one's fault.
    pub file: Option<String>,
    /// The function, as far as it is one's fault.
    pub function: Option<String>,
    /// Its process's name.
    pub process: Option<String>,
    /// What was copied, wasted, or is scattered, in bytes.
    pub bytes: u64,
    /// Time that it took, as far as it is known, in ns.
    pub time_ns: u64,
    /// In words.
    pub words: String,
    /// What helps.
    pub remedy: String,
}

impl Finding {
    /// One line of 80 columns: the remedy is in it if there is room.
    pub fn line(&self) -> String {
        let line = format!("{:<HEAD$}{}", self.head(), self.words);
        let longer = format!("{line}; {}", self.remedy);
        let told = if columns(&longer) <= WIDTH { longer } else { line };
        fit(&told, WIDTH)
    }

    fn head(&self) -> &'static str {
        match self.cause {
            Cause::CopiedAfterFork => "copied:",
            Cause::WastedReadAhead => "wasted:",
            Cause::ScatteredCode => "scatter:",
            Cause::ColdReads => "disk:",
        }
    }

    /// All of it, over as many lines as it takes.
    pub fn lines(&self) -> Vec<String> {
        let words = format!("{}; {}", self.words, self.remedy);
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        super::text::wrapped(&format!("{:<8}", self.head()), &words, " ")
    }
}

/// The culprits of a recording, the worst of each cause, causes by what they cost.
pub fn find(tables: &Tables, clues: &Clues) -> Vec<Finding> {
    // Naming the functions of all stacks takes time: most recordings have no need.
    let sum = |pages: &mut dyn Iterator<Item = u64>| pages.fold(0, u64::saturating_add);
    let copied = sum(&mut clues.copies.iter().map(|one| one.pages));
    let wasted = sum(&mut clues.wasted.iter().map(|one| one.pages));
    let functions = (copied >= MANY || wasted >= MANY).then(|| Functions::new(tables));
    let functions = functions.unwrap_or_default();
    let culprits = Culprits {
        tables,
        functions: &functions,
    };
    let found = [culprits.copies(clues), culprits.wasted(clues), scattered(tables, clues)];
    let mut found: Vec<Finding> = found.into_iter().flatten().collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    found.extend(cold(tables, clues));
    found
}

/// Words with names as long as a line has room for them.
fn in_line(words: impl Fn(&dyn Fn(&str) -> String) -> String) -> String {
    let of_width = |width: usize| words(&|name| fit_middle(name, width));
    let fits = |words: &String| HEAD + columns(words) <= WIDTH;
    let longest = (SHORT_NAME..=NAME).rev().map(of_width).find(fits);
    longest.unwrap_or_else(|| of_width(SHORT_NAME))
}

/// Names culprits.
struct Culprits<'a> {
    tables: &'a Tables,
    functions: &'a Functions,
}

impl Culprits<'_> {
    /// The innermost function that is not the C library's: who called `memset` is to blame, not `memset`.
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

    /// Of a frame: the innermost one that is known, if there is one.
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

    fn copies(&self, clues: &Clues) -> Option<Finding> {
        let mut sums: FxHashMap<(&str, Option<&str>), (u64, u64)> = FxHashMap::default();
        for one in &clues.copies {
            let process = self.tables.processes.get(one.process.index());
            let key = (
                process.map_or("", |process| &*process.name),
                one.frame.and_then(|frame| self.function_at(frame)),
            );
            let sum = sums.entry(key).or_default();
            *sum = (sum.0.saturating_add(one.pages), sum.1.saturating_add(ns(one.time)));
        }
        let ((process, function), (pages, time_ns)) = sums.into_iter().max_by_key(|(key, sum)| (*sum, *key))?;
        let all = pages.saturating_mul(PAGE);
        let name = function.unwrap_or("an unknown function");
        let words = in_line(|short| {
            let (pages, all) = (count(pages), bytes(all));
            format!(
                "{pages} pages ({all}) after a fork, by {} in {}",
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
            remedy: "each page that is written to while a fork shares it is copied: fork before it is filled, call exec soon, or keep it from \
                     the child (MADV_DONTFORK)"
                .to_owned(),
        })
    }

    fn wasted(&self, clues: &Clues) -> Option<Finding> {
        if clues.wasted.is_empty() || misses_faults(self.tables) {
            return None;
        }
        let mut files: FxHashMap<MappedFileId, (u64, u64)> = FxHashMap::default();
        for one in &clues.wasted {
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
        for one in clues.wasted.iter().filter(|one| one.file == id) {
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
                "madvise(MADV_RANDOM) where pages are touched far apart"
            } else {
                "`ngmi order` puts together what runs, `ngmi preload` reads only what is used"
            }
            .to_owned(),
        })
    }
}

fn scattered(tables: &Tables, clues: &Clues) -> Option<Finding> {
    let exact = is_exact_touch(&tables.recording);
    // Where the kernel mapped pages around the faults, nobody knows which of these ran.
    let is_seen = |windows: u64, pages: u64| exact || pages >= windows.saturating_mul(2);
    let scattered = clues.code.iter().filter(|code| {
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

fn cold(tables: &Tables, clues: &Clues) -> Option<Finding> {
    let process = tables.processes.get(tables.command_process()?.index())?;
    let main = process.main_thread?;
    let wall = ns(life(tables, tables.threads.get(main.index())?));
    let own = || clues.waits.iter().filter(|one| one.thread == main);
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
        words: in_line(|short| format!("{} ({share}) for reads, most of {}", duration(time_ns), short(&name))),
        remedy: "see `ngmi preload`".to_owned(),
    })
}

#[cfg(test)]
mod tests;
