//! The small language model that comes with Kernloom: 8.8 million weights as Q8_0, trained on simple English that a
//! program wrote. How it was made and what it can do: `demo/README.md` and `demo/MODEL_CARD.md` in the repository.

#![forbid(unsafe_code)]

/// What the model is called where a file would have its name.
pub const NAME: &str = "kernloom-demo";

/// The model as a GGUF file.
pub static GGUF: &[u8] = include_bytes!("../demo.gguf");
