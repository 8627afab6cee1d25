//! The matchers. Each takes the place of one regular expression, quoted beside it; alternatives
//! are tried in the order written, as a backtracking engine would.

use super::sets;
use super::text::{Class, Text, Unit};
use super::thousands::{Groups, thousands};

/// One expression of a splitter.
pub(super) enum Rule {
    /// ```text
    /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
    /// ```
    Gpt2,
    /// See [`Words`].
    Words(Words),
    /// See [`Camel`].
    CamelCase(Camel),
    /// ```text
    /// [ASCII punctuation or symbol][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
    /// | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    /// ```
    /// Without `lines`, ` ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+` for the second line.
    DeepseekV3 { lines: bool },
    /// See [`Groups`].
    Thousands(Groups),
    /// `a+|b+|…` over sets of characters.
    Runs(&'static [Run]),
    /// `\s+$`
    SpaceAtEnd,
    /// `<sentinel:[0-9]+>`
    Sentinel,
    /// `IMGIMG[A-I]{1,4}Z`
    ImageToken,
}

/// ```text
/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}
/// | ?[^\s\p{L}\p{N}]+[\r\n]{0,breaks_after_symbols}|\s*[\r\n]+|\s+(?!\S)|\s+
/// ```
/// with what the fields say.
#[derive(Clone, Copy)]
pub(super) struct Words {
    /// Whether the first alternative is there.
    pub(super) contractions: bool,
    /// `[\p{L}\p{M}]` for the second and the last `\p{L}`.
    pub(super) marks: bool,
    /// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+` for `\p{L}+`.
    pub(super) phrases: bool,
    pub(super) digits: usize,
    pub(super) breaks_after_symbols: usize,
    /// `\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s` for the last two alternatives.
    pub(super) halving_spaces: bool,
}

impl Words {
    pub(super) const LLAMA3: Words = Words {
        contractions: true,
        marks: false,
        phrases: false,
        digits: 3,
        breaks_after_symbols: usize::MAX,
        halving_spaces: false,
    };
    pub(super) const QWEN2: Words = Words { digits: 1, ..Words::LLAMA3 };
}

/// With `U = \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}` and `W = \p{Ll}\p{Lm}\p{Lo}\p{M}`:
/// ```text
/// [^\r\n\p{L}\p{N}]?[U]*[W]+S?|[^\r\n\p{L}\p{N}]?[U]+[W]*S?|\p{N}{1,digits}
/// | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
/// ```
/// where `S` is `(?i:'s|'t|'re|'ve|'m|'ll|'d)` if `contractions`, else nothing.
#[derive(Clone, Copy)]
pub(super) struct Camel {
    pub(super) contractions: bool,
    pub(super) digits: usize,
    /// `\p{Han}+` before all others, neither `U` nor `W` has a character of Han, and `[\r\n]*` for `[\r\n/]*`.
    pub(super) han_apart: bool,
}

impl Camel {
    pub(super) const GPT_4O: Camel = Camel { contractions: true, digits: 3, han_apart: false };
}

/// `[set]{min,max}`, possibly with one character of another set before it.
pub(super) struct Run {
    set: fn(Unit) -> bool,
    min: usize,
    max: usize,
    before: Option<fn(Unit) -> bool>,
}

impl Run {
    /// `[set]+`
    pub(super) const fn of(set: fn(Unit) -> bool) -> Run {
        Run { set, min: 1, max: usize::MAX, before: None }
    }

    /// `\s?[set]+`
    pub(super) const fn after_space(set: fn(Unit) -> bool) -> Run {
        Run { before: Some(sets::space), ..Run::of(set) }
    }

    /// ` ?[set]+`
    pub(super) const fn after_blank(set: fn(Unit) -> bool) -> Run {
        Run { before: Some(sets::blank), ..Run::of(set) }
    }

    /// `[set]{count}`
    pub(super) const fn exactly(count: usize, set: fn(Unit) -> bool) -> Run {
        Run { min: count, max: count, ..Run::of(set) }
    }

    /// `[set]{1,max}`
    pub(super) const fn at_most(max: usize, set: fn(Unit) -> bool) -> Run {
        Run { max, ..Run::of(set) }
    }

