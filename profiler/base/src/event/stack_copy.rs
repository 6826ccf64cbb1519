//! Stack copies within a chunk: only the 64-byte blocks that differ from the chunk's previous
//! content of the same memory are stored.
//!
//! Writer and reader maintain the same image of the stack memory, in pages, all zero at the chunk's
//! start. Successive samples of a thread share everything except the frames that changed, and
//! comparing memory costs the recorder far less than writing or compressing it.
//!
//! A copy is its length (at most 1 MiB; longer ones are cut), then runs over the 64-byte blocks that it covers (by
//! address; the first and last may be shorter): the number of blocks that equal the image, then the number of blocks
//! that follow in full and change it. A copy without user registers is at address 0.

use rustc_hash::FxHashMap;

use super::bytes::{Bytes, Malformed, put};

/// Block size in bytes: the unit that is stored or omitted.
const BLOCK: usize = 64;
/// Page size of the image in bytes.
const PAGE: usize = 4096;
/// Maximum number of pages in a chunk's image (16 MiB); a writer starts a new chunk before it needs
/// more.
pub const MAX_PAGES: usize = 4096;

/// The image of stack memory that the chunk has described so far.
#[derive(Default)]
pub struct Picture {
    /// Maps process and page number to an index of `pages`.
    slots: FxHashMap<(u32, u64), usize>,
    /// Reused across chunks to avoid allocations; the first `slots.len()` are in use.
    pages: Vec<Box<[u8; PAGE]>>,
}

impl Picture {
    /// Resets the image for a new chunk.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Whether a copy of `len` bytes fits.
    pub fn has_room(&self, len: usize) -> bool {
        self.slots.len() + len / PAGE + 2 <= MAX_PAGES
    }

    /// The page, all zero if the chunk has not described it yet.
    fn page(&mut self, pid: u32, number: u64) -> Result<&mut [u8; PAGE], Malformed> {
        let used = self.slots.len();
        let slot = *self.slots.entry((pid, number)).or_insert(used);
        if slot >= MAX_PAGES {
            return Err(Malformed);
        }
        if slot == self.pages.len() {
            self.pages.push(Box::new([0; PAGE]));
        } else if slot == used {
            self.pages[slot].fill(0);
        }
        Ok(&mut self.pages[slot])
    }

    /// Appends the copy `stack` of memory at `start` to `out`. The caller has checked
    /// [`Self::has_room`].
    pub fn encode(&mut self, out: &mut Vec<u8>, pid: u32, start: u64, stack: &[u8]) -> Result<(), Malformed> {
        put(out, stack.len() as u64);
        let mut run = Run::default();
        let mut done = 0;
        while done < stack.len() {
            let address = start.wrapping_add(done as u64);
            let in_page = place_in_page(address);
            let len = (PAGE - in_page).min(stack.len() - done);
            let new = &stack[done..done + len];
            let old = &mut self.page(pid, address / PAGE as u64)?[in_page..in_page + len];
            if old == new {
                run.same(out, new_blocks(in_page, len));
            } else {
                encode_page(out, &mut run, in_page, old, new);
            }
            done += len;
        }
        run.end(out);
        Ok(())
    }

