//! Questions with several continuations: is the right one the likeliest?
//!
//! The files and the scores are llama.cpp's: HellaSwag (six lines a question), Winogrande (a line of CSV), and multiple choice
//! (binary, as ARC, MMLU and TruthfulQA are published for it). A continuation's score is the mean of the logarithms of its
//! tokens' probabilities.

use super::{LogSoftmax, PerplexityError, each_row};
use crate::steps::Steps;
use std::ops::Range;

/// Answers of a question at most.
const MOST: u32 = 100;

/// Why a file has no questions.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct BadQuestions {
    place: String,
    problem: &'static str,
}

fn bad<T>(place: impl Into<String>, problem: &'static str) -> Result<T, BadQuestions> {
    Err(BadQuestions { place: place.into(), problem })
}

/// One way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The whole text.
    pub tokens: Vec<u32>,
    /// The tokens that count, of which the first is no beginning of a text.
    pub scored: Range<usize>,
    /// Whether it is the right one.
    pub right: bool,
}

/// A question with its continuations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question(pub Vec<Continuation>);

impl Question {
    /// Texts that count from where they differ on.
    fn of_texts(texts: Vec<(Vec<u32>, bool)>) -> Option<Question> {
        let shared = shared(texts.iter().map(|text| &text.0[..]));
        let continuation = |(tokens, right): (Vec<u32>, bool)| {
            let scored = shared.max(1)..tokens.len();
            (!scored.is_empty()).then_some(Continuation { tokens, scored, right })
        };
        Some(Question(texts.into_iter().map(continuation).collect::<Option<_>>()?))
    }

    /// Tokens of its longest text.
    pub fn longest(&self) -> usize {
        self.0.iter().map(|text| text.tokens.len()).max().unwrap_or(0)
    }
}

/// How many tokens all texts begin with.
fn shared<'a>(mut texts: impl Iterator<Item = &'a [u32]>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    texts.fold(first.len(), |most, text| first[..most].iter().zip(text).take_while(|(a, b)| a == b).count())
}

/// HellaSwag: the context, the number of the right ending, and four endings, a line each.
///
/// # Errors
/// The line that is not so.
pub fn hellaswag(text: &str, encode: &dyn Fn(&str) -> Vec<u32>) -> Result<Vec<Question>, BadQuestions> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() || !lines.len().is_multiple_of(6) {
        return bad(format!("line {}", lines.len()), "a question has six lines");
    }
    let question = |(n, lines): (usize, &[&str])| {
        let right = match lines[1].trim().parse::<usize>() {
            Ok(right) if right < 4 => right,
            _ => return bad(format!("line {}", 6 * n + 2), "it is no number from 0 to 3"),
        };
        let text = |(i, ending): (usize, &&str)| (encode(&format!("{} {ending}", lines[0])), i == right);
        let question = Question::of_texts(lines[2..].iter().enumerate().map(text).collect());
        question.map_or_else(|| bad(format!("line {}", 6 * n + 3), "an ending is empty"), Ok)
    };
    lines.chunks(6).enumerate().map(question).collect()
}

