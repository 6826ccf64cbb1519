//! Known answers of cutting.
