//! The body of a request as fields that a route reads.
//!
//! It is weighed before anything is built (values, depth, and the memory that it would take), and then only those fields
//! become values that somebody asks for: what a route does not know costs no more than its text. Weighing and reading
//! take time and belong on the threads of [`crate::background`].

use crate::budget::{BODY_DEPTH, BODY_VALUES, PLAIN_WORK, TEMPLATE_WORK, TEXT_WORK};
use crate::error::ApiError;
use crate::memory::Charge;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::mem::size_of;
use std::ops::Range;

/// What is done with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Its texts become tokens.
    Plain,
    /// A template makes a text of its values.
    Template,
}

/// A field, which becomes a value when somebody asks for it.
#[derive(Debug)]
struct Field {
    /// Its part of the text.
    place: Range<usize>,
    /// Bytes of memory that its value takes at most.
    memory: usize,
    value: OnceCell<Value>,
}

/// A body: a JSON object.
#[derive(Debug)]
pub struct Body {
    fields: HashMap<String, Field>,
    text: String,
    kept: Cell<usize>,
    charge: RefCell<Charge>,
}

impl Body {
    /// Weighs a text, charges what it will take to read it for this work, and finds its fields.
    ///
    /// # Errors
    /// 400 if it is no JSON object, or has too many values or too deep ones; 413 and 429 as [`Charge::grow`].
    pub fn read(bytes: Vec<u8>, mut charge: Charge, work: Work) -> Result<Body, ApiError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            ApiError::invalid(format!("the body is not JSON: no UTF-8 at byte {}", error.utf8_error().valid_up_to()))
        })?;
        let mut found = Found::default();
        let mut json = serde_json::Deserializer::from_str(&text);
        let result = json.deserialize_map(&mut found).and_then(|()| json.end());
        if let Some(problem) = found.problem {
            return Err(problem);
        }
        result.map_err(|error| ApiError::invalid(format!("the body is not a JSON object: {error}")))?;
        let start = text.as_ptr() as usize;
        let place = |of: &str| of.as_ptr() as usize - start..of.as_ptr() as usize - start + of.len();
        let parts = if work == Work::Template { TEMPLATE_WORK } else { PLAIN_WORK };
        charge.grow(found.memory() / 2 * parts + found.text * TEXT_WORK)?;
        let field = |(name, json, memory): (String, &RawValue, usize)| {
            (name, Field { place: place(json.get()), memory, value: OnceCell::new() })
        };
        let fields = found.fields.into_iter().map(field).collect();
        Ok(Body { fields, text, kept: Cell::new(0), charge: RefCell::new(charge) })
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let field = self.fields.get(name)?;
        // It was parsed when it was weighed.
        Some(field.value.get_or_init(|| serde_json::from_str(&self.text[field.place.clone()]).unwrap_or_default()))
    }

    /// A field whose value stays with the answer.
    pub fn keep(&self, name: &str) -> Option<Value> {
        let value = self.get(name).filter(|value| !value.is_null())?;
        self.kept.set(self.kept.get() + self.fields[name].memory);
        Some(value.clone())
    }

    /// Takes memory for what is made of it and stays with the answer.
    ///
    /// # Errors
    /// 413 and 429 as [`Charge::grow`].
    pub fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        self.charge.borrow_mut().grow(bytes)?;
        self.kept.set(self.kept.get() + bytes);
        Ok(())
    }

    /// The fields that nobody has asked for.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(|(_, field)| field.value.get().is_none()).map(|(name, _)| name.as_str())
    }

    /// Drops it. What is left are words of it, and what was kept.
    pub fn close(self) -> Charge {
        let Body { text, kept, charge, .. } = self;
        let mut charge = charge.into_inner();
        charge.shrink_to(text.len() + kept.get());
        charge
    }
}

/// What weighing finds: the fields with their memory, or what is wrong.
#[derive(Default)]
struct Found<'de> {
    fields: Vec<(String, &'de RawValue, usize)>,
    values: usize,
    /// Bytes of all strings.
    text: usize,
    problem: Option<ApiError>,
}

