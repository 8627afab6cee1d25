//! GBNF, in which llama.cpp's clients write grammars, to the Lark dialect of `llguidance`.
//!
//! A rule that does not lead back to a recursive one becomes a terminal, a regular language that is matched as a whole;
//! the others stay rules, whose terminals are matched greedily. References to single tokens are refused by name.

use crate::grammar::budget::{GROUP_DEPTH, RULE_NAME_BYTES, RULES, STACKED_COUNTS};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What a rule is made of. Parts within parts are bounded where they are made, so that all else may recurse.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Text as it is.
    Text(String),
    /// One character of a class, as a regular expression.
    Class(String),
    /// Another rule.
    Rule(String),
    /// One of several sequences.
    Choice(Vec<Vec<Part>>),
    /// So many times; without an end, any number more.
    Repeat(Box<Part>, u32, Option<u32>),
}

/// The grammar in Lark.
///
/// # Errors
/// What cannot be read or translated, with its line.
pub fn to_lark(source: &str) -> Result<String, String> {
    let rules = Parser { rest: source, whole: source, depth: 0 }.rules()?;
    if !rules.contains_key("root") {
        return Err("there is no rule 'root'".into());
    }
    for (name, body) in &rules {
        for used in uses(body) {
            if !rules.contains_key(used) {
                return Err(format!("rule '{name}' uses '{used}', which is nowhere"));
            }
        }
    }
    let recursive = recursive(&rules);
    let spelled: BTreeMap<&str, String> = rules
        .keys()
        .enumerate()
        .map(|(at, name)| (name.as_str(), format!("{}{at}", if recursive.contains(name.as_str()) { "r" } else { "T" })))
        .collect();
    let mut out = format!("start: {}\n", spelled["root"]);
    for (name, body) in &rules {
        let _ = write!(out, "{}: ", spelled[name.as_str()]);
        print_choice(&mut out, body, &spelled);
        out.push('\n');
    }
    Ok(out)
}

fn uses(body: &[Vec<Part>]) -> Vec<&str> {
    fn of<'a>(part: &'a Part, out: &mut Vec<&'a str>) {
        match part {
            Part::Rule(name) => out.push(name),
            Part::Choice(all) => all.iter().flatten().for_each(|part| of(part, out)),
            Part::Repeat(part, ..) => of(part, out),
            Part::Text(_) | Part::Class(_) => {}
        }
    }
    let mut out = vec![];
    body.iter().flatten().for_each(|part| of(part, &mut out));
    out
}

/// Rules that lead back to themselves, and those that lead to such: what is left when rules are taken away all of whose
/// uses are away.
fn recursive(rules: &BTreeMap<String, Vec<Vec<Part>>>) -> BTreeSet<&str> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, body) in rules {
        let used: BTreeSet<&str> = uses(body).into_iter().collect();
        left.insert(name, used.len());
        used.into_iter().for_each(|used| users.entry(used).or_default().push(name));
    }
    let mut finite: Vec<&str> = left.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = finite.pop() {
        left.remove(name);
        for user in users.get(name).into_iter().flatten() {
            if let Some(count) = left.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    finite.push(user);
                }
            }
        }
    }
    left.into_keys().collect()
}

fn print_choice(out: &mut String, choice: &[Vec<Part>], spelled: &BTreeMap<&str, String>) {
    for (at, sequence) in choice.iter().enumerate() {
        if at > 0 {
            out.push_str(" | ");
        }
        if sequence.is_empty() {
            out.push_str("\"\"");
        }
        for (at, part) in sequence.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            print(out, part, spelled);
        }
    }
}

