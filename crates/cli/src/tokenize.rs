//! `tokenize`: text to token ids. Needs no tensors and no known architecture; `-` reads stdin byte for byte.

use crate::arguments::ModelFlag;
use crate::models;
use crate::open;
use crate::output::Stdout;
use anyhow::Context;
use std::io::{Read, Write};

/// What to tokenize.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFlag,
    /// Let control tokens be written in the text
    #[arg(long)]
    special: bool,
    /// Leave out the tokens that the vocabulary asks for around a text, as a first one that says where it begins
    #[arg(long)]
    no_bos: bool,
    /// The text; `-`, or none, reads stdin
    #[arg(default_value = "-", hide_default_value = true, allow_hyphen_values = true)]
    text: std::ffi::OsString,
}

/// Prints the ids on one line.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let tokenizer = open::tokenizer(&*open::file(&path)?, &path)?;
    let text = if args.text == "-" {
        let mut bytes = vec![];
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
        bytes
    } else {
        args.text.as_encoded_bytes().to_vec()
    };
    let ids = tokenizer.encode(text, !args.no_bos, args.special);
    let words: Vec<String> = ids.iter().map(u32::to_string).collect();
    let mut out = Stdout;
    writeln!(out, "{}", words.join(" "))?;
    Ok(out.flush()?)
}