impl Found<'_> {
    fn memory(&self) -> usize {
        self.fields.iter().map(|(_, _, memory)| memory).sum()
    }
}

impl<'de> Visitor<'de> for &mut Found<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            // Passed over without recursion, and its syntax is checked.
            let json = map.next_value::<&RawValue>()?;
            let mut weight = Weight { values: self.values, ..Weight::default() };
            let mut reader = serde_json::Deserializer::from_str(json.get());
            if let Err(error) = (Weigh { weight: &mut weight, depth: 1 }).deserialize(&mut reader) {
                self.problem = Some(match weight.problem {
                    Some(problem) => problem,
                    None => ApiError::field(&name, format!("it is not JSON: {error}")),
                });
                return Err(Error::custom("its weight"));
            }
            self.values = weight.values;
            self.text += weight.text;
            let memory = weight.memory + text_bytes(name.len()) + FIELD_BYTES;
            self.fields.push((name, json, memory));
        }
        Ok(())
    }
}

/// Bytes of a field in the table of fields and in the list before it, whose lengths double.
const FIELD_BYTES: usize = 3 * size_of::<(String, Field)>();

/// Bytes beside each block of memory.
const BLOCK_BYTES: usize = 16;

/// Bytes of an entry of an object: its key, its value and its hash.
const ENTRY_BYTES: usize = size_of::<String>() + size_of::<Value>() + size_of::<u64>();

/// Bytes of an entry in the table of an object, which is not full.
const PLACE_BYTES: usize = (size_of::<usize>() + 1) * 4 / 3;

/// Bytes of text in a block of its own.
fn text_bytes(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_multiple_of(16) + BLOCK_BYTES }
}

/// What a value comes to.
#[derive(Default)]
struct Weight {
    values: usize,
    /// Bytes of memory, with room that lists have for more.
    memory: usize,
    /// Bytes of its strings.
    text: usize,
    problem: Option<ApiError>,
}

/// Weighs one value that lies so deep. Builds nothing; its recursion ends with the depth.
struct Weigh<'a> {
    weight: &'a mut Weight,
    depth: usize,
}

