//! The programs of a model, driven by hand: any tokens of any sequences at any pages in one step.

use compiler::program::Program;
use compiler::{Numerics, Options};
use device::{Cpu, Device, Executable, Interpreter, Memory};
use gguf::Gguf;
use model::cache::CacheKind;
use model::config::Config;
use model::step::{Class, Sizes, build};
use std::collections::HashMap;
use std::sync::Arc;

/// A token of a step.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub id: u32,
    pub position: usize,
    /// The sequence that it belongs to.
    pub segment: usize,
}

/// Tokens of one sequence from position `start` on.
pub fn sequence(ids: &[u32], start: usize, segment: usize) -> Vec<Token> {
    let token = |(i, &id)| Token { id, position: start + i, segment };
    ids.iter().enumerate().map(token).collect()
}

/// How a [`Machine`] is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub numerics: Numerics,
    pub cache: CacheKind,
    /// Most tokens of a step.
    pub chunk: i64,
    /// Pages of the cache.
    pub pages: usize,
    /// Sequences, and pages that each can have.
    pub table: (usize, usize),
}

/// A loaded model.
pub struct Machine {
    pub config: Config,
    pub memory: Memory,
    file: Arc<Gguf>,
    device: Arc<dyn Device>,
    options: fn(Numerics) -> Options,
    setup: Setup,
    programs: HashMap<Class, Arc<Program>>,
    loaded: HashMap<Class, Box<dyn Executable>>,
    table: Vec<i32>,
}

fn memory_of(file: &Arc<Gguf>) -> Memory {
    let mut memory = Memory::new();
    memory.add_file(file).expect("the file was opened");
    memory
}

impl Machine {
    /// A model whose page table is zero.
    pub fn new(file: &Arc<Gguf>, cpu: &Arc<Cpu>, setup: Setup) -> Machine {
        Machine::on(file, cpu.clone(), super::options, setup)
    }

    /// The same with kernels of blocks of threads, in the interpreter.
    pub fn of_blocks(file: &Arc<Gguf>, setup: Setup) -> Machine {
        Machine::on(file, Arc::new(Interpreter::of_blocks()), Options::gpu, setup)
    }

    fn on(file: &Arc<Gguf>, device: Arc<dyn Device>, options: fn(Numerics) -> Options, setup: Setup) -> Machine {
        let config = Config::read(file).expect("a known model");
        let table = vec![0; setup.table.0 * setup.table.1];
        let memory = memory_of(file);
        let (programs, loaded) = (HashMap::new(), HashMap::new());
        Machine { config, memory, file: file.clone(), device, options, setup, programs, loaded, table }
    }

    /// The programs and pages of this one over the weights of another file of the same model. The cache is empty.
    pub fn with_weights(&self, file: &Arc<Gguf>) -> Machine {
        let (config, programs, table) = (self.config.clone(), self.programs.clone(), self.table.clone());
        let (device, options, setup) = (self.device.clone(), self.options, self.setup);
        let (memory, loaded) = (memory_of(file), HashMap::new());
        Machine { config, memory, file: file.clone(), device, options, setup, programs, loaded, table }
    }

    /// Gives a sequence pages, the first for its first positions.
    pub fn set_pages(&mut self, segment: usize, pages: impl IntoIterator<Item = usize>) {
        let row = &mut self.table[segment * self.setup.table.1..][..self.setup.table.1];
        row.iter_mut().zip(pages).for_each(|(entry, page)| *entry = page as i32);
    }

    /// Compiles and loads the program of a class, if it is not there yet.
    pub fn prepare(&mut self, class: Class) {
        if self.loaded.contains_key(&class) {
            return;
        }
        let program = self.program(class);
        let loaded = self.device.load(program, &mut self.memory).expect("a loaded program");
        self.loaded.insert(class, loaded);
    }

    /// The program of a class.
    pub fn program(&mut self, class: Class) -> Arc<Program> {
        if let Some(program) = self.programs.get(&class) {
            return program.clone();
        }
        let Setup { numerics, cache, chunk, pages, table } = self.setup;
        let (segments, row_pages) = (table.0 as i64, table.1 as i64);
        let sizes = Sizes {
            class,
            output: model::step::Output::Logits,
            most_tokens: chunk,
            most_rows: chunk,
            segments,
            window_pages: pages as i64,
            pages: pages as i64,
            row_pages,
            cache,
        };
        let options = (self.options)(numerics);
        let program = Arc::new(build(&self.file, &self.config, &sizes, &options).expect("a program").program);
        self.programs.insert(class, program.clone());
        program
    }

    /// Logits of the tokens `rows` of a step.
    pub fn run(&mut self, tokens: &[Token], rows: &[usize]) -> Vec<f32> {
        let class = Class::of(tokens.len());
        self.prepare(class);
        let of = |f: &dyn Fn(&Token) -> usize| tokens.iter().map(|t| f(t) as i32).collect();
        let inputs: [(&str, Vec<i32>); 5] = [
            ("token", of(&|t| t.id as usize)),
            ("position", of(&|t| t.position)),
            ("segment", of(&|t| t.segment)),
            ("rows", rows.iter().map(|&r| r as i32).collect()),
            ("page_table", self.table.clone()),
        ];
        for (name, values) in inputs {
            self.memory.input_mut(name).expect("an input of a step")[..values.len()].copy_from_slice(&values);
        }
        let step = self.loaded.get_mut(&class).expect("prepared above");
        let value = |name: &str| match name {
            "tokens" => tokens.len(),
            "rows" => rows.len(),
            "pages" => self.setup.pages,
            "row_pages" => self.setup.table.1,
            "table" => self.table.len(),
            other => panic!("no value for {other}"),
        };
        let values: Vec<i64> = step.program().vars.iter().map(|v| value(&v.name) as i64).collect();
        step.run(&mut self.memory, &values).expect("a step");
        let logits = self.memory.output::<f32>("logits").expect("the output of a step");
        logits[..rows.len() * self.config.vocab as usize].to_vec()
    }

    /// Logits of all tokens of a step.
    pub fn run_all(&mut self, tokens: &[Token]) -> Vec<f32> {
        self.run(tokens, &(0..tokens.len()).collect::<Vec<_>>())
    }
}
