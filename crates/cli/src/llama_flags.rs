//! Flags of llama-cli and llama-server that are not ours: those that ask for what is so anyway have no effect, which is said,
//! some are other flags here, and what would change an answer is refused with the reason.

use crate::failure::Usage;
use crate::settings::command_of;
use crate::spelling::takes_text;
use clap::Command;
use std::ffi::OsString;

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A value.
    Value,
    /// A value, if what follows does not look like a flag.
    Maybe,
}

use Takes::{Maybe, Nothing, Value};

/// What a flag means here.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// Other words; a value follows them.
    Is(&'static [&'static str]),
    /// Nothing, for this reason.
    Idle(&'static str),
    /// It cannot be done, for this reason.
    Refused(&'static str),
    /// It depends on the value.
    By(fn(&str) -> Meaning),
}

use Meaning::{By, Idle, Is, Refused};

/// Names, what follows, and the meaning.
type Row = (&'static [&'static str], Takes, Meaning);

const WHOLE: &str = "a model runs as a whole on what --device names";
const SCHEDULED: &str = "threads run as the system schedules them (--threads, nice, taskset)";
const MAPPED: &str = "weights are mapped where a processor reads them, and copied to a card";
const FILE: &str = "a model is run as its file says";
const ADAPTERS: &str = "adapters are not applied";
const GUESSED: &str = "there is no speculative decoding";
const GRAMMARS: &str = "texts that follow a grammar or a schema come from `kernloom serve`";
const FULL: &str = "a full context ends the text, and nothing of it is left out";
const LOG: &str = "one line of figures and what goes wrong is written to stderr";
const TEMPLATES: &str = "the model's chat template says what stands around a message (--no-template leaves it out)";

