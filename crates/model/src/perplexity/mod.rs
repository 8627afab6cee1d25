//! How well a model predicts a text, and how far it is from a reference.
//!
//! The definition is llama.cpp's, so that numbers compare: the text is cut into windows of the context's length, each
//! begins with the beginning-of-text token where the vocabulary has one, and the second half of each is scored.
//! Distances are to the log-probabilities that a reference run saved ([`base_logits`]), in the same format as llama.cpp's.

pub mod base_logits;
pub mod choices;

use crate::error::EngineError;
use crate::steps::Steps;
use base_logits::{BaseError, BaseReader, BaseWriter};
use std::ops::ControlFlow;

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum PerplexityError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The file of log-probabilities.
    #[error(transparent)]
    Base(#[from] BaseError),
    /// A text that fills less than two windows.
    #[error(
        "the text has {tokens} tokens; {needed} are needed for windows of {window} (a longer text, or a smaller -c)"
    )]
    TooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens that two windows have.
        needed: usize,
        /// Length of a window.
        window: usize,
    },
    /// A window of no or one scored token.
    #[error("windows of {0} tokens cannot be scored; at least 4 are needed (-c)")]
    Window(usize),
    /// A reference that was made of another text, or by another tokenizer.
    #[error(
        "the reference was made of another text: its token {at} is {}, the text gives {} (leave out -f to score the \
         tokens of the reference)",
        base,
        found.map_or("none".into(), |id| id.to_string())
    )]
    Text {
        /// Where the first token differs.
        at: usize,
        /// The token of the reference.
        base: u32,
        /// That of the text; `None` past its end.
        found: Option<u32>,
    },
    /// A reference with other tokens than the model has.
    #[error("the reference was made with a vocabulary of {base} tokens, the model has {model}")]
    Vocabulary {
        /// Tokens of the reference.
        base: usize,
        /// Tokens of the model.
        model: usize,
    },
    /// Logits that are no numbers.
    #[error("the logits after token {0} are not numbers; the weights may be damaged")]
    NotANumber(usize),
}

/// A text in windows.
#[derive(Clone, Debug)]
pub struct Windows {
    tokens: Vec<u32>,
    window: usize,
    bos: Option<u32>,
}

impl Windows {
    /// Cuts a text into windows; what is left over at the end is not scored. `bos` replaces the first token of each
    /// window.
    ///
    /// # Errors
    /// A text that is too short.
    pub fn new(tokens: Vec<u32>, window: usize, bos: Option<u32>) -> Result<Windows, PerplexityError> {
        if window < 4 {
            return Err(PerplexityError::Window(window));
        }
        if tokens.len() < 2 * window {
            return Err(PerplexityError::TooShort { tokens: tokens.len(), needed: 2 * window, window });
        }
        Ok(Windows { tokens, window, bos })
    }

    /// How many windows there are.
    pub fn count(&self) -> usize {
        self.tokens.len() / self.window
    }

    /// Keeps the first windows only.
    pub fn truncate(&mut self, count: usize) {
        self.tokens.truncate(count.saturating_mul(self.window));
    }

    /// Length of a window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The tokens of all windows, as the text has them.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.count() * self.window]
    }

    /// What a model reads of each window.
    pub fn inputs(&self) -> impl Iterator<Item = Vec<u32>> {
        self.tokens().chunks_exact(self.window).map(|window| {
            let first = self.bos.unwrap_or(window[0]);
            std::iter::once(first).chain(window[1..].iter().copied()).collect()
        })
    }

    /// Checks that a text begins with the tokens of all windows. There may be more of it, as what is left over is not
    /// scored.
    ///
    /// # Errors
    /// The first token that differs.
    pub fn check_text(&self, tokens: &[u32]) -> Result<(), PerplexityError> {
        for (at, &base) in self.tokens().iter().enumerate() {
            let found = tokens.get(at).copied();
            if found != Some(base) {
                return Err(PerplexityError::Text { at, base, found });
            }
        }
        Ok(())
    }

    /// Positions whose prediction is scored, within a window.
    pub fn scored(&self) -> std::ops::Range<usize> {
        self.window / 2..self.window - 1
    }
}

