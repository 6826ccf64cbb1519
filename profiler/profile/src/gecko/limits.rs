//! Limits on what a Gecko profile may contain: the recorded user, or another program, wrote it.

/// Maximum bytes of JSON.
pub const INPUT: u64 = 1 << 30;
/// Maximum bytes of a process's `meta`.
pub const META: usize = 8 << 20;
/// Maximum number of processes.
pub const PROCESSES: usize = 4096;
/// Maximum number of threads of all processes.
pub const THREADS: usize = 1 << 17;
/// Maximum number of markers.
pub const MARKERS: usize = 4_000_000;
/// Maximum bytes of a marker in the input.
pub const ROW: usize = 1 << 20;
/// Maximum bytes of a payload in our profile.
pub const PAYLOAD: usize = 64 << 10;
/// Maximum bytes of all payloads in our profile: indices become strings, and keys contain those above them.
pub const PAYLOADS: usize = 1 << 30;
/// Maximum bytes of a picture.
pub const IMAGE: usize = 1 << 20;
/// Maximum bytes of all pictures.
pub const IMAGES: usize = 64 << 20;
/// Maximum number of counters.
pub const COUNTERS: usize = 512;
/// Maximum number of values of a counter in our profile: two per pixel.
pub const VALUES: usize = 4000;
/// Maximum number of categories.
pub const CATEGORIES: usize = 256;
/// Maximum number of types of payloads.
pub const SCHEMAS: usize = 1024;
/// Maximum number of fields of a type.
pub const FIELDS: usize = 64;
/// Maximum number of pages.
pub const PAGES: usize = 10_000;
/// How deep pages are embedded at most.
pub const NESTING: usize = 100;
/// Maximum bytes of a key or name of the format.
pub const NAME: usize = 256;
/// Maximum bytes of a label, a marker's name or an address.
pub const TEXT: usize = 4096;

/// Whether this many bytes are left of a maximum; if so, they are added to those in use.
pub fn has_room(used: &mut usize, bytes: usize, most: usize) -> bool {
    let has_room = bytes <= most.saturating_sub(*used);
    *used += if has_room { bytes } else { 0 };
    has_room
}

/// The text, cut to this many bytes at a character.
pub fn short(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
