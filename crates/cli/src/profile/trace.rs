//! A step in Chrome's trace format, for Perfetto and `chrome://tracing`.

use compiler::program::Program;
use device::Profile;
use serde_json::{Value, json};

/// Stages on one track, launches on the next. Launches of a stage ran at the same time on several workers; they are
/// drawn one after the other, each as long as its part of the stage.
pub fn chrome(profile: &Profile, program: &Program) -> String {
    let event = |track: u32, name: &str, start_ns: u64, ns: u64, args: Value| {
        json!({
            "name": name, "ph": "X", "pid": 1, "tid": track,
            "ts": start_ns as f64 / 1e3, "dur": ns as f64 / 1e3, "args": args,
        })
    };
    let called = |track: u32, name: &str| json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": { "name": name } });
    let mut events = vec![called(1, "stages"), called(2, "kernels")];
    let mut at = 0;
    for (number, stage) in profile.stages.iter().enumerate() {
        let idle = (profile.workers as u64 * stage.wall_ns).saturating_sub(stage.busy_ns);
        events.push(event(1, &format!("stage {number}"), at, stage.wall_ns, json!({ "waiting_ns": idle })));
        let mut start = at;
        for launch in &profile.launches[stage.launches.clone()] {
            let name = program.kernels.get(launch.kernel).map_or("?", |k| k.symbol.as_str());
            let args = json!({
                "part": launch.scope, "origin": launch.origin, "tasks": launch.tasks, "bytes": launch.bytes, "calls": launch.calls,
                "gb_per_s": launch.bytes as f64 / launch.wall_ns.max(1) as f64,
                "busy_ns": launch.busy_ns, "longest_worker_ns": launch.longest_worker_ns,
            });
            events.push(event(2, name, start, launch.wall_ns, args));
            start += launch.wall_ns;
        }
        at += stage.wall_ns;
    }
    events.push(event(1, "end of step", at, profile.rest_ns, json!({})));
    json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
}
