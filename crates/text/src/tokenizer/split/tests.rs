//! Every hand-written splitter against the regular expressions that it stands for.

use super::Splitter;
use fancy_regex::Regex;
use proptest::prelude::*;
use std::sync::LazyLock;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const CONTRACTIONS: &str = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SPACES: &str = r"\s*[\r\n]+|\s+(?!\S)|\s+";
const CASED_LETTERS: &str = concat!(
    r"\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}",
    r"\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}",
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}",
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}",
    r"\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}",
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}",
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}",
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}",
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}",
    r"\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}",
    r"\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}",
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}",
    r"\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}",
    r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}",
    r"\x{1E900}-\x{1E943}",
);
const DEEPSEEK_CJK: &str = r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const HAN_KANA: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";

/// A run of numbers in groups of three from its end.
const GROUPS: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";
const UNSPACED: &str = "[一-\u{9fff}㐀-\u{4dbf}\u{8c48}-\u{faff}\u{3040}-ゟ゠-ヿ･-ﾟ⼀-\u{2fdf}เ-\u{e7f}\u{e80}-\u{eff}ក-\u{17ff}က-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}가-\u{d7af}ᄀ-ᇿ]+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const HALVING: &str = r"\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";

fn words(word: &str, digits: &str, not_symbol: &str) -> String {
    format!(r"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{word}|{digits}| ?[^\s{not_symbol}\p{{N}}]+[\r\n]*|{SPACES}")
}

fn camel(contraction: &str, digits: &str) -> String {
    let upper = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
    let lower = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";
    camel_of(upper, lower, contraction, digits, r"[\r\n/]*")
}

fn camel_of(upper: &str, lower: &str, contraction: &str, digits: &str, trailing: &str) -> String {
    let lead = r"[^\r\n\p{L}\p{N}]?";
    format!(
        r"{lead}{upper}*{lower}+{contraction}|{lead}{upper}+{lower}*{contraction}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{trailing}|{SPACES}"
    )
}

fn deepseek_v3(end: &str) -> Vec<String> {
    let ascii = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##;
    let last = format!(r"{ascii}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+{end}");
    vec![r"\p{N}{1,3}".into(), HAN_KANA.into(), last]
}

