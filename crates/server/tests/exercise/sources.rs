//! Grammars and schemas out of any bytes: what nests, what chains, what repeats, and patterns, each as large as the bytes
//! say.

use serde_json::{Map, Value, json};

/// Reads choices from bytes; at their end all are 0.
struct Choices<'a> {
    bytes: &'a [u8],
    /// How large numbers may be.
    scale: usize,
}

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.byte() % all.len()]
    }

    /// A number that is more often small.
    fn count(&mut self) -> usize {
        let number = self.byte() << 8 | self.byte();
        (number >> self.of(&[0, 4, 8, 10])).min(self.scale)
    }
}

/// A GBNF grammar; `scale` bounds its numbers of parts.
pub fn gbnf(bytes: &[u8], scale: usize) -> String {
    let mut c = Choices { bytes, scale };
    let repeats = ["*", "+", "?", "{2}", "{0,3}", "{1,}", "{0,1000}"];
    match c.byte() % 6 {
        0 => {
            let stack: String = (0..c.count()).map(|_| c.of(&repeats)).collect();
            format!("root ::= \"a\"{stack}")
        }
        1 => {
            let (depth, repeat) = (c.count(), c.of(&repeats));
            format!("root ::= {}\"a\"{}", "(".repeat(depth), format!("){repeat}").repeat(depth))
        }
        2 => {
            let (count, shape) = (c.count() / 16, c.byte() % 4);
            let rule = |at: usize| match shape {
                0 => format!("r{at} ::= \"a\" r{}\n", at + 1),
                1 => format!("r{at} ::= r{0} r{0}\n", at + 1),
                2 => format!("r{at} ::= r{} | [a-z] r{}?\n", at + 1, at + 1),
                _ => format!("r{at} ::= (r{} \",\")* \"{at}\"\n", at + 1),
            };
            let last = c.of(&["\"z\"", "[^z]", "r0", "\"\"", "root | \"b\""]);
            format!("root ::= r0\n{}r{count} ::= {last}\n", (0..count).map(rule).collect::<String>())
        }
        3 => {
            let words: Vec<String> = (0..c.count() / 4).map(|at| format!("\"{at}\"{}", c.of(&repeats))).collect();
            format!("root ::= x (\",\" x)*\nx ::= \"x\" | {}", words.join(c.of(&[" | ", " "])))
        }
        4 => {
            let class: String = (0..c.count() / 4).filter_map(|at| char::from_u32(0x100 + at as u32)).collect();
            format!("root ::= [{}x{class}]{}", c.of(&["", "^"]), c.of(&repeats))
        }
        _ => format!("root ::= {}", expression(&mut c, 12)),
    }
}

fn expression(c: &mut Choices<'_>, depth: usize) -> String {
    let kind = if depth == 0 { 0 } else { c.byte() % 6 };
    match kind {
        0 => c.of(&["\"a\"", "[a-c]", ".", "root", "\"%json {}\"", "[^\\n/]", "\"\\u00e9\\\"/\""]).into(),
        1 | 2 => format!("{} {}", expression(c, depth - 1), expression(c, depth - 1)),
        3 => format!("({} | {})", expression(c, depth - 1), expression(c, depth - 1)),
        _ => format!("({}){}", expression(c, depth - 1), c.of(&["*", "+", "?", "{2}", "{0,3}", "{1,100}"])),
    }
}

