//! `'%s and %05.1f' % (a, b)`

use super::budget::{Budget, Builder};
use super::error::Fault;
use super::marks::Text;
use super::print::{print, repr};
use super::value::Value;

/// Python's `format % args`, with a tuple for several and a mapping for named arguments.
pub(super) fn percent_format(format: &Text, args: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let single = [args.clone()];
    let mut queue = match args {
        Value::List(list) if list.is_tuple => list.items.iter(),
        _ => single.iter(),
    };
    let mut out = Builder::new(budget);
    let mut rest = &**format;
    while let Some(at) = rest.find('%') {
        let from = format.len() - rest.len();
        out.push_part(format, from..from + at)?;
        rest = &rest[at + 1..];
        let named = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let mut value = None;
        if let Some((name, after)) = named {
            rest = after;
            value = Some(args.named(name).cloned().unwrap_or(Value::None));
        }
        let spec = Spec::read(&mut rest);
        let Some(kind) = rest.chars().next() else {
            return Fault::new("a format ends in the middle of a field");
        };
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            out.push_part(format, from + at..from + at + 1)?;
            continue;
        }
        let value = match value.or_else(|| queue.next().cloned()) {
            Some(value) => value,
            None => return Fault::new("a format has more fields than arguments"),
        };
        let mut field = Builder::new(out.budget);
        spec.write(kind, &value, &mut field)?;
        let field = field.finish();
        spec.pad(&field, &mut out)?;
    }
    out.push_part(format, format.len() - rest.len()..format.len())?;
    Ok(Value::Str(out.finish()))
}

#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn read(rest: &mut &str) -> Spec {
        let mut spec = Spec::default();
        while let Some(flag) = rest.chars().next() {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                ' ' | '#' => {}
                _ => break,
            }
            *rest = &rest[1..];
        }
        spec.width = number(rest).unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            *rest = after;
            spec.precision = Some(number(rest).unwrap_or(0));
        }
        spec
    }

    fn write(&self, kind: char, value: &Value, out: &mut Builder) -> Result<(), Fault> {
        // More digits than any number has; keeps the cost of a field small.
        let precision = self.precision.map(|p| p.min(400));
        match kind {
            's' | 'r' => {
                let mut whole = Builder::new(out.budget);
                if kind == 's' {
                    print(value, &mut whole)?;
                } else {
                    repr(value, &mut whole)?;
                }
                let whole = whole.finish();
                let end = self.precision.and_then(|p| whole.char_indices().nth(p));
                out.push_part(&whole, 0..end.map_or(whole.len(), |(at, _)| at))
            }
            'd' | 'i' => {
                let int = value.as_int().or(value.as_float().map(|float| float as i64));
                match int {
                    Some(int) if self.plus => out.push(&format!("{int:+}")),
                    Some(int) => out.push(&int.to_string()),
                    None => Fault::new(format!("%d does not print a {}", value.type_name())),
                }
            }
            'f' | 'F' => match value.as_float() {
                Some(float) if self.plus => out.push(&format!("{float:+.*}", precision.unwrap_or(6))),
                Some(float) => out.push(&format!("{float:.*}", precision.unwrap_or(6))),
                None => Fault::new(format!("%f does not print a {}", value.type_name())),
            },
            'x' | 'X' | 'o' => match (value.as_int(), kind) {
                (Some(int), 'x') => out.push(&format!("{int:x}")),
                (Some(int), 'X') => out.push(&format!("{int:X}")),
                (Some(int), _) => out.push(&format!("{int:o}")),
                (None, _) => Fault::new(format!("%{kind} does not print a {}", value.type_name())),
            },
            other => Fault::new(format!("%{other} is not supported")),
        }
    }

    fn pad(&self, field: &Text, out: &mut Builder) -> Result<(), Fault> {
        let missing = self.width.saturating_sub(field.chars().count());
        let fill = Text::own(" ");
        if self.left {
            out.push_text(field)?;
            return out.repeat(&fill, missing);
        }
        let is_number = field.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
        if self.zero && is_number {
            let sign = field.len() - field.trim_start_matches(['+', '-']).len();
            out.push_part(field, 0..sign)?;
            out.repeat(&Text::own("0"), missing)?;
            return out.push_part(field, sign..field.len());
        }
        out.repeat(&fill, missing)?;
        out.push_text(field)
    }
}

fn number(rest: &mut &str) -> Option<usize> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..end].parse().ok();
    *rest = &rest[end..];
    number
}
