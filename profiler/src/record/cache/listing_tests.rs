//! What is listed, and what is never touched.