    fn matches(&self, text: Text, at: usize, first: Unit) -> Option<usize> {
        if self.before.is_some_and(|before| before(first))
            && let Some(end) = self.repeats(text, first.end)
        {
            return Some(end);
        }
        self.repeats(text, at)
    }

    fn repeats(&self, text: Text, from: usize) -> Option<usize> {
        let (mut end, mut count) = (from, 0);
        while count < self.max
            && let Some(unit) = text.at(end).filter(|&unit| (self.set)(unit))
        {
            end = unit.end;
            count += 1;
        }
        (count >= self.min).then_some(end)
    }
}

impl Rule {
    /// Hands the matches in `text` and the gaps between them to `sink`, in order.
    pub(super) fn cut<'t>(&self, text: &'t [u8], sink: &mut impl FnMut(&'t [u8])) {
        if let Rule::Thousands(groups) = *self {
            return thousands(groups, text, sink);
        }
        let mut from = 0;
        while let Some((start, end)) = self.next(Text(text), from) {
            if from < start {
                sink(&text[from..start]);
            }
            sink(&text[start..end]);
            from = end;
        }
        if from < text.len() {
            sink(&text[from..]);
        }
    }

    /// The first match at or after `from`, never empty.
    fn next(&self, text: Text, from: usize) -> Option<(usize, usize)> {
        if let Rule::SpaceAtEnd = self {
            return space_at_end(text, from);
        }
        let mut at = from;
        while let Some(unit) = text.at(at) {
            if let Some(end) = self.matches(text, at, unit) {
                return Some((at, end));
            }
            at = unit.end;
        }
        None
    }

    /// End of the match that starts at `at`, where `first` is.
    fn matches(&self, text: Text, at: usize, first: Unit) -> Option<usize> {
        match *self {
            Rule::Gpt2 => gpt2(text, at, first),
            Rule::Words(words) => words.matches(text, at, first),
            Rule::CamelCase(camel) => camel.matches(text, at, first),
            Rule::DeepseekV3 { lines } => deepseek_v3(text, at, first, lines),
            Rule::Sentinel => {
                between(&text.0[at..], b"<sentinel:", u8::is_ascii_digit, usize::MAX, b'>').map(|len| at + len)
            }
            Rule::ImageToken => {
                between(&text.0[at..], b"IMGIMG", |b| matches!(b, b'A'..=b'I'), 4, b'Z').map(|len| at + len)
            }
            Rule::Runs(runs) => runs.iter().find_map(|run| run.matches(text, at, first)),
            Rule::SpaceAtEnd | Rule::Thousands(_) => None,
        }
    }
}

const WORD_OR_NUMBER: Class = Class::LETTER.or(Class::NUMBER);

/// `\s+$`, found in one pass over the text.
fn space_at_end(text: Text, from: usize) -> Option<(usize, usize)> {
    let (mut start, mut at) = (from, from);
    while let Some(unit) = text.at(at) {
        at = unit.end;
        if !unit.is(Class::SPACE) {
            start = at;
        }
    }
    (start < at).then_some((start, at))
}

fn gpt2(text: Text, at: usize, first: Unit) -> Option<usize> {
    if first.ch == '\'' {
        let rest = &text.0[first.end..];
        let tails: [&[u8]; 7] = [b"s", b"t", b"re", b"ve", b"m", b"ll", b"d"];
        if let Some(tail) = tails.into_iter().find(|tail| rest.starts_with(tail)) {
            return Some(first.end + tail.len());
        }
    }
    let (start, head) = match text.at(first.end) {
        Some(second) if first.ch == ' ' && !second.is(Class::SPACE) => (first.end, second),
        _ => (at, first),
    };
    if head.is(Class::SPACE) {
        // A single space before a word that does not take it is a gap; it is one piece either way.
        return Some(space_before_word(text, at));
    }
    let run = if head.is(Class::LETTER) {
        text.run_of(start, Class::LETTER)
    } else if head.is(Class::NUMBER) {
        text.run_of(start, Class::NUMBER)
    } else {
        text.run(start, |unit| !unit.is(Class::SPACE | WORD_OR_NUMBER))
    };
    Some(run)
}

