//! A step on the card: a graph that is replayed.
//!
//! Everything that changes from step to step lies in memory, so a graph is made once for each combination of the values of
//! the program's variables, when it is first needed, and replayed from then on. Launching one takes the driver up to a
//! microsecond for each kernel, so a step for which the card waits is a few graphs in a row, the first of them small: the card
//! works on one while the next is launched. A step that is sent while the one before runs is one graph. Launches of a
//! stage depend on those of the stage before, and on nothing else. Where the card can, kernels that wait themselves begin before those that they depend
//! on have ended (edges are then *programmatic*). Such a kernel waits until all that it depends on is over, and so does
//! every other, so whatever came earlier is over too.

use crate::driver::{Context, Event, Shape, pointers};
use crate::kernels::Loaded;
use crate::memory::{Stage, send_inputs};
use compiler::program::{BufferKind, Kernel, Launch, Program};
use cudarc::driver::sys;
use device::{Clock, CompileReport, Error, Executable, MOST_AHEAD, Memory, Place, Profile, Result, validate};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Steps whose graphs a program keeps at most; others are made anew.
const MOST_STEPS: usize = 64;

/// Stages of the first graphs of a step, each three times the one before, as launching a kernel takes a part of its time; the
/// last one has the rest.
const PIECES: [usize; 4] = [8, 24, 72, 216];

/// Steps at most whose inputs the card has not taken yet; another waits for the first of them.
const SENT: usize = MOST_AHEAD + 1;

/// How a step is sent to the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// As one graph, in which kernels begin early where the card can.
    #[default]
    Graph,
    /// As one graph, in which every kernel begins when those that it depends on have ended.
    PlainGraph,
    /// Kernel after kernel: a kernel that fails is the one that was sent last.
    OneByOne,
}

/// A program on the card.
pub struct Replay {
    context: Arc<Context>,
    program: Arc<Program>,
    loaded: Loaded,
    sending: Sending,
    /// The memory that it was loaded for.
    memory: u64,
    places: Vec<Place>,
    /// The moves of the memory when addresses were looked up.
    bound_at: Option<u64>,
    /// Of each buffer.
    addresses: Vec<u64>,
    inputs: Vec<(u64, *mut u8, usize)>,
    /// Copies of the inputs of the last steps, until the card has taken them.
    sent: VecDeque<Stage>,
    /// The graphs of a step by the values of its variables: for a card that waits, and for one that is busy.
    steps: [HashMap<Vec<i64>, Vec<Graph>>; 2],
    /// When the last step is over.
    over: Event,
}

// SAFETY: the pointers lead to inputs of the memory that a step borrows.
unsafe impl Send for Replay {}

/// A launch with all of its arguments.
struct Call {
    function: sys::CUfunction,
    /// Whether it waits itself for what it depends on.
    waits: bool,
    shape: Shape,
    arguments: Vec<u64>,
}

/// A step with these values of the variables.
struct Graph {
    context: Arc<Context>,
    instance: sys::CUgraphExec,
}

// SAFETY: a handle of the driver, used by whoever has the program.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver keeps what runs until it has ended.
        let _ = self.context.call("cuGraphExecDestroy", |_| unsafe { sys::cuGraphExecDestroy(self.instance) });
    }
}

impl Replay {
    /// Binds a program whose kernels are loaded to a memory of the same card.
    pub fn new(
        context: Arc<Context>,
        program: Arc<Program>,
        loaded: Loaded,
        places: Vec<Place>,
        memory: u64,
        sending: Sending,
    ) -> Result<Replay> {
        let (addresses, inputs, sent) = (vec![], vec![], VecDeque::new());
        let (steps, over) = ([HashMap::new(), HashMap::new()], context.event()?);
        Ok(Replay {
            context,
            program,
            loaded,
            sending,
            memory,
            places,
            bound_at: None,
            addresses,
            inputs,
            sent,
            steps,
            over,
        })
    }

