//! Symbol files in Breakpad's format from servers like Mozilla's, in our own cache.
//! <https://tecken.readthedocs.io/en/latest/download.html>

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use samply_symbols::DebugIdExt as _;
use samply_symbols::debugid::DebugId;

use super::locate::Opened;
use super::module::Code;
use super::sym_check::Checked;
use super::sym_file::{Extent, SymbolFile};
use super::{AddressNames, BinaryRequest, Symbolicator};
use crate::cfi::FunctionRanges;
use crate::download::{OnDownload, Server};
use crate::notes::Notes;
use crate::store::Store;
use crate::{home, mozilla};

/// Timeout for one file: 200 MB at 10 Mbit/s take half of it.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Longest name of a file that is requested.
const MAX_NAME: usize = 255;

/// The servers for symbol files, and the cache for downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolServers {
    /// Addresses of servers that are asked about every file, in this order.
    pub urls: Vec<String>,
    /// Address of the server that is asked about files of builds from Mozilla, if any.
    pub for_mozilla: Option<String>,
    /// The folders with these builds; `None`: those whose `application.ini` [names
    /// Mozilla](mozilla::names_mozilla).
    pub mozilla_folders: Option<Vec<PathBuf>>,
    /// Cache folder; files are saved as `SERVER/NAME/DEBUG_ID/NAME.sym`.
    pub cache_directory: PathBuf,
    /// Timeout for one file.
    pub timeout: Duration,
}

impl SymbolServers {
    /// Servers with these addresses, and with `asks_mozilla` [Mozilla's](mozilla::SYMBOL_SERVER)
    /// for its builds. `None`: there is no server, or no cache folder. Files are saved in
    /// `ngmi/symbols` of the user's cache folder.
    pub fn new(urls: &[String], asks_mozilla: bool) -> Option<Self> {
        if urls.is_empty() && !asks_mozilla {
            return None;
        }
        Some(Self {
            urls: urls.to_vec(),
            for_mozilla: asks_mozilla.then(|| mozilla::SYMBOL_SERVER.to_owned()),
            mozilla_folders: None,
            cache_directory: home::cache_folder()?.join("ngmi/symbols"),
            timeout: TIMEOUT,
        })
    }
}

/// Which of the servers are asked.
struct Place {
    server: Server,
    /// The folder in the cache.
    folder: PathBuf,
    /// Only about builds from Mozilla.
    only_mozilla: bool,
}

/// Requests symbol files.
pub(crate) struct Client {
    places: Vec<Place>,
    mozilla_folders: Option<Vec<PathBuf>>,
    store: Store,
    timeout: Duration,
    on_download: Option<OnDownload>,
    notes: Notes,
}

impl Client {
    pub(crate) fn new(config: &SymbolServers, on_download: Option<OnDownload>) -> Self {
        let place = |(url, only_mozilla): (&String, bool)| {
            Some(Place {
                server: Server::new(url)?,
                folder: folder_name(url).into(),
                only_mozilla,
            })
        };
        let for_mozilla = config.for_mozilla.iter().filter(|url| !config.urls.contains(url));
        Self {
            places: (config.urls.iter().map(|url| (url, false)))
                .chain(for_mozilla.map(|url| (url, true)))
                .filter_map(place)
                .collect(),
            mozilla_folders: config.mozilla_folders.clone(),
            store: Store::new(config.cache_directory.clone()),
            timeout: config.timeout,
            on_download,
            notes: Notes::default(),
        }
    }

