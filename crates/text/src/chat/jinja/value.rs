//! Values of the template language: Python's, as far as chat templates meet them.
//!
//! Lists and mappings are immutable and know how deep they nest; only a namespace can change, and
//! it holds nothing that could hold a namespace. So there are no cycles, and nothing recurses
//! deeper than [`MAX_VALUE_DEPTH`].

use serde_json::Value as Json;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::super::words::Words;
use super::ast::{Literal, Macro};
use super::budget::{Budget, MAX_VALUE_DEPTH};
use super::error::{Fault, Limit};
use super::marks::Text;

#[derive(Clone)]
pub(super) enum Value {
    /// With the words to name it in an error.
    Undefined(Arc<str>),
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Text),
    List(Rc<List>),
    Map(Rc<Map>),
    Namespace(Rc<Attributes>),
    Loop(Rc<Loop>),
    /// A macro and the scope it was defined in.
    Macro(Arc<Macro>, usize),
    Function(Function),
    /// A method that was named but not called.
    Method,
}

/// What a namespace holds.
pub(super) type Attributes = RefCell<Vec<(Arc<str>, Value)>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Range,
    Dict,
    Namespace,
    RaiseException,
    StrftimeNow,
}

pub(super) struct List {
    pub(super) items: Vec<Value>,
    pub(super) is_tuple: bool,
    nesting: Nesting,
}

/// Entries in the order they were put in; keys are unique.
pub(super) struct Map {
    pub(super) entries: Vec<(Value, Value)>,
    nesting: Nesting,
}

/// What a `for` loop shows as `loop`.
pub(super) struct Loop {
    pub(super) index: usize,
    pub(super) items: Rc<List>,
    pub(super) depth: usize,
    /// The arguments of the last call of `loop.changed`.
    pub(super) seen: Rc<RefCell<Option<Value>>>,
}

#[derive(Clone, Copy)]
struct Nesting {
    depth: usize,
    /// Holds something that may change or refer to scopes.
    is_bound: bool,
}

impl Nesting {
    fn over<'v>(values: impl Iterator<Item = &'v Value>) -> Result<Nesting, Fault> {
        let mut over = Nesting { depth: 1, is_bound: false };
        for value in values {
            let below = value.nesting();
            over.depth = over.depth.max(below.depth + 1);
            over.is_bound |= below.is_bound;
        }
        if over.depth > MAX_VALUE_DEPTH {
            return Err(Limit::Depth.into());
        }
        Ok(over)
    }
}

/// What an entry of a list or mapping costs, beside what it refers to.
const ENTRY_BYTES: usize = std::mem::size_of::<Value>();

impl Value {
    pub(super) fn undefined(name: &str) -> Value {
        Value::Undefined(name.into())
    }

    pub(super) fn string(text: Text, budget: &mut Budget) -> Result<Value, Fault> {
        budget.make(text.len() + text.mark_bytes())?;
        Ok(Value::Str(text))
    }

    /// Text of the template, of which none has to be paid for.
    pub(super) fn own(text: &str) -> Value {
        Value::Str(Text::own(text))
    }

    pub(super) fn part(text: &Text, range: Range<usize>, budget: &mut Budget) -> Result<Value, Fault> {
        budget.make(range.len())?;
        let part = text.part(range);
        budget.make(part.mark_bytes())?;
        Ok(Value::Str(part))
    }

    pub(super) fn list(items: Vec<Value>, budget: &mut Budget) -> Result<Value, Fault> {
        Value::sequence(items, false, budget)
    }

    pub(super) fn tuple(items: Vec<Value>, budget: &mut Budget) -> Result<Value, Fault> {
        Value::sequence(items, true, budget)
    }

    pub(super) fn sequence(items: Vec<Value>, is_tuple: bool, budget: &mut Budget) -> Result<Value, Fault> {
        budget.make((items.len() + 1).saturating_mul(ENTRY_BYTES))?;
        let nesting = Nesting::over(items.iter())?;
        Ok(Value::List(Rc::new(List { items, is_tuple, nesting })))
    }