    /// Checks the arguments of a step, looks addresses up if they have moved, and sends the inputs.
    fn prepare(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        if memory.id() != self.memory {
            return Err(Error::OtherMemory { program: self.program.name.clone() });
        }
        validate::vars(&self.program, vars)?;
        if self.bound_at != Some(memory.moves()) {
            self.steps.iter_mut().for_each(HashMap::clear);
            self.addresses.clear();
            self.addresses.extend(self.places.iter().map(|place| memory.address(*place) as u64));
            self.inputs = inputs(&self.program, &self.places, memory);
            self.sent.clear();
            self.bound_at = Some(memory.moves());
        }
        let mut stage = match self.sent.len() {
            SENT.. => self.sent.pop_front().expect("some are there"),
            _ => {
                let bytes = self.inputs.iter().map(|(_, _, bytes)| bytes).sum();
                Stage::new(&self.context, bytes, "the inputs of a step")?
            }
        };
        send_inputs(&self.context, &self.inputs, &mut stage)?;
        self.sent.push_back(stage);
        Ok(())
    }

    /// Scratch of all blocks of the launch that needs most.
    fn scratch(&self, memory: &mut Memory, vars: &[i64]) -> Result<u64> {
        let most = validate::scratch(&self.program, vars)?;
        if most == 0 {
            return Ok(0);
        }
        let place = memory.bind_scratch(1, most)?;
        Ok(memory.address(place[0]) as u64)
    }

    /// All launches of a step, by stage; those without tasks are left out.
    fn calls(&self, vars: &[i64], scratch: u64) -> Result<Vec<Vec<(usize, Call)>>> {
        let mut index = 0;
        let mut stages = vec![];
        for stage in &self.program.stages {
            let mut calls = vec![];
            for launch in &stage.launches {
                let blocks = validate::tasks(&self.program, launch, vars)?;
                if blocks > 0 {
                    calls.push((index, self.call(launch, blocks, vars, scratch)?));
                }
                index += 1;
            }
            stages.push(calls);
        }
        Ok(stages)
    }

    fn call(&self, launch: &Launch, blocks: i64, vars: &[i64], scratch: u64) -> Result<Call> {
        let Kernel { geometry, .. } = &self.program.kernels[launch.kernel];
        let addresses = launch.args.iter().map(|&buffer| self.addresses[buffer]);
        let vars = vars.iter().map(|&value| value as u64);
        let too_many = |_| Error::TaskCount { program: self.program.name.clone(), origin: launch.origin.clone() };
        Ok(Call {
            function: self.loaded.functions[launch.kernel],
            waits: geometry.waits,
            shape: Shape {
                blocks: i32::try_from(blocks).map_err(too_many)? as u32,
                threads: geometry.threads as u32,
                shared: geometry.shared_bytes as u32,
            },
            arguments: addresses.chain(vars).chain([scratch]).collect(),
        })
    }

