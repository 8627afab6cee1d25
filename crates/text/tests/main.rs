//! All tests of this crate from outside.

mod exercise_template;
mod exercise_tokenizer;
mod gguf_metadata;

mod corpus;
mod markers;
mod pre_tokenizers;
mod tokenizer_synthetic;
mod tokenizer_vectors;