fn print(out: &mut String, part: &Part, spelled: &BTreeMap<&str, String>) {
    match part {
        Part::Text(text) => {
            let _ = write!(out, "{}", serde_json::Value::from(text.as_str()));
        }
        Part::Class(class) => {
            let _ = write!(out, "/{class}/");
        }
        Part::Rule(name) => out.push_str(&spelled[name.as_str()]),
        Part::Choice(all) => {
            out.push('(');
            print_choice(out, all, spelled);
            out.push(')');
        }
        Part::Repeat(part, least, most) => {
            out.push('(');
            print(out, part, spelled);
            let _ = match (least, most) {
                (0, None) => write!(out, ")*"),
                (1, None) => write!(out, ")+"),
                (0, Some(1)) => write!(out, ")?"),
                (least, None) => write!(out, "){{{least},}}"),
                (least, Some(most)) => write!(out, "){{{least},{most}}}"),
            };
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    whole: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, problem: impl std::fmt::Display) -> Result<T, String> {
        let line = self.whole[..self.whole.len() - self.rest.len()].matches('\n').count() + 1;
        Err(format!("line {line}: {problem}"))
    }

    /// Skips white space and comments; line ends too, where a rule may go on.
    fn skip(&mut self, lines: bool) {
        loop {
            let blank = |c: char| c == ' ' || c == '\t' || c == '\r' || lines && c == '\n';
            self.rest = self.rest.trim_start_matches(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.trim_start_matches(|c| c != '\n');
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).map(|rest| self.rest = rest).is_some()
    }

    fn name(&mut self) -> Option<String> {
        let end =
            self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// A name of which errors can speak.
    fn rule_name(&mut self) -> Result<Option<String>, String> {
        match self.name() {
            Some(name) if name.len() > RULE_NAME_BYTES => {
                self.wrong(format!("the name of a rule is longer than {RULE_NAME_BYTES} bytes"))
            }
            name => Ok(name),
        }
    }

    fn rules(mut self) -> Result<BTreeMap<String, Vec<Vec<Part>>>, String> {
        let mut rules = BTreeMap::new();
        loop {
            self.skip(true);
            if self.rest.is_empty() {
                return Ok(rules);
            }
            let Some(name) = self.rule_name()? else { return self.wrong("the name of a rule is missing") };
            self.skip(false);
            if !self.eat("::=") {
                return self.wrong(format!("'::=' is missing after '{name}'"));
            }
            self.skip(true);
            let body = self.choice(false)?;
            if rules.insert(name.clone(), body).is_some() {
                return self.wrong(format!("rule '{name}' is there twice"));
            }
            if rules.len() > RULES {
                return self.wrong(format!("more than {RULES} rules"));
            }
        }
    }

    fn choice(&mut self, nested: bool) -> Result<Vec<Vec<Part>>, String> {
        let mut all = vec![self.sequence(nested)?];
        while self.eat("|") {
            self.skip(true);
            all.push(self.sequence(nested)?);
        }
        Ok(all)
    }

    fn sequence(&mut self, nested: bool) -> Result<Vec<Part>, String> {
        let mut parts = vec![];
        loop {
            self.skip(nested);
            let part = match self.rest.chars().next() {
                None | Some('|' | ')' | '\n') => return Ok(parts),
                Some('"') => self.text()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.eat(".");
                    Part::Class("(?s:.)".into())
                }
                Some('(') => {
                    self.eat("(");
                    self.depth += 1;
                    if self.depth > GROUP_DEPTH {
                        return self.wrong(format!("groups are more than {GROUP_DEPTH} deep"));
                    }
                    self.skip(true);
                    let all = self.choice(true)?;
                    self.depth -= 1;
                    if !self.eat(")") {
                        return self.wrong("')' is missing");
                    }
                    Part::Choice(all)
                }
                Some('<' | '!') => return self.wrong("references to single tokens (<...>) are not supported"),
                Some(c) => match self.rule_name()? {
                    Some(name) => Part::Rule(name),
                    None => return self.wrong(format!("'{c}' is not expected here")),
                },
            };
            let part = self.repeated(part)?;
            parts.push(part);
        }
    }

    fn repeated(&mut self, mut part: Part) -> Result<Part, String> {
        let mut stacked = 0;
        loop {
            let (least, most) = if self.eat("*") {
                (0, None)
            } else if self.eat("+") {
                (1, None)
            } else if self.eat("?") {
                (0, Some(1))
            } else if self.eat("{") {
                let Some((inside, rest)) = self.rest.split_once('}') else { return self.wrong("'}' is missing") };
                let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
                let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n <= 100_000);
                let counts = match (number(least), most.trim().is_empty(), number(most)) {
                    (Some(least), true, _) => (least, None),
                    (Some(least), false, Some(most)) if least <= most => (least, Some(most)),
                    _ => {
                        let inside: String = inside.chars().take(40).collect();
                        return self.wrong(format!("'{{{inside}}}' is no number of times"));
                    }
                };
                self.rest = rest;
                counts
            } else {
                return Ok(part);
            };
            // Where no number of times is left out, two repeats are one: `a*?+` is `a*`.
            let is_plain = |least: u32, most: Option<u32>| least <= 1 && matches!(most, None | Some(1));
            part = match part {
                Part::Repeat(within, few, many) if is_plain(few, many) && is_plain(least, most) => {
                    Part::Repeat(within, few * least, many.and(most))
                }
                part => {
                    stacked += 1;
                    if stacked > STACKED_COUNTS {
                        return self.wrong(format!("more than {STACKED_COUNTS} counts behind one part"));
                    }
                    Part::Repeat(Box::new(part), least, most)
                }
            };
        }
    }

    fn text(&mut self) -> Result<Part, String> {
        self.eat("\"");
        let mut text = String::new();
        loop {
            match self.character()? {
                (Some('"'), false) => return Ok(Part::Text(text)),
                (Some(c), _) => text.push(c),
                (None, _) => return self.wrong("a string has no end"),
            }
        }
    }

    fn class(&mut self) -> Result<Part, String> {
        self.eat("[");
        let mut class = String::from(if self.eat("^") { "[^" } else { "[" });
        loop {
            match self.character()? {
                (Some(']'), false) => break,
                (Some('-'), false) if class.len() > 2 && !self.rest.starts_with(']') => class.push('-'),
                (Some(c), _) => {
                    let _ = write!(class, "\\u{{{:x}}}", u32::from(c));
                }
                (None, _) => return self.wrong("a class of characters has no end"),
            }
        }
        class.push(']');
        if class == "[]" || class == "[^]" {
            return self.wrong("a class of no characters");
        }
        Ok(Part::Class(class))
    }

    /// The next character, and whether it was escaped.
    fn character(&mut self) -> Result<(Option<char>, bool), String> {
        let mut characters = self.rest.chars();
        let first = characters.next();
        self.rest = characters.as_str();
        if first != Some('\\') {
            return Ok((first, false));
        }
        let Some(kind) = characters.next() else { return self.wrong("nothing after '\\'") };
        self.rest = characters.as_str();
        let digits = match kind {
            'n' => return Ok((Some('\n'), true)),
            't' => return Ok((Some('\t'), true)),
            'r' => return Ok((Some('\r'), true)),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => return Ok((Some(other), true)),
        };
        let code = self.rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        let Some(code) = code else { return self.wrong(format!("'\\{kind}' needs {digits} hexadecimal digits")) };
        self.rest = &self.rest[digits..];
        Ok((Some(code), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_rules_are_terminals_and_others_stay_rules() {
        let lark = to_lark(
            "root ::= item (\",\" item)*  # a list\nitem ::= [a-z0-9_\\]]+ | \"(\" root \")\"\nws ::= [ \\t]{2,3}",
        )
        .unwrap();
        assert_eq!(
            lark,
            "start: r1\n\
             r0: (/[\\u{61}-\\u{7a}\\u{30}-\\u{39}\\u{5f}\\u{5d}]/)+ | \"(\" r1 \")\"\n\
             r1: r0 ((\",\" r0))*\n\
             T2: (/[\\u{20}\\u{9}]/){2,3}\n"
        );
        let flat = to_lark("root ::= (\"yes\" |\n \"no\") end?\nend ::= \"\\n\" | [^a]\n").unwrap();
        assert_eq!(flat, "start: T1\nT0: \"\\n\" | /[^\\u{61}]/\nT1: (\"yes\" | \"no\") (T0)?\n");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (source, word) in [
            ("", "root"),
            ("root ::= x", "'x'"),
            ("root = \"a\"", "'::='"),
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2"),
            ("root ::= \"a", "no end"),
            ("root ::= [a", "no end"),
            ("root ::= []", "no characters"),
            ("root ::= (\"a\"", "')'"),
            ("root ::= \"a\"{3,1}", "{3,1}"),
            ("root ::= <think>", "single tokens"),
            ("root ::= \"\\x4\"", "2 hexadecimal"),
            ("root ::= %", "'%'"),
            ("root ::= \"a\" )", "name"),
            ("root ::= \"a\"{2}{2}{2}{2}{2}{2}{2}{2}{2}", "8 counts"),
            (&format!("{} ::= \"a\"", "x".repeat(300)), "200 bytes"),
        ] {
            let problem = to_lark(source).unwrap_err();
            assert!(problem.contains(word), "{source}: {problem}");
        }
        let deep = format!("root ::= {}", "(".repeat(100_000));
        assert!(to_lark(&deep).unwrap_err().contains("deep"));
    }

    #[test]
    fn repeats_behind_each_other_are_one() {
        let of =
            |repeats: &str| to_lark(&format!("root ::= \"a\"{repeats}")).unwrap().lines().nth(1).unwrap().to_owned();
        assert_eq!((of("*?+*"), of("++"), of("??"), of("+?")), (of("*"), of("+"), of("?"), of("*")));
        assert_eq!((of("{2,3}?"), of("?{2,3}")), ("T0: ((\"a\"){2,3})?".into(), "T0: ((\"a\")?){2,3}".into()));
        assert_eq!(of(&"*?+".repeat(100_000)), of("*"));
    }

    #[test]
    fn the_deepest_grammar_fits_into_a_small_stack() {
        let within = |part: String, _| format!("({part}){}", "{2,3}".repeat(STACKED_COUNTS));
        let body = (0..GROUP_DEPTH).fold("\"a\"".to_owned(), within);
        let translate = move || to_lark(&format!("root ::= {body}")).unwrap();
        let lark = std::thread::Builder::new().stack_size(1 << 20).spawn(translate).unwrap().join().unwrap();
        assert!(lark.matches("{2,3}").count() == GROUP_DEPTH * STACKED_COUNTS);
    }

    #[test]
    fn chains_of_rules_are_terminals_unless_they_come_back() {
        let chain = |last: &str| {
            let rules = (0..RULES - 2).map(|at| format!("r{at} ::= \"a\" r{}\n", at + 1)).collect::<String>();
            to_lark(&format!("root ::= r0\n{rules}r{} ::= {last}\n", RULES - 2)).unwrap()
        };
        let counts = |lark: &str| {
            lark.lines().skip(1).fold((0, 0), |(terminals, rules), line| match line.as_bytes() {
                [b'T', ..] => (terminals + 1, rules),
                _ => (terminals, rules + 1),
            })
        };
        assert_eq!((counts(&chain("\"z\"")), counts(&chain("r7"))), ((RULES, 0), (0, RULES)));
    }
}
