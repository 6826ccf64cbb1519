//! The critical path as sums: its pieces by thread, reason, stack and file.

use super::{Subject, Sum, Sums, What, Who};
use crate::path::walk::walk;
use crate::path::{PathError, PathFacts, choose};
use crate::select::Selection;
use base::addr::ns;
use fact::Tables;

impl Sums {
    /// Adds the critical path of the selected thread, if the table is wanted; before [`Self::finish`].
    ///
    /// # Errors
    /// If no thread matches, or the time span is empty.
    pub fn follow_path(&mut self, tables: &Tables, selection: &Selection) -> Result<(), PathError> {
        let Some(facts) = self.path.take().filter(|facts| !facts.is_empty()) else {
            return Ok(());
        };
        let chosen = choose(tables, &facts, selection)?;
        for piece in walk(&facts.lanes(tables), chosen.thread, chosen.window) {
            let spent = piece.spent;
            let sum = Sum {
                count: 1,
                time: ns(piece.end.since(piece.start)),
                bytes: 0,
            };
            let what = What::Path(spent.kind);
            let file = spent.file.map(Subject::File);
            self.add(tables, what, Who::Thread(spent.thread), (spent.stack, file), sum);
        }
        Ok(())
    }

    /// Waits, samples and requests that the path is followed without, since they did not fit into memory.
    pub fn left_out_of_path(&self) -> u64 {
        self.path.as_ref().map_or(0, PathFacts::left_out)
    }
}
