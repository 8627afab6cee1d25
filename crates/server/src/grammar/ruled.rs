//! One text under a grammar, as the engine sees it. A grammar rules what the model says, not what it thinks: after a
//! prompt that opens the thinking tag, everything goes until that tag is closed.

use super::matcher::Matcher;
#[cfg(unix)]
use super::process::TextProcess;
use super::vocabulary::Vocabulary;
use model::scheduler::Constraint;
use std::sync::Arc;

const CLOSE: &[u8] = b"</think>";

/// Who knows which tokens may come.
pub enum Text {
    /// This process.
    Here(Box<Matcher>),
    /// A process of its own.
    #[cfg(unix)]
    Process(TextProcess),
}

impl Text {
    fn mask(&mut self) -> Result<Vec<u32>, String> {
        match self {
            Text::Here(matcher) => matcher.mask(),
            #[cfg(unix)]
            Text::Process(process) => process.mask(),
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        match self {
            Text::Here(matcher) => matcher.accept(token),
            #[cfg(unix)]
            Text::Process(process) => process.accept(token),
        }
    }
}

/// One text under a grammar.
pub struct Ruled {
    text: Text,
    vocabulary: Arc<Vocabulary>,
    /// The end of what the model thinks, as long as it does.
    thought: Option<Vec<u8>>,
}

impl Ruled {
    /// From its beginning.
    pub fn new(text: Text, vocabulary: Arc<Vocabulary>, after_thought: bool) -> Ruled {
        Ruled { text, vocabulary, thought: after_thought.then(Vec::new) }
    }
}

impl Constraint for Ruled {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String> {
        let Vocabulary { pieces, ends, eos, .. } = &*self.vocabulary;
        if self.thought.is_some() {
            // Whoever ends here never says anything.
            ends.iter().for_each(|&id| logits[id as usize] = f32::NEG_INFINITY);
            return Ok(());
        }
        let mask = self.text.mask()?;
        let allows = |id: usize| mask.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let kept: Vec<(u32, f32)> = match allows(*eos as usize) {
            true => ends.iter().map(|&id| (id, logits[id as usize])).collect(),
            false => vec![],
        };
        for (id, logit) in logits.iter_mut().enumerate() {
            if id >= pieces.len() || !allows(id) {
                *logit = f32::NEG_INFINITY;
            }
        }
        kept.into_iter().for_each(|(id, logit)| logits[id as usize] = logit);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        let Some(thought) = &mut self.thought else { return self.text.accept(token) };
        thought.extend_from_slice(self.vocabulary.pieces.get(token as usize).map_or(&[][..], |piece| piece));
        let over = thought.windows(CLOSE.len()).any(|window| window == CLOSE);
        let beginning = thought.len().saturating_sub(CLOSE.len());
        thought.drain(..beginning);
        if over {
            self.thought = None;
        }
        Ok(())
    }
}
