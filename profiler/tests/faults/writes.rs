//! Writes to a mapped file: a private copy, or a page that becomes dirty.

use crate::run::judged;
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    a_private_mapping,
    a_shared_mapping,
    a_private_mapping_that_was_read,
    a_shared_mapping_that_was_read,
);

fn a_private_mapping(tier: Tier) {
    judged(tier, "writes", &["private"]);
}

fn a_shared_mapping(tier: Tier) {
    judged(tier, "writes", &["shared"]);
}

fn a_private_mapping_that_was_read(tier: Tier) {
    judged(tier, "writes", &["private-after-read"]);
}

fn a_shared_mapping_that_was_read(tier: Tier) {
    judged(tier, "writes", &["shared-after-read"]);
}
