//! Text from outside, before a terminal, a log or a message repeats it: a file's metadata, a path, what a compiler or a
//! server says, what a model writes.
//!
//! Characters that move the cursor, change colours, end lines, turn the direction of writing or hide are spelled out, as
//! `\u{1b}`, and what is too long is cut and says how long it was. Nothing is copied that is plain already, and plain
//! text stays as it is. What text means is not looked at: letters that look alike stay.

use std::borrow::Cow;

/// Characters of a name at most. No name that means something to a reader is longer, and names are repeated in every
/// event of a stream.
pub const NAME: usize = 128;

/// Characters of what somebody else says (a compiler, a server, a template) at most: a long line of a compiler.
pub const QUOTE: usize = 1000;

/// Characters of a whole message at most: it may name two paths, and the longest that Linux takes has 4096 bytes.
pub const MESSAGE: usize = 8192;

/// The least that a text is cut to; its length has to be told in it.
const LEAST: usize = 40;

/// A text on one line, of at most `most` characters (40 at least), all of which can be seen.
pub fn line(text: &str, most: usize) -> Cow<'_, str> {
    made_plain(text, most, is_hidden)
}

/// A name as messages and events repeat it: [`line()`] of at most [`NAME`] characters.
pub fn name(text: &str) -> Cow<'_, str> {
    line(text, NAME)
}

/// A text of several lines with tabs, as people and models write it, of at most `most` characters (40 at least). What
/// scripts need between letters, and shows nothing by itself, stays.
pub fn lines(text: &str, most: usize) -> Cow<'_, str> {
    made_plain(text, most, is_unsafe)
}

/// Whether [`lines`] has nothing to spell out.
pub fn are_lines(text: &str) -> bool {
    !text.contains(is_unsafe)
}

/// A text of at most `most` characters (40 at least) whatever they are, for `{:?}`, which spells them out.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    made_plain(text, most, |_| false)
}

/// Whether a terminal does with a character anything but show it, on one line or the next, where it belongs.
fn is_unsafe(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_lines = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() && c != '\n' && c != '\t' || turns || ends_lines
}

/// Whether a character is unsafe, leaves the line, or cannot be seen, so that names that look alike differ in it. Joiners
/// (U+200C and U+200D) belong to the letters of some scripts and to emoji.
fn is_hidden(c: char) -> bool {
    let marks = matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{180e}');
    let nothing = matches!(c, '\u{ad}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let tags = matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() || is_unsafe(c) || marks || nothing || tags
}

fn made_plain(text: &str, most: usize, spelled: impl Fn(char) -> bool) -> Cow<'_, str> {
    let most = most.max(LEAST);
    if text.char_indices().nth(most).is_none() && !text.contains(&spelled) {
        return text.into();
    }
    let mark = format!("… ({} bytes)", text.len());
    let room = most - mark.chars().count();
    let mut out = String::new();
    // Characters so far, and the bytes of those that leave room for the mark.
    let (mut length, mut kept) = (0, 0);
    for c in text.chars() {
        let start = out.len();
        match spelled(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        length += out[start..].chars().count();
        if length > most {
            out.truncate(kept);
            return (out + &mark).into();
        }
        if length <= room {
            kept = out.len();
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (text, shown) in [
            ("", ""),
            ("Llama 3 «Инструкт» 指令 👩‍💻", "Llama 3 «Инструкт» 指令 👩‍💻"),
            ("\x1b[31mred\x1b[0m", r"\u{1b}[31mred\u{1b}[0m"),
            ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("\u{9b}31m \u{90} \u{85}", r"\u{9b}31m \u{90} \u{85}"),
            ("a\rb\x08c\x7f\0", r"a\rb\u{8}c\u{7f}\u{0}"),
            ("two\nlines\tand", r"two\nlines\tand"),
            ("gpj.\u{202e}txt\u{2066}\u{2069}", r"gpj.\u{202e}txt\u{2066}\u{2069}"),
            ("a\u{2028}b\u{2029}", r"a\u{2028}b\u{2029}"),
            ("a\u{200b}b\u{feff}\u{200f}\u{ad}\u{e0041}", r"a\u{200b}b\u{feff}\u{200f}\u{ad}\u{e0041}"),
            (r"\u{1b}", r"\u{1b}"),
        ] {
            assert_eq!(line(text, 1000), shown, "{text:?}");
        }
        assert_eq!(lines("a\n\tb\u{200b}c\rd\u{202e}", 1000), "a\n\tb\u{200b}c\\rd\\u{202e}");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let fits = "é".repeat(NAME);
        assert_eq!(name(&fits), fits);
        let long = name(&"é".repeat(NAME + 1)).into_owned();
        assert_eq!(long.chars().count(), NAME);
        assert!(long.starts_with("éé") && long.ends_with("é… (258 bytes)"), "{long}");
        assert_eq!(cut("ab\x1b", 1), "ab\x1b");
        assert!(cut(&"\x1b".repeat(41), 1).ends_with("\x1b… (41 bytes)"));
        // No spelled character is cut in two.
        let spelled = line(&"\x1b".repeat(1 << 20), 60).into_owned();
        assert_eq!(spelled, r"\u{1b}".repeat(7) + "… (1048576 bytes)");
    }

    fn hostile() -> impl Strategy<Value = String> {
        let chars = prop_oneof![
            any::<char>(),
            (0u32..0xa0).prop_map(|c| char::from_u32(c).unwrap()),
            (0x2000u32..0x2070).prop_map(|c| char::from_u32(c).unwrap()),
        ];
        proptest::collection::vec(chars, 0..200).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn plain_text_is_short_and_stays_as_it_is(text in hostile(), most in 0usize..250) {
            let most_shown = most.max(LEAST);
            let one = line(&text, most).into_owned();
            prop_assert!(!one.contains(is_hidden) && !one.contains(char::is_control));
            let several = lines(&text, most).into_owned();
            prop_assert!(are_lines(&several));
            prop_assert!(!several.contains(|c: char| is_unsafe(c) || c.is_control() && c != '\n' && c != '\t'));
            for (shown, again) in [(&one, line(&one, most)), (&several, lines(&several, most))] {
                prop_assert!(shown.chars().count() <= most_shown);
                prop_assert!(matches!(again, Cow::Borrowed(same) if same == shown));
            }
            if text.chars().count() <= most_shown && !text.contains(is_hidden) {
                prop_assert_eq!(&one, &text);
            }
        }
    }
}
