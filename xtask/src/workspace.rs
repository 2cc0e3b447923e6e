//! Where the workspace is and which files belong to it.

use std::path::{Path, PathBuf};

/// The root of the workspace this tool was built from.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}