impl Weigh<'_> {
    fn refuse<T, E: Error>(self, problem: String) -> Result<T, E> {
        self.weight.problem = Some(ApiError::invalid(problem));
        Err(E::custom("its weight"))
    }

    /// What lies in a list or an object.
    fn inside(&mut self) -> Weigh<'_> {
        Weigh { weight: self.weight, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Weigh<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.weight.values += 1;
        if self.weight.values > BODY_VALUES {
            return self.refuse(format!("the body has more than {BODY_VALUES} values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigh<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.weight.memory += text_bytes(text.len());
        self.weight.text += text.len();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        if self.depth >= BODY_DEPTH {
            return self.refuse(format!("lists and objects of the body lie more than {BODY_DEPTH} deep"));
        }
        let (mut length, mut room) = (0, 0);
        while list.next_element_seed(self.inside())?.is_some() {
            length += 1;
            if length > room {
                let more = room.max(4);
                self.weight.memory += more * size_of::<Value>() + if room == 0 { BLOCK_BYTES } else { 0 };
                room += more;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if self.depth >= BODY_DEPTH {
            return self.refuse(format!("lists and objects of the body lie more than {BODY_DEPTH} deep"));
        }
        let (mut length, mut room) = (0, 0);
        while map.next_key_seed(self.inside())?.is_some() {
            map.next_value_seed(self.inside())?;
            length += 1;
            if length > room {
                // A table of 4, 8, 16... places is full at 3, 7, 14...
                let more = if room == 3 { 4 } else { room.max(3) };
                self.weight.memory += more * (ENTRY_BYTES + PLACE_BYTES) + if room == 0 { 3 * BLOCK_BYTES } else { 0 };
                room += more;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MEMORY;
    use crate::memory::Memory;
    use serde_json::json;
    use std::sync::Arc;

    fn read(text: &str) -> Result<Body, ApiError> {
        let charge = Arc::new(Memory::new(MEMORY)).open();
        Body::read(text.as_bytes().to_vec(), charge, Work::Plain)
    }

    fn refusal(text: &str) -> String {
        let error = read(text).expect_err("it is refused");
        assert_eq!(error.status.as_u16(), 400, "{error:?}");
        error.message
    }

    #[test]
    fn fields_become_values_when_they_are_asked_for() {
        let body =
            read(r#" {"a": [1, {"b": "\u00e9"}], "c": null, "a\n": 2.5, "d": [[], {}], "d": true} "#).expect("JSON");
        assert!(body.fields.values().all(|field| field.value.get().is_none()));
        assert_eq!(body.get("a"), Some(&json!([1, { "b": "\u{e9}" }])));
        assert_eq!((body.get("c"), body.get("a\n")), (Some(&Value::Null), Some(&json!(2.5))));
        assert_eq!((body.get("d"), body.get("e")), (Some(&json!(true)), None));
        let built = body.fields.values().filter(|field| field.value.get().is_some()).count();
        assert_eq!((built, body.fields.len()), (4, 4));
    }

    #[test]
    fn what_is_no_object_is_refused_also_in_what_is_ignored() {
        for text in [
            "",
            "{",
            "null",
            "[]",
            "\"a\"",
            "{} {}",
            "{\"a\":}",
            "{\"a\" 1}",
            "{\"a\": [1,]}",
            "{\"a\": 01}",
            "\u{feff}{}",
        ] {
            assert!(refusal(text).contains("not a JSON object"), "{text}");
        }
        for text in ["{\"a\": 1e999}", "{\"a\": \"\\ud800\"}"] {
            assert!(refusal(text).starts_with("a: "), "{text}");
        }
        let (bytes, charge) = (b"{\"a\": \"\xff\"}".to_vec(), Arc::new(Memory::new(MEMORY)).open());
        let broken = Body::read(bytes, charge, Work::Plain);
        assert!(broken.expect_err("no text").message.contains("byte 7"));
    }

    #[test]
    fn depth_ends_at_its_number_whatever_lies_in_it() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let each = open.bytes().filter(|b| b"[{".contains(b)).count();
            let nested =
                |depth: usize| format!("{{\"x\":{}1{}}}", open.repeat(depth / each), close.repeat(depth / each));
            let most = (BODY_DEPTH - 1) / each * each;
            let body = read(&nested(most)).expect("as deep as may be");
            assert!(body.get("x").is_some_and(|x| !x.is_null()), "what is weighed can be built");
            for depth in [most + 2 * each, 100_000] {
                assert!(refusal(&nested(depth)).contains("100 deep"), "{open} {depth}");
            }
            assert!(refusal(&format!("{{\"x\":{}", open.repeat(1_000_000))).len() < 200);
        }
    }

    #[test]
    fn values_end_at_their_number_over_all_fields() {
        let ids = |count: usize| vec!["1"; count].join(",");
        let prompt = read(&format!("{{\"prompt\":[{}]}}", ids(131_072))).expect("a long prompt");
        assert_eq!(prompt.get("prompt").and_then(Value::as_array).map(Vec::len), Some(131_072));
        let halves = |count: usize| format!("{{\"a\":[{}],\"b\":[{}]}}", ids(count), ids(count));
        assert!(read(&halves(BODY_VALUES / 2 - 1)).is_ok());
        assert!(refusal(&halves(BODY_VALUES / 2)).contains("1000000 values"));
    }

    #[test]
    fn what_is_dropped_is_given_back_and_what_is_kept_is_not() {
        let memory = Arc::new(Memory::new(MEMORY));
        let text = format!("{{\"a\":[{}],\"b\":1}}", ["[]"; 1000].join(","));
        let body = Body::read(text.clone().into_bytes(), memory.open(), Work::Plain).expect("JSON");
        let all = memory.taken();
        assert!(all > 1000 * size_of::<Value>(), "{all}");
        let charge = body.close();
        assert!(charge.bytes() == memory.taken() && charge.bytes() <= text.len(), "{charge:?}");
        let body = Body::read(text.into_bytes(), memory.open(), Work::Plain).expect("JSON");
        body.keep("a").expect("a field");
        assert!(body.close().bytes() > 1000 * size_of::<Value>());
    }
}
