//! What a kernel does that makes it slow, read off its IR.

use compiler::Compiled;
use ir::{Graph, Id, Op, Space};

/// For each kernel: loads packed weights byte by byte, reduces serially, or fell to a generic path.
pub fn of(compiled: &Compiled) -> Vec<Vec<&'static str>> {
    let body = |body: &compiler::kernel::body::Body| {
        let mut marks = vec![];
        if loads_bytes(&compiled.graph, body.root) {
            marks.push("byte loads");
        }
        if body.paths().contains(&"scalar reduction") {
            marks.push("serial");
        }
        if body.paths().iter().all(|path| path.starts_with("scalar")) {
            marks.push("generic");
        }
        marks
    };
    compiled.bodies.iter().map(body).collect()
}

/// Fewer tasks than make workers end together.
pub fn of_tasks(tasks: i64, workers: usize) -> Option<&'static str> {
    (tasks < 4 * workers as i64).then_some("few tasks")
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

#[cfg(test)]
mod tests {
    use super::*;
    use compiler::{Builder, Numerics, Options, Tensor, compile, dims};
    use gguf::GgmlType;
    use ir::{DType, UnOp};

    /// The marks of the last kernel of a program.
    fn marks(numerics: Numerics, vector_bytes: usize, build: impl Fn(&Builder) -> Tensor) -> Vec<&'static str> {
        let b = Builder::new();
        let y = build(&b);
        let compiled =
            compile(&b, "marks", &[("y", &y)], &[], &Options::cpu(numerics, vector_bytes)).expect("a program");
        let all = of(&compiled);
        all.into_iter().next_back().expect("a kernel")
    }

    fn product(ty: GgmlType) -> impl Fn(&Builder) -> Tensor {
        move |b| {
            let x = b.input("x", DType::F32, dims![1, 256]);
            let w = match ty.format().filter(|f| f.as_blocks().is_some()) {
                Some(format) => b.quantised("w", format, dims![64, 256]),
                None => b.param("w", DType::F32, dims![64, 256]),
            };
            x.linear(&w)
        }
    }

    #[test]
    fn what_has_lanes_has_no_marks() {
        for (numerics, ty) in
            [(Numerics::Int8, GgmlType::Q4_0), (Numerics::Exact, GgmlType::Q4_0), (Numerics::Exact, GgmlType::F32)]
        {
            assert_eq!(marks(numerics, 64, product(ty)), [""; 0], "{numerics:?} {ty:?}");
        }
    }

    #[test]
    fn packed_weights_without_lanes_are_loaded_byte_by_byte() {
        assert_eq!(marks(Numerics::Exact, 0, product(GgmlType::Q4_0)), ["byte loads", "serial", "generic"]);
        assert_eq!(marks(Numerics::Exact, 0, product(GgmlType::F32)), ["serial", "generic"]);
    }

    #[test]
    fn a_short_sum_is_serial_and_what_follows_may_have_lanes() {
        let sums = |b: &Builder| {
            let x = b.param("x", DType::F32, dims![64, 3]);
            x.sum(1).unary(UnOp::Exp)
        };
        assert_eq!(marks(Numerics::Exact, 64, sums), ["serial"]);
    }

    #[test]
    fn few_tasks_for_the_workers() {
        assert_eq!([of_tasks(7, 2), of_tasks(8, 2), of_tasks(0, 1)], [Some("few tasks"), None, Some("few tasks")]);
    }
}
