//! Text to stdout as it comes, thoughts apart from answers.

use crate::output::{Stdout, Styled};
use crate::terminal::{self, DIM, NORMAL};
use text::chat::{ReasoningSplitter, Split};
use text::sampler::StopStrings;

/// Prints an answer, and keeps it.
pub struct Printer<W = Stdout> {
    out: W,
    /// Whether thoughts may be dimmed.
    styled: bool,
    /// Whether thoughts are printed; if not, their tokens are counted on a terminal.
    pub shows_thoughts: bool,
    splitter: Option<ReasoningSplitter>,
    stops: StopStrings,
    /// The answer so far.
    pub content: String,
    /// The thoughts so far.
    pub reasoning: String,
    /// Pieces of thought that were not shown.
    folded: usize,
    dim: bool,
    /// Whether the last text ended its line.
    pub at_line_start: bool,
}

impl Printer {
    /// Prints text that ends with any of the stop strings, its thoughts split off by `splitter`.
    pub fn new(splitter: Option<ReasoningSplitter>, stops: &[String]) -> Printer {
        Printer::to(Stdout, terminal::is_styled(), splitter, stops)
    }
}

impl<W: Styled> Printer<W> {
    fn to(out: W, styled: bool, splitter: Option<ReasoningSplitter>, stops: &[String]) -> Printer<W> {
        Printer {
            out,
            styled,
            shows_thoughts: true,
            splitter,
            stops: StopStrings::new(stops),
            content: String::new(),
            reasoning: String::new(),
            folded: 0,
            dim: false,
            at_line_start: true,
        }
    }

    /// Prints a piece; `false` if a stop string ends the text.
    pub fn print(&mut self, piece: &str) -> anyhow::Result<bool> {
        let split = match &mut self.splitter {
            Some(splitter) => splitter.push(piece),
            None => Split { reasoning: String::new(), content: piece.to_owned() },
        };
        self.think(&split.reasoning)?;
        let (text, stopped) = self.stops.push(&split.content);
        let text = text.to_owned();
        self.say(&text)?;
        Ok(stopped.is_none())
    }

    /// Prints the last piece and what was held back.
    pub fn finish(&mut self, piece: &str) -> anyhow::Result<()> {
        if self.print(piece)? {
            let rest = self.splitter.as_mut().map(ReasoningSplitter::finish).unwrap_or_default();
            self.think(&rest.reasoning)?;
            let text = self.stops.push(&rest.content).0.to_owned() + self.stops.finish();
            self.say(&text)?;
        }
        if self.content.is_empty() {
            self.unfold();
        }
        self.brighten()
    }

    fn think(&mut self, text: &str) -> anyhow::Result<()> {
        self.reasoning.push_str(text);
        if text.is_empty() {
            return Ok(());
        }
        if !self.shows_thoughts {
            self.folded += 1;
            terminal::progress(&format!("thinking: {} tokens", self.folded));
            return Ok(());
        }
        if self.styled && !self.dim {
            self.out.style(DIM)?;
            self.dim = true;
        }
        self.write(text)
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.content.is_empty() && !self.reasoning.is_empty() {
            self.unfold();
            self.brighten()?;
            if self.shows_thoughts {
                self.write("\n\n")?;
            }
        }
        self.content.push_str(text);
        self.write(text)
    }

    /// Replaces the count of a thought by a line about it.
    fn unfold(&mut self) {
        if self.folded > 0 && terminal::is_watched() {
            terminal::faint(&format!("(thought for {} tokens)", self.folded));
        }
        self.folded = 0;
    }

    fn brighten(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.dim) {
            self.out.style(NORMAL)?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        if !text.is_empty() {
            self.at_line_start = text.ends_with('\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Styled for Vec<u8> {
        fn style(&mut self, sequence: &'static str) -> std::io::Result<()> {
            self.extend(sequence.bytes());
            Ok(())
        }
    }

    /// What is printed of these pieces, which begin inside a thought.
    fn printed(styled: bool, shows_thoughts: bool, pieces: &[&str]) -> String {
        let mut printer = Printer::to(vec![], styled, Some(ReasoningSplitter::new(true)), &[]);
        printer.shows_thoughts = shows_thoughts;
        for piece in pieces {
            assert!(printer.print(piece).unwrap());
        }
        printer.finish("").unwrap();
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn thoughts_are_dim_on_a_terminal_only() {
        let pieces = ["so ", "what", "</think>", "that"];
        assert_eq!(printed(true, true, &pieces), format!("{DIM}so what{NORMAL}\n\nthat"));
        assert_eq!(printed(false, true, &pieces), "so what\n\nthat");
        assert_eq!(printed(true, false, &pieces), "that");
        assert_eq!(printed(true, true, &pieces[..2]), format!("{DIM}so what{NORMAL}"), "no answer");
    }
}
