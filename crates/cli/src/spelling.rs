//! Flags of several letters behind one dash, as llama.cpp's users know them, and names that were nearly right.

use std::ffi::OsString;

/// The spellings and what they stand for.
const SHORT: [(&str, &str); 15] = [
    ("-hf", "--model"),
    ("-hfr", "--model"),
    ("-hff", "--hf-file"),
    ("-mu", "--model"),
    ("-np", "--parallel"),
    ("-cram", "--cache-ram"),
    ("-kvu", "--kv-unified"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ub", "--ubatch-size"),
    ("-tb", "--threads-batch"),
    ("-pg", "--prompt-and-gen"),
    ("-sys", "--system-prompt"),
    ("-st", "--single-turn"),
    ("-ctxcp", "--ctx-checkpoints"),
];

/// Flags whose value is text, which may look like a flag.
const TEXT: [&str; 8] =
    ["-p", "--prompt", "-sys", "--system-prompt", "--stop", "--reverse-prompt", "--dry-sequence-breaker", "--"];

/// Whether what follows a word is text.
pub fn takes_text(word: &OsString) -> bool {
    TEXT.iter().any(|flag| word == flag)
}

/// A switch that may be followed by a number, and the flag of that number.
const COUNTED: (&str, &str) = ("--block", "--block-times");

/// The arguments in the spelling that the parser knows.
pub fn expanded(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = vec![];
    let mut verbatim = false;
    for argument in arguments {
        let after_text = out.last().is_some_and(takes_text);
        verbatim |= argument == "--";
        let is_count = out.last().is_some_and(|last| last == COUNTED.0)
            && argument.to_str().is_some_and(|text| text.parse::<u32>().is_ok());
        if is_count && !verbatim {
            out.push(COUNTED.1.into());
        }
        let known = SHORT.iter().find(|(short, _)| argument == *short);
        match known {
            Some((_, long)) if !verbatim && !after_text => out.push(long.into()),
            _ => out.push(argument),
        }
    }
    out
}

/// The name that was probably meant, if one is near.
pub fn closest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.85).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood() {
        let names = ["threads", "top-k", "temp"];
        assert_eq!(closest("treads", names.into_iter()), Some("threads"));
        assert_eq!(closest("banana", names.into_iter()), None);
    }

    #[test]
    fn flags_are_expanded_and_texts_are_not() {
        let words = |text: &str| expanded(text.split(' ').map(OsString::from));
        assert_eq!(words("k bench -np 1 -ctk f16"), words("k bench --parallel 1 --cache-type-k f16"));
        assert_eq!(words("k run -p -np"), ["k", "run", "-p", "-np"]);
        assert_eq!(words("k bench --block 30 -m m"), words("k bench --block --block-times 30 -m m"));
        assert_eq!(words("k bench --block m"), ["k", "bench", "--block", "m"]);
        assert_eq!(words("k tokenize -- -np"), ["k", "tokenize", "--", "-np"]);
    }
}
