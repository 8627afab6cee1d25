//! Which tokens end a generation.
//!
//! Files name some of them by id; others are only known by their text, because the keys are absent
//! or name just one of several. A text that could be ordinary writing (`</s>` in HTML) counts only
//! where the file does not call the token normal.

use super::data::TokenizerData;
use super::vocab::{Spelling, TokenKind, Vocab};

/// Nobody writes these by accident: they end a generation whatever type the file gives them.
const MARKERS: [&str; 19] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|tool_response>",
    "[e~[",
    // Between the files of a repository.
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// These also occur in ordinary text.
const AMBIGUOUS: [&str; 6] = ["</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"];

/// With one of these, `</s>` is text.
const OTHER_ENDS: [&str; 2] = ["<|tool_response>", "<|plamo:eos|>"];

/// Makes the markers control tokens and returns the tokens that end a generation, sorted.
pub(super) fn end_tokens(vocab: &mut Vocab, data: &TokenizerData, spelling: Spelling) -> Vec<u32> {
    let mut ends: Vec<u32> = [data.eos, data.eot, data.eom].into_iter().flatten().collect();
    ends.extend(&data.fim_ends);
    for marker in MARKERS {
        if let Some(id) = vocab.find(marker.as_bytes()) {
            vocab.make_control(id);
            ends.push(id);
        }
    }
    let has_other_end = OTHER_ENDS.iter().any(|text| vocab.find(text.as_bytes()).is_some());
    for text in AMBIGUOUS {
        if text == "</s>" && has_other_end {
            continue;
        }
        if let Some(id) = vocab.find(text.as_bytes()) {
            let normal = vocab.kind(id) == Some(TokenKind::Normal);
            if !normal || spelling == Spelling::SentencePiece {
                vocab.make_control(id);
                ends.push(id);
            }
        }
    }
    let find = |text: &str| vocab.find(text.as_bytes());
    // GLM marks no end of turn: a turn ends where the next role begins.
    if find("[gMASK]").is_some() && find("<sop>").is_some() {
        ends.extend(["<|user|>", "<|observation|>"].into_iter().filter_map(find));
    }
    // gpt-oss closes every message of a turn with <|end|>; only these two end the turn.
    let harmony = find("<|return|>").is_some() && find("<|call|>").is_some();
    let solar = find("<|calls|>").is_some() && find("<|flush|>").is_some();
    if harmony || solar {
        let end = find("<|end|>");
        ends.retain(|&id| Some(id) != end);
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(tokens: &[(&str, i32)], data: TokenizerData) -> Vec<u32> {
        let texts = tokens.iter().map(|(text, _)| text).collect();
        let kinds: Vec<i32> = tokens.iter().map(|&(_, kind)| kind).collect();
        let mut vocab = Vocab::new(texts, &kinds, Spelling::ByteAlphabet).unwrap();
        end_tokens(&mut vocab, &data, Spelling::ByteAlphabet)
    }

    #[test]
    fn ids_and_markers_but_not_ordinary_text() {
        let tokens = [("a", 1), ("</s>", 1), ("<|im_end|>", 1), ("x", 3), ("[EOS]", 3)];
        let data = TokenizerData { eos: Some(3), ..TokenizerData::default() };
        assert_eq!(ends(&tokens, data), [2, 3, 4]);
    }

    #[test]
    fn a_close_of_old_is_text_where_another_end_is() {
        let data = || TokenizerData::default();
        let old = |other: &str| ends(&[("</s>", 3), (other, 3)], data());
        assert_eq!(old("x"), [0]);
        assert_eq!(old("<|tool_response>"), [1]);
        assert_eq!(old("<|plamo:eos|>"), [0; 0]);
    }

    #[test]
    fn what_lies_between_files_ends_a_text() {
        let tokens =
            [("<|file_sep|>", 3), ("<|repo_name|>", 3), ("<|fim_pad|>", 3), ("<|fim_prefix|>", 3), ("[e~[", 3)];
        assert_eq!(ends(&tokens, TokenizerData::default()), [0, 1, 2, 4]);
    }

    #[test]
    fn glm_turns_end_where_the_next_begins() {
        let tokens = [("[gMASK]", 3), ("<sop>", 3), ("<|user|>", 3), ("<|observation|>", 3)];
        assert_eq!(ends(&tokens, TokenizerData::default()), [2, 3]);
        assert_eq!(ends(&tokens[1..], TokenizerData::default()), [0; 0]);
    }

    #[test]
    fn a_message_end_of_harmony_is_no_turn_end() {
        let tokens = [("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)];
        assert_eq!(ends(&tokens, TokenizerData::default()), [1, 2]);
        assert_eq!(ends(&tokens[..1], TokenizerData::default()), [0]);
    }
}
