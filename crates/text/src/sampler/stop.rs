//! Strings that end a generation, found in text that arrives in pieces.
//!
//! Text that may be the beginning of a stop string is held back until it is known. The first
//! occurrence to be complete counts, whatever the pieces; of several complete at the same place the
//! longest. Each string is matched by the automaton of Knuth, Morris and Pratt, so a byte costs
//! constant time and nothing is searched twice.

/// Looks for one string in a stream of bytes.
#[derive(Debug, Clone)]
struct Needle {
    text: Box<[u8]>,
    /// For each prefix, the length of its longest proper prefix that is also its suffix.
    borders: Box<[usize]>,
    /// How much of `text` the stream ends with; short of all of it.
    matched: usize,
}

impl Needle {
    fn new(text: &str) -> Needle {
        let text = text.as_bytes();
        let mut borders = vec![0; text.len()];
        let mut border = 0;
        for end in 1..text.len() {
            while border > 0 && text[border] != text[end] {
                border = borders[border - 1];
            }
            border += usize::from(text[border] == text[end]);
            borders[end] = border;
        }
        Needle { text: text.into(), borders: borders.into(), matched: 0 }
    }

    /// Takes the next byte; `true` if it completes the string.
    fn push(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(self.text[self.matched] == byte);
        let complete = self.matched == self.text.len();
        if complete {
            self.matched = 0;
        }
        complete
    }
}

/// Holds back what may become a stop string and ends the text before one.
///
/// ```
/// use text::sampler::StopStrings;
///
/// let mut stops = StopStrings::new(["\nUser:"]);
/// assert_eq!(stops.push("Hello\nUs"), ("Hello", None));
/// let (text, stopped) = stops.push("er: ignored");
/// assert_eq!((text, stopped.unwrap().string), ("", 0));
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    /// With the place of each in the list it came from.
    needles: Vec<(usize, Needle)>,
    /// Text not handed out yet: between calls, the longest beginning of a stop string.
    held: String,
    /// How much of `held` has been handed out and is dropped at the next call.
    given: usize,
    stopped: bool,
}

/// A stop string was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Its place in the list.
    pub string: usize,
    /// How many bytes of the last piece lie after it.
    pub rest: usize,
}

impl StopStrings {
    /// Stops at any of `strings`. Empty strings stop nothing.
    pub fn new<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> StopStrings {
        let strings = strings.into_iter().enumerate();
        let needles = strings
            .filter(|(_, string)| !string.as_ref().is_empty())
            .map(|(place, string)| (place, Needle::new(string.as_ref())));
        StopStrings { needles: needles.collect(), ..StopStrings::default() }
    }

    /// Takes the next piece of text. Returns the text that is certain to come before any stop
    /// string, and the stop string if one was completed; from then on all text is ignored.
    pub fn push(&mut self, piece: &str) -> (&str, Option<Stopped>) {
        self.held.drain(..self.given);
        self.given = 0;
        if self.stopped {
            return ("", None);
        }
        for (at, &byte) in piece.as_bytes().iter().enumerate() {
            let mut found: Option<(usize, usize)> = None;
            for (place, needle) in &mut self.needles {
                if needle.push(byte) && found.is_none_or(|(_, len)| needle.text.len() > len) {
                    found = Some((*place, needle.text.len()));
                }
            }
            if let Some((string, len)) = found {
                self.held.push_str(&piece[..at + 1]);
                self.held.truncate(self.held.len() - len);
                self.given = self.held.len();
                self.stopped = true;
                let rest = piece.len() - at - 1;
                return (&self.held, Some(Stopped { string, rest }));
            }
        }
        self.held.push_str(piece);
        let matched = self.needles.iter().map(|(_, needle)| needle.matched);
        self.given = self.held.len() - matched.max().unwrap_or(0);
        (&self.held[..self.given], None)
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> &str {
        self.held.drain(..self.given);
        self.given = self.held.len();
        self.stopped = true;
        &self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut stops = StopStrings::new(stops);
        let mut out = String::new();
        for piece in pieces {
            let (text, stopped) = stops.push(piece);
            out += text;
            if let Some(stopped) = stopped {
                assert_eq!(stops.push("more"), ("", None));
                assert_eq!(stops.finish(), "");
                return (out, Some(stopped.string));
            }
        }
        (out + stops.finish(), None)
    }

    #[test]
    fn the_text_before_the_stop_string_and_nothing_else() {
        assert_eq!(run(&["END"], &["abcEN", "Dxyz"]), ("abc".into(), Some(0)));
        assert_eq!(run(&["END"], &["abcEN"]), ("abcEN".into(), None));
        assert_eq!(run(&["END"], &["EENEND"]), ("EEN".into(), Some(0)));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".into(), Some(0)));
        assert_eq!(run(&[], &["a", "b"]), ("ab".into(), None));
        assert_eq!(run(&["", "b"], &["ab"]), ("a".into(), Some(1)));
        assert_eq!(run(&["日本", "é"], &["今日", "本"]), ("今".into(), Some(0)));
    }

    #[test]
    fn the_first_to_be_complete_counts_and_of_those_the_longest() {
        assert_eq!(run(&["abc", "b"], &["abc"]), ("a".into(), Some(1)));
        assert_eq!(run(&["c", "abc"], &["xabc"]), ("x".into(), Some(1)));
    }

    #[test]
    fn what_follows_the_stop_string_is_known() {
        let mut stops = StopStrings::new(["|"]);
        let (_, stopped) = stops.push("a|bc");
        assert_eq!(stopped, Some(Stopped { string: 0, rest: 2 }));
    }

    #[test]
    fn only_what_may_be_a_stop_string_is_held() {
        let mut stops = StopStrings::new(["</think>", "\n\nUser"]);
        assert_eq!(stops.push("a < b\n"), ("a < b", None));
        assert_eq!(stops.push("c</th"), ("\nc", None));
        assert_eq!(stops.push("e"), ("</the", None));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            text in "[aбc]{0,30}",
            strings in prop::collection::vec("[aбc]{0,4}", 0..4),
            cuts in prop::collection::vec(1usize..5, 40),
        ) {
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let characters: Vec<char> = text.chars().collect();
            let (mut pieces, mut at) = (vec![], 0);
            for cut in cuts {
                let end = (at + cut).min(characters.len());
                pieces.push(String::from_iter(&characters[at..end]));
                at = end;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            // The end of the first occurrence to be complete, then its longest string.
            let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
            let mut found = None;
            for end in ends {
                let here = strings.iter().enumerate()
                    .filter(|(_, s)| !s.is_empty() && text[..end].ends_with(**s))
                    .max_by_key(|(place, s)| (s.len(), std::cmp::Reverse(*place)));
                if let Some((place, string)) = here {
                    found = Some((text[..end - string.len()].to_owned(), Some(place)));
                    break;
                }
            }
            prop_assert_eq!(run(&strings, &pieces), found.unwrap_or((text, None)));
        }
    }
}
