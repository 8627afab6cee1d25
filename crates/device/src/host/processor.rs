//! What processor this machine has.

/// The name of the processor, for people.
pub fn name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|l| l.starts_with("model name") || l.starts_with("Model"));
    let name = line.and_then(|l| l.split_once(':')).map(|(_, name)| name.trim());
    name.filter(|n| !n.is_empty()).unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The name with the numbers that tell apart processors of one name, as virtual machines often give: family, model and
/// stepping, or implementer and part.
pub(crate) fn identity() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    identity_in(&info, &name())
}

fn identity_in(info: &str, name: &str) -> String {
    let wanted = ["cpu family", "model", "stepping", "CPU implementer", "CPU part"];
    let first = info.split("\n\n").next().unwrap_or_default();
    let value = |wanted: &str| {
        let mut pairs = first.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim())
    };
    let numbers: Vec<&str> = wanted.into_iter().filter_map(value).collect();
    if numbers.is_empty() { name.to_owned() } else { format!("{name} ({})", numbers.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_one_name_are_told_apart() {
        let info = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: A\nstepping\t: 1\n\nmodel\t: 9\n";
        assert_eq!(identity_in(info, "A"), "A (26 2 1)");
        assert_eq!(identity_in("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "aarch64"), "aarch64 (0x41 0xd40)");
        assert_eq!(identity_in("", "x86_64"), "x86_64");
    }
}
