//! What a process and its children hold, as Linux tells it.

use std::collections::HashMap;
use std::ops::Add;

/// What processes hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    /// MiB that are in memory.
    pub memory: u64,
    /// Descriptors that are open in the process itself: grammars that are kept have a process each, with a few of its own.
    pub descriptors: usize,
    /// Processor time so far, in ticks of a hundredth of a second.
    pub ticks: u64,
    /// How many processes these are.
    pub processes: usize,
}

impl Add for Holds {
    type Output = Holds;

    fn add(self, other: Holds) -> Holds {
        Holds {
            memory: self.memory + other.memory,
            descriptors: self.descriptors + other.descriptors,
            ticks: self.ticks + other.ticks,
            processes: self.processes + other.processes,
        }
    }
}

/// What a process and all that it has started hold. A child that ends meanwhile holds nothing.
pub fn of_family(pid: u32) -> Holds {
    let all = family(pid).into_iter().filter_map(of).fold(Holds::default(), Add::add);
    Holds { descriptors: of(pid).map_or(0, |own| own.descriptors), ..all }
}

/// The most that a process had in memory since [`forget_peak`], in MiB, if it lives.
pub fn peak(pid: u32) -> Option<u64> {
    mebibytes(pid, "VmHWM:")
}

/// Begins to watch for the most that a process has in memory.
pub fn forget_peak(pid: u32) {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("it lives");
}

fn of(pid: u32) -> Option<Holds> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Holds {
        memory: mebibytes(pid, "VmRSS:")?,
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        ticks: ticks(11)? + ticks(12)?,
        processes: 1,
    })
}

fn mebibytes(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    Some(kib.parse::<u64>().ok()? / 1024)
}

/// A process and all its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    for child in all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let parent = std::fs::read_to_string(format!("/proc/{child}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        family.extend(children.remove(&family[at]).unwrap_or_default());
        at += 1;
    }
    family
}