/// Winogrande: an index, a sentence with a gap (`_`), two words for it, and 1 or 2 for the right one. What follows the gap
/// counts where that is long enough, without its last token.
///
/// # Errors
/// The line that is not so.
pub fn winogrande(text: &str, encode: &dyn Fn(&str) -> Vec<u32>) -> Result<Vec<Question>, BadQuestions> {
    /// Tokens behind the shared ones that make a sentence long enough.
    const TRAILING: usize = 3;
    let question = |(n, line): (usize, &str)| {
        let place = || format!("line {}", n + 1);
        let [sentence, first, second, answer] =
            columns(line).map_or_else(|| bad(place(), "it has not five columns"), Ok)?;
        let Some((before, after)) = sentence.split_once('_') else {
            return bad(place(), "the sentence has no gap (_)");
        };
        let right = match answer.trim() {
            "1" => 0,
            "2" => 1,
            _ => return bad(place(), "the answer is neither 1 nor 2"),
        };
        let texts = [first, second].map(|word| encode(&format!("{before}{word}{after}")));
        let shared = shared(texts.iter().map(|text| &text[..]));
        let long = texts.iter().all(|text| text.len() - shared > TRAILING);
        let mut all = vec![];
        for (i, (tokens, word)) in texts.into_iter().zip([first, second]).enumerate() {
            let filled = encode(&format!("{before}{word}")).len();
            let start = if long && filled < tokens.len() { filled } else { shared }.max(1);
            let end = if tokens.len() > start + 1 { tokens.len() - 1 } else { tokens.len() };
            if start >= end {
                return bad(place(), "the two words are the same");
            }
            all.push(Continuation { tokens, scored: start..end, right: i == right });
        }
        Ok(Question(all))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let all: Vec<Question> = lines.map(question).collect::<Result<_, _>>()?;
    if all.is_empty() { bad("line 1", "there is no question") } else { Ok(all) }
}

/// The columns of a line but the first; the second may be in quotes.
fn columns(line: &str) -> Option<[&str; 4]> {
    let (_, rest) = line.split_once(',')?;
    let (sentence, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?,
        None => rest.split_once(',')?,
    };
    let mut rest = rest.splitn(3, ',');
    Some([sentence, rest.next()?, rest.next()?, rest.next()?])
}

/// Multiple choice: the number of questions, where each begins, and then each with its answers, of which any number may be
/// right; a second list of answers is passed over. All numbers are 32 bits, lowest byte first.
///
/// # Errors
/// Where the file ends too early, or a number is not possible.
pub fn multiple_choice(bytes: &[u8], encode: &dyn Fn(&str) -> Vec<u32>) -> Result<Vec<Question>, BadQuestions> {
    let mut reader = Reader { bytes, at: 0 };
    let count = reader.number()? as usize;
    reader.take(count.saturating_mul(4))?;
    if count == 0 {
        return bad("byte 0", "there is no question");
    }
    let mut all = vec![];
    for n in 0..count {
        let text = reader.text()?;
        let answers = reader.answers()?;
        reader.answers()?;
        let whole = |(answer, right): (&str, bool)| (encode(&format!("{text} {answer}")), right);
        let question =
            Question::of_texts(answers.into_iter().map(whole).collect()).filter(|question| question.0.len() > 1);
        let Some(question) = question else { return bad(format!("question {}", n + 1), "its answers do not differ") };
        all.push(question);
    }
    Ok(all)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadQuestions> {
        match self.bytes[self.at..].get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => bad(format!("byte {}", self.at), "the file ends within a question"),
        }
    }

    fn number(&mut self) -> Result<u32, BadQuestions> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Result<&'a str, BadQuestions> {
        let length = self.number()? as usize;
        let at = self.at;
        std::str::from_utf8(self.take(length)?).or_else(|_| bad(format!("byte {at}"), "it is no UTF-8"))
    }

    fn answers(&mut self) -> Result<Vec<(&'a str, bool)>, BadQuestions> {
        let count = self.number()?;
        if count > MOST {
            return bad(format!("byte {}", self.at - 4), "a question has more than a hundred answers");
        }
        let texts = (0..count).map(|_| self.text()).collect::<Result<Vec<_>, _>>()?;
        texts.into_iter().map(|text| Ok((text, self.number()? == 1))).collect()
    }
}

/// The score of each continuation.
///
/// # Errors
/// Of the engine, and logits that are not numbers.
pub fn scores(engine: &mut dyn Steps, question: &Question) -> Result<Vec<f64>, PerplexityError> {
    let shared = shared(question.0.iter().map(|text| &text.tokens[..]));
    let mut all = vec![];
    for text in &question.0 {
        // The cache has what all texts begin with, once one of them was read.
        let start = if all.is_empty() { 0 } else { engine.goes_on(shared.min(text.scored.start - 1)) };
        let (first, end) = (text.scored.start - 1, text.scored.end - 1);
        let mut sum = 0.0;
        each_row(engine, &text.tokens[..end], start, first, |position, row| {
            let row = LogSoftmax::of(row).ok_or(PerplexityError::NotANumber(position))?;
            sum += row.at(text.tokens[position + 1] as usize);
            Ok(())
        })?;
        all.push(sum / text.scored.len() as f64);
    }
    Ok(all)
}

/// Whether the likeliest continuation is a right one; of equal ones the last of two counts, and the first of more, as in
/// llama.cpp.
pub fn is_right(question: &Question, scores: &[f64]) -> bool {
    let best = match scores {
        [first, second] => usize::from(first <= second),
        _ => (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best }),
    };
    question.0.get(best).is_some_and(|text| text.right)
}

