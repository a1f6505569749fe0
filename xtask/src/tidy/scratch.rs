//! A small tree of files in the system's temporary folder, for the tests; removed when dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Only distinctness is asked of the counter, no order with anything else.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let scratch =
            Self(std::env::temp_dir().join(format!("xtask-{}-{number}", std::process::id())));
        files.iter().for_each(|(path, text)| scratch.write(path, text));
        scratch
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs git here, under a name of its own so that no machine's settings matter.
    pub(crate) fn git(&self, arguments: &[&str]) {
        let identity = [
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "commit.gpgsign=false",
        ];
        let mut git = std::process::Command::new("git");
        let status = git.arg("-C").arg(&self.0).args(identity).args(arguments).status().unwrap();
        assert!(status.success(), "git {arguments:?}");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder left behind in the temporary place does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
