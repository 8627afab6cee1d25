//! The matchers. Each takes the place of one regular expression, quoted beside it; alternatives
//! are tried in the order written, as a backtracking engine would.

use super::text::{Class, Text, Unit};

/// One expression of a splitter.
pub(super) enum Rule {
    /// ```text
    /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
    /// ```
    Gpt2,
    /// ```text
    /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}
    /// | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    /// ```
    /// With `marks`, `[\p{L}\p{M}]` stands for the second and the last `\p{L}`.
    Words { digits: usize, marks: bool },
    /// With `U = \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}` and `W = \p{Ll}\p{Lm}\p{Lo}\p{M}`:
    /// ```text
    /// [^\r\n\p{L}\p{N}]?[U]*[W]+S?|[^\r\n\p{L}\p{N}]?[U]+[W]*S?|\p{N}{1,digits}
    /// | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
    /// ```
    /// where `S` is `(?i:'s|'t|'re|'ve|'m|'ll|'d)` if `contractions`, else nothing.
    CamelCase { contractions: bool, digits: usize },
    /// ```text
    /// [ASCII punctuation or symbol][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
    /// | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    /// ```
    DeepseekV3,
    /// `a+|b+|…` over sets of characters.
    Runs(&'static [Run]),
    /// `\s+$`
    SpaceAtEnd,
}

/// `[set]{min,max}`, possibly with `\s?` before it.
pub(super) struct Run {
    set: fn(Unit) -> bool,
    min: usize,
    max: usize,
    after_space: bool,
}

impl Run {
    /// `[set]+`
    pub(super) const fn of(set: fn(Unit) -> bool) -> Run {
        Run { set, min: 1, max: usize::MAX, after_space: false }
    }

    /// `\s?[set]+`
    pub(super) const fn after_space(set: fn(Unit) -> bool) -> Run {
        Run { after_space: true, ..Run::of(set) }
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
        if self.after_space
            && first.is(Class::SPACE)
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
    /// The first match at or after `from`, never empty.
    pub(super) fn next(&self, text: Text, from: usize) -> Option<(usize, usize)> {
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
            Rule::Words { digits, marks } => words(text, at, first, digits, marks),
            Rule::CamelCase { contractions, digits } => camel_case(text, at, first, contractions, digits),
            Rule::DeepseekV3 => deepseek_v3(text, at, first),
            Rule::Runs(runs) => runs.iter().find_map(|run| run.matches(text, at, first)),
            Rule::SpaceAtEnd => None,
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

fn words(text: Text, at: usize, first: Unit, digits: usize, marks: bool) -> Option<usize> {
    let letters = if marks { Class::LETTER | Class::MARK } else { Class::LETTER };
    if let Some(end) = contraction(text, first) {
        return Some(end);
    }
    if let Some(start) = word_start(text, at, first, letters, WORD_OR_NUMBER) {
        return Some(text.run_of(start, letters));
    }
    if first.is(Class::NUMBER) {
        return Some(text.run_up_to(at, digits, |unit| unit.is(Class::NUMBER)));
    }
    symbols(text, at, first, letters, Unit::is_line_break).or_else(|| spaces(text, at, first))
}

const CAMEL_HEAD: Class = Class::UPPER.or(Class::TITLE).or(Class::MODIFIER).or(Class::OTHER_LETTER).or(Class::MARK);
const CAMEL_TAIL: Class = Class::LOWER.or(Class::MODIFIER).or(Class::OTHER_LETTER).or(Class::MARK);

fn camel_case(text: Text, at: usize, first: Unit, contractions: bool, digits: usize) -> Option<usize> {
    let is_lead = !first.is_line_break() && !first.is(WORD_OR_NUMBER);
    let starts = [is_lead.then_some(first.end), Some(at)];
    let mut words = starts.into_iter().flatten();
    let word = words
        .find_map(|start| camel_word(text, start))
        .or_else(|| starts.into_iter().flatten().find_map(|start| camel_run(text, start)));
    if let Some(end) = word {
        let tail = text.at(end).filter(|_| contractions);
        return Some(tail.and_then(|unit| contraction(text, unit)).unwrap_or(end));
    }
    if first.is(Class::NUMBER) {
        return Some(text.run_up_to(at, digits, |unit| unit.is(Class::NUMBER)));
    }
    let trailing = |unit: &Unit| unit.is_line_break() || unit.ch == '/';
    symbols(text, at, first, Class::LETTER, trailing).or_else(|| spaces(text, at, first))
}

/// `[U]*[W]+`. When nothing of `W` follows the run of `U`, the run gives back characters until its
/// last one of `W` is free.
fn camel_word(text: Text, from: usize) -> Option<usize> {
    let (mut head, mut last_tail) = (from, None);
    while let Some(unit) = text.at(head).filter(|unit| unit.is(CAMEL_HEAD)) {
        head = unit.end;
        if unit.is(CAMEL_TAIL) {
            last_tail = Some(head);
        }
    }
    let end = text.run_of(head, CAMEL_TAIL);
    if end > head { Some(end) } else { last_tail }
}

/// `[U]+[W]*`
fn camel_run(text: Text, from: usize) -> Option<usize> {
    let head = text.run_of(from, CAMEL_HEAD);
    (head > from).then(|| text.run_of(head, CAMEL_TAIL))
}

fn deepseek_v3(text: Text, at: usize, first: Unit) -> Option<usize> {
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
    if end > start {
        return Some(text.run(end, |unit| unit.is_line_break()));
    }
    spaces(text, at, first)
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

/// ` ?[^\s` + `letters` + `\p{N}]+[trailing]*`
fn symbols(text: Text, at: usize, first: Unit, letters: Class, trailing: impl Fn(&Unit) -> bool) -> Option<usize> {
    let barred = Class::SPACE | Class::NUMBER | letters;
    let start = if first.ch == ' ' { first.end } else { at };
    let end = text.run(start, |unit| !unit.is(barred));
    (end > start).then(|| text.run(end, |unit| trailing(&unit)))
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn spaces(text: Text, at: usize, first: Unit) -> Option<usize> {
    if !first.is(Class::SPACE) {
        return None;
    }
    let mut after_break = None;
    let mut end = at;
    while let Some(unit) = text.at(end).filter(|unit| unit.is(Class::SPACE)) {
        end = unit.end;
        if unit.is_line_break() {
            after_break = Some(end);
        }
    }
    after_break.or_else(|| Some(space_before_word(text, at)))
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
