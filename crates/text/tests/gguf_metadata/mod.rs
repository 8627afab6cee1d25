//! Just enough of a GGUF reader to take the tokenizer metadata out of a trusted test file.

use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use text::tokenizer::{ByteStrings, TokenizerData};

enum Value {
    Number(f64),
    Text(Vec<u8>),
    Numbers(Vec<f64>),
    Texts(ByteStrings),
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("the file ends early");
        self.0 = rest;
        *head
    }

    fn length(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }

    fn kind(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn text(&mut self) -> &[u8] {
        let len = self.length();
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        text
    }

    fn number(&mut self, kind: u32) -> f64 {
        match kind {
            0 | 7 => f64::from(self.take::<1>()[0]),
            1 => f64::from(i8::from_le_bytes(self.take())),
            2 => f64::from(u16::from_le_bytes(self.take())),
            3 => f64::from(i16::from_le_bytes(self.take())),
            4 => f64::from(u32::from_le_bytes(self.take())),
            5 => f64::from(i32::from_le_bytes(self.take())),
            6 => f64::from(f32::from_le_bytes(self.take())),
            10 => u64::from_le_bytes(self.take()) as f64,
            11 => i64::from_le_bytes(self.take()) as f64,
            12 => f64::from_le_bytes(self.take()),
            _ => panic!("value type {kind}"),
        }
    }

    fn value(&mut self) -> Value {
        match self.kind() {
            8 => Value::Text(self.text().to_vec()),
            9 => {
                let kind = self.kind();
                let count = self.length();
                if kind == 8 {
                    let mut texts = ByteStrings::new();
                    (0..count).for_each(|_| texts.push(self.text()));
                    Value::Texts(texts)
                } else {
                    Value::Numbers((0..count).map(|_| self.number(kind)).collect())
                }
            }
            kind => Value::Number(self.number(kind)),
        }
    }
}

/// Reads the metadata of a gzipped GGUF file.
pub fn tokenizer_data(file: &Path) -> TokenizerData {
    let mut bytes = vec![];
    GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut bytes).unwrap();
    let mut reader = Reader(&bytes);
    assert_eq!(&reader.take::<4>(), b"GGUF");
    reader.kind();
    reader.length();
    let count = reader.length();
    let mut values: HashMap<String, Value> = (0..count)
        .map(|_| {
            let key = String::from_utf8(reader.text().to_vec()).unwrap();
            (key, reader.value())
        })
        .collect();
    let mut take = |key: &str| values.remove(&format!("tokenizer.ggml.{key}"));
    let mut number = |key: &str| match take(key) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    };
    let mut id = |key: &str| number(key).map(|id| id as u32);
    let (bos, eos, eot) = (id("bos_token_id"), id("eos_token_id"), id("eot_token_id"));
    let (eom, unk, pad) = (id("eom_token_id"), id("unknown_token_id"), id("padding_token_id"));
    let mut flag = |key: &str| number(key).map(|flag| flag != 0.0);
    let (add_bos, add_eos) = (flag("add_bos_token"), flag("add_eos_token"));
    let add_space_prefix = flag("add_space_prefix");
    let remove_extra_whitespaces = flag("remove_extra_whitespaces");
    let mut texts = |key: &str| match take(key) {
        Some(Value::Texts(texts)) => texts,
        _ => ByteStrings::new(),
    };
    let (tokens, merges) = (texts("tokens"), texts("merges"));
    let mut numbers = |key: &str| match take(key) {
        Some(Value::Numbers(numbers)) => numbers,
        _ => vec![],
    };
    let token_type = numbers("token_type").iter().map(|&n| n as i32).collect();
    let scores = numbers("scores").iter().map(|&n| n as f32).collect();
    let charsmap = numbers("precompiled_charsmap").iter().map(|&n| n as u8).collect();
    let mut text = |key: &str| match values.remove(key) {
        Some(Value::Text(text)) => Some(String::from_utf8(text).unwrap()),
        _ => None,
    };
    TokenizerData {
        model: text("tokenizer.ggml.model").unwrap_or_default(),
        pre: text("tokenizer.ggml.pre"),
        tokens,
        token_type,
        scores,
        merges,
        bos,
        eos,
        eot,
        eom,
        unk,
        pad,
        add_bos,
        add_eos,
        add_space_prefix,
        remove_extra_whitespaces,
        charsmap,
        chat_template: text("tokenizer.chat_template"),
        architecture: text("general.architecture").unwrap_or_default(),
        name: text("general.name"),
        ..TokenizerData::default()
    }
}