    /// A mapping of unique keys.
    pub(super) fn map(entries: Vec<(Value, Value)>, budget: &mut Budget) -> Result<Value, Fault> {
        budget.make((entries.len() + 1).saturating_mul(2 * ENTRY_BYTES))?;
        let nesting = Nesting::over(entries.iter().flat_map(|(key, value)| [key, value]))?;
        Ok(Value::Map(Rc::new(Map { entries, nesting })))
    }

    /// The value that JSON has in a template, with marks on what is not the template's.
    pub(super) fn from_json(json: &Json, words: Words, budget: &mut Budget) -> Result<Value, Fault> {
        budget.step()?;
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(bool) => Value::Bool(*bool),
            Json::Number(number) => match number.as_i64() {
                Some(int) => Value::Int(int),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::spoken(text, words, budget)?,
            Json::Array(items) => {
                let items = items.iter().map(|item| Value::from_json(item, words.of_item(item), budget));
                let items = items.collect::<Result<_, _>>()?;
                Value::list(items, budget)?
            }
            Json::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let words = words.of_entry(key);
                    Ok((Value::spoken(key, words.of_key(), budget)?, Value::from_json(value, words, budget)?))
                });
                let entries = entries.collect::<Result<_, Fault>>()?;
                Value::map(entries, budget)?
            }
        })
    }

    fn spoken(text: &str, words: Words, budget: &mut Budget) -> Result<Value, Fault> {
        budget.make(text.len())?;
        let text = Text::with_data(text, words.data_in(text));
        budget.make(text.mark_bytes())?;
        Ok(Value::Str(text))
    }

    fn nesting(&self) -> Nesting {
        match self {
            Value::List(list) => list.nesting,
            Value::Map(map) => map.nesting,
            Value::Namespace(_) | Value::Loop(_) | Value::Macro(..) => Nesting { depth: 0, is_bound: true },
            _ => Nesting { depth: 0, is_bound: false },
        }
    }

    /// Whether a namespace may hold the value.
    pub(super) fn is_free(&self) -> bool {
        !self.nesting().is_bound
    }

    /// Python's name of the type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "undefined",
            Value::None => "none",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "string",
            Value::List(list) if list.is_tuple => "tuple",
            Value::List(_) => "list",
            Value::Map(_) => "mapping",
            Value::Namespace(_) => "namespace",
            Value::Loop(_) => "loop",
            Value::Macro(..) => "macro",
            Value::Function(_) => "function",
            Value::Method => "method",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(bool) => *bool,
            Value::Int(int) => *int != 0,
            Value::Float(float) => *float != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Map(map) => !map.entries.is_empty(),
            _ => true,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// An integer; Python counts bools among them.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(int) => Some(*int),
            Value::Bool(bool) => Some(i64::from(*bool)),
            _ => None,
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(float) => Some(*float),
            other => other.as_int().map(|int| int as f64),
        }
    }

    /// What a loop over the value goes through.
    pub(super) fn items(&self, budget: &mut Budget) -> Result<Rc<List>, Fault> {
        let items = match self {
            Value::List(list) => return Ok(list.clone()),
            Value::Map(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Value::Str(text) => {
                budget.make(text.len().saturating_mul(ENTRY_BYTES))?;
                let chars = text.char_indices();
                chars.map(|(at, ch)| Value::Str(text.part(at..at + ch.len_utf8()))).collect()
            }
            Value::Undefined(_) => vec![],
            other => return Fault::new(format!("a {} has no items", other.type_name())),
        };
        match Value::list(items, budget)? {
            Value::List(list) => Ok(list),
            _ => Fault::new("no items"),
        }
    }

    /// The entry of a text key.
    pub(super) fn named(&self, key: &str) -> Option<&Value> {
        let Value::Map(map) = self else { return None };
        let mut entries = map.entries.iter();
        entries.find(|(other, _)| other.as_str() == Some(key)).map(|(_, value)| value)
    }
}

impl From<&Literal> for Value {
    fn from(literal: &Literal) -> Value {
        match literal {
            Literal::None => Value::None,
            Literal::Bool(bool) => Value::Bool(*bool),
            Literal::Int(int) => Value::Int(*int),
            Literal::Float(float) => Value::Float(*float),
            Literal::Str(text) => Value::Str(Text::own(text.clone())),
        }
    }
}