/// All of them. A row counts only where the command has no flag of that name.
const TABLE: &[Row] = &[
    (&["-ngl", "--n-gpu-layers", "--gpu-layers"], Value, By(layers)),
    (&["-fa", "--flash-attn"], Maybe, Idle("attention always goes over the cache once")),
    (&["-nkvo", "--no-kv-offload", "-kvo", "--kv-offload"], Nothing, Idle("the cache lies where the model runs")),
    (&["--op-offload", "--no-op-offload"], Nothing, Idle(WHOLE)),
    (&["-sm", "--split-mode", "-ts", "--tensor-split", "-mg", "--main-gpu"], Value, Idle(WHOLE)),
    (&["-ot", "--override-tensor", "-ncmoe", "--n-cpu-moe"], Value, Refused(WHOLE)),
    (&["-cmoe", "--cpu-moe"], Nothing, Refused(WHOLE)),
    (&["-dev"], Value, Is(&["--device"])),
    (&["-b"], Value, Is(&["--batch-size"])),
    (&["--mlock", "--mmap", "--no-mmap", "-dio", "--direct-io", "-ndio", "--no-direct-io"], Nothing, Idle(MAPPED)),
    (
        &["--repack", "-nr", "--no-repack"],
        Nothing,
        Idle("weights are read as they lie in the file, and in planes on a card"),
    ),
    (&["--check-tensors"], Nothing, Idle("files are checked when they are opened")),
    (&["--fit", "-fit"], Maybe, Idle("what a model needs is checked before its weights are read (kernloom show)")),
    (
        &[
            "--numa",
            "--prio",
            "--prio-batch",
            "--poll",
            "--poll-batch",
            "-C",
            "--cpu-mask",
            "-Cr",
            "--cpu-range",
            "--cpu-strict",
            "-Cb",
            "--cpu-mask-batch",
            "-Crb",
            "--cpu-range-batch",
            "--cpu-strict-batch",
            "--threads-http",
        ],
        Value,
        Idle(SCHEDULED),
    ),
    (
        &["--warmup", "--no-warmup"],
        Nothing,
        Idle("nothing is warmed up (--wait-for-kernels compiles all kernels first)"),
    ),
    (
        &["-cb", "--cont-batching", "-nocb", "--no-cont-batching"],
        Nothing,
        Idle("sequences share steps, as many as there are"),
    ),
    (&["--parallel"], Value, Idle("there is one conversation")),
    (&["--kv-unified", "-no-kvu", "--no-kv-unified"], Nothing, Idle("there is one conversation")),
    (&["--jinja"], Nothing, Idle("templates are read as Jinja")),
    (&["--perf", "--no-perf", "--show-timings", "--no-show-timings"], Nothing, Idle(LOG)),
    (
        &["--log-disable", "-v", "--verbose", "--log-verbose", "--verbose-prompt", "--log-prefix", "--log-timestamps"],
        Nothing,
        Idle(LOG),
    ),
    (&["--log-file", "-lv", "--verbosity", "--log-verbosity"], Value, Idle(LOG)),
    (&["--log-colors"], Maybe, Idle(LOG)),
    (
        &["--no-cache-idle-slots", "--cache-idle-slots"],
        Nothing,
        Idle("pages of the cache belong to whoever needs them"),
    ),
    (
        &[
            "--cache-ram",
            "--ctx-checkpoints",
            "--swa-checkpoints",
            "--cache-reuse",
            "-sps",
            "--slot-prompt-similarity",
            "-dt",
            "--defrag-thold",
        ],
        Value,
        Idle("prompts that begin alike share pages of the cache, which never needs to be put in order"),
    ),
    (&["--backend-sampling", "--backend_sampling"], Nothing, Idle("a card chooses tokens wherever it can")),
    (&["--keep"], Value, Idle(FULL)),
    (&["--no-context-shift"], Nothing, Idle(FULL)),
    (&["--context-shift", "--ctx-shift"], Nothing, Refused(FULL)),
    (&["--prompt-cache"], Value, Idle("prompts are not kept on disk")),
    (&["--prompt-cache-all", "--prompt-cache-ro"], Nothing, Idle("prompts are not kept on disk")),
    (&["--slot-save-path"], Value, Refused("the cache is not written to disk")),
    (&["--quantized"], Nothing, Idle("weights stay as their file has them, and are read so")),
    (&["--no-mmproj"], Nothing, Idle("there is text only")),
    (&["-mm", "--mmproj", "-mmu", "--mmproj-url", "--image", "--audio"], Value, Refused("there is text only")),
    (&["--embedding"], Nothing, Is(&["--embeddings"])),
    (&["--rerank", "--reranking"], Nothing, Is(&["--pooling=rank"])),
    (&["-e", "--escape"], Nothing, Is(&["--escapes"])),
    (&["--no-escape"], Nothing, Idle("a prompt is taken as it stands")),
    (&["--no-display-prompt", "--display-prompt"], Nothing, Idle("a prompt is not repeated")),
    (&["-co", "--color"], Maybe, Idle("what is coloured follows the terminal (NO_COLOR)")),
    (
        &["--simple-io", "-mli", "--multiline-input"],
        Nothing,
        Idle("lines are edited on a terminal, and a backslash goes on with the next"),
    ),
    (
        &["-i", "--interactive", "-if", "--interactive-first", "-cnv", "--conversation"],
        Nothing,
        Idle("a chat begins on a terminal where there is no prompt"),
    ),
    (&["-no-cnv", "--no-conversation"], Nothing, Is(&["--no-template"])),
    (&["-r"], Value, Is(&["--stop"])),
    (&["-sp", "--special"], Nothing, Refused("control tokens are not shown")),
    (&["--in-prefix", "--in-suffix", "--chat-template", "--chat-template-file"], Value, Refused(TEMPLATES)),
    (&["--in-prefix-bos"], Nothing, Refused(TEMPLATES)),
    (&["--chat-template-kwargs"], Value, Refused("--think asks a template for thoughts")),
    (&["--reasoning-format"], Value, Idle("--reasoning shows or hides thoughts")),
    (&["--reasoning-budget"], Value, By(thoughts)),
    (&["--grammar", "--grammar-file", "-j", "--json-schema", "-jf", "--json-schema-file"], Value, Refused(GRAMMARS)),
    (&["-l", "--logit-bias"], Value, Refused("logits are moved by requests to `kernloom serve` (logit_bias)")),
    (
        &["--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled", "--control-vector-layer-range"],
        Value,
        Refused(ADAPTERS),
    ),
    (
        &[
            "--override-kv",
            "--rope-scaling",
            "--rope-scale",
            "--rope-freq-base",
            "--rope-freq-scale",
            "--yarn-orig-ctx",
            "--yarn-ext-factor",
            "--yarn-attn-factor",
            "--yarn-beta-slow",
            "--yarn-beta-fast",
        ],
        Value,
        Refused(FILE),
    ),
    (
        &[
            "-md",
            "--model-draft",
            "-hfd",
            "--hf-repo-draft",
            "--draft",
            "--draft-n",
            "--draft-max",
            "--draft-min",
            "--draft-n-min",
            "--draft-p-min",
            "--draft-p-split",
            "-cd",
            "--ctx-size-draft",
            "-devd",
            "--device-draft",
            "-ngld",
            "--gpu-layers-draft",
            "--n-gpu-layers-draft",
            "-lcs",
            "--lookup-cache-static",
            "-lcd",
            "--lookup-cache-dynamic",
        ],
        Value,
        Refused(GUESSED),
    ),
];

/// Layers on a card: all of them, or none.
fn layers(count: &str) -> Meaning {
    if count == "0" { Is(&["--device", "cpu"]) } else { Idle(WHOLE) }
}

/// Tokens of a thought: as many as it takes, or none.
fn thoughts(count: &str) -> Meaning {
    match count {
        "0" => Is(&["--reasoning", "off"]),
        "-1" => Idle("a thought is as long as it is"),
        _ => Refused("a thought is as long as it is, or left out (0)"),
    }
}

