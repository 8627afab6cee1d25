//! Compiled programs as one C program without the device: it reads their data
//! from a file, runs their kernels, and prints where the results are not those
//! of the interpreter, or writes them to a file. It can be built by any compiler
//! for any machine.

pub mod builder;

use crate::cases::{Case, bytes};
use compiler::Compiled;
use compiler::program::{BufferKind, Program};
use compiler::render::c;
use ir::DType;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The text and the data so far.
pub struct Standalone {
    source: String,
    data: Vec<u8>,
    programs: usize,
    /// Kernels by signature and text, which differ in their names only.
    kernels: BTreeMap<String, usize>,
}

/// A step of a model: a program and what it is given. Weights and states are those of the steps before it.
pub struct GivenStep<'a> {
    pub compiled: &'a Compiled,
    /// Bytes of the inputs, by name.
    pub inputs: BTreeMap<&'static str, Vec<u8>>,
    /// The variables of the program, in its order.
    pub vars: Vec<i64>,
    /// Bytes of the output that are results.
    pub wanted: usize,
}

impl Default for Standalone {
    fn default() -> Standalone {
        let source = format!("{}{}", c::PRELUDE, include_str!("standalone/harness.c"));
        Standalone { source, data: vec![], programs: 0, kernels: BTreeMap::new() }
    }
}

impl Standalone {
    /// Adds a program; `most` is the NMSE that its outputs and states may have.
    ///
    /// # Errors
    /// What the interpreter says.
    pub fn add(&mut self, name: &str, case: &Case, c: &Compiled, most: f64) -> Result<(), String> {
        let p = &c.program;
        let kernels: Vec<usize> = p.kernels.iter().map(|k| self.kernel(&k.symbol, &k.source)).collect();
        let value = |name: &str| case.vars.iter().find(|v| v.0 == name).map_or(1, |v| v.1);
        let vars: Vec<i64> = p.vars.iter().map(|v| value(&v.name)).collect();
        let mut body = format!("static int program_{}(void) {{\n  int wrong = 0;\n", self.programs);
        let mut line = |text: String| {
            let _ = writeln!(body, "  {text}");
        };
        let listed: Vec<String> = vars.iter().map(i64::to_string).chain(["0".into()]).collect();
        line(format!("const int64_t vars[] = {{{}}};", listed.join(", ")));
        line(format!("unsigned char *arena = room({});", p.arena_bytes));
        let mut results = vec![];
        let mut written = vec![("arena".to_string(), p.arena_bytes, "the arena")];
        for (i, b) in p.buffers.iter().enumerate() {
            let mut known = |bytes: &[u8]| {
                self.data.extend_from_slice(bytes);
                format!("given({}, {})", b.bytes, bytes.len())
            };
            let memory = match &b.kind {
                BufferKind::Weight(n) | BufferKind::Input(n) | BufferKind::State(n) => known(&case.data[n]),
                BufferKind::Const(d) => known(d),
                BufferKind::Planes { name, .. } => return Err(format!("{name} is repacked, which C programs are not")),
                BufferKind::Output(_) => format!("room({})", b.bytes),
                BufferKind::Arena(at) => format!("arena + {at}"),
            };
            line(format!("unsigned char *b{i} = {memory};"));
            if !matches!(b.kind, BufferKind::Arena(_)) {
                written.push((format!("b{i}"), b.bytes, &b.name));
            }
            if let BufferKind::Output(n) | BufferKind::State(n) = &b.kind {
                results.push((n, i));
            }
        }
        let most_scratch = p.kernels.iter().map(|k| k.geometry.scratch_bytes).max().unwrap_or(0);
        line(format!("unsigned char *scratch = room({most_scratch});"));
        written.push(("scratch".into(), most_scratch, "the scratch"));
        launches(p, &kernels, &vars, &mut line);
        for (memory, size, what) in written {
            line(format!("wrong |= overrun({name:?}, {what:?}, {memory}, {size});"));
        }
        let values = case.values(c)?;
        let named = case.outs.iter().chain(&case.effects);
        for ((n, t), want) in named.zip(values) {
            let buffer = results.iter().find(|r| r.0 == n).ok_or(format!("{n} has no buffer"))?.1;
            let ty = t.dtype();
            assert!(matches!(ty, DType::F32 | DType::I32), "the harness compares no {ty}");
            self.data.extend(bytes(&want));
            let (float, count) = (i32::from(ty.is_float()), want.len());
            line(format!("wrong |= differs({name:?}, {n:?}, b{buffer}, {float}, {count}, {most:e});"));
        }
        body.push_str("  return wrong;\n}\n");
        self.source.push_str(&body);
        self.programs += 1;
        Ok(())
    }

