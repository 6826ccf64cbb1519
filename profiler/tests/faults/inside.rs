//! Faults that the kernel raises on behalf of the program: copies to and from its memory, and `get_user_pages`.

use crate::run::judged;
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    a_read_from_a_device,
    a_read_from_a_file,
    a_read_from_a_pipe,
    a_write_out_of_a_mapping,
    a_read_past_the_page_cache,
    a_read_of_another_process,
    a_peek_at_another_process,
);

fn a_read_from_a_device(tier: Tier) {
    judged(tier, "inside", &["device"]);
}

fn a_read_from_a_file(tier: Tier) {
    judged(tier, "inside", &["file"]);
}

fn a_read_from_a_pipe(tier: Tier) {
    judged(tier, "inside", &["pipe"]);
}

fn a_write_out_of_a_mapping(tier: Tier) {
    judged(tier, "inside", &["write"]);
}

/// Without user registers, the kernel counts the fault, but there is neither an exception nor a software event.
fn a_read_past_the_page_cache(tier: Tier) {
    judged(tier, "inside", &["direct"]);
}

fn a_read_of_another_process(tier: Tier) {
    judged(tier, "inside", &["readv"]);
}

fn a_peek_at_another_process(tier: Tier) {
    judged(tier, "inside", &["peek"]);
}