    /// Decodes what [`Self::encode`] wrote to `stack`, which is cleared first.
    pub fn decode(
        &mut self,
        bytes: &mut Bytes<'_>,
        pid: u32,
        start: u64,
        limit: usize,
        stack: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let len = bytes.get_len(limit)?;
        stack.clear();
        stack.reserve(len);
        let (mut same, mut changed) = (0, 0);
        while stack.len() < len {
            let address = start.wrapping_add(stack.len() as u64);
            let in_page = place_in_page(address);
            let block = (BLOCK - in_page % BLOCK).min(len - stack.len());
            let picture = &mut self.page(pid, address / PAGE as u64)?[in_page..in_page + block];
            while same == 0 && changed == 0 {
                same = bytes.get()?;
                changed = bytes.get()?;
            }
            if same > 0 {
                same -= 1;
            } else {
                changed -= 1;
                picture.copy_from_slice(bytes.take(block)?);
            }
            stack.extend_from_slice(picture);
        }
        if same == 0 && changed == 0 {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

fn place_in_page(address: u64) -> usize {
    // Less than a page: it fits.
    usize::try_from(address % PAGE as u64).unwrap_or_default()
}

/// Number of blocks in `len` bytes from `in_page`.
fn new_blocks(in_page: usize, len: usize) -> u64 {
    ((in_page + len).div_ceil(BLOCK) - in_page / BLOCK) as u64
}

/// Blocks of one page, some of which changed.
fn encode_page(out: &mut Vec<u8>, run: &mut Run, in_page: usize, old: &mut [u8], new: &[u8]) {
    let mut at = 0;
    while at < new.len() {
        let end = (at + BLOCK - (in_page + at) % BLOCK).min(new.len());
        if old[at..end] == new[at..end] {
            run.same(out, 1);
        } else {
            old[at..end].copy_from_slice(&new[at..end]);
            run.changed(out, &new[at..end]);
        }
        at = end;
    }
}

/// A run under construction: a number of equal blocks, then a number of changed ones with their
/// bytes.
#[derive(Default)]
struct Run {
    same: u64,
    changed: u64,
    /// Where the bytes of the changed blocks begin in the output.
    from: usize,
}

impl Run {
    fn same(&mut self, out: &mut Vec<u8>, blocks: u64) {
        if self.changed > 0 {
            self.end(out);
        }
        self.same += blocks;
    }

    fn changed(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        if self.changed == 0 {
            put(out, self.same);
            // The count is one byte: a run ends before it overflows.
            out.push(0);
            self.from = out.len();
        }
        out.extend_from_slice(bytes);
        self.changed += 1;
        if self.changed == 127 {
            self.end(out);
        }
    }

    /// Writes the open run.
    fn end(&mut self, out: &mut Vec<u8>) {
        if self.changed > 0 {
            out[self.from - 1] = self.changed.to_le_bytes()[0];
        } else if self.same > 0 {
            put(out, self.same);
            out.push(0);
        }
        *self = Self::default();
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Copies of the same few stacks with differences in a few places.
    fn copies() -> impl Strategy<Value = Vec<(u32, u64, Vec<u8>)>> {
        let one = (
            0..2u32,
            0..3000u64,
            0..20_000usize,
            prop::collection::vec((0..20_000usize, any::<u8>()), 0..6),
        );
        prop::collection::vec(one, 0..12).prop_map(|copies| {
            let place = |(pid, start, len, changes): (u32, u64, usize, Vec<(usize, u8)>)| {
                let mut stack: Vec<u8> = (0..len).map(|at| ((start as usize + at) / 512) as u8).collect();
                for (at, value) in changes {
                    if let Some(byte) = stack.get_mut(at) {
                        *byte = value;
                    }
                }
                (pid, 0x7fff_0000_0000 + start, stack)
            };
            copies.into_iter().map(place).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn copies_round_trip(copies in copies()) {
            let (mut out, mut writer, mut reader) = (Vec::new(), Picture::default(), Picture::default());
            for chunk in copies.chunks(5) {
                out.clear();
                writer.clear();
                reader.clear();
                for (pid, start, stack) in chunk {
                    writer.encode(&mut out, *pid, *start, stack).unwrap();
                }
                let (mut bytes, mut read) = (Bytes(&out), Vec::new());
                for (pid, start, stack) in chunk {
                    reader.decode(&mut bytes, *pid, *start, 1 << 20, &mut read).unwrap();
                    prop_assert_eq!(&read, stack);
                }
                prop_assert!(bytes.is_empty());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(data: Vec<u8>, start: u64) {
            let mut stack = Vec::new();
            let _ = Picture::default().decode(&mut Bytes(&data), 1, start, 1 << 16, &mut stack);
        }
    }

    #[test]
    fn an_unchanged_stack_costs_a_few_bytes() {
        let stack: Vec<u8> = (0..65_536u32).map(|at| (at % 251) as u8).collect();
        let (mut out, mut picture) = (Vec::new(), Picture::default());
        picture.encode(&mut out, 1, 0x7fff_1234_5678, &stack).unwrap();
        assert!(out.len() < stack.len() + 64, "{}", out.len());
        let first = out.len();
        picture.encode(&mut out, 1, 0x7fff_1234_5678, &stack).unwrap();
        assert!(out.len() - first <= 6, "{}", out.len() - first);
    }

    #[test]
    fn a_stack_picture_has_a_limit() {
        let mut picture = Picture::default();
        for number in 0..MAX_PAGES as u64 {
            assert!(picture.page(1, number).is_ok());
        }
        assert!(!picture.has_room(1));
        assert_eq!(picture.page(1, u64::MAX).err(), Some(Malformed));
    }
}