/// The mean of many values and how well it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Mean {
    /// Takes a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// How many values.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        let spread = self.squares / self.count.max(1) as f64 - self.mean() * self.mean();
        if self.count < 2 { 0.0 } else { (spread.max(0.0) / (self.count - 1) as f64).sqrt() }
    }
}

/// The distance from a reference.
#[derive(Clone, Debug, Default)]
pub struct Distance {
    /// Negative log-probability of the text in the reference.
    pub base: Mean,
    /// Kullback-Leibler divergence of the model from the reference, a token.
    pub divergence: Mean,
    /// Whether both find the same token likeliest.
    pub same_top: Mean,
    /// Every divergence, in the order of the text.
    pub all: Vec<f32>,
}

/// What came out so far.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Windows that are done.
    pub windows: usize,
    /// Negative log-probability of the text, natural logarithm, a token.
    pub loss: Mean,
    /// The distance from the reference, if there is one.
    pub distance: Option<Distance>,
}

impl Score {
    /// The perplexity and its standard error.
    pub fn perplexity(&self) -> (f64, f64) {
        let perplexity = self.loss.mean().exp();
        (perplexity, perplexity * self.loss.error())
    }
}

/// What a model is compared with: log-probabilities of every scored position, in the order of the text.
pub trait Reference {
    /// Length of a row.
    fn vocab(&self) -> usize;

    /// A window begins, which is read so as far as it is scored, from position `first` of it on; it is the text from token `at` on.
    ///
    /// # Errors
    /// Of whoever computes the rows.
    fn begin(&mut self, input: &[u32], first: usize, at: usize) -> Result<(), PerplexityError>;

    /// The next row.
    ///
    /// # Errors
    /// Of whoever reads the rows.
    fn row(&mut self, out: &mut Vec<f32>) -> Result<(), PerplexityError>;
}

impl Reference for BaseReader {
    fn vocab(&self) -> usize {
        BaseReader::vocab(self)
    }

    fn begin(&mut self, _: &[u32], _: usize, _: usize) -> Result<(), PerplexityError> {
        Ok(())
    }

    fn row(&mut self, out: &mut Vec<f32>) -> Result<(), PerplexityError> {
        Ok(BaseReader::row(self, out)?)
    }
}

/// Another model, which reads the same text window by window.
pub struct OtherModel<'a> {
    engine: &'a mut dyn Steps,
    /// Those of a window, and where the next one begins.
    rows: Vec<f32>,
    next: usize,
}

impl<'a> OtherModel<'a> {
    /// The model of an engine that has the text to itself.
    pub fn new(engine: &'a mut dyn Steps) -> OtherModel<'a> {
        OtherModel { engine, rows: vec![], next: 0 }
    }
}

impl Reference for OtherModel<'_> {
    fn vocab(&self) -> usize {
        self.engine.vocab()
    }

    fn begin(&mut self, input: &[u32], first: usize, at: usize) -> Result<(), PerplexityError> {
        let (rows, vocab) = (&mut self.rows, self.engine.vocab());
        rows.clear();
        self.next = 0;
        each_row(self.engine, input, 0, first, |position, row| {
            let row = LogSoftmax::of(row).ok_or(PerplexityError::NotANumber(at + position))?;
            rows.extend((0..vocab).map(|id| row.at(id) as f32));
            Ok(())
        })
    }

    fn row(&mut self, out: &mut Vec<f32>) -> Result<(), PerplexityError> {
        let end = self.next + self.engine.vocab();
        out.clear();
        out.extend_from_slice(&self.rows[self.next..end]);
        self.next = end;
        Ok(())
    }
}

