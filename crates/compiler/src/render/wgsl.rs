//! WGSL of a kernel of blocks, which wgpu translates for Vulkan, Metal and DirectX.
//!
//! Prints the instructions that were selected for each value. A kernel is an entry point of its own module: a storage
//! buffer for each slot, one for scratch that does not fit into the memory of a workgroup, and a uniform buffer with the
//! variables of the program, in the order of [`Bindings`]. A workgroup is a task.
//!
//! The language has no bytes and no wide vectors. Memory is arrays of words (`memory`); halves are floats that are rounded,
//! numbers of fewer bits are words whose other bits are zero or the sign. A vector has a name for each lane, or for each word
//! of four bytes (`values`). An index has 32 bits: what does not fit into a binding is refused when a program is loaded.

mod matrices;
mod memory;
mod moved;
mod values;

use crate::gpu::early;
use crate::gpu::launch::{ALIGN, geometry};
use crate::gpu::plan::GpuPlan;
use crate::gpu::select::{Inst, Selection, elementwise, in_words};
use crate::kernel::body::{Body, shared, tasks_of};
use crate::render::family::{Language, Renderer, Unwritable};
use crate::render::invariant;
use ir::{Axis, Const, DType, Graph, Id, Op, Space, Type, index};
use matrices::{Matrices, array_name, arrays};
use memory::{Array, View, views};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;

/// Text before every kernel.
pub const PRELUDE: &str = include_str!("prelude.wgsl");

/// The same where warps multiply matrices as a whole.
pub const PRELUDE_OF_MATRICES: &str =
    concat!("enable f16;\nenable wgpu_cooperative_matrix;\n\n", include_str!("prelude.wgsl"));

/// Workgroups along one dimension at most; more of them lie in rows of so many.
pub const ROW: i64 = 32768;

/// Which binding of group 0 is what, for a kernel with so many slots. Slots come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bindings {
    /// The slots.
    pub slots: usize,
}

impl Bindings {
    /// Storage buffers beside the slots.
    pub const OTHERS: usize = 1;

    /// The uniform buffer of variables, four in a vector.
    pub fn vars(self) -> usize {
        self.slots
    }

    /// Scratch.
    pub fn scratch(self) -> usize {
        self.slots + 1
    }
}

