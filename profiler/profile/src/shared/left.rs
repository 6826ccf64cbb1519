//! The modules whose functions are left to the front end's symbol servers: it asks for the names of all frames with a
//! library that has a Breakpad id, and replaces what it gets (`symbolication.ts` in its source). So frames with a name
//! belong to a second row of their library, without that id: its debug name is the build id, which the local server
//! knows, too.

use fact::{FrameId, Location, Module, ModuleId, ModuleKind, Tables, place_of_nameless};

/// Every module has a few nameless functions, such as stubs: one with more than this share has no symbols.
const SHARE: u32 = 4;

/// Modules without symbols.
#[derive(Debug)]
pub struct Left {
    is_left: Vec<bool>,
    any: bool,
}

impl Left {
    /// Chooses the modules.
    pub fn of(tables: &Tables) -> Self {
        let mut frames = vec![(0_u32, 0_u32); tables.modules.len()];
        for (frame, id) in tables.frames.iter().zip((0..).map(FrameId)) {
            if let Location::Module { module, .. } = frame.location
                && let Some((nameless, all)) = frames.get_mut(module.index())
            {
                *all = all.saturating_add(1);
                *nameless = nameless.saturating_add(u32::from(!is_named(tables, id)));
            }
        }
        let is_left = |(module, (nameless, all)): (&Module, &(u32, u32))| {
            let has_id = module.kind == ModuleKind::File && !module.build_id.is_empty();
            has_id && nameless.saturating_mul(SHARE) > *all
        };
        let is_left: Vec<bool> = tables.modules.iter().zip(&frames).map(is_left).collect();
        let any = is_left.contains(&true);
        Self { is_left, any }
    }

    /// Whether the front end is to ask for names.
    pub fn any(&self) -> bool {
        self.any
    }

    /// The row of `libs` for a frame or symbol of a module.
    pub fn library(&self, module: ModuleId, is_named: bool) -> u32 {
        let modules = u32::try_from(self.is_left.len()).unwrap_or(u32::MAX);
        let is_left = !is_named && self.is_left.get(module.index()).copied().unwrap_or(false);
        if self.any && !is_left {
            module.0.saturating_add(modules)
        } else {
            module.0
        }
    }
}

/// Whether a frame has a name, not only a location.
pub fn is_named(tables: &Tables, frame: FrameId) -> bool {
    let name = tables.names.get(&frame);
    name.is_some_and(|name| place_of_nameless(&name.symbol).is_none())
}