/// Scores a text. `on` hears of every window and may stop, as may the device within one.
///
/// # Errors
/// What the engine and the reference say, logits that are not numbers, and what is wrong with the files.
pub fn score(
    engine: &mut dyn Steps,
    windows: &Windows,
    mut save: Option<&mut BaseWriter>,
    mut base: Option<&mut dyn Reference>,
    mut on: impl FnMut(&Score) -> ControlFlow<()>,
) -> Result<Score, PerplexityError> {
    let vocab = engine.vocab();
    if let Some(base) = &base
        && base.vocab() != vocab
    {
        return Err(PerplexityError::Vocabulary { base: base.vocab(), model: vocab });
    }
    let mut score = Score { distance: base.as_ref().map(|_| Distance::default()), ..Score::default() };
    let scored = windows.scored();
    let mut reference = vec![];
    for (window, input) in windows.tokens().chunks_exact(windows.window).zip(windows.inputs()) {
        let at = score.windows * windows.window;
        // The last token of a window predicts nothing that is known.
        let input = &input[..scored.end];
        let begun = base.as_mut().map_or(Ok(()), |base| base.begin(input, scored.start, at));
        let done = begun.and_then(|()| {
            each_row(engine, input, 0, scored.start, |position, row| {
                let next = window[position + 1] as usize;
                let row = LogSoftmax::of(row).ok_or(PerplexityError::NotANumber(at + position))?;
                score.loss.add(-row.at(next));
                if let Some(save) = &mut save {
                    save.row(&row)?;
                }
                if let (Some(base), Some(distance)) = (&mut base, &mut score.distance) {
                    base.row(&mut reference)?;
                    distance.add(&row, &reference, next);
                }
                Ok(())
            })
        });
        match done {
            Err(PerplexityError::Engine(error)) if error.is_stopped() => return Ok(score),
            done => done?,
        }
        score.windows += 1;
        if on(&score).is_break() {
            break;
        }
    }
    Ok(score)
}

/// Runs a text, of whose tokens the cache has the first `start`, and gives the logits of every position from `first` on.
fn each_row(
    engine: &mut dyn Steps,
    tokens: &[u32],
    mut start: usize,
    first: usize,
    mut on: impl FnMut(usize, &[f32]) -> Result<(), PerplexityError>,
) -> Result<(), PerplexityError> {
    let vocab = engine.vocab();
    while start < tokens.len() {
        let n = engine.chunk().min(tokens.len() - start);
        // A step gives at least one row, wanted or not.
        let rows = (first.max(start) - start).min(n - 1)..n;
        let positions = start + rows.start..;
        let logits = engine.step(&tokens[start..start + n], start, rows)?;
        for (position, row) in positions.zip(logits.chunks_exact(vocab)).filter(|(position, _)| *position >= first) {
            on(position, row)?;
        }
        start += n;
    }
    Ok(())
}

impl Distance {
    fn add(&mut self, row: &LogSoftmax<'_>, base: &[f32], next: usize) {
        let mut divergence = 0.0;
        let (mut top, mut base_top) = (0, 0);
        for (id, &log) in base.iter().enumerate() {
            if row.logits[id] > row.logits[top] {
                top = id;
            }
            if log > base[base_top] {
                base_top = id;
            }
            let log = f64::from(log);
            divergence += log.exp() * (log - row.at(id));
        }
        self.base.add(-f64::from(base[next]));
        self.divergence.add(divergence);
        self.same_top.add(if top == base_top { 1.0 } else { 0.0 });
        self.all.push(divergence as f32);
    }
}

/// Logits and what turns them into log-probabilities.
pub struct LogSoftmax<'a> {
    /// The logits.
    pub logits: &'a [f32],
    /// The largest of them.
    pub max: f32,
    /// Logarithm of the sum of `exp(logit - max)`.
    pub log_sum: f64,
}

impl<'a> LogSoftmax<'a> {
    /// `None` if a logit is not a number, or none is finite.
    pub fn of(logits: &'a [f32]) -> Option<LogSoftmax<'a>> {
        if logits.iter().any(|l| l.is_nan()) {
            return None;
        }
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&l| f64::from(l - max).exp()).sum();
        max.is_finite().then_some(LogSoftmax { logits, max, log_sum: sum.ln() })
    }