    /// Adds steps of one model, with its weights by name. States begin with zeros. Results are written to a file.
    pub fn add_steps<'w>(&mut self, steps: &[GivenStep<'_>], weight: impl Fn(&str) -> &'w [u8]) {
        let mut body = String::new();
        let mut lasting: BTreeMap<String, usize> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            let p = &step.compiled.program;
            let kernels: Vec<usize> = p.kernels.iter().map(|k| self.kernel(&k.symbol, &k.source)).collect();
            let mut block = String::new();
            let mut line = |text: String| {
                let _ = writeln!(block, "    {text}");
            };
            let listed: Vec<String> = step.vars.iter().map(i64::to_string).chain(["0".into()]).collect();
            line(format!("const int64_t vars[] = {{{}}};", listed.join(", ")));
            line(format!("unsigned char *arena = room({});", p.arena_bytes));
            for (i, b) in p.buffers.iter().enumerate() {
                let mut given = |bytes: &[u8]| {
                    self.data.extend_from_slice(bytes);
                    format!("given({}, {})", b.bytes.max(bytes.len()), bytes.len())
                };
                let mut lasts = |name: String, bytes: &[u8]| {
                    let next = lasting.len();
                    let at = *lasting.entry(name).or_insert(next);
                    if at == next { format!("l{at} = {}", given(bytes)) } else { format!("l{at}") }
                };
                let memory = match &b.kind {
                    BufferKind::Weight(name) => lasts(format!("weight {name}"), weight(name)),
                    BufferKind::State(name) => lasts(format!("state {name}"), &[]),
                    BufferKind::Input(name) => given(&step.inputs[name.as_str()]),
                    BufferKind::Const(bytes) => given(bytes),
                    BufferKind::Planes { name, .. } => panic!("{name} is repacked, which C programs are not"),
                    BufferKind::Output(_) => format!("room({})", b.bytes),
                    BufferKind::Arena(at) => format!("arena + {at}"),
                };
                line(format!("unsigned char *b{i} = {memory};"));
            }
            let most_scratch = p.kernels.iter().map(|k| k.geometry.scratch_bytes).max().unwrap_or(0);
            line(format!("unsigned char *scratch = room({most_scratch});"));
            launches(p, &kernels, &step.vars, &mut line);
            for (i, b) in p.buffers.iter().enumerate() {
                if matches!(b.kind, BufferKind::Output(_)) {
                    line(format!("result(b{i}, {});", step.wanted));
                }
            }
            let _ = writeln!(body, "  {{ /* step {number} */\n{block}  }}");
        }
        let lasting: String = (0..lasting.len()).map(|at| format!("  unsigned char *l{at};\n")).collect();
        let _ = write!(self.source, "static int program_{}(void) {{\n{lasting}{body}  return 0;\n}}\n", self.programs);
        self.programs += 1;
    }

    /// The number of a kernel, which is added if there is none of this text.
    fn kernel(&mut self, symbol: &str, source: &str) -> usize {
        assert!(source.contains(&format!("void {symbol}(")), "the definition of {symbol}");
        let nameless = source.replace(symbol, "");
        if let Some(&known) = self.kernels.get(&nameless) {
            return known;
        }
        let number = self.kernels.len();
        let _ = write!(self.source, "#define {symbol} kernel_{number}\n{source}#undef {symbol}\n");
        self.kernels.insert(nameless, number);
        number
    }

    /// The C text, the data, and the number of kernels.
    pub fn finish(mut self) -> (String, Vec<u8>, usize) {
        self.source.push_str("int main(int count, char **names) {\n  begin(count, names);\n  int wrong = 0;\n");
        for i in 0..self.programs {
            let _ = writeln!(self.source, "  wrong += program_{i}();");
        }
        let _ = writeln!(self.source, "  printf(\"%d of {} programs wrong\\n\", wrong);", self.programs);
        self.source.push_str("  return wrong != 0;\n}\n");
        (self.source, self.data, self.kernels.len())
    }
}

/// The kernels of a program, each in two parts: the last tasks first, as their order is free.
fn launches(p: &Program, kernels: &[usize], vars: &[i64], line: &mut impl FnMut(String)) {
    let most_scratch = p.kernels.iter().map(|k| k.geometry.scratch_bytes).max().unwrap_or(0);
    for l in p.stages.iter().flat_map(|s| &s.launches) {
        let args: Vec<String> = l.args.iter().map(|a| format!("b{a}")).collect();
        let (kernel, tasks) = (kernels[l.kernel], l.tasks.eval(vars).expect("a count"));
        for (begin, end) in [(tasks / 2, tasks), (0, tasks / 2)] {
            line(format!("spoil(scratch, {most_scratch});"));
            line(format!("kernel_{kernel}((void *[]){{{}}}, vars, {begin}, {end}, scratch);", args.join(", ")));
        }
    }
}