/// One name of every rule list, and the expressions.
fn expressions() -> Vec<(&'static str, Vec<String>)> {
    let list = |expressions: &[&str]| expressions.iter().map(|e| e.to_string()).collect();
    let optional = format!("{CONTRACTIONS}?");
    vec![
        ("llama-bpe", vec![words(r"\p{L}+", r"\p{N}{1,3}", r"\p{L}")]),
        ("qwen2", vec![words(r"\p{L}+", r"\p{N}", r"\p{L}")]),
        ("qwen35", vec![words(r"[\p{L}\p{M}]+", r"\p{N}", r"\p{L}\p{M}")]),
        ("gpt-2", list(&[GPT2])),
        ("starcoder", list(&[r"\p{N}", GPT2])),
        ("falcon", list(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"])),
        (
            "deepseek-llm",
            list(&[
                r"[\r\n]",
                &format!(r"\s?[{CASED_LETTERS}]+"),
                r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
                r"\s+$",
                DEEPSEEK_CJK,
                r"\p{N}+",
            ]),
        ),
        ("deepseek-coder", list(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"])),
        ("deepseek-v3", deepseek_v3(&format!(r"[\r\n]*|{SPACES}"))),
        ("spark2_5", [deepseek_v3(r"|[\r\n]|\s+(?!\S)|\s+"), list(&[r"\p{N}"])].concat()),
        ("afmoe", [list(&[GROUPS, UNSPACED]), deepseek_v3(&format!(r"[\r\n]*|{SPACES}"))[2..].to_vec()].concat()),
        (
            "youtu",
            list(&[
                &format!(
                    r"[\x{{AC00}}-\x{{D7A3}}\x{{3131}}-\x{{318E}}]+|[！…“”‘’—：；，、-〿︰-﹏]+|[\x{{3105}}-\x{{312F}}]+|{HAN_KANA}"
                ),
                &camel(&optional, r"\p{N}"),
            ]),
        ),
        ("gpt-4o", vec![camel(&optional, r"\p{N}{1,3}")]),
        ("tekken", vec![camel("", r"\p{N}")]),
        ("tiny_aya", vec![r"\d{1,3}(?=(?:\d{3})*\b)".into(), camel(&optional, r"\p{N}{1,3}")]),
        (
            "kimi-k2",
            vec![format!(
                r"\p{{Han}}+|{}",
                camel_of(
                    r"[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]--\p{Han}]",
                    r"[[\p{Ll}\p{Lm}\p{Lo}\p{M}]--\p{Han}]",
                    &optional,
                    r"\p{N}{1,3}",
                    r"[\r\n]*"
                )
            )],
        ),
        ("jais-2", vec![words(r"\p{L}+", r"\p{N}{1,3}", r"\p{L}").replace(r"\s+(?!\S)|\s+", HALVING)]),
        ("minicpm5", vec![r"\p{N}{1,3}".into(), words(r"\p{L}+", r"\p{N}+", r"\p{L}")]),
        ("ufakzeka", vec![words(r"\p{L}+", r"\p{N}", r"\p{L}").replace(&format!("{CONTRACTIONS}|"), "")]),
        ("seed-coder", vec![words(r"\p{L}+", r"\p{N}", r"\p{L}").replace(r"+[\r\n]*", "+")]),
        (
            "exaone-moe",
            vec![
                words(r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+", r"\p{N}", r"\p{L}")
                    .replace(r"+[\r\n]*", r"+[\r\n/]?")
                    .replace(r"\s*[\r\n]+", r"\s*[\r\n]"),
            ],
        ),
        ("laguna", vec![r"[^\n]+|[\n]+".into(), words(r"\p{L}+", r"\p{N}", r"\p{L}")]),
        (
            "bailingmoe",
            list(&[
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            ]),
        ),
        ("gemma4", list(&[r"[^\n]+|[\n]+"])),
        ("bloom", list(&[BLOOM])),
        ("viking", list(&[BLOOM, r"\p{N}"])),
        ("superbpe", list(&[r"\p{N}+", r"(?=(\d{3})+(?!\d))"])),
        (
            "chameleon",
            list(&[
                "<sentinel:[0-9]+>",
                "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                r"([\t\n]|    |  )",
                r"\p{N}",
                r"[\p{P}!-/:-@\[-`{-~]",
                GPT2,
            ]),
        ),
        ("default", list(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"])),
    ]
}

struct Oracle {
    name: &'static str,
    splitter: Splitter,
    stages: Vec<Regex>,
}

static ORACLES: LazyLock<Vec<Oracle>> = LazyLock::new(|| {
    let oracle = |(name, expressions): (&'static str, Vec<String>)| Oracle {
        name,
        splitter: Splitter::named(name).unwrap(),
        stages: expressions.iter().map(|e| Regex::new(e).unwrap_or_else(|error| panic!("{e}: {error}"))).collect(),
    };
    expressions().into_iter().map(oracle).collect()
});

impl Oracle {
    fn expected<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for stage in &self.stages {
            let mut cut = vec![];
            for piece in pieces {
                let mut from = 0;
                for found in stage.find_iter(piece) {
                    let found = found.unwrap();
                    // An expression may match nothing: it cuts there.
                    cut.push(&piece[from..found.start()]);
                    cut.push(found.as_str());
                    from = found.end();
                }
                cut.push(&piece[from..]);
            }
            pieces = cut;
            pieces.retain(|piece| !piece.is_empty());
        }
        pieces
    }

    fn check(&self, text: &str) {
        let mut pieces = vec![];
        self.splitter.split(text.as_bytes(), &mut |piece| {
            pieces.push(std::str::from_utf8(piece).expect("a piece cuts a character"));
        });
        assert_eq!(pieces, self.expected(text), "{}: {text:?}", self.name);
    }
}

/// Text dense in what the expressions tell apart.
fn text() -> impl Strategy<Value = String> {
    let telling = prop::sample::select(
        " \u{a0}\u{3000}\u{85}\t\r\n\n  '''sStTdDmMlLrRvVeEſaZzéßǅʰªµΩжЖ中文日本ひカ한글ㄅㄱ\u{300}\u{301}\u{903}\u{20dd}0129٣Ⅷ½²!/.,-_$+<=>^~|`\\[]{}()@#\"&*%?…—“”‘’！，。：；、〿︰€→😀👩\u{200d}\u{feff}\u{0}\u{7f}\u{e000}\u{fffd}\u{10ffff}"
            .chars()
            .collect::<Vec<char>>(),
    );
    let character = prop_oneof![
        8 => telling,
        1 => any::<char>(),
        1 => prop::char::range('\u{80}', '\u{2fff}'),
    ];
    prop::collection::vec(character, 0..40).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splitters_do_what_their_expressions_say(text in text()) {
        ORACLES.iter().for_each(|oracle| oracle.check(&text));
    }

    #[test]
    fn pieces_of_any_bytes_join_to_the_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for oracle in ORACLES.iter() {
            let mut joined = vec![];
            oracle.splitter.split(&bytes, &mut |piece| {
                assert!(!piece.is_empty());
                joined.extend_from_slice(piece);
            });
            prop_assert_eq!(&joined, &bytes);
        }
    }
}

#[test]
fn every_character_is_in_the_right_class() {
    // Above U+3FFFF there are only tags, variation selectors and private use.
    let planes = ['\0'..='\u{1ffff}', '\u{2f000}'..='\u{31fff}', '\u{e0000}'..='\u{e01ff}'];
    let characters: Vec<char> = planes.into_iter().flatten().collect();
    for chunk in characters.chunks(1000) {
        // A letter, a sign and a digit between make every character show its class.
        let text: String = chunk.iter().flat_map(|&ch| [ch, 'a', ch, '!', '1', ch, ch]).collect();
        ORACLES.iter().for_each(|oracle| oracle.check(&text));
    }
}

#[test]
fn readable_cases() {
    for (name, text, expected) in [
        ("llama-bpe", "I'M 12345 days  old\n\n  x", "I|'M| |123|45| days| | old|\n\n| | x"),
        ("qwen2", "a12 b", "a|1|2| b"),
        ("gpt-2", "I'M it's\n  x", "I|'|M| it|'s|\n | x"),
        ("falcon", "12345.6", "123|45|.|6"),
        ("deepseek-llm", "你好 world  \n", "你好| world|  |\n"),
        ("deepseek-coder", "x=12", "x|=|1|2"),
        ("deepseek-v3", "(foo 你好abc", "(foo| |你好|abc"),
        ("youtu", "HelloWorld's日本 XMLHttp", "Hello|World's|日本| XMLHttp"),
        ("tekken", "HelloWorld's", "Hello|World|'s"),
        ("kimi-k2", "HelloWorld's 中文 1234", "Hello|World's| |中文| |123|4"),
        ("exaone-moe", "two words, and 12", "two words|,| and| |1|2"),
        ("afmoe", "x1234567", "x|1|234|567"),
        ("tiny_aya", "1234567 1024x", "1|234|567| |102|4|x"),
        ("superbpe", "a 1234567", "a |1|234|567"),
        ("spark2_5", "ab\n\n12", "ab|\n|\n|1|2"),
        ("bloom", "Hello, world 12", "Hello|,| world| 12"),
        ("chameleon", "<sentinel:12>IMGIMGABZ    x", "<|sentinel|:|1|2|>|IMGIMGABZ|    |x"),
    ] {
        let mut pieces = vec![];
        let splitter = Splitter::named(name).unwrap();
        splitter.split(text.as_bytes(), &mut |piece| {
            pieces.push(std::str::from_utf8(piece).unwrap());
        });
        assert_eq!(pieces.join("|"), expected, "{name}");
    }
}

#[test]
fn unknown_names_have_no_splitter() {
    assert!(Splitter::named("").is_none());
    assert!(Splitter::named("llama-bpe2").is_none());
}