/// The entry point of a kernel with `slots` buffers, for a GPU that is used by this plan. `vars` names the variables in
/// the order of their numbers.
///
/// # Errors
/// What WGSL has no words for.
pub(crate) fn kernel(
    g: &mut Graph,
    symbol: &str,
    body: &Body,
    selection: &Selection,
    plan: &GpuPlan,
    slots: usize,
    vars: &[String],
) -> Result<String, Unwritable> {
    let size = geometry(g, body, plan);
    let views = views(g, body.root);
    let bindings = Bindings { slots };
    let mut head = String::new();
    for slot in 0..slots {
        let view = views.slots.get(&(slot as u32)).copied().unwrap_or(View::Vectors);
        // What is only read may lie in a buffer that is written as well, which has one use in a launch.
        let _ =
            writeln!(head, "@group(0) @binding({slot}) var<storage, read_write> p{slot}: array<{}>;", view.element());
    }
    if !vars.is_empty() {
        let (at, fours) = (bindings.vars(), vars.len().div_ceil(4));
        let _ = writeln!(head, "@group(0) @binding({at}) var<uniform> vars: array<vec4<i32>, {fours}>;");
    }
    if size.scratch_bytes > 0 {
        let (at, element) = (bindings.scratch(), views.scratch.element());
        let _ = writeln!(head, "@group(0) @binding({at}) var<storage, read_write> scratch: array<{element}>;");
    }
    for (array, bytes) in arrays(g, body) {
        let (name, view) = (array_name(array), array.map_or(views.shared, View::of_matrices));
        let (element, count) = (view.element(), bytes / array.map_or(4, DType::bytes));
        let _ = writeln!(head, "var<workgroup> {name}: array<{element}, {count}>;");
    }
    let lanes = plan.lanes;
    let threads = size.threads;
    let _ = write!(head, "@compute @workgroup_size({threads})\nfn {symbol}(@builtin(workgroup_id) group: vec3<u32>");
    let place = if lanes > 1 && threads as i64 >= lanes {
        head.push_str(", @builtin(subgroup_id) warp_id: u32, @builtin(subgroup_invocation_id) lane_id: u32) {\n");
        "let warp = i32(warp_id); let lane = i32(lane_id);".into()
    } else {
        head.push_str(", @builtin(local_invocation_index) thread: u32) {\n");
        format!("let warp = i32(thread) / {lanes}; let lane = i32(thread) % {lanes};")
    };
    let moved = moved::moved(g, body.root, selection);
    let written = early::written(g, &[body.root]);
    let (places, matrices) = (FxHashMap::default(), Matrices::default());
    let language = Wgsl { selection, places, matrices, written, moved };
    let mut r = Renderer::new(language, vars, 0);
    r.line(&place);
    let many = index::bounds(g, body.tasks).1 > ROW;
    r.line(&format!("let block = i32(group.x{});", if many { format!(" + group.y * {ROW}u") } else { String::new() }));
    if many {
        let tasks = r.value(g, body.tasks);
        r.line(&format!("if (block >= {tasks}) {{ return; }}"));
    }
    let parts = body.parts(g);
    let Some(((last, of_last), before)) = parts.split_last() else { return r.finish() };
    for (i, (part, stashes)) in before.iter().enumerate() {
        let n = tasks_of(g, *part).map_or("1".into(), |n| r.value(g, n));
        r.line(&format!("let end{i} = {}{n};", if i > 0 { format!("end{} + ", i - 1) } else { String::new() }));
        r.scope(&format!("if (block < end{i}) "), |r| {
            r.part(g, *part, stashes, size.scratch_bytes, &views, i);
            r.line("return;");
        });
    }
    r.part(g, *last, of_last, size.scratch_bytes, &views, before.len());
    Ok(format!("{head}{}}}\n", r.finish()?))
}

/// The type of a register.
fn register(ty: DType) -> &'static str {
    match ty {
        DType::Bool => "bool",
        DType::U8 | DType::U16 | DType::U32 => "u32",
        DType::I8 | DType::I16 | DType::I32 | DType::Index => "i32",
        DType::F16 | DType::BF16 | DType::F32 => "f32",
    }
}

/// WGSL, and how the values of a kernel are computed in it.
struct Wgsl<'s> {
    selection: &'s Selection,
    /// Where each buffer lies.
    places: FxHashMap<Id, Array>,
    matrices: Matrices,
    /// Slots that the kernel writes.
    written: FxHashSet<u32>,
    /// Accumulators of f16 numbers that are kept as words.
    moved: FxHashSet<Id>,
}

impl Language for Wgsl<'_> {
    const NAME: &'static str = "WGSL";

    const UNROLLS: bool = true;

    fn type_name(ty: Type) -> String {
        if ty.lanes > 1 && in_words(ty) { "u32".into() } else { register(ty.base).into() }
    }

    fn type_of(g: &mut Graph, id: Id) -> String {
        Self::type_name(g.ty(id))
    }

    fn parts(ty: Type) -> usize {
        let lanes = usize::from(ty.lanes);
        if in_words(ty) { lanes / 4 } else { lanes }
    }

    fn part(name: &str, ty: Type, part: usize) -> String {
        if ty.lanes == 1 { name.into() } else { format!("{name}_{part}") }
    }

    fn definition(ty: &str, name: &str, text: &str) -> String {
        format!("let {name}: {ty} = {text};")
    }

    fn counting(ty: &str, name: &str, end: &str, step: i64) -> String {
        format!("var {name}: {ty} = 0; {name} < {end}; {name} += {step}")
    }

    fn tag(ty: DType) -> String {
        ty.to_string()
    }

    fn constant(c: Const, ty: DType) -> String {
        values::constant(c, ty)
    }

    fn variable(_: &mut Graph, _: Id, number: usize) -> String {
        format!("vars[{}].{}", number / 4, ["x", "y", "z", "w"][number % 4])
    }

    fn first(&self, g: &Graph, statements: &[Id]) -> Vec<Id> {
        invariant::loads(g, statements, &self.written)
    }

    fn define(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        let selection = r.language.selection;
        // Places are counted in larger units only when they are written.
        let made = if selection.contains_key(&id) { None } else { elementwise(g, id) };
        let Some(inst) = selection.get(&id).or(made.as_ref()) else { return r.unknown(g, id) };
        if let Inst::Matrix { buffer, at, pitch, transposed } = *inst {
            return r.loaded_matrix(g, id, [buffer, at], pitch, transposed);
        }
        r.computed(g, id, inst).unwrap_or_else(|| r.unknown(g, id))
    }

    fn branch(r: &mut Renderer<'_, Self>, g: &Graph, id: Id, condition: &str) -> String {
        r.branch_of_matrices(g, id, condition).unwrap_or_else(|| format!("if ({condition}) "))
    }

    fn set_whole(r: &mut Renderer<'_, Self>, g: &mut Graph, acc: Id, value: Id) -> Option<String> {
        r.set_matrix(g, acc, value).or_else(|| r.set_moved(g, acc, value))
    }

    fn store(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        r.stored(g, id)
    }

    fn statement(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) {
        match g.op(id) {
            Op::Barrier { memory } => {
                if *memory {
                    r.line("storageBarrier();");
                }
                r.line("workgroupBarrier();");
            }
            Op::StoreFragment { .. } => r.store_matrix(g, id),
            _ => drop(r.unknown(g, id)),
        }
    }
}

