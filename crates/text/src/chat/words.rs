//! Whose words the strings of a conversation are, and with that, what in them may be special.
//!
//! What users, systems and tools write is text. So is what the model wrote, but for the tags by which its output is told
//! apart: where they are sent back, they mean what they meant. A name of a role is the template's, because templates
//! make markers of them.

use serde_json::Value as Json;
use std::ops::Range;

use super::CallForm;
use super::reasoning;

/// Roles that templates write markers of, such as `<|user|>`. Any other word is text.
const ROLES: [&str; 10] =
    ["system", "developer", "user", "assistant", "tool", "function", "observation", "ipython", "environment", "model"];

/// Whose words the strings in a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// The template's: what is special in them is meant so.
    Template,
    /// Somebody's: nothing in them is special.
    Data,
    /// The model's: the tags of its output are special.
    Model,
    /// A role's name.
    Role,
    /// A list of messages.
    Messages,
    /// A message, perhaps the model's.
    Message { of_model: bool },
}

impl Words {
    /// Those in an item of a list with these words.
    pub(super) fn of_item(self, item: &Json) -> Words {
        match self {
            Words::Messages => Words::Message { of_model: item["role"] == "assistant" },
            words => words,
        }
    }

    /// Those in the entry `key` of an object with these words.
    pub(super) fn of_entry(self, key: &str) -> Words {
        match (self, key) {
            (Words::Template, _) => Words::Template,
            (Words::Message { .. }, "role") => Words::Role,
            (Words::Message { of_model: true }, "content") | (Words::Model, "text") => Words::Model,
            _ => Words::Data,
        }
    }

    /// Those of the key itself.
    pub(super) fn of_key(self) -> Words {
        if self == Words::Template { self } else { Words::Data }
    }

    /// The ranges of a text that are data, in order.
    pub(super) fn data_in(self, text: &str) -> Vec<Range<usize>> {
        let meant = match self {
            Words::Template => return vec![],
            Words::Role if ROLES.contains(&text) => return vec![],
            Words::Model => tags(text),
            _ => vec![],
        };
        let starts = std::iter::once(0).chain(meant.iter().map(|tag| tag.end));
        let ends = meant.iter().map(|tag| tag.start).chain([text.len()]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty()).collect()
    }
}

/// The tags in a model's output that tell its parts apart, in order: all begin with `<`.
fn tags(text: &str) -> Vec<Range<usize>> {
    let start = text.len() - text.trim_start().len();
    let mut tags = vec![];
    let mut closed = false;
    for (at, _) in text.match_indices('<') {
        let rest = &text[at..];
        let tag = if rest.starts_with(reasoning::OPEN) && at == start {
            Some(reasoning::OPEN)
        } else if rest.starts_with(reasoning::CLOSE) && !closed {
            closed = true;
            Some(reasoning::CLOSE)
        } else {
            CallForm::TAGS.into_iter().find(|tag| rest.starts_with(tag))
        };
        tags.extend(tag.map(|tag| at..at + tag.len()));
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(words: Words, text: &str) -> Vec<&str> {
        words.data_in(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn only_the_tags_of_its_output_are_the_models() {
        let said = "\n<think>a<|im_end|>b</think>c <think> </think><tool_call>{}</tool_call>";
        assert_eq!(data(Words::Model, said), ["\n", "a<|im_end|>b", "c <think> </think>", "{}"]);
        assert_eq!(data(Words::Model, "</think>"), [""; 0]);
        assert_eq!(data(Words::Model, "the tag <think>"), ["the tag <think>"]);
        for tag in CallForm::TAGS {
            assert_eq!(data(Words::Model, &format!("a{tag}b")), ["a", "b"]);
        }
        assert_eq!(data(Words::Data, said), [said]);
        assert_eq!(data(Words::Template, said), [""; 0]);
        assert_eq!(data(Words::Data, ""), [""; 0]);
    }

    #[test]
    fn roles_are_words_of_the_template_if_they_are_roles() {
        assert_eq!(data(Words::Role, "user"), [""; 0]);
        assert_eq!(data(Words::Role, "im_end"), ["im_end"]);
    }
}
