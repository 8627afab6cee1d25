use super::super::data::ByteStrings;
use super::super::vocab::Spelling;
use super::*;
use proptest::prelude::*;

fn spm(tokens: &[(&str, i32, f32)], prefix: bool) -> (Vocab, Spm) {
    let texts: ByteStrings = tokens.iter().map(|(text, ..)| text).collect();
    let kinds: Vec<i32> = tokens.iter().map(|&(_, kind, _)| kind).collect();
    let scores: Vec<f32> = tokens.iter().map(|&(.., score)| score).collect();
    let vocab = Vocab::new(texts, &kinds, Spelling::SentencePiece).unwrap();
    let spm = Spm::new(&vocab, &scores, Some(0), prefix).unwrap();
    (vocab, spm)
}

fn texts(vocab: &Vocab, spm: &Spm, text: &str) -> Vec<String> {
    let mut out = vec![];
    spm.encode(vocab, text.as_bytes(), true, &mut out);
    out.iter().map(|&id| String::from_utf8_lossy(vocab.text(id).unwrap()).into_owned()).collect()
}

const WORDS: &[(&str, i32, f32)] = &[
    ("<unk>", 2, 0.0),
    ("▁", 1, -10.0),
    ("a", 1, -10.0),
    ("b", 1, -10.0),
    ("ab", 1, -1.0),
    ("ba", 1, -2.0),
    ("aa", 1, -3.0),
    ("▁ab", 1, -0.5),
    ("bab", 3, 9.0),
];

#[test]
fn the_highest_score_joins_first_and_ties_from_the_left() {
    let (vocab, spm) = spm(WORDS, false);
    assert_eq!(texts(&vocab, &spm, "bab"), ["b", "ab"]);
    assert_eq!(texts(&vocab, &spm, "aaaaa"), ["aa", "aa", "a"]);
    assert_eq!(texts(&vocab, &spm, " abba"), ["▁ab", "ba"]);
    assert_eq!(texts(&vocab, &spm, ""), [""; 0]);
}

#[test]
fn text_gets_a_space_in_front_where_it_leads() {
    let (vocab, spm) = spm(WORDS, true);
    assert_eq!(texts(&vocab, &spm, "ab"), ["▁ab"]);
    let mut out = vec![];
    spm.encode(&vocab, b"ab", false, &mut out);
    assert_eq!(out, [4]);
}

#[test]
fn what_is_no_token_becomes_bytes_or_the_unknown_token() {
    let (vocab, unknowing) = spm(WORDS, false);
    assert_eq!(texts(&vocab, &unknowing, "aéb"), ["a", "<unk>", "b"]);
    let mut tokens = WORDS.to_vec();
    let names: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    tokens.extend(names.iter().map(|name| (name.as_str(), 6, 0.0)));
    let (vocab, spm) = spm(&tokens, false);
    assert_eq!(texts(&vocab, &spm, "aéb"), ["a", "<0xC3>", "<0xA9>", "b"]);
    assert_eq!(texts(&vocab, &spm, "<0x41>")[0], "<0x3C>");
    let mut out = vec![];
    spm.encode(&vocab, b"\xffa\xe6\x97", true, &mut out);
    let printed: Vec<u8> = out.iter().flat_map(|&id| vocab.printed(id).unwrap()).copied().collect();
    assert_eq!(printed, b"\xffa\xe6\x97");
}

#[test]
fn sort_keys_order_as_scores_do() {
    let scores = [f32::NEG_INFINITY, -3.5, -1e-30, 0.0, 1e-30, 2.0, f32::INFINITY];
    assert!(scores.windows(2).all(|two| sort_key(two[0]) < sort_key(two[1])));
    assert_eq!(sort_key(-0.0), sort_key(0.0));
}

/// The definition, done literally.
fn by_definition(vocab: &Vocab, spm: &Spm, text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let scored = |at: usize| {
            let id = spm.token(vocab, (parts[at].clone() + &parts[at + 1]).as_bytes())?;
            Some((spm.score_keys[id as usize], Reverse(at)))
        };
        let best = (0..parts.len().saturating_sub(1)).filter_map(scored).max();
        let Some((_, Reverse(at))) = best else {
            return parts;
        };
        let joined = parts.remove(at) + &parts[at];
        parts[at] = joined;
    }
}

proptest! {
    #[test]
    fn the_heap_does_what_the_definition_says(
        words in prop::collection::vec(("[a-d]{2,5}", -4i8..0), 0..60),
        text in "[a-d]{0,40}",
    ) {
        let mut tokens: Vec<(&str, i32, f32)> = vec![("<unk>", 2, 0.0)];
        tokens.extend(["a", "b", "c", "d"].map(|letter| (letter, 1, -9.0)));
        tokens.extend(words.iter().map(|(word, score)| (word.as_str(), 1, f32::from(*score))));
        let (vocab, spm) = spm(&tokens, false);
        prop_assert_eq!(texts(&vocab, &spm, &text), by_definition(&vocab, &spm, &text));
    }
}
