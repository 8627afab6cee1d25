//! The executable grammar of each vocabulary.
