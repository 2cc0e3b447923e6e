//! How much memory this process may have: what the machine has, or less where a control group is given less, as
//! containers and units of systemd are.
//!
//! Groups lie in each other, and the smallest limit holds. Both forms of them may be there at once:
//!
//! ```text
//!   /proc/self/cgroup       limits
//!   0::/a/b                 /sys/fs/cgroup/{a/b,a,.}/memory.max                      v2
//!   4:cpu,memory:/a/b       /sys/fs/cgroup/memory/{a/b,a,.}/memory.limit_in_bytes    v1
//! ```
//!
//! A container may see the names of its groups from outside and find its own group at the root. What is not there,
//! or is no number, limits nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// In bytes.
pub(crate) fn bytes_max() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = (machine.totalram as u64).saturating_mul(machine.mem_unit.into());
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least(machine, &groups, |path| fs::read_to_string(path).ok())
}

/// The least of what the machine has and of what the groups may have that the process is in.
fn least(machine: u64, groups: &str, read: impl Fn(&Path) -> Option<String>) -> u64 {
    let files = groups.lines().flat_map(limits);
    // One without a limit says `max`, or more than any machine has.
    files.filter_map(|file| read(&file)?.trim().parse().ok()).fold(machine, u64::min)
}

/// The files with the limits of a group and of those above it.
fn limits(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        v1 if v1.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|above| Path::new(root).join(above).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: u64 = 8 << 30;
    const MIB: u64 = 1 << 20;

    /// What a process may have: name, its groups, the limits that there are, and what comes of it.
    type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], u64);

    const V2: &str = "0::/system.slice/vltava.service\n";
    const V1: &str = "9:name=systemd:/\n4:cpu,memory:/docker/4711\n3:memory_of_others:/x\n0::/\n";

    const CASES: &[Case] = &[
        ("no group has a limit", V2, &[], MACHINE),
        ("its own group has", V2, &[("system.slice/vltava.service/memory.max", "536870912\n")], 512 * MIB),
        (
            "the one above has a smaller one",
            V2,
            &[
                ("system.slice/vltava.service/memory.max", "536870912\n"),
                ("system.slice/memory.max", "268435456\n"),
                ("memory.max", "max\n"),
            ],
            256 * MIB,
        ),
        ("the root of a container has", "0::/\n", &[("memory.max", "536870912\n")], 512 * MIB),
        ("none is set", V2, &[("system.slice/vltava.service/memory.max", "max\n")], MACHINE),
        ("v1", V1, &[("memory/docker/4711/memory.limit_in_bytes", "536870912\n")], 512 * MIB),
        ("v1 in a container", V1, &[("memory/memory.limit_in_bytes", "536870912\n")], 512 * MIB),
        (
            "v1 has a number where none is set",
            V1,
            &[("memory/docker/4711/memory.limit_in_bytes", "9223372036854771712\n")],
            MACHINE,
        ),
        (
            "not of this process",
            V1,
            &[("memory/x/memory.limit_in_bytes", "1\n"), ("x/memory.max", "1")],
            MACHINE,
        ),
        ("a group with a colon", "0::/a:b\n", &[("a:b/memory.max", "536870912")], 512 * MIB),
        ("no numbers", V2, &[("system.slice/memory.max", "-1\n"), ("memory.max", "\u{0}many")], MACHINE),
        ("no lines of groups", "\n::\n0\n0:memory\n:::::\nmemory", &[], MACHINE),
        ("nothing is known", "", &[("memory.max", "536870912")], MACHINE),
    ];

    #[test]
    fn the_least_of_all_limits_holds() {
        for (name, groups, files, expected) in CASES {
            let read = |path: &Path| {
                let path = path.strip_prefix("/sys/fs/cgroup").unwrap();
                let found = files.iter().find(|(file, _)| Path::new(file) == path)?;
                Some(found.1.to_owned())
            };
            assert_eq!(least(MACHINE, groups, read), *expected, "{name}");
        }
    }
}
