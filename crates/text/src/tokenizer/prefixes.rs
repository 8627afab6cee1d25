//! The tokens that a text begins with.

use super::vocab::{TokenKind, Vocab};

/// Tokens sorted by what they print.
pub(super) struct Prefixes {
    tokens: Vec<(Box<[u8]>, u32)>,
}

impl Prefixes {
    /// Of the ordinary tokens of a vocabulary: those that steer the model are no text. Of two that print the same the
    /// later one counts, as in the program that made such files popular.
    pub(super) fn new(vocab: &Vocab) -> Prefixes {
        let is_text = |id: &u32| matches!(vocab.kind(*id), Some(TokenKind::Normal | TokenKind::UserDefined));
        let ids = (0..vocab.len() as u32).filter(is_text).filter(|&id| !vocab.steers(id));
        let printed = ids.filter_map(|id| Some((vocab.printed(id)?, id))).filter(|(text, _)| !text.is_empty());
        let mut tokens: Vec<(Box<[u8]>, u32)> = printed.map(|(text, id)| (text.into(), id)).collect();
        tokens.sort_by(|a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
        tokens.dedup_by(|later, earlier| later.0 == earlier.0);
        Prefixes { tokens }
    }

    /// Every token that `text` begins with and how long it is, the shortest first.
    pub(super) fn each(&self, text: &[u8], mut sink: impl FnMut(usize, u32)) {
        let mut tokens = &self.tokens[..];
        for (depth, &byte) in text.iter().enumerate() {
            // All of `tokens` share text[..depth]; one that ends here sorts first.
            let key = |token: &(Box<[u8]>, u32)| token.0.get(depth).copied();
            let low = tokens.partition_point(|token| key(token) < Some(byte));
            let high = tokens.partition_point(|token| key(token) <= Some(byte));
            tokens = &tokens[low..high];
            match tokens.first() {
                None => break,
                Some((text, id)) if text.len() == depth + 1 => sink(depth + 1, *id),
                Some(_) => {}
            }
        }
    }
}