    /// A graph of stages.
    fn graph<'a>(&self, stages: impl Iterator<Item = &'a [(usize, Call)]>) -> Result<Graph> {
        let context = &self.context;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the graph is destroyed below; nodes are of this graph, and the driver copies arguments when a node is
        // made, so they need to live no longer.
        context.call("cuGraphCreate", |_| unsafe { sys::cuGraphCreate(&mut graph, 0) })?;
        let made = self.add_nodes(graph, stages).and_then(|()| {
            let mut instance = std::ptr::null_mut();
            context
                .call("cuGraphInstantiate", |_| unsafe { sys::cuGraphInstantiateWithFlags(&mut instance, graph, 0) })?;
            Ok(Graph { context: context.clone(), instance })
        });
        context.call("cuGraphDestroy", |_| unsafe { sys::cuGraphDestroy(graph) })?;
        made
    }

    fn add_nodes<'a>(&self, graph: sys::CUgraph, stages: impl Iterator<Item = &'a [(usize, Call)]>) -> Result<()> {
        let early = self.sending == Sending::Graph && self.context.card.architecture().launches_early();
        let mut before: Vec<(sys::CUgraphNode, bool)> = vec![];
        for stage in stages {
            let mut nodes = vec![];
            for (_, call) in stage {
                let mut node = std::ptr::null_mut();
                let mut arguments = pointers(&call.arguments);
                let params = sys::CUDA_KERNEL_NODE_PARAMS {
                    func: call.function,
                    gridDimX: call.shape.blocks,
                    gridDimY: 1,
                    gridDimZ: 1,
                    blockDimX: call.shape.threads,
                    blockDimY: 1,
                    blockDimZ: 1,
                    sharedMemBytes: call.shape.shared,
                    kernelParams: arguments.as_mut_ptr(),
                    extra: std::ptr::null_mut(),
                    kern: std::ptr::null_mut(),
                    ctx: std::ptr::null_mut(),
                };
                self.context.call("cuGraphAddKernelNode", |_| {
                    // SAFETY: see `graph`.
                    unsafe { sys::cuGraphAddKernelNode_v2(&mut node, graph, std::ptr::null(), 0, &params) }
                })?;
                self.depend(graph, &before, node, early && call.waits)?;
                nodes.push((node, call.waits));
            }
            if !nodes.is_empty() {
                before = nodes;
            }
        }
        Ok(())
    }

    /// Makes a node depend on others. Those that trigger it themselves let it begin early, if it waits for them.
    fn depend(
        &self,
        graph: sys::CUgraph,
        before: &[(sys::CUgraphNode, bool)],
        node: sys::CUgraphNode,
        early: bool,
    ) -> Result<()> {
        let from: Vec<sys::CUgraphNode> = before.iter().map(|(node, _)| *node).collect();
        let to = vec![node; from.len()];
        let edge = |&(_, triggers): &(_, bool)| {
            let programmatic = early && triggers;
            sys::CUgraphEdgeData {
                from_port: u8::from(programmatic),
                to_port: 0,
                type_: u8::from(programmatic),
                reserved: [0; 5],
            }
        };
        let edges: Vec<sys::CUgraphEdgeData> = before.iter().map(edge).collect();
        self.context.call("cuGraphAddDependencies", |_| {
            // SAFETY: see `graph`; the lists have this length.
            unsafe { sys::cuGraphAddDependencies_v2(graph, from.as_ptr(), to.as_ptr(), edges.as_ptr(), from.len()) }
        })
    }

    fn launch(&self, call: &Call) -> Result<()> {
        // SAFETY: the function has the parameters that it was generated with, by the contract of `Program`; the buffers
        // live in the memory that is lent to the step.
        unsafe { self.context.launch(call.function, call.shape, &call.arguments) }
    }

    /// Nanoseconds of graphs in a row, the second time that they run.
    fn time(&self, graphs: &[Graph]) -> Result<u64> {
        let (start, end) = (self.context.event()?, self.context.event()?);
        for _ in 0..2 {
            start.record()?;
            self.launch_graphs(graphs)?;
            end.record()?;
        }
        self.context.wait()?;
        end.since(&start)
    }

    /// Sends a step to the card.
    fn send(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.prepare(memory, vars)?;
        if self.sending == Sending::OneByOne {
            let scratch = self.scratch(memory, vars)?;
            for (index, call) in self.calls(vars, scratch)?.iter().flatten() {
                let blamed = |error| self.blame(*index, error);
                self.launch(call).and_then(|()| self.context.wait()).map_err(blamed)?;
            }
            return Ok(());
        }
        let busy = !self.over.passed()?;
        self.make_graphs(memory, vars, busy)?;
        self.launch_graphs(&self.steps[usize::from(busy)][vars])?;
        self.over.record()
    }

    /// Makes the graphs of a step, if they are not there: for a card that waits for them, or is busy.
    fn make_graphs(&mut self, memory: &mut Memory, vars: &[i64], busy: bool) -> Result<()> {
        if self.steps[usize::from(busy)].contains_key(vars) {
            return Ok(());
        }
        let scratch = self.scratch(memory, vars)?;
        if self.bound_at != Some(memory.moves()) {
            // Scratch has grown: graphs that use the old one are gone.
            self.prepare(memory, vars)?;
        }
        let (calls, mut graphs) = (self.calls(vars, scratch)?, vec![]);
        let pieces = if busy { &[][..] } else { &PIECES };
        let mut rest = &calls[..];
        for &piece in pieces.iter().chain([&usize::MAX]) {
            let (first, after) = rest.split_at(piece.min(rest.len()));
            if !first.is_empty() {
                graphs.push(self.graph(first.iter().map(Vec::as_slice))?);
            }
            rest = after;
        }
        let steps = &mut self.steps[usize::from(busy)];
        if steps.len() >= MOST_STEPS {
            steps.clear();
        }
        steps.insert(vars.to_vec(), graphs);
        Ok(())
    }

    fn launch_graphs(&self, graphs: &[Graph]) -> Result<()> {
        graphs.iter().try_for_each(|graph| {
            // SAFETY: the graph is alive; its buffers live in the memory that is lent to the step.
            self.context.call("cuGraphLaunch", |stream| unsafe { sys::cuGraphLaunch(graph.instance, stream) })
        })
    }

    /// Says which launch failed.
    fn blame(&self, index: usize, error: Error) -> Error {
        let launch = self.program.each_launch().nth(index);
        match (error, launch) {
            (Error::Failed { device, problem }, Some(launch)) => {
                let kernel = &self.program.kernels[launch.kernel].symbol;
                Error::Failed { device, problem: format!("{problem} in kernel {kernel} ({})", launch.origin) }
            }
            (error, _) => error,
        }
    }
}