impl Renderer<'_, Wgsl<'_>> {
    /// The kernel of this number among those side by side: its scratch, accumulators and buffers, then its statements.
    fn part(&mut self, g: &mut Graph, root: Id, stashes: &[Id], scratch: usize, views: &memory::Views, number: usize) {
        let first = if number > 0 { format!(" - end{}", number - 1) } else { String::new() };
        self.line(&format!("let task = block{first};"));
        let (near, mut far) = (shared(g, root, stashes, ALIGN).0, 0);
        self.language.matrices = Matrices::of(g, root);
        for &s in stashes {
            let Op::Buffer { space, len, .. } = *g.op(s) else { continue };
            let array = match space {
                Space::Shared => {
                    let array = self.language.matrices.array(g, s);
                    let first = (near[&s] / array.map_or(4, DType::bytes)).to_string();
                    Array { view: array.map_or(views.shared, View::of_matrices), name: array_name(array).into(), first }
                }
                _ => {
                    let first = format!("block * {} + {}", scratch / 4, far / 4);
                    far += (len * g.dtype(s).bytes()).next_multiple_of(ALIGN);
                    Array { view: views.scratch, name: "scratch".into(), first }
                }
            };
            self.language.places.insert(s, array);
        }
        let mut declared = FxHashSet::default();
        for id in g.toposort(&[root]) {
            match *g.op(id) {
                Op::Acc(n) if self.language.matrices.is_sums(id) => {
                    self.line(&format!("var a{n}: {};", matrices::SUMS));
                }
                Op::Acc(_) if self.language.moved.contains(&id) => {
                    let words = self.moved_words(g, id).into_iter().flatten();
                    let lines: Vec<String> = words.map(|word| format!("var {word}: u32;")).collect();
                    lines.iter().for_each(|line| self.line(line));
                }
                Op::Acc(n) => {
                    let ty = g.ty(id);
                    for part in 0..Wgsl::parts(ty) {
                        let name = Wgsl::part(&format!("a{n}"), ty, part);
                        let line = format!("var {name}: {};", Wgsl::type_name(ty));
                        if declared.insert(line.clone()) {
                            self.line(&line);
                        }
                    }
                }
                Op::Buffer { slot, space, .. } if !space.is_scratch() => {
                    let view = views.slots[&slot];
                    self.language.places.insert(id, Array { view, name: format!("p{slot}"), first: String::new() });
                }
                Op::Range(_, axis) => {
                    let name = match axis {
                        Axis::Task => "task",
                        Axis::Warp => "warp",
                        Axis::Lane => "lane",
                        Axis::Loop => continue,
                    };
                    self.name(id, name);
                }
                _ => {}
            }
        }
        self.body(g, &[root]);
    }
}