impl Words {
    fn matches(&self, text: Text, at: usize, first: Unit) -> Option<usize> {
        let letters = if self.marks { Class::LETTER | Class::MARK } else { Class::LETTER };
        if self.contractions
            && let Some(end) = contraction(text, first)
        {
            return Some(end);
        }
        if let Some(start) = word_start(text, at, first, letters, WORD_OR_NUMBER) {
            return Some(if self.phrases { phrase(text, start) } else { text.run_of(start, letters) });
        }
        if first.is(Class::NUMBER) {
            return Some(text.run_up_to(at, self.digits, |unit| unit.is(Class::NUMBER)));
        }
        let symbols = symbols(text, at, first, letters);
        if let Some(end) = symbols {
            return Some(text.run_up_to(end, self.breaks_after_symbols, |unit| unit.is_line_break()));
        }
        if self.halving_spaces { halving_spaces(text, at, first) } else { spaces(text, at, first) }
    }
}

/// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+` at a letter.
fn phrase(text: Text, start: usize) -> usize {
    let letter_at = |at: usize| text.at(at).filter(|unit| unit.is(Class::LETTER));
    let mut end = start;
    loop {
        let after_blank = || text.at(end).filter(|unit| sets::blank(*unit)).and_then(|unit| letter_at(unit.end));
        match letter_at(end).or_else(after_blank) {
            Some(letter) => end = text.run_of(letter.end, Class::MARK),
            None => return end,
        }
    }
}

const CAMEL_HEAD: Class = Class::UPPER.or(Class::TITLE).or(Class::MODIFIER).or(Class::OTHER_LETTER).or(Class::MARK);
const CAMEL_TAIL: Class = Class::LOWER.or(Class::MODIFIER).or(Class::OTHER_LETTER).or(Class::MARK);

impl Camel {
    fn matches(&self, text: Text, at: usize, first: Unit) -> Option<usize> {
        if self.han_apart && sets::han(first) {
            return Some(text.run(at, sets::han));
        }
        let is_lead = !first.is_line_break() && !first.is(WORD_OR_NUMBER);
        let starts = [is_lead.then_some(first.end), Some(at)];
        let mut words = starts.into_iter().flatten();
        let word = words
            .find_map(|start| self.word(text, start))
            .or_else(|| starts.into_iter().flatten().find_map(|start| self.run(text, start)));
        if let Some(end) = word {
            let tail = text.at(end).filter(|_| self.contractions);
            return Some(tail.and_then(|unit| contraction(text, unit)).unwrap_or(end));
        }
        if first.is(Class::NUMBER) {
            return Some(text.run_up_to(at, self.digits, |unit| unit.is(Class::NUMBER)));
        }
        let trailing = |unit: Unit| unit.is_line_break() || !self.han_apart && unit.ch == '/';
        let symbols = symbols(text, at, first, Class::LETTER).map(|end| text.run(end, trailing));
        symbols.or_else(|| spaces(text, at, first))
    }

    fn is(&self, unit: Unit, class: Class) -> bool {
        unit.is(class) && !(self.han_apart && sets::han(unit))
    }

    /// `[U]*[W]+`. When nothing of `W` follows the run of `U`, the run gives back characters until its
    /// last one of `W` is free.
    fn word(&self, text: Text, from: usize) -> Option<usize> {
        let (mut head, mut last_tail) = (from, None);
        while let Some(unit) = text.at(head).filter(|&unit| self.is(unit, CAMEL_HEAD)) {
            head = unit.end;
            if unit.is(CAMEL_TAIL) {
                last_tail = Some(head);
            }
        }
        let end = text.run(head, |unit| self.is(unit, CAMEL_TAIL));
        if end > head { Some(end) } else { last_tail }
    }

    /// `[U]+[W]*`
    fn run(&self, text: Text, from: usize) -> Option<usize> {
        let head = text.run(from, |unit| self.is(unit, CAMEL_HEAD));
        (head > from).then(|| text.run(head, |unit| self.is(unit, CAMEL_TAIL)))
    }
}

/// Length of `open`, one to `most` bytes that are `inner`, and `close`, at the beginning of a text.
fn between(text: &[u8], open: &[u8], inner: impl Fn(&u8) -> bool, most: usize, close: u8) -> Option<usize> {
    let rest = text.strip_prefix(open)?;
    let count = rest.iter().take_while(|byte| inner(byte)).count();
    ((1..=most).contains(&count) && rest.get(count) == Some(&close)).then(|| open.len() + count + 1)
}

