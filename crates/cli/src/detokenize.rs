//! `detokenize`: token ids to bytes, as they are.

use crate::arguments::ModelFlag;
use crate::models;
use crate::numbers::Tokens;
use crate::open;
use crate::output::Stdout;
use anyhow::{Context, bail};
use std::io::{Read, Write};

/// What to detokenize.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFlag,
    /// Print control tokens too
    #[arg(long)]
    special: bool,
    /// Token ids, separated by spaces or commas; none, or `-`, reads stdin
    #[arg(allow_hyphen_values = true)]
    ids: Vec<String>,
}

/// Prints the text, without a newline at its end.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    let path = models::resolve(args.model.name(), &args.model.fetch)?;
    let tokenizer = open::tokenizer(&*open::file(&path)?, &path)?;
    let text = match &args.ids[..] {
        [] => stdin()?,
        [dash] if dash == "-" => stdin()?,
        words => words.join(" "),
    };
    let Tokens(ids) = text.parse().map_err(|e: String| crate::failure::Usage(e))?;
    let vocab = tokenizer.vocab_len();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
        bail!("token {id} is not in the vocabulary of {vocab} tokens (0 to {})", vocab - 1);
    }
    let mut out = Stdout;
    out.write_all(&tokenizer.decode(&ids, args.special))?;
    Ok(out.flush()?)
}

fn stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("cannot read token ids from stdin")?;
    Ok(text)
}