/// Some of the questions, spread over all of them.
pub fn spread(questions: Vec<Question>, count: usize) -> Vec<Question> {
    let all = questions.len();
    let wanted = count.clamp(1, all.max(1));
    let keeps = |i: usize| (i + 1) * wanted / all > i * wanted / all;
    questions.into_iter().enumerate().filter(|(i, _)| keeps(*i)).map(|(_, question)| question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::Counting;

    /// A token for each letter.
    fn letters(text: &str) -> Vec<u32> {
        text.bytes().map(|b| u32::from(b) % 64).collect()
    }

    #[test]
    fn hellaswag_has_six_lines_a_question() {
        let questions = hellaswag("ab\n2\ncx\ncy\nde\ndx\n", &letters).unwrap();
        assert_eq!(questions.len(), 1);
        let of = |i: usize| &questions[0].0[i];
        // `ab ` is shared by all.
        assert_eq!((of(0).tokens.clone(), of(0).scored.clone()), (letters("ab cx"), 3..5));
        assert_eq!((0..4).map(|i| of(i).right).collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!(
            hellaswag("a\n4\nb\nc\nd\ne", &letters).unwrap_err().to_string(),
            "line 2: it is no number from 0 to 3"
        );
        assert_eq!(hellaswag("a\n0\nb", &letters).unwrap_err().to_string(), "line 3: a question has six lines");
        assert!(hellaswag("a\n0\nb\nb\nb\nb", &letters).is_err() && hellaswag("", &letters).is_err());
    }

    #[test]
    fn winogrande_counts_what_follows_the_gap() {
        let questions = winogrande("1,\"The _, so, was big.\",cat,dog,2\n2,A _.,x,y,1\n", &letters).unwrap();
        let of = |question: usize, i: usize| &questions[question].0[i];
        assert_eq!(of(0, 1).tokens, letters("The dog, so, was big."));
        assert_eq!((of(0, 0).scored.clone(), of(0, 0).right, of(0, 1).right), (7..20, false, true));
        // Too short: from where they differ, again without the last.
        assert_eq!((of(1, 0).scored.clone(), of(1, 0).right), (2..3, true));
        for wrong in ["1,no gap,a,b,1", "1,a _ b,a,b,3", "1,a _", "1,\"a _,a,b,1", "", "1,a _ b,x,x,1"] {
            let error = winogrande(wrong, &letters);
            assert!(error.is_err() || wrong.ends_with("x,x,1"), "{wrong}: {error:?}");
        }
    }

    #[test]
    fn multiple_choice_is_read_to_its_end_and_no_further() {
        let text = |t: &str| [&(t.len() as u32).to_le_bytes()[..], t.as_bytes()].concat();
        let answers = |all: &[(&str, u32)]| {
            let texts = all.iter().flat_map(|a| text(a.0));
            let labels = all.iter().flat_map(|a| a.1.to_le_bytes());
            (all.len() as u32).to_le_bytes().into_iter().chain(texts).chain(labels).collect::<Vec<u8>>()
        };
        let whole = [
            1u32.to_le_bytes().to_vec(),
            8u32.to_le_bytes().to_vec(),
            text("Q"),
            answers(&[("one", 0), ("two", 1), ("six", 0)]),
            answers(&[]),
        ]
        .concat();
        let questions = multiple_choice(&whole, &letters).unwrap();
        assert_eq!(questions[0].0.iter().map(|c| c.right).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(questions[0].0[2].tokens, letters("Q six"));
        for cut in 0..whole.len() {
            assert!(multiple_choice(&whole[..cut], &letters).is_err(), "cut at {cut}");
        }
        let many = [whole[..13].to_vec(), 101u32.to_le_bytes().to_vec()].concat();
        assert!(multiple_choice(&many, &letters).unwrap_err().to_string().contains("hundred"));
        assert!(multiple_choice(&u32::MAX.to_le_bytes(), &letters).is_err());
    }

    #[test]
    fn the_likeliest_continuation_is_found_and_the_beginning_read_once() {
        // The model expects each token to be the last one plus one.
        let text = |tokens: &[u32], right| (tokens.to_vec(), right);
        let question = Question::of_texts(vec![
            text(&[1, 2, 3, 9], false),
            text(&[1, 2, 3, 4, 5], true),
            text(&[1, 2, 3, 4, 7], false),
        ]);
        let question = question.unwrap();
        let mut model = Counting::new(10, 16, 2);
        let found = scores(&mut model, &question).unwrap();
        let (likely, not) = ((1f64.exp() / (1f64.exp() + 9.0)).ln(), (1.0 / (1f64.exp() + 9.0)).ln());
        for (score, expected) in found.iter().zip([not, likely, (likely + not) / 2.0]) {
            assert!((score - expected).abs() < 1e-12, "{found:?}");
        }
        assert!(is_right(&question, &found));
        assert_eq!(model.steps, [2, 1, 2, 2], "two tokens that are shared are not read again");
        assert!(!is_right(&question, &[0.0, -1.0, -1.0]));
        let two = Question(question.0[..2].to_vec());
        assert!(is_right(&two, &[0.0, 0.0]), "of two equal ones it is the last");
    }

    #[test]
    fn some_questions_are_spread_over_all() {
        let all: Vec<Question> =
            (0..10).map(|n| Question::of_texts(vec![(vec![0, n], true), (vec![0, 99], false)]).unwrap()).collect();
        let kept = |count| spread(all.clone(), count).iter().map(|q| q.0[0].tokens[1]).collect::<Vec<_>>();
        assert_eq!((kept(3), kept(10).len(), kept(99).len(), kept(0).len()), (vec![3, 6, 9], 10, 10, 1));
    }
}