    /// The symbol file of the build `id` of the binary at `path`, from the cache or from a server.
    pub(crate) async fn file(&self, path: &Path, id: DebugId) -> Option<File> {
        let name = path.file_name()?.to_str()?;
        if id.is_nil() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return None;
        }
        let is_mozilla = || match &self.mozilla_folders {
            Some(folders) => path
                .parent()
                .is_some_and(|folder| folders.iter().any(|known| known == folder)),
            None => mozilla::is_build(path),
        };
        let is_mozilla = self.places.iter().any(|place| place.only_mozilla) && is_mozilla();
        let places = (self.places.iter()).filter(|place| is_mozilla || !place.only_mozilla);
        for place in places {
            if let Some(file) = self.from(place, name, id).await {
                return Some(file);
            }
        }
        None
    }

    /// What was asked, and what failed: for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        let servers = self.places.iter().flat_map(|place| place.server.notes());
        servers.chain(self.notes.all()).collect()
    }

    async fn from(&self, place: &Place, name: &str, id: DebugId) -> Option<File> {
        let id_text = id.breakpad().to_string();
        let file_name = format!("{name}.sym");
        let relative = place.folder.join(name).join(&id_text).join(&file_name);
        match self.store.open(&relative) {
            Ok(Some(file)) if is_whole(&file) => return Some(file),
            Ok(_) => {}
            Err(error) => {
                self.notes
                    .add(format!("the symbols of {name} in the cache are not used: {error}"));
                return None;
            }
        }
        if place.server.has_failed() {
            return None;
        }
        let saved = |error: io::Error| self.notes.add(format!("the symbols of {name} can't be saved: {error}"));
        let target = self.store.create(&relative).map_err(saved).ok()?;
        let mut checked = Checked::new(BufWriter::with_capacity(1 << 20, target), id);
        let parts = [name, &id_text, &file_name];
        let download = place
            .server
            .download(&parts, &mut checked, self.timeout, self.on_download.as_ref());
        if !download.await {
            return None;
        }
        let whole = checked
            .finish()
            .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
        match whole.and_then(|file| self.store.keep(file, &relative)) {
            Ok(file) => Some(file),
            Err(error) => {
                self.notes.add(format!("{file_name} is not used: {error}"));
                None
            }
        }
    }
}

/// The name of a server's folder in the cache.
fn folder_name(url: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let name: String = url.chars().map(|c| if keep(c) { c } else { '_' }).collect();
    name.trim_matches(['_', '.']).chars().take(200).collect()
}

/// Whether a saved file still ends with a line: after a crash of the machine it may be cut off.
fn is_whole(file: &File) -> bool {
    let mut last = [0];
    let place = file.metadata().ok().and_then(|meta| meta.len().checked_sub(1));
    place.is_some_and(|place| file.read_exact_at(&mut last, place).is_ok()) && last == *b"\n"
}

impl Symbolicator {
    /// Replaces names of `addresses` by those of the binary's symbol file, if a server has it. A
    /// function with a size is trusted, another symbol only as far as `.eh_frame` agrees.
    pub(super) fn name_from_servers(
        &self,
        names: &mut AddressNames,
        addresses: &[u32],
        (opened, binary): (&Opened, &BinaryRequest),
        (code, ranges): (&Code, Option<&FunctionRanges<'_>>),
    ) {
        let Some(symbols) = self.symbol_file(binary) else {
            return;
        };
        let base = opened.elf.base_svma();
        let is_same_function = |svma, start: u64| {
            let range = |svma| ranges.and_then(|ranges| ranges.range_of(svma));
            match range(svma) {
                Some(found) => found.range.contains(&start),
                None => range(start).is_none(),
            }
        };
        let found: Vec<_> = (addresses.iter().zip(&*names))
            .map(|(address, known)| {
                let svma = base.checked_add(u64::from(*address))?;
                code.section_of(svma)?;
                let (name, extent) = symbols.lookup(*address)?;
                let is_known = known.as_ref().is_some_and(|known| !known.is_nameless);
                let start = base.checked_add(u64::from(name.symbol_start))?;
                let is_better = extent == Extent::Function || (!is_known && is_same_function(svma, start));
                is_better.then_some(name)
            })
            .collect();
        if symbols.was_cut() {
            return;
        }
        for (known, found) in names.iter_mut().zip(found) {
            if found.is_some() {
                *known = found;
            }
        }
    }

    /// Names `addresses` of a binary that is not here: only functions with a size.
    pub(super) fn name_without_binary(&self, binary: &BinaryRequest, addresses: &[u32]) -> Option<AddressNames> {
        let symbols = self.symbol_file(binary)?;
        let name = |address: &u32| {
            let found = symbols.lookup(*address);
            found.and_then(|(name, extent)| (extent == Extent::Function).then_some(name))
        };
        let names = addresses.iter().map(name).collect();
        (!symbols.was_cut()).then_some(names)
    }

    fn symbol_file(&self, binary: &BinaryRequest) -> Option<SymbolFile> {
        let (client, runtime) = (self.symbol_servers.as_ref()?, self.runtime.as_ref()?);
        if binary.build_id.is_empty() {
            return None;
        }
        let id = DebugId::from_identifier(&binary.build_id, true);
        let file = runtime.block_on(client.file(&binary.path, id))?;
        let symbols = SymbolFile::load(runtime, &file, id);
        if symbols.is_none() {
            client
                .notes
                .add(format!("the symbols of {} are damaged", binary.path.display()));
        }
        symbols
    }
}
