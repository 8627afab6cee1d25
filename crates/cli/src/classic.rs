//! The form without a command: `--model X --prompt P --count N`, `--benchmark [N]`, or both, which answers and then measures.

use clap::{Command, Parser};
use std::ffi::OsString;

/// Tokens of a benchmark when nothing is said.
const TOKENS: usize = 20;

/// What measures the speed of decoding.
#[derive(Debug, Parser)]
#[command(name = "kernloom", disable_help_flag = true)]
struct Benchmark {
    /// The model
    #[arg(short, long)]
    model: Option<OsString>,
    /// What is answered first; decoding takes as long after any prompt
    #[arg(short, long, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Tokens, if --benchmark does not say
    #[arg(short = 'n', long)]
    count: Option<usize>,
    /// Tokens
    #[arg(long, num_args = 0..=1)]
    benchmark: Option<Option<usize>>,
}

/// The arguments of the program with the command that they stand for, or the commands, one after the other.
///
/// # Errors
/// Of the parser, for a benchmark.
pub fn expanded(mut words: Vec<OsString>, program: &mut Command) -> Result<Vec<Vec<OsString>>, clap::Error> {
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let Some(first) = words.get(1).filter(|word| is_flag(word)) else { return Ok(vec![words]) };
    let name = first.to_string_lossy();
    let name = name.split('=').next().unwrap_or_default();
    if ["-h", "--help", "-V", "--version", "--config"].contains(&name) {
        return Ok(vec![words]);
    }
    let asks_for_speed = |word: &OsString| word == "--benchmark" || word.to_string_lossy().starts_with("--benchmark=");
    if !words.iter().any(asks_for_speed) {
        words.insert(1, "run".into());
        return Ok(vec![words]);
    }
    let Benchmark { model, prompt, count, benchmark } =
        Benchmark::try_parse_from(&words).map_err(|error| error.format(program))?;
    let tokens = benchmark.flatten().or(count).unwrap_or(TOKENS);
    let mut bench: Vec<OsString> = ["kernloom", "bench", "-p0"].map(OsString::from).to_vec();
    bench.push(format!("-n{tokens}").into());
    let mut commands = vec![];
    if let Some(prompt) = prompt {
        let mut run: Vec<OsString> = vec!["kernloom".into(), "run".into(), format!("--prompt={prompt}").into()];
        run.extend(count.map(|count| format!("-n{count}").into()));
        commands.push(run);
    }
    commands.push(bench);
    if let Some(model) = model {
        commands.iter_mut().for_each(|command| command.extend(["--model".into(), model.clone()]));
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_added() {
        let mut program = Command::new("kernloom");
        let mut words = |text: &str| expanded(text.split(' ').map(OsString::from).collect(), &mut program).unwrap();
        let command = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let plain = |text: &str| text.split("; ").map(command).collect::<Vec<_>>();
        assert_eq!(words("k --model m --prompt p --count 3"), plain("k run --model m --prompt p --count 3"));
        assert_eq!(words("k run -p --benchmark"), plain("k run -p --benchmark"));
        assert_eq!(words("k --version"), plain("k --version"));
        assert_eq!(words("k --model m --benchmark 5"), plain("kernloom bench -p0 -n5 --model m"));
        assert_eq!(words("k --benchmark"), plain("kernloom bench -p0 -n20"));
        assert_eq!(
            words("k --count 7 --prompt x --benchmark"),
            plain("kernloom run --prompt=x -n7; kernloom bench -p0 -n7")
        );
        assert_eq!(
            words("k -m m -p -x --benchmark 5"),
            plain("kernloom run --prompt=-x --model m; kernloom bench -p0 -n5 --model m")
        );
        assert!(expanded(["k", "--benchmark", "x"].map(OsString::from).to_vec(), &mut program).is_err());
    }
}
