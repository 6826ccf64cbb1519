//! Sizes of the folios that hold a file's pages: the kernel may map a whole folio for a fault on one of its pages.

use super::PageSet;
use crate::fault::PagesReadFact;

/// Order assumed for a folio of unknown size: 2 MiB, the most that one fault maps.
const LARGEST: u8 = 9;

/// Pages in folios of more than one page.
#[derive(Debug, Clone, Default)]
pub struct Folios {
    /// By order, from 1. A page that was read again may be in several.
    by_order: Vec<PageSet>,
}

impl Folios {
    /// The order of the folios that a read filled.
    pub fn order(read: &PagesReadFact) -> u8 {
        read.order.unwrap_or(LARGEST)
    }

    /// Adds the pages of a read whose folios have more than one page.
    pub fn add(&mut self, read: &PagesReadFact) {
        let order = usize::from(Self::order(read));
        if self.by_order.len() < order {
            self.by_order.resize_with(order, PageSet::default);
        }
        if let Some(set) = order.checked_sub(1).and_then(|at| self.by_order.get_mut(at)) {
            set.insert_range(read.pages);
        }
    }

    /// All pages of the folios that contain any of these.
    pub fn with_any_of(&self, touched: &[&PageSet]) -> PageSet {
        let mut found = PageSet::default();
        for (order, set) in (1u32..).zip(&self.by_order).filter(|(_, set)| !set.is_empty()) {
            for touched in touched {
                let mut done = None;
                for page in touched.iter().filter(|page| set.contains(*page)) {
                    let folio = page >> order;
                    if done.replace(folio) == Some(folio) {
                        continue;
                    }
                    let first = folio << order;
                    let pages = first..first.saturating_add(1 << order);
                    pages.filter(|page| set.contains(*page)).for_each(|page| {
                        found.insert(page);
                    });
                }
            }
        }
        found
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let sets = self.by_order.iter().map(PageSet::bytes);
        self.by_order.len() * size_of::<PageSet>() + sets.sum::<usize>()
    }
}
