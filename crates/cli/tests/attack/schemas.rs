//! JSON schemas that are small to send and large to read, to compile or to drop, in every field that takes one.

use super::wire::{self, Response, request, send};
use super::{ANY, Case, REFUSED};
use std::fmt::Write;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

/// A request with a schema in one of its fields.
struct Field {
    name: &'static str,
    path: &'static str,
    before: &'static str,
    after: &'static str,
}

/// Every field of every API that takes a schema.
const FIELDS: [Field; 13] = [
    Field {
        name: "json_schema",
        path: "/completion",
        before: r#"{"prompt":"a","n_predict":4,"json_schema":"#,
        after: "}",
    },
    Field {
        name: "response_format of a chat",
        path: "/v1/chat/completions",
        before: r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":"#,
        after: "}}}",
    },
    Field {
        name: "json_object of a chat",
        path: "/chat/completions",
        before: r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"response_format":{"type":"json_object","schema":"#,
        after: "}}",
    },
    Field {
        name: "response_format of a completion",
        path: "/v1/completions",
        before: r#"{"prompt":"a","max_tokens":4,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":"#,
        after: "}}}",
    },
    Field {
        name: "format of Ollama's chat",
        path: "/api/chat",
        before: r#"{"messages":[{"role":"user","content":"a"}],"options":{"num_predict":4},"stream":false,"format":"#,
        after: "}",
    },
    Field {
        name: "text.format",
        path: "/v1/responses",
        before: r#"{"input":"a","max_output_tokens":4,"text":{"format":{"type":"json_schema","name":"x","schema":"#,
        after: "}}}",
    },
    Field {
        name: "parameters of a required tool of a chat",
        path: "/v1/chat/completions",
        before: r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":"#,
        after: "}}]}",
    },
    Field {
        name: "parameters of a tool of a chat",
        path: "/v1/chat/completions",
        before: r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"tools":[{"type":"function","function":{"name":"f","parameters":"#,
        after: "}}]}",
    },
    Field {
        name: "parameters of a required tool of responses",
        path: "/v1/responses",
        before: r#"{"input":"a","max_output_tokens":4,"tool_choice":"required","tools":[{"type":"function","name":"f","parameters":"#,
        after: "}]}",
    },
    Field {
        name: "input_schema of a required tool of messages",
        path: "/v1/messages",
        before: r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":"#,
        after: "}]}",
    },
    Field {
        name: "input_schema of counted tokens",
        path: "/v1/messages/count_tokens",
        before: r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":"#,
        after: "}]}",
    },
    Field {
        name: "parameters of a rendered tool",
        path: "/apply-template",
        before: r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":"#,
        after: "}}]}",
    },
    Field {
        name: "parameters of a counted tool",
        path: "/v1/chat/completions/input_tokens",
        before: r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":"#,
        after: "}}]}",
    },
];

fn ask(field: &Field, schema: &str) -> String {
    format!("{}{schema}{}", field.before, field.after)
}

/// A schema at `/completion`.
fn case(name: impl Into<String>, schema: impl Fn() -> String + 'static) -> Case {
    Case::post(format!("schema, {}", name.into()), FIELDS[0].path, ANY, move || ask(&FIELDS[0], &schema()))
}

/// Definitions of which each refers to the next in some way.
fn references(count: usize, link: impl Fn(&str) -> String) -> String {
    let mut definitions = String::new();
    for at in 0..count {
        let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", at + 1);
        let _ = write!(definitions, "\"d{at}\":{},", link(&next));
    }
    format!(
        r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{definitions}"d{count}":{{"type":"string"}}}}}}"##
    )
}

fn nested(count: usize, before: &str, within: &str, after: &str) -> String {
    before.repeat(count) + within + &after.repeat(count)
}