/// Commands whose users may come from there.
const COMMANDS: [&str; 4] = ["run", "cli", "serve", "server"];

/// The words of a command line in our words, and what is to be said of those that have no effect.
///
/// # Errors
/// A flag that would change an answer.
pub fn translated(words: Vec<OsString>, program: &Command) -> Result<(Vec<OsString>, Vec<String>), Usage> {
    let Some((at, command)) = command_of(&words, program) else { return Ok((words, vec![])) };
    if !COMMANDS.contains(&command.get_name()) {
        return Ok((words, vec![]));
    }
    let (mut out, mut notes) = (words[..=at].to_vec(), vec![]);
    let mut rest = words[at + 1..].iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            out.push(word.clone());
            out.extend(rest.cloned());
            break;
        }
        let text = word.to_str().unwrap_or_default();
        let (name, given) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let after_text = out.last().is_some_and(takes_text);
        let row = TABLE.iter().find(|row| row.0.contains(&name)).filter(|_| !after_text && !is_known(command, name));
        let Some(&(_, takes, meaning)) = row else {
            out.push(word.clone());
            continue;
        };
        let follows = match takes {
            Nothing => false,
            Value => true,
            Maybe => rest.peek().is_some_and(|next| !next.as_encoded_bytes().starts_with(b"-")),
        };
        let value = match given {
            Some(value) => Some(OsString::from(value)),
            None if follows => rest.next().cloned(),
            None => None,
        };
        let mut meaning = meaning;
        if let By(choose) = meaning {
            meaning = choose(&value.as_ref().map(|value| value.to_string_lossy()).unwrap_or_default());
        }
        match meaning {
            Is(ours) => {
                out.extend(ours.iter().map(OsString::from));
                // One word of ours takes the value; more of them have their own.
                out.extend(value.filter(|_| ours.len() == 1));
            }
            Idle(why) => notes.push(format!("note: {name} has no effect: {why}")),
            Refused(why) => return Err(Usage(format!("{name} cannot be followed: {why}"))),
            By(_) => unreachable!("a meaning that was chosen"),
        }
    }
    Ok((out, notes))
}

/// Whether a command has a flag of this name itself.
fn is_known(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| match (name.strip_prefix("--"), name.strip_prefix('-')) {
        (Some(long), _) => arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long)),
        (None, Some(short)) => arg.get_short().is_some_and(|letter| short.chars().eq([letter])),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::CommandFactory;
    use std::collections::HashSet;

    fn of(line: &str) -> Result<(String, Vec<String>), String> {
        let words = line.split(' ').map(OsString::from).collect();
        let (words, notes) = translated(words, &Arguments::command()).map_err(|usage| usage.0)?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok((words.join(" "), notes))
    }

    #[test]
    fn what_asks_for_what_is_so_is_said_and_left_out() {
        let (words, notes) = of("k run -m x -ngl 99 -fa on --no-mmap --numa=isolate -p hi").unwrap();
        assert_eq!(words, "k run -m x -p hi");
        let said: Vec<&str> = notes.iter().map(|note| note.split(' ').nth(1).unwrap()).collect();
        assert_eq!(said, ["-ngl", "-fa", "--no-mmap", "--numa"]);
        assert_eq!(of("k serve -fa --jinja").unwrap().0, "k serve");
    }

    #[test]
    fn other_names_are_translated() {
        assert_eq!(of("k run -ngl 0 -p hi").unwrap(), ("k run --device cpu -p hi".into(), vec![]));
        assert_eq!(of("k run -no-cnv -b 64 -r END").unwrap().0, "k run --no-template --batch-size 64 --stop END");
        assert_eq!(of("k serve --reasoning-budget 0").unwrap().0, "k serve --reasoning off");
    }

    #[test]
    fn what_would_change_an_answer_is_refused() {
        assert!(of("k run --lora x.gguf").unwrap_err().starts_with("--lora cannot be followed: "));
        assert!(of("k serve --override-kv a=int:1").unwrap_err().contains("--override-kv"));
        assert!(of("k run --reasoning-budget 5").unwrap_err().contains("left out"));
    }

    #[test]
    fn texts_and_other_commands_are_left_alone() {
        for line in
            ["k run -p -ngl", "k bench -r 3", "k run -- --lora", "k serve --parallel 4 --kv-unified --verbose", "k"]
        {
            assert_eq!(of(line).unwrap(), (line.into(), vec![]), "{line}");
        }
        // The same flags are taken by `serve` and idle in `run`.
        assert_eq!(of("k run --parallel 4 --kv-unified").unwrap().0, "k run");
    }

    #[test]
    fn a_name_has_one_row() {
        let mut seen = HashSet::new();
        for name in TABLE.iter().flat_map(|row| row.0) {
            assert!(name.starts_with('-') && seen.insert(name), "{name} is there twice");
        }
    }
}
