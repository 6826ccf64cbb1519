//! Tables of every configuration of the kernel, in a made-up memory.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::*;

/// The kernel's configurations: page size, bits of an address, levels (arch/arm64/Kconfig).
const SHAPES: [(u32, u32, u32); 9] = [
    (12, 39, 3),
    (12, 48, 4),
    (12, 52, 5),
    (14, 36, 2),
    (14, 47, 3),
    (14, 48, 4),
    (14, 52, 4),
    (16, 42, 2),
    (16, 52, 3),
];
/// Flags of a page: accessed, not global, not executable, dirty, contiguous.
const FLAGS: u64 = 1 << 10 | 1 << 11 | 3 << 53 | 1 << 55 | 1 << 52;

fn shapes() -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().map(|(page_shift, bits, levels)| Shape {
        page_shift,
        levels,
        bits,
    })
}

/// Physical memory, of which the tables are filled on demand.
struct Memory {
    shape: Shape,
    direct: u64,
    words: BTreeMap<u64, u64>,
    /// Physical address of the next table.
    free: u64,
    top: u64,
}

impl Memory {
    fn new(shape: Shape) -> Self {
        let direct = 0_u64.wrapping_sub(1 << shape.bits).wrapping_sub(3 << 30);
        let page = 1 << shape.page_shift;
        Self {
            shape,
            direct,
            words: BTreeMap::new(),
            free: (4 << 30) + page,
            top: direct.wrapping_add(4 << 30),
        }
    }

    fn read(&self, at: u64) -> Option<u64> {
        // What is not filled is zero; what is not memory can't be read.
        (at >= self.direct).then(|| self.words.get(&at).copied().unwrap_or(0))
    }

    /// Maps an address; `level` 0 is a page, 1 a block of pages.
    fn map(&mut self, address: u64, physical: u64, level: u32) {
        let (page, index) = (self.shape.page_shift, self.shape.page_shift - 3);
        let mut table = self.top;
        for at in (level..self.shape.levels).rev() {
            let number = (address & low_bits(self.shape.bits)) >> (page + at * index) & low_bits(index);
            let place = table + number * 8;
            if at == level {
                let kind = if level == 0 { TABLE } else { 0 };
                self.words.insert(place, physical | FLAGS | kind | VALID);
                return;
            }
            let entry = *self.words.entry(place).or_insert_with(|| {
                self.free += 1 << page;
                self.free | TABLE | VALID
            });
            table = self.direct.wrapping_add(entry & PHYSICAL & !low_bits(page));
        }
    }

    fn block(&self, address: u64) -> Option<Block> {
        Block::of(self.shape, self.top, self.direct, address, |at| self.read(at))
    }

    /// The recorded pages of the block that are mapped.
    fn mapped(&self, address: u64) -> Vec<u64> {
        let block = self.block(address).unwrap();
        assert!(!block.is_huge() && block.is_unchanged(|at| self.read(at)));
        let chunk = |number| {
            self.shape.chunk(block.page(0), number, |to, len, at| {
                let words = usize::try_from(len / 8).unwrap();
                for (word, at) in to[..words].iter_mut().zip((at..).step_by(8)) {
                    *word = self.read(at).unwrap();
                }
                true
            })
        };
        let bits = (0..32).flat_map(|number| {
            let bits = chunk(number).unwrap();
            assert_eq!(bits >> CHUNK, 0);
            (0..CHUNK)
                .filter(move |bit| bits >> bit & 1 != 0)
                .map(move |bit| number * CHUNK + bit)
        });
        bits.collect()
    }
}

/// A user address near the upper end, in the second block of its table.
fn address(shape: Shape) -> u64 {
    (1 << shape.bits) - (1 << 34) + (1 << BLOCK) + (5 << 16)
}

#[test]
fn pages_of_every_configuration_are_found() {
    for shape in shapes() {
        let mut memory = Memory::new(shape);
        let (address, page) = (address(shape), 1 << shape.page_shift);
        assert_eq!(memory.block(address), None, "{shape:?}");
        for (number, physical) in [(0, 7 << 30), (2, 9 << 30)] {
            memory.map(address + number * page, physical, 0);
        }
        let recorded = page >> RECORDED;
        let pages = (0..recorded).chain(2 * recorded..3 * recorded);
        let expected: Vec<u64> = pages.map(|page| 5 * 16 + page).collect();
        assert_eq!(memory.mapped(address), expected, "{shape:?}");
        let block = memory.block(address).unwrap();
        let entry = memory.read(block.page(5 * 16 + 2 * recorded)).unwrap();
        assert_eq!(shape.page_of(entry), (9 << 30) >> shape.page_shift);
    }
}

#[test]
fn blocks_of_pages_are_huge() {
    for shape in shapes() {
        for level in 1..shape.levels.min(3) {
            let mut memory = Memory::new(shape);
            let bits = shape.page_shift + level * (shape.page_shift - 3);
            if bits > 33 {
                continue;
            }
            memory.map(address(shape), 8 << 30, level);
            let block = memory.block(address(shape)).unwrap();
            assert!(block.is_huge() && block.bits == bits, "{shape:?} {level}");
        }
    }
}

#[test]
fn the_direct_map_is_where_the_kernels_tables_say() {
    for shape in shapes() {
        for level in 0..2 {
            let mut memory = Memory::new(shape);
            let bits = shape.page_shift + level * (shape.page_shift - 3);
            // The first page of the fifth GiB is `top`.
            let (top, direct) = (memory.top, memory.direct);
            memory.map(top, (4 << 30) & !low_bits(bits), level);
            let of = |direct| shape.physical_of(top, direct, top, |at| memory.read(at));
            assert_eq!(of(direct), Some(4 << 30), "{shape:?} {level}");
            for other in [direct.wrapping_add(1 << 30), direct.wrapping_add(1 << 29)] {
                assert_ne!(of(other), Some(top.wrapping_sub(other)), "{shape:?} {level}");
            }
        }
    }
}

#[test]
fn what_is_not_valid_maps_nothing() {
    for shape in shapes() {
        let mut memory = Memory::new(shape);
        let address = address(shape);
        memory.map(address, 7 << 30, 0);
        let block = memory.block(address).unwrap();
        // A swap entry, and a page that may not be accessed.
        for entry in [0xabc << 12, 1 << 58 | 1 << 11 | 7 << 30] {
            memory.words.insert(block.page(5 * 16), entry);
            assert_eq!(memory.mapped(address), [0; 0]);
        }
        memory.words.insert(block.place, 0);
        assert!(!block.is_unchanged(|at| memory.read(at)) && memory.block(address).is_none());
        assert_eq!(shape.chunk(0, 0, |_, _, _| false), None);
    }
}
