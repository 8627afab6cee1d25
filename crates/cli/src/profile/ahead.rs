//! How many steps a device has before the token of one is known, and why there are none.

use std::fmt;
use text::sampler::SamplerConfig;

/// Steps that are sent before the token that the host waits for is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// So many: the device chooses the tokens.
    Steps(usize),
    /// None, for this reason.
    None(&'static str),
}

impl Ahead {
    /// Of steps of so many tokens, on a device that takes so many more, which may be a card.
    pub fn of(tokens: usize, sampling: &SamplerConfig, most: usize, card: bool) -> Ahead {
        match (most, sampling.needs_all_logits()) {
            _ if tokens > 1 => Ahead::None("the tokens of a prompt are all known"),
            (0, _) if card => Ahead::None("--ahead is 0"),
            (0, _) => Ahead::None("a step of this device is over before the host goes on"),
            (_, Some(reason)) => Ahead::None(reason),
            (most, None) => Ahead::Steps(most),
        }
    }

    /// How many there are.
    pub fn steps(self) -> usize {
        match self {
            Ahead::Steps(steps) => steps,
            Ahead::None(_) => 0,
        }
    }

    /// Why there are none.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Ahead::Steps(_) => None,
            Ahead::None(reason) => Some(reason),
        }
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ahead::Steps(steps) => write!(
                f,
                "steps ahead: {steps}, as the device chooses the token; none with a grammar, a penalty, log-probabilities, \
                 a logit_bias of more than 8 tokens or a top-k of 0 or above 64"
            ),
            Ahead::None(reason) => write!(f, "steps ahead: none ({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_steps_from_being_sent_is_said() {
        let greedy = SamplerConfig::greedy();
        let ahead = Ahead::of(1, &greedy, 2, true);
        assert_eq!((ahead.steps(), ahead.reason()), (2, None));
        assert!(ahead.to_string().starts_with("steps ahead: 2, "));
        let penalised = SamplerConfig { presence_penalty: 1.0, ..greedy.clone() };
        for (ahead, why) in [
            (Ahead::of(1, &penalised, 2, true), "a penalty"),
            (Ahead::of(1, &SamplerConfig::default(), 2, true), "top-k"),
            (Ahead::of(1, &greedy, 0, true), "--ahead is 0"),
            (Ahead::of(1, &greedy, 0, false), "this device"),
            (Ahead::of(9, &greedy, 2, true), "prompt"),
        ] {
            let text = ahead.to_string();
            assert!(text.starts_with("steps ahead: none (") && text.contains(why), "{text}");
            assert_eq!((ahead.steps(), ahead.reason().is_some()), (0, true));
        }
    }
}