    /// The natural logarithm of the probability of a token.
    pub fn at(&self, id: usize) -> f64 {
        f64::from(self.logits[id] - self.max) - self.log_sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::Counting;

    #[test]
    fn the_second_half_of_each_window_is_scored() {
        // Tokens that count up are what the model expects; each step back costs.
        let text: Vec<u32> = (0..35).map(|i| i % 10).collect();
        let windows = Windows::new(text, 16, None).unwrap();
        assert_eq!((windows.count(), windows.scored()), (2, 8..15));
        let mut model = Counting::new(10, 16, 5);
        let score = score(&mut model, &windows, None, None, |_| ControlFlow::Continue(())).unwrap();
        let expected = -(1f64.exp() / (1f64.exp() + 9.0)).ln();
        assert_eq!(score.loss.count(), 14);
        assert!((score.loss.mean() - expected).abs() < 1e-12);
        assert!((score.perplexity().0 - expected.exp()).abs() < 1e-9 && score.perplexity().1 < 1e-6);
        assert_eq!(model.steps, [5, 5, 5, 5, 5, 5], "nothing is computed for the last token");
    }

    #[test]
    fn a_model_is_at_no_distance_from_itself() {
        let text: Vec<u32> = (0..64).map(|i| i * 7 % 11).collect();
        let windows = Windows::new(text, 8, Some(3)).unwrap();
        let path = std::env::temp_dir().join(format!("kernloom-base-{}", std::process::id()));
        let mut model = Counting::new(11, 8, 8);
        let mut save = BaseWriter::create(&path, &windows, 11).unwrap();
        let go = |_: &Score| ControlFlow::Continue(());
        let saved = score(&mut model, &windows, Some(&mut save), None, go).unwrap();
        save.finish().unwrap();
        let mut base = BaseReader::open(&path).unwrap();
        assert_eq!((base.windows().tokens(), base.windows().window()), (windows.tokens(), 8));
        let again = score(&mut model, &windows, None, Some(&mut base), go).unwrap();
        let distance = again.distance.unwrap();
        assert_eq!(again.loss, saved.loss);
        assert!(distance.divergence.mean().abs() < 1e-6, "{:?}", distance.divergence);
        assert_eq!((distance.same_top.mean(), distance.all.len()), (1.0, saved.loss.count()));
        assert!((distance.base.mean() - saved.loss.mean()).abs() < 1e-3);
        let bytes = std::fs::read(&path).unwrap();
        for cut in [0, 7, 12, 19, 30, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let Ok(mut base) = BaseReader::open(&path) else { continue };
            assert!(score(&mut model, &windows, None, Some(&mut base), go).is_err(), "cut at {cut}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_least_likely_tokens_of_a_large_vocabulary_keep_their_weight() {
        let windows = Windows::new(vec![0; 8], 4, None).unwrap();
        let mut logits = vec![0.0; 50_000];
        logits[3] = 25.0;
        let row = LogSoftmax::of(&logits).unwrap();
        let path = std::env::temp_dir().join(format!("kernloom-base-tail-{}", std::process::id()));
        let mut save = BaseWriter::create(&path, &windows, logits.len()).unwrap();
        for _ in 0..2 {
            save.row(&row).unwrap();
        }
        save.finish().unwrap();
        let mut saved = vec![];
        BaseReader::open(&path).unwrap().row(&mut saved).unwrap();
        std::fs::remove_file(path).unwrap();
        let mut distance = Distance::default();
        distance.add(&row, &saved, 0);
        assert!(distance.divergence.mean().abs() < 1e-6, "{:?}", distance.divergence);
        assert!((distance.base.mean() + row.at(0)).abs() < 1e-3, "{:?}", distance.base);
    }

    #[test]
    fn a_text_is_that_of_the_windows_or_not() {
        let windows = Windows::new((0..9).collect(), 4, Some(77)).unwrap();
        let check = |text: std::ops::Range<u32>| windows.check_text(&text.collect::<Vec<_>>());
        assert!(check(0..8).is_ok() && check(0..20).is_ok());
        assert!(matches!(check(0..7), Err(PerplexityError::Text { at: 7, base: 7, found: None })));
        assert!(matches!(check(1..20), Err(PerplexityError::Text { at: 0, base: 0, found: Some(1) })));
    }

    #[test]
    fn texts_that_cannot_be_scored() {
        assert!(matches!(Windows::new(vec![0; 31], 16, None), Err(PerplexityError::TooShort { needed: 32, .. })));
        assert!(matches!(Windows::new(vec![0; 31], 2, None), Err(PerplexityError::Window(2))));
        assert!(LogSoftmax::of(&[1.0, f32::NAN]).is_none());
        assert!(LogSoftmax::of(&[f32::NEG_INFINITY; 2]).is_none());
    }

    #[test]
    fn the_error_of_a_mean() {
        let mut mean = Mean::default();
        [1.0, 2.0, 3.0, 4.0].iter().for_each(|&v| mean.add(v));
        assert_eq!(mean.mean(), 2.5);
        assert!((mean.error() - (1.25f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
