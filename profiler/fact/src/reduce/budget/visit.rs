//! Visits the stacks and frames of kept facts.

use super::{Collected, KeptSample};
use crate::prune::{Visit, visit_bios, visit_stack};

impl KeptSample {
    /// Visits its stack.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        visit_stack(&mut self.stack, visit);
    }
}

impl Collected {
    /// Visits all stacks and frames that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        for thread in &mut self.threads {
            thread.samples.iter_mut().for_each(|sample| sample.visit(visit));
            thread
                .marks
                .iter_mut()
                .for_each(|mark| visit_stack(&mut mark.stack, visit));
            thread.faults.visit(visit);
            thread.waits.iter_mut().for_each(|wait| wait.visit(visit));
        }
        for folded in &mut self.folded_stacks {
            visit_stack(&mut folded.stack, visit);
        }
        for folded in &mut self.folded_wait_stacks {
            visit_stack(&mut folded.stack, visit);
        }
        visit_bios(self.requests.iter_mut().flat_map(|request| &mut request.bios), visit);
        self.inputs.visit(visit);
    }
}