fn deepseek_v3(text: Text, at: usize, first: Unit, lines: bool) -> Option<usize> {
    const LETTERS: Class = Class::LETTER.or(Class::MARK);
    const SIGNS: Class = Class::PUNCTUATION.or(Class::SYMBOL);
    if first.ch.is_ascii() && first.is(SIGNS) {
        let end = text.run(first.end, |unit| unit.ch.is_ascii_alphabetic());
        if end > first.end {
            return Some(end);
        }
    }
    if let Some(start) = word_start(text, at, first, LETTERS, Class::LETTER | SIGNS) {
        return Some(text.run_of(start, LETTERS));
    }
    let start = if first.ch == ' ' { first.end } else { at };
    let end = text.run_of(start, SIGNS);
    match (end > start, lines) {
        (true, true) => Some(text.run(end, |unit| unit.is_line_break())),
        (true, false) => Some(end),
        (false, true) => spaces(text, at, first),
        (false, false) if first.is_line_break() => Some(first.end),
        (false, false) => first.is(Class::SPACE).then(|| space_before_word(text, at)),
    }
}

/// Where the letters of `[^\r\n` + `barred` + `]?[letters]+` start.
fn word_start(text: Text, at: usize, first: Unit, letters: Class, barred: Class) -> Option<usize> {
    let lead = !first.is_line_break() && !first.is(barred);
    if lead && text.at(first.end).is_some_and(|unit| unit.is(letters)) {
        return Some(first.end);
    }
    first.is(letters).then_some(at)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`; the long s folds to s.
fn contraction(text: Text, first: Unit) -> Option<usize> {
    if first.ch != '\'' {
        return None;
    }
    let second = text.at(first.end)?;
    match second.ch.to_ascii_lowercase() {
        's' | 'ſ' | 't' | 'm' | 'd' => return Some(second.end),
        _ => {}
    }
    let third = text.at(second.end)?;
    match (second.ch.to_ascii_lowercase(), third.ch.to_ascii_lowercase()) {
        ('r' | 'v', 'e') | ('l', 'l') => Some(third.end),
        _ => None,
    }
}

/// ` ?[^\s` + `letters` + `\p{N}]+`
fn symbols(text: Text, at: usize, first: Unit, letters: Class) -> Option<usize> {
    let barred = Class::SPACE | Class::NUMBER | letters;
    let start = if first.ch == ' ' { first.end } else { at };
    let end = text.run(start, |unit| !unit.is(barred));
    (end > start).then_some(end)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn spaces(text: Text, at: usize, first: Unit) -> Option<usize> {
    let to_break = || last_break(text, at).unwrap_or_else(|| space_before_word(text, at));
    first.is(Class::SPACE).then(to_break)
}

/// `\s*[\r\n]+|\s{512}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s`
fn halving_spaces(text: Text, at: usize, first: Unit) -> Option<usize> {
    const LONGEST: usize = 512;
    let run = || {
        // One more tells whether the longest leaves one to the word that follows.
        let mut ends = [at; LONGEST + 2];
        let mut count = 0;
        while count <= LONGEST
            && let Some(unit) = text.at(ends[count]).filter(|unit| unit.is(Class::SPACE))
        {
            count += 1;
            ends[count] = unit.end;
        }
        let spare = usize::from(ends[count] != text.len());
        let mut lengths = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter();
        ends[lengths.find(|len| len + spare <= count).unwrap_or(1)]
    };
    first.is(Class::SPACE).then(|| last_break(text, at).unwrap_or_else(run))
}

/// `\s*[\r\n]+`
fn last_break(text: Text, at: usize) -> Option<usize> {
    let mut after_break = None;
    let mut end = at;
    while let Some(unit) = text.at(end).filter(|unit| unit.is(Class::SPACE)) {
        end = unit.end;
        if unit.is_line_break() {
            after_break = Some(end);
        }
    }
    after_break
}

/// `\s+(?!\S)|\s+`: a run of spaces leaves its last one to the word that follows.
fn space_before_word(text: Text, at: usize) -> usize {
    let (mut end, mut last) = (at, at);
    while let Some(unit) = text.at(end).filter(|unit| unit.is(Class::SPACE)) {
        last = end;
        end = unit.end;
    }
    if end == text.len() || last == at { end } else { last }
}