/// A JSON schema; `scale` bounds its numbers of parts.
pub fn schema(bytes: &[u8], scale: usize) -> Value {
    let mut c = Choices { bytes, scale };
    let count = c.count() / 4;
    let names = |count: usize| (0..count).map(|at| format!("k{at}"));
    match c.byte() % 10 {
        0 => {
            let shape = c.byte();
            let link = |at: usize| wrapped(shape, json!({ "$ref": format!("#/$defs/d{}", at + 1) }));
            let mut all: Map<String, Value> = (0..count).map(|at| (format!("d{at}"), link(at))).collect();
            let back = json!({ "$ref": "#/$defs/d0" });
            let last = if c.byte().is_multiple_of(2) { back } else { json!({ "type": "integer" }) };
            all.insert(format!("d{count}"), last);
            json!({ "$ref": "#/$defs/d0", "$defs": all })
        }
        1 => (0..count.min(110)).fold(leaf(&mut c), |within, _| wrapped(c.byte(), within)),
        2 => json!({ "type": "object", "required": names(count).collect::<Vec<_>>() }),
        3 => {
            let properties: Map<String, Value> = names(count).map(|name| (name, leaf(&mut c))).collect();
            let required: Vec<String> = names(count).filter(|_| c.byte().is_multiple_of(2)).collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
        4 => json!({ "enum": names(count).collect::<Vec<_>>() }),
        5 => json!({ "allOf": (0..count % 20).map(|_| json!({ "pattern": pattern(&mut c, 6) })).collect::<Vec<_>>() }),
        6 => {
            let all = (0..count % 20).map(|_| (pattern(&mut c, 5), leaf(&mut c)));
            json!({ "type": "object", "patternProperties": all.collect::<Map<_, _>>() })
        }
        7 => json!({ "anyOf": (0..count % 50).map(|_| leaf(&mut c)).collect::<Vec<_>>() }),
        8 => json!({ "type": "array", "items": leaf(&mut c), "minItems": c.count(), "maxItems": c.count() * 1000 }),
        _ => leaf(&mut c),
    }
}

fn wrapped(shape: usize, within: Value) -> Value {
    match shape % 6 {
        0 => within,
        1 => json!({ "type": "object", "properties": { "a": within }, "required": ["a"] }),
        2 => json!({ "type": "array", "items": within, "minItems": 1 }),
        3 => json!({ "anyOf": [within, { "type": "null" }] }),
        4 => json!({ "allOf": [within] }),
        _ => json!({ "type": "object", "additionalProperties": within, "minProperties": 1 }),
    }
}

fn leaf(c: &mut Choices<'_>) -> Value {
    let numbers = [json!(1_000_000_007), json!(0.1), json!(1e-9), json!(3), json!(7e300), json!(999_983), json!(-1)];
    match c.byte() % 8 {
        0 => json!({ "type": "string", "pattern": pattern(c, 8) }),
        1 => json!({ "type": c.of(&["integer", "number"]), "multipleOf": numbers[c.byte() % numbers.len()] }),
        2 => json!({ "type": "string", "minLength": c.count() * 1000, "maxLength": c.count() * 100_000 }),
        3 => json!({ "type": "string", "format": c.of(&["date-time", "uuid", "ipv6", "email", "uri", "hostname"]) }),
        4 => json!({ "type": ["integer", "null"], "minimum": -(c.count() as i64) << 40, "maximum": c.count() << 40 }),
        5 => {
            json!({ "x-guidance": { "whitespace_pattern": pattern(c, 4) }, "type": "object", "properties": { "a": {} } })
        }
        6 => json!({ "$ref": c.of(&["#", "#/$defs/d0", "http://example.com/x", "#/%"]) }),
        _ => json!({ "const": "x".repeat(c.count()) }),
    }
}

/// A regular expression.
fn pattern(c: &mut Choices<'_>, depth: usize) -> String {
    let kind = if depth == 0 { 0 } else { c.byte() % 7 };
    match kind {
        0 => c.of(&["a", "[a-z]", ".", "\\d", "\\w", "^", "$", "(?=a)", "\\b", "é"]).into(),
        1 => format!("{}{}", pattern(c, depth - 1), pattern(c, depth - 1)),
        2 => format!("({}|{})", pattern(c, depth - 1), pattern(c, depth - 1)),
        3 => format!("({}){{{},{}}}", pattern(c, depth - 1), c.byte() % 3, 3 + c.count()),
        4 => format!(".*{}.{{{}}}", pattern(c, depth - 1), c.count() % 64),
        5 => (0..c.count() % 30).map(|at| format!("{}?", char::from(b'a' + at as u8 % 26))).collect(),
        _ => format!("({}){}", pattern(c, depth - 1), c.of(&["*", "+", "?", "*?", "{1,100}"])),
    }
}
