//! What a kernel does that makes it slow, read off its IR.

use compiler::Compiled;
use ir::{Graph, Id, Op, Space};

/// For each kernel: loads packed weights byte by byte, reduces serially, or fell to a generic path.
pub fn of(compiled: &Compiled) -> Vec<Vec<&'static str>> {
    let body = |body: &compiler::tile::Body| {
        let mut marks = vec![];
        if loads_bytes(&compiled.graph, body.root) {
            marks.push("byte loads");
        }
        if body.paths.contains(&"scalar reduction") {
            marks.push("serial");
        }
        if body.paths.iter().all(|path| path.starts_with("scalar")) {
            marks.push("generic");
        }
        marks
    };
    compiled.bodies.iter().map(body).collect()
}

/// Whether an innermost loop loads single bytes of a parameter.
fn loads_bytes(g: &Graph, root: Id) -> bool {
    let is_loop = |id: Id| matches!(g.op(id), Op::Loop);
    let loops = g.toposort(&[root]).into_iter().filter(|&id| is_loop(id));
    loops.into_iter().any(|id| {
        let inside = g.toposort(&g.src(id)[1..]);
        // A load that does not follow the loop's counter is hoisted out of it.
        let counter = g.src(id)[0];
        !inside.iter().any(|&i| is_loop(i))
            && inside.iter().any(|&i| is_byte_load(g, i) && g.toposort(&[i]).contains(&counter))
    })
}

fn is_byte_load(g: &Graph, id: Id) -> bool {
    let (Op::Load, ty) = (g.op(id), g.ty(id)) else { return false };
    let from_parameter = matches!(g.op(g.src(id)[0]), Op::Buffer { space: Space::Input, .. });
    from_parameter && ty.lanes == 1 && ty.base.bytes() == 1
}
