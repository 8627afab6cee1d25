//! All tests of the program but attacks on its server, which measure what it holds and how soon it answers.

mod gates;
mod support;

mod bad_input;
#[cfg(unix)]
mod chat;
mod commands;
mod compile;
#[cfg(unix)]
mod compilers;
mod demo;
mod devices;
mod golden;
mod hub;
mod machine;
mod neon;
#[cfg(unix)]
#[cfg(feature = "otlp")]
mod otlp;
mod plain;
mod serve;
mod settings;
mod tokenizers;
mod tune;
