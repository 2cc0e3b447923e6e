//! What a run needs of the machine.

use std::process;

use conformance::home;

use crate::command::run;

/// What a machine must have, and how it is had.
const TOOLS: &[(&str, &str)] = &[("ip", "iproute2"), ("ss", "iproute2"), ("nft", "nftables")];

/// Says why nothing can be run here, if so.
pub fn unavailable() -> Option<String> {
    if let Some(why) = e2e::disk::unavailable() {
        return Some(why.to_owned());
    }
    for (tool, package) in TOOLS {
        if run(&[tool, "-V"]).is_err() {
            return Some(format!("needs {tool}: apt-get install {package}"));
        }
    }
    // Containers may forbid it to root as well.
    let probe = format!("vltava-torture-{}-probe", process::id());
    let made = run(&["ip", "netns", "add", &probe]);
    let filtered = made
        .as_ref()
        .ok()
        .map(|_| run(&["ip", "netns", "exec", &probe, "nft", "add", "table", "bridge", "probe"]));
    let _ = run(&["ip", "netns", "del", &probe]);
    if let Err(why) = made {
        return Some(format!("needs network namespaces: {why:#}"));
    }
    if let Some(Err(why)) = filtered {
        return Some(format!("needs packet filters on bridges: {why:#}"));
    }
    None
}

/// Says why librdkafka cannot be used, if so.
pub fn without_librdkafka() -> Option<String> {
    home::installed("python/bin/python").err().map(|why| format!("{why:#}"))
}
