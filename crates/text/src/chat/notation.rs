//! Arguments in notations that are not JSON: braces with marked strings (Gemma), and calls as Python writes them (LFM2, OLMo 3,
//! MiniCPM).

use super::delta::ToolCall;
use serde_json::{Map, Value as Json};

/// Values nest no deeper.
const DEEPEST: usize = 64;

/// `call:NAME{key:value,…}`, in which a string stands between two of `mark`.
pub(super) fn braces(text: &str, mark: &str) -> Option<ToolCall> {
    let body = text.trim().strip_prefix("call:")?;
    let (name, rest) = body.split_at(body.find('{')?);
    let mut reader = Reader { rest, mark: Some(mark) };
    let Json::Object(arguments) = reader.value(DEEPEST)? else { return None };
    reader.over().then(|| ToolCall { name: name.trim().to_owned(), arguments: Json::Object(arguments).to_string() })
}

/// What calls of Python may begin with.
pub(super) fn begins_python(text: &str) -> bool {
    text.starts_with(|c: char| c == '[' || c == '`' || c == '_' || c.is_alphabetic())
}

/// `[NAME(key=value, …), …]`, or calls on lines of their own, which may stand in a fence.
pub(super) fn python(text: &str) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    let text = match text.strip_prefix("```") {
        Some(fenced) => fenced.strip_suffix("```")?.trim_start_matches("python").trim(),
        None => text,
    };
    let list = text.strip_prefix('[');
    let mut reader = Reader { rest: list.unwrap_or(text), mark: None };
    let mut calls = vec![];
    loop {
        let (name, rest) = reader.rest.split_once('(')?;
        let name = name.trim().to_owned();
        reader.rest = rest;
        let mut arguments = Map::new();
        while !reader.takes(")") {
            let (key, rest) = reader.rest.split_once('=')?;
            reader.rest = rest;
            arguments.insert(key.trim().to_owned(), reader.value(DEEPEST)?);
            if !reader.takes(",") && !reader.rest.trim_start().starts_with(')') {
                return None;
            }
        }
        calls.push(ToolCall { name, arguments: Json::Object(arguments).to_string() });
        let goes_on = if list.is_some() { reader.takes(",") } else { reader.rest.starts_with('\n') };
        if !goes_on {
            return ((list.is_none() || reader.takes("]")) && reader.over()).then_some(calls);
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// What a string stands between; quotes if nothing.
    mark: Option<&'t str>,
}

impl Reader<'_> {
    fn over(&self) -> bool {
        self.rest.trim().is_empty()
    }

    fn takes(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, deepest: usize) -> Option<Json> {
        let deepest = deepest.checked_sub(1)?;
        if self.takes("{") {
            let mut object = Map::new();
            while !self.takes("}") {
                let key = self.key()?;
                object.insert(key, self.value(deepest)?);
                self.comma("}")?;
            }
            return Some(Json::Object(object));
        }
        if self.takes("[") {
            let mut list = vec![];
            while !self.takes("]") {
                list.push(self.value(deepest)?);
                self.comma("]")?;
            }
            return Some(Json::Array(list));
        }
        if let Some(text) = self.string() {
            return Some(Json::String(text));
        }
        let rest = self.rest.trim_start();
        let end = rest.find([',', '}', ']', ')']).unwrap_or(rest.len());
        let word = rest[..end].trim();
        self.rest = &rest[end..];
        match word {
            "True" => Some(Json::Bool(true)),
            "False" => Some(Json::Bool(false)),
            "None" => Some(Json::Null),
            word => serde_json::from_str(word).ok(),
        }
    }

    fn key(&mut self) -> Option<String> {
        if let Some(key) = self.string() {
            return self.takes(":").then_some(key);
        }
        let (key, rest) = self.rest.split_once(':')?;
        self.rest = rest;
        Some(key.trim().to_owned())
    }

    /// A comma, or what comes after the last item.
    fn comma(&mut self, close: &str) -> Option<()> {
        (self.takes(",") || self.rest.trim_start().starts_with(close)).then_some(())
    }

    fn string(&mut self) -> Option<String> {
        if let Some(mark) = self.mark {
            let (text, rest) = self.rest.trim_start().strip_prefix(mark)?.split_once(mark)?;
            self.rest = rest;
            return Some(text.to_owned());
        }
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let mut text = String::new();
        let mut letters = rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => text.push(match letters.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                }),
                letter if letter == quote => {
                    self.rest = &rest[at + 1..];
                    return Some(text);
                }
                letter => text.push(letter),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(call: &ToolCall) -> (&str, Json) {
        (&call.name, serde_json::from_str(&call.arguments).unwrap())
    }

    #[test]
    fn braces_with_marked_strings() {
        let call = braces("call:f{a:<|\"|>x, }<|\"|>,b:[1,true,null],c:{d:1.5}}", "<|\"|>").unwrap();
        assert_eq!(read(&call), ("f", json!({ "a": "x, }", "b": [1, true, null], "c": { "d": 1.5 } })));
        assert_eq!(braces("call:now{}", "<|\"|>").unwrap().arguments, "{}");
        for wrong in
            ["f{}", "call:f", "call:f{", "call:f{a}", "call:f{a:<|\"|>x}", "call:f{} x", "call:f{a:1 b:2}", "call:f[1]"]
        {
            assert_eq!(braces(wrong, "<|\"|>"), None, "{wrong}");
        }
    }

    #[test]
    fn calls_of_python() {
        let calls = python("[f(a=\"x)\\n\", b=[1, 'y'], c={\"d\": None}), now()]").unwrap();
        assert_eq!(read(&calls[0]), ("f", json!({ "a": "x)\n", "b": [1, "y"], "c": { "d": null } })));
        assert_eq!(read(&calls[1]), ("now", json!({})));
        let calls = python("f(a=true, b=null)\nnow()\n").unwrap();
        assert_eq!(read(&calls[0]), ("f", json!({ "a": true, "b": null })));
        assert_eq!(read(&calls[1]), ("now", json!({})));
        assert_eq!(python("```python\nf(a='x')\nnow()\n```").unwrap().len(), 2);
        for wrong in [
            "f() g()",
            "f(",
            "f",
            "```python\nf()",
            "f()\ng",
            "",
            "[f(]",
            "[f(a)]",
            "[f(a=)]",
            "[f(a=1 b=2)]",
            "[f()",
            "[f() g()]",
            "[f(a=\"x)]",
            "[]",
        ] {
            assert_eq!(python(wrong), None, "{wrong}");
        }
        let deep = format!("[f(a={})]", "[".repeat(100_000));
        assert_eq!(python(&deep), None);
    }
}
