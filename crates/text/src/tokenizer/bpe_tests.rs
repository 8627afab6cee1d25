use super::super::vocab::Spelling;
use super::*;
use proptest::prelude::*;

/// A vocabulary of all bytes and the results of `merges`, given as pairs of earlier tokens.
fn bpe(merges: &[(usize, usize)]) -> (Vocab, Bpe) {
    let mut texts: Vec<Vec<u8>> = (0..=255u8)
        .map(|byte| {
            let mut stored = vec![];
            byte_alphabet::spell(byte, &mut stored);
            stored
        })
        .collect();
    let mut list = ByteStrings::new();
    for &(left, right) in merges {
        let (left, right) = (&texts[left % texts.len()], &texts[right % texts.len()]);
        list.push([left, &b" "[..], right].concat());
        texts.push([&left[..], right].concat());
    }
    let vocab = Vocab::new(texts.iter().collect(), &[], Spelling::ByteAlphabet).unwrap();
    let bpe = Bpe::new(&vocab, &list, Splitter::fallback()).unwrap();
    (vocab, bpe)
}

/// The definition, done literally.
fn by_definition(bpe: &Bpe, mut symbols: Vec<u32>) -> Vec<u32> {
    loop {
        let ranked = |at: usize| bpe.merge_of(symbols[at], symbols[at + 1]).map(|m| (m.rank, at));
        let best = (0..symbols.len().saturating_sub(1)).filter_map(ranked).min();
        let Some((_, at)) = best else {
            return symbols;
        };
        let merge = bpe.merge_of(symbols[at], symbols[at + 1]).unwrap();
        symbols.splice(at..at + 2, [merge.token]);
    }
}

proptest! {
    #[test]
    fn scanning_and_heap_do_what_the_definition_says(
        merges in prop::collection::vec((97usize..110, 97usize..110), 0..6),
        more in prop::collection::vec((97usize..280, 97usize..280), 0..40),
        text in "[a-m]{0,80}",
    ) {
        let (_, bpe) = bpe(&[merges, more].concat());
        let symbols: Vec<u32> = text.bytes().map(u32::from).collect();
        let expected = by_definition(&bpe, symbols.clone());
        let mut scanned = symbols.clone();
        bpe.merge_by_scanning(&mut scanned, &mut vec![]);
        prop_assert_eq!(&scanned, &expected);
        let mut heaped = symbols;
        bpe.merge_by_heap(&mut heaped);
        prop_assert_eq!(&heaped, &expected);
    }
}

#[test]
fn equal_pairs_join_from_the_left() {
    let (_, bpe) = bpe(&[(97, 97), (256, 97)]);
    for merge in [Bpe::merge_by_heap, |bpe: &Bpe, symbols: &mut Vec<u32>| {
        bpe.merge_by_scanning(symbols, &mut vec![]);
    }] {
        let mut symbols = vec![97; 5];
        merge(&bpe, &mut symbols);
        assert_eq!(symbols, [256, 257]);
    }
}

#[test]
fn the_first_of_two_equal_merges_counts() {
    let (_, bpe) = bpe(&[(97, 98), (98, 99), (97, 98)]);
    let mut symbols = vec![97, 98, 99];
    bpe.merge_by_heap(&mut symbols);
    assert_eq!(symbols, [256, 99]);
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let texts: ByteStrings = ["a", "b", "ab"].iter().collect();
    let vocab = Vocab::new(texts, &[], Spelling::ByteAlphabet).unwrap();
    let bpe = Bpe::new(&vocab, &["a b"].iter().collect(), Splitter::fallback()).unwrap();
    let mut out = vec![];
    bpe.encode(&vocab, "abcab".repeat(20).as_bytes(), &mut out);
    assert_eq!(out, [2; 40]);
}

#[test]
fn whole_pieces_are_taken_only_where_the_rule_says_so() {
    let texts: ByteStrings = ["a", "b", "ab", "ba"].iter().collect();
    let kinds = [1, 1, 1, 3];
    let vocab = Vocab::new(texts, &kinds, Spelling::ByteAlphabet).unwrap();
    for (pre, expected) in [("glm4", vec![2]), ("qwen2", vec![0, 1])] {
        let splitter = Splitter::named(pre).unwrap();
        let bpe = Bpe::new(&vocab, &ByteStrings::new(), splitter).unwrap();
        let mut out = vec![];
        bpe.encode(&vocab, b"ab", &mut out);
        assert_eq!(out, expected, "{pre}");
        out.clear();
        bpe.encode(&vocab, b"ba", &mut out);
        assert_eq!(out, [1, 0], "{pre}: a control token is not text");
    }
}