/// The inputs of a program as copies to make: those that lie in one piece of memory go in one copy.
fn inputs(program: &Program, places: &[Place], memory: &Memory) -> Vec<(u64, *mut u8, usize)> {
    let input = |(buffer, place): (&compiler::program::Buffer, &Place)| {
        let block = memory.input_block(*place).filter(|_| matches!(buffer.kind, BufferKind::Input(_)))?;
        Some((block.address() as u64, block.host()?, block.bytes()))
    };
    let mut all: Vec<_> = program.buffers.iter().zip(places).filter_map(input).collect();
    all.sort_unstable();
    all.dedup();
    let mut copies: Vec<(u64, *mut u8, usize)> = vec![];
    for (address, host, bytes) in all {
        match copies.last_mut() {
            // The same distance on both sides: parts of one piece.
            Some((first, first_host, length))
                if address - *first == (host as usize).wrapping_sub(*first_host as usize) as u64 =>
            {
                *length = (address - *first) as usize + bytes;
            }
            _ => copies.push((address, host, bytes)),
        }
    }
    copies
}

impl Executable for Replay {
    fn program(&self) -> &Program {
        &self.program
    }

    fn report(&self) -> &CompileReport {
        &self.loaded.report
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        // What comes out is waited for where it is read.
        self.send(memory, vars)
    }

    /// Takes the time of every kernel apart: all its launches one after another, so that each reads its own weights, as
    /// often as makes the start of a graph small beside them. Then the step itself runs, whose time is that of the graph.
    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], _: Clock) -> Result<Profile> {
        self.send(memory, vars)?;
        let scratch = self.scratch(memory, vars)?;
        let calls: Vec<(usize, Call)> = self.calls(vars, scratch)?.into_iter().flatten().collect();
        let kernels: Vec<usize> = self.program.each_launch().map(|launch| launch.kernel).collect();
        let mut times = vec![0; kernels.len()];
        for kernel in 0..self.program.kernels.len() {
            let own: Vec<&[(usize, Call)]> = calls.chunks(1).filter(|call| kernels[call[0].0] == kernel).collect();
            if own.is_empty() {
                continue;
            }
            let rounds = CHAIN.div_ceil(own.len());
            let graph = self.graph(own.iter().copied().cycle().take(rounds * own.len()))?;
            let each = self.time(&[graph])? / (rounds * own.len()) as u64;
            own.iter().for_each(|call| times[call[0].0] = each);
        }
        // What the kernels left behind, out of order, is written anew.
        self.send(memory, vars)?;
        self.make_graphs(memory, vars, true)?;
        let wall_ns = self.time(&self.steps[1][vars])?;
        Ok(Profile::of_times(&self.program, vars, &times, wall_ns))
    }
}

/// Launches of a kernel in a row that are timed together, at least.
const CHAIN: usize = 32;

impl Drop for Replay {
    fn drop(&mut self) {
        // Nothing that the card still runs loses its code.
        let _ = self.context.wait();
    }
}
