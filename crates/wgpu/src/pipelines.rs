//! From the kernels of a program to pipelines of the adapter.

use crate::context::{Context, one_line, unusable};
use compiler::program::{Kernel, Program};
use compiler::render::wgsl::Bindings;
use device::{CompileReport, Result};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

/// What the kernels of a program are run by.
pub struct Pipelines {
    /// One for each kernel.
    pub(crate) kernels: Vec<Pipeline>,
    /// How they came to be.
    pub(crate) report: CompileReport,
}

/// What a kernel is run by.
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) bindings: Bindings,
    /// Whether it has scratch.
    pub(crate) scratch: bool,
}

/// What pipelines with equal bindings share.
type Layouts = HashMap<(usize, bool), (wgpu::BindGroupLayout, wgpu::PipelineLayout)>;

/// Makes the pipelines of a program.
///
/// # Errors
/// [`device::Error::Unusable`] for a kernel that the adapter cannot run, with its name.
pub(crate) fn load(context: &Arc<Context>, program: &Program) -> Result<Pipelines> {
    let start = Instant::now();
    let mut layouts = Layouts::new();
    let mut kernels = vec![];
    for (number, kernel) in program.kernels.iter().enumerate() {
        kernels.push(pipeline(context, program, number, kernel, &mut layouts)?);
    }
    let made = kernels.len();
    let report = CompileReport {
        kernels: made,
        compiled: made,
        units: made,
        compiler: Some("naga".into()),
        time: start.elapsed(),
        ..CompileReport::default()
    };
    Ok(Pipelines { kernels, report })
}

fn pipeline(
    context: &Context,
    program: &Program,
    number: usize,
    kernel: &Kernel,
    layouts: &mut Layouts,
) -> Result<Pipeline> {
    let refused =
        |problem: &str| unusable(format!("kernel {} cannot run on {}: {problem}", kernel.symbol, context.title));
    let limits = context.device.limits();
    let needs = [
        ("bytes of shared memory", kernel.geometry.shared_bytes, limits.max_compute_workgroup_storage_size),
        ("threads", kernel.geometry.threads, limits.max_compute_invocations_per_workgroup),
    ];
    if let Some((what, needs, most)) = needs.into_iter().find(|(_, needs, most)| *needs > *most as usize) {
        return Err(refused(&format!("it needs {needs} {what}, and there are {most}")));
    }
    let launch = program.each_launch().find(|launch| launch.kernel == number);
    let bindings = Bindings { slots: launch.map_or(0, |launch| launch.args.len()) };
    let scratch = kernel.geometry.scratch_bytes > 0;
    let vars = program.vars.len();
    let made = context.scoped(|| {
        let (layout, of_pipeline) =
            layouts.entry((bindings.slots, scratch)).or_insert_with(|| layouts_of(context, bindings, vars, scratch));
        let text = format!("{}\n{}", program.prelude, kernel.source);
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) };
        let module = match kernel.ir {
            // SAFETY: the compiler proves that every access of its kernels is within their buffers, and that loops end; what
            // a kernel may do is checked before ([`device::validate`]).
            Some(_) => unsafe {
                context.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
            },
            // Of a custom kernel nothing is known.
            None => context.device.create_shader_module(descriptor),
        };
        let pipeline = context.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(of_pipeline),
            module: &module,
            entry_point: Some(&kernel.symbol),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        Pipeline { pipeline, layout: layout.clone(), bindings, scratch }
    });
    made.map_err(|error| refused(&one_line(&error.to_string())))
}

/// The bindings of a kernel, as [`Bindings`] numbers them.
fn layouts_of(
    context: &Context,
    bindings: Bindings,
    vars: usize,
    scratch: bool,
) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
    let entry = |binding: usize, ty, bytes: Option<u64>| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: bytes.and_then(NonZeroU64::new),
        },
        count: None,
    };
    // What a kernel only reads may lie in a buffer that it writes as well, which must have one use.
    let storage = wgpu::BufferBindingType::Storage { read_only: false };
    let mut entries: Vec<_> = (0..bindings.slots).map(|slot| entry(slot, storage, None)).collect();
    if vars > 0 {
        entries.push(entry(bindings.vars(), wgpu::BufferBindingType::Uniform, None));
    }
    if scratch {
        entries.push(entry(bindings.scratch(), storage, None));
    }
    let layout =
        context.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let of_pipeline = context.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    (layout, of_pipeline)
}
