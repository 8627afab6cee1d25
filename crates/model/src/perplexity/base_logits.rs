//! Files of log-probabilities, in the format of llama.cpp's `--kl-divergence-base`.
//!
//! A header (`_logits_`, window length, vocabulary, number of windows, all tokens; 32-bit little-endian), then a row
//! for each scored position: scale and offset as f32, then one u16 a token, padded to an even number. A log-probability
//! is `offset + scale * code`; what is 40 or more below the likeliest counts as 40 below.

use super::{LogSoftmax, PerplexityError, Windows};
use gguf::Partial;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"_logits_";

/// Largest code.
const LEVELS: f32 = 65535.0;

/// Logits are cut this far below the largest. llama.cpp cuts at 16: what that adds to the least likely tokens of a large
/// vocabulary is more than what a good quantisation changes.
const DEPTH: f32 = 40.0;

/// What can go wrong with such a file.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The system.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file that is something else, or damaged.
    #[error("{} is no file of saved logits: {reason}; make one with --save-logits", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Writes the file, which takes its name when it is finished.
pub struct BaseWriter {
    path: PathBuf,
    out: Partial,
    row: Vec<u8>,
}

impl BaseWriter {
    /// Begins a file for these windows.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, windows: &Windows, vocab: usize) -> Result<BaseWriter, BaseError> {
        let fail = |source| BaseError::Io { doing: "write", path: path.to_owned(), source };
        let mut out = Partial::create(path).map_err(fail)?;
        let mut header = MAGIC.to_vec();
        for n in [windows.window(), vocab, windows.count()] {
            header.extend((n as u32).to_le_bytes());
        }
        header.extend(windows.tokens().iter().flat_map(|t| t.to_le_bytes()));
        out.write_all(&header).map_err(fail)?;
        Ok(BaseWriter { path: path.to_owned(), out, row: vec![] })
    }

    pub(super) fn row(&mut self, row: &LogSoftmax<'_>) -> Result<(), BaseError> {
        let least = row.logits.iter().copied().fold(f32::INFINITY, f32::min).max(row.max - DEPTH);
        let scale = (row.max - least) / LEVELS;
        let offset = f64::from(least - row.max) - row.log_sum;
        self.row.clear();
        self.row.extend(scale.to_le_bytes());
        self.row.extend((offset as f32).to_le_bytes());
        let code = |&logit: &f32| if scale > 0.0 { ((logit - least) / scale).round_ties_even() as u16 } else { 0 };
        self.row.extend(row.logits.iter().flat_map(|logit| code(logit).to_le_bytes()));
        self.row.resize(row_bytes(row.logits.len()), 0);
        let written = self.out.write_all(&self.row);
        written.map_err(|source| BaseError::Io { doing: "write", path: self.path.clone(), source })
    }

    /// Ends the file; without this, it is gone.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> Result<(), BaseError> {
        let path = self.path;
        self.out.keep().map_err(|source| BaseError::Io { doing: "write", path, source })
    }
}

fn row_bytes(vocab: usize) -> usize {
    8 + 2 * vocab.next_multiple_of(2)
}

/// Reads the file, row by row.
pub struct BaseReader {
    path: PathBuf,
    input: BufReader<File>,
    windows: Windows,
    vocab: usize,
    row: Vec<u8>,
}

impl BaseReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// What the system says, and what is no such file.
    pub fn open(path: &Path) -> Result<BaseReader, BaseError> {
        let io = |source| BaseError::Io { doing: "read", path: path.to_owned(), source };
        let bad = |reason: String| BaseError::Format { path: path.to_owned(), reason };
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let mut input = BufReader::new(file);
        let mut header = [0; 20];
        input.read_exact(&mut header).map_err(|_| bad("it is too short".into()))?;
        let (magic, numbers) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(bad("it begins with something else".into()));
        }
        let mut numbers = numbers.chunks_exact(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]]) as usize);
        let mut number = || numbers.next().unwrap_or(0);
        let (window, vocab, count) = (number(), number(), number());
        let rows = (count as u64).saturating_mul((window / 2).saturating_sub(1) as u64);
        let expected = rows.saturating_mul(row_bytes(vocab) as u64);
        let tokens = (window as u64).saturating_mul(count as u64);
        if tokens.saturating_mul(4).saturating_add(expected) > bytes {
            return Err(bad(format!(
                "{count} windows of {window} over {vocab} tokens do not fit in its {bytes} bytes"
            )));
        }
        let mut all = vec![0; tokens as usize * 4];
        input.read_exact(&mut all).map_err(io)?;
        let tokens: Vec<u32> = all.chunks_exact(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
        if let Some(token) = tokens.iter().find(|&&t| t as usize >= vocab) {
            return Err(bad(format!("token {token} is not in its vocabulary of {vocab}")));
        }
        let windows = Windows::new(tokens, window, None).map_err(|e: PerplexityError| bad(e.to_string()))?;
        Ok(BaseReader { path: path.to_owned(), input, windows, vocab, row: vec![0; row_bytes(vocab)] })
    }

    /// The text, without beginning-of-text tokens.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The text for a model whose windows begin with `bos`.
    pub fn windows_with(&self, bos: Option<u32>) -> Windows {
        Windows { bos, ..self.windows.clone() }
    }

    /// Tokens of the vocabulary.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// The log-probabilities of the next row.
    pub(super) fn row(&mut self, out: &mut Vec<f32>) -> Result<(), BaseError> {
        let path = &self.path;
        let fail = |source| BaseError::Io { doing: "read", path: path.clone(), source };
        self.input.read_exact(&mut self.row).map_err(fail)?;
        let float =
            |at: usize| f32::from_le_bytes([self.row[at], self.row[at + 1], self.row[at + 2], self.row[at + 3]]);
        let (scale, offset) = (float(0), float(4));
        if !(scale.is_finite() && scale >= 0.0 && offset.is_finite()) {
            let reason = format!("a row has scale {scale} and offset {offset}");
            return Err(BaseError::Format { path: self.path.clone(), reason });
        }
        let codes = self.row[8..].chunks_exact(2).take(self.vocab);
        out.clear();
        out.extend(codes.map(|c| offset + scale * f32::from(u16::from_le_bytes([c[0], c[1]]))));
        Ok(())
    }
}
