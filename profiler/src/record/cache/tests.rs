//! Files that are really evicted and really read.