/// Ways in which a schema refers to another.
const LINKS: [(&str, &str, &str); 9] = [
    ("itself", "", ""),
    ("properties", r#"{"type":"object","properties":{"a":"#, "}}"),
    ("required properties", r#"{"type":"object","required":["a"],"properties":{"a":"#, "}}"),
    ("items", r#"{"type":"array","items":"#, "}"),
    ("prefixItems", r#"{"type":"array","prefixItems":["#, "]}"),
    ("additionalProperties", r#"{"type":"object","additionalProperties":"#, "}"),
    ("anyOf", r#"{"anyOf":[{"type":"null"},"#, "]}"),
    ("oneOf", r#"{"oneOf":[{"type":"null"},"#, "]}"),
    ("allOf", r#"{"allOf":["#, "]}"),
];

/// References and nesting: what recurses.
pub fn deep() -> Vec<Case> {
    let mut cases = vec![];
    for field in &FIELDS {
        cases.push(Case::post(format!("1,200 references in {}", field.name), field.path, ANY, || {
            ask(field, &references(1_200, str::to_owned))
        }));
        cases.push(Case::post(format!("50,000 nested items in {}", field.name), field.path, ANY, || {
            ask(field, &nested(50_000, r#"{"items":"#, "{}", "}"))
        }));
    }
    for (name, before, after) in LINKS {
        for count in [1_200, 20_000] {
            cases.push(case(format!("{count} references through {name}"), move || {
                references(count, |next| format!("{before}{next}{after}"))
            }));
        }
        // As deep as parsers of JSON let it be.
        cases.push(case(format!("50 nested {name}"), move || nested(50, before, "{\"type\":\"string\"}", after)));
    }
    cases
}

/// Schemas that loop, and those of which each part comes twice.
pub fn endless() -> Vec<Case> {
    let mut cases = vec![];
    let loops = [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##,
        r##"{"type":"array","items":{"$ref":"#"},"minItems":3}"##,
        r##"{"$ref":"#/$defs/a/properties/b","$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/a/properties/b"}}}}}"##,
        r##"{"not":{"$ref":"#"}}"##,
        r##"{"$dynamicRef":"#a","$dynamicAnchor":"a"}"##,
        r##"{"$ref":"file:///etc/passwd"}"##,
        r##"{"$ref":"http://127.0.0.1:1/schema"}"##,
        r##"{"$id":"http://a.example/","$ref":"/b"}"##,
        r##"{"$ref":"#/$defs/%zz~9"}"##,
    ];
    for schema in loops {
        cases.push(case(schema, move || schema.to_owned()));
    }
    for (name, before, between, after) in [
        ("allOf", r#"{"allOf":["#, ",", "]}"),
        ("anyOf", r#"{"anyOf":["#, ",", "]}"),
        ("oneOf", r#"{"oneOf":["#, ",", "]}"),
        ("properties", r#"{"type":"object","properties":{"a":"#, r#","b":"#, "}}"),
        ("prefixItems", r#"{"type":"array","minItems":2,"prefixItems":["#, ",", "]}"),
    ] {
        cases.push(case(format!("30 definitions that double through {name}"), move || {
            references(30, |next| format!("{before}{next}{between}{next}{after}"))
        }));
    }
    cases.push(case("a reference of 900 kB", || format!(r##"{{"$ref":"#/$defs/{}"}}"##, "a/".repeat(450_000))));
    cases
}

/// Numbers and lengths without sense, and lists without end.
pub fn large() -> Vec<Case> {
    let mut cases = vec![];
    let numbers = [
        r#"{"type":"number","multipleOf":1e-300}"#,
        r#"{"type":"integer","multipleOf":4294967291}"#,
        r#"{"type":"integer","multipleOf":1000003}"#,
        r#"{"type":"number","multipleOf":0.000000000001}"#,
        r#"{"allOf":[{"multipleOf":99991},{"multipleOf":99989},{"multipleOf":99971}],"type":"integer"}"#,
        r#"{"type":"number","multipleOf":0}"#,
        r#"{"type":"number","multipleOf":-1}"#,
        r#"{"type":"integer","minimum":1e308,"maximum":-1e308}"#,
        r#"{"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615}"#,
        r#"{"type":"number","exclusiveMinimum":1e-323,"exclusiveMaximum":1e-322}"#,
        r#"{"type":"string","minLength":1000000000}"#,
        r#"{"type":"string","maxLength":1000000000}"#,
        r#"{"type":"string","minLength":18446744073709551615}"#,
        r#"{"type":"string","minLength":-1}"#,
        r#"{"type":"array","minItems":1000000000}"#,
        r#"{"type":"array","items":{"type":"array","maxItems":100000,"items":{"maxLength":100000}},"maxItems":100000}"#,
        r#"{"type":"object","minProperties":1000000000}"#,
    ];
    for schema in numbers {
        cases.push(case(schema, move || schema.to_owned()));
    }
    let list = |count: usize, item: fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    cases.push(case("enum of 50,000", move || format!(r#"{{"enum":[{}]}}"#, list(50_000, |n| format!("\"w{n}\"")))));
    cases
        .push(case("enum of 100,000 numbers", move || format!(r#"{{"enum":[{}]}}"#, list(100_000, |n| n.to_string()))));
    cases.push(case("const of 40,000 lists", move || format!(r#"{{"const":[{}]}}"#, list(40_000, |_| "[[]]".into()))));
    cases.push(case("20,000 required names", move || {
        format!(r#"{{"type":"object","required":[{}]}}"#, list(20_000, |n| format!("\"n{n}\"")))
    }));
    cases.push(case("20,000 required properties", move || {
        let properties = list(20_000, |n| format!("\"n{n}\":{{}}"));
        let required = list(20_000, |n| format!("\"n{n}\""));
        format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#)
    }));
    cases.push(case("20,000 alternatives", move || {
        format!(r#"{{"anyOf":[{}]}}"#, list(20_000, |n| format!("{{\"const\":{n}}}")))
    }));
    cases.push(case("2,000 parts of a whole", move || {
        format!(r#"{{"allOf":[{}]}}"#, list(2_000, |n| format!("{{\"properties\":{{\"p{n}\":{{}}}}}}")))
    }));
    cases.push(case("200 patterns of properties", move || {
        format!(r#"{{"patternProperties":{{{}}}}}"#, list(200, |n| format!("\"^.*{n}.*$\":{{\"type\":\"null\"}}")))
    }));
    cases.push(case("prefixItems of 20,000", move || {
        format!(r#"{{"type":"array","prefixItems":[{}]}}"#, list(20_000, |_| "{\"type\":\"null\"}".into()))
    }));
    cases.push(case("a name of 900 kB", || {
        format!(r#"{{"type":"object","required":["n"],"properties":{{"{}":{{}}}}}}"#, "n".repeat(900_000))
    }));
    cases.push(case("a format of 900 kB", || format!(r#"{{"type":"string","format":"{}"}}"#, "f".repeat(900_000))));
    cases
}

/// Patterns, of less than two kilobytes each, whose automata are large.
fn patterns() -> Vec<(&'static str, String)> {
    let pattern = |text: String| format!(r#"{{"type":"string","pattern":"{text}"}}"#);
    let all = |each: Vec<String>| format!(r#"{{"type":"string","allOf":[{}]}}"#, each.join(","));
    let part = |text: String| format!(r#"{{"pattern":"{text}"}}"#);
    vec![
        ("nested repeats", pattern("((((a{1,50}){1,50}){1,50}){1,50})".into())),
        ("nested repeats of classes", pattern("(([a-z]{1,40}[0-9]{1,40}){1,40}x?){1,40}".into())),
        ("60 wildcards", pattern("(.*a)".repeat(60))),
        ("far ends", pattern(".{0,900}x.{0,900}y.{0,900}".into())),
        ("an end that is 40 away", pattern("^(.*a.{40}|.*b.{40}|.*c.{40})$".into())),
        ("classes of letters", pattern("(\\\\p{L}{1,100}\\\\p{N}{1,100}){1,20}".into())),
        ("ambiguous alternatives", pattern("(a|aa|aaa|[a-z]+)*x".into())),
        (
            "30 wildcards at once",
            all((0..30).map(|n| part(format!(".*{}.{{20}}", char::from(b'a' + n % 26)))).collect()),
        ),
        ("12 counts at once", all((2..14).map(|n| part(format!("^(.{{{}}})*$", n * 7 + 1))).collect())),
        ("600 alternatives, repeated", pattern(format!("({}z){{200}}", "ab|".repeat(600)))),
        (
            "properties of patterns",
            format!(
                r#"{{"type":"object","properties":{{{}}}}}"#,
                (0..25)
                    .map(|n| format!(
                        r#""p{n}":{{"type":"string","pattern":"(.*[a-{}]{{1,30}}.*){{1,30}}"}}"#,
                        char::from(b'b' + n)
                    ))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
    ]
}

/// Patterns one after the other, all at once, and those of clients who do not wait for them.
pub fn patterned() -> Vec<Case> {
    let mut cases = vec![];
    for (name, schema) in patterns() {
        cases.push(case(format!("pattern, {name}"), move || schema.clone()));
    }
    for broken in ["(?=a)b", "(?<!a)b", "\\\\1(a)", "(", "[z-a]", "a{99999999999}", "(?P<n>a)(?P=n)", "\\\\p{Nothing}"]
    {
        cases.push(case(format!("pattern {broken}"), move || format!(r#"{{"type":"string","pattern":"{broken}"}}"#)));
    }
    let all_at_once = |port: u16| -> Vec<Response> {
        let ask = |schema: String| move || wire::post(port, FIELDS[0].path, ask(&FIELDS[0], &schema).as_bytes());
        let asking: Vec<_> = patterns().into_iter().map(|(_, schema)| thread::spawn(ask(schema))).collect();
        asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    };
    cases.push(Case::new("all patterns at once", ANY, all_at_once));
    cases.push(Case::leaving("clients that leave while their patterns are compiled", |port| {
        for (_, schema) in patterns() {
            let body = ask(&FIELDS[0], &schema);
            let stream = send(port, &request(port, "POST", FIELDS[0].path, "", body.as_bytes()));
            thread::sleep(Duration::from_millis(30));
            let _ = stream.shutdown(Shutdown::Both);
        }
    }));
    cases
}

/// What is no schema, no tool and no choice, in the fields for them.
pub fn malformed() -> Vec<Case> {
    let mut cases = vec![];
    for field in FIELDS.iter().filter(|field| field.name.contains("tool")) {
        for schema in ["5", "\"x\"", "[]", "[1]"] {
            let name = format!("{schema} as {}", field.name);
            cases.push(Case::post(name, field.path, REFUSED, move || ask(field, schema)));
        }
        for schema in [r#"{"type":5}"#, r#"{"properties":[]}"#, r#"{"required":5}"#] {
            let name = format!("{schema} as {}", field.name);
            cases.push(Case::post(name, field.path, ANY, move || ask(field, schema)));
        }
    }
    for choice in [
        "\"maybe\"",
        "5",
        "[]",
        "{}",
        r#"{"type":"function"}"#,
        r#"{"type":"function","function":{}}"#,
        r#"{"type":"function","function":{"name":5}}"#,
        r#"{"function":[]}"#,
    ] {
        for (path, before) in [
            (
                "/v1/chat/completions",
                r#""messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}]"#,
            ),
            ("/v1/responses", r#""input":"a","tools":[{"type":"function","name":"f"}]"#),
        ] {
            cases.push(Case::post(format!("tool_choice {choice} at {path}"), path, REFUSED, move || {
                format!(r#"{{{before},"max_tokens":2,"tool_choice":{choice}}}"#)
            }));
        }
    }
    cases
}
