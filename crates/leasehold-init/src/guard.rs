//! Marker and fence: which sandbox this is, and below which grant nothing starts any more.
//!
//! Both live in memory, where `start` compares, and in a file in the sandbox's directory on the host, which
//! the sandbox cannot reach. The file is written first, so that memory never claims what is not written.

use crate::protocol::{Fence, GUARD_FILE, Refusal};
use rustix::fs::{Mode, OFlags, openat, renameat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    marker: Option<String>,
    fence: Option<Fence>,
}

/// Marker and fence of one sandbox.
pub(crate) struct Guard {
    directory: OwnedFd,
    contents: Contents,
}

impl Guard {
    /// Reads what an earlier init of this sandbox wrote, if any did.
    pub(crate) fn load(directory: OwnedFd) -> io::Result<Self> {
        let contents =
            match openat(&directory, GUARD_FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                Ok(file) => {
                    let mut text = Vec::new();
                    File::from(file).read_to_end(&mut text)?;
                    serde_json::from_slice(&text)?
                }
                Err(rustix::io::Errno::NOENT) => Contents::default(),
                Err(error) => return Err(error.into()),
            };
        Ok(Self { directory, contents })
    }

    /// The sandbox's directory on the host.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The grant below which nothing starts; 0 before the first fence.
    pub(crate) fn grant(&self) -> u64 {
        self.contents.fence.as_ref().map_or(0, |fence| fence.grant)
    }

    /// Marker and fence, for whoever reads them back.
    pub(crate) fn read(&self) -> (Option<String>, Option<Fence>) {
        (self.contents.marker.clone(), self.contents.fence.clone())
    }

    /// Sets the marker, which can be set once, and a fence. Repeating it with the same marker is fine.
    pub(crate) fn prepare(&mut self, marker: String, fence: Fence) -> Result<(), Refusal> {
        if self.contents.marker.as_ref().is_some_and(|present| *present != marker) {
            return Err(Refusal::MarkerDiffers);
        }
        self.change(Some(marker), fence)
    }

    /// Raises the fence. The same grant again is fine, a lower one is refused.
    pub(crate) fn raise(&mut self, fence: Fence) -> Result<(), Refusal> {
        self.change(self.contents.marker.clone(), fence)
    }

    fn change(&mut self, marker: Option<String>, fence: Fence) -> Result<(), Refusal> {
        if fence.grant < self.grant() {
            return Err(Refusal::StaleFence { fence: self.grant() });
        }
        let contents = Contents { marker, fence: Some(fence) };
        if contents != self.contents {
            self.write(&contents)
                .map_err(|error| Refusal::NotWritten { message: error.to_string() })?;
            self.contents = contents;
        }
        Ok(())
    }

    // No fsync: what the fence guards dies in the same power cut.
    fn write(&self, contents: &Contents) -> io::Result<()> {
        const DRAFT: &str = "guard.json.new";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = openat(&self.directory, DRAFT, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(&serde_json::to_vec(contents)?)?;
        Ok(renameat(&self.directory, DRAFT, &self.directory, GUARD_FILE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(grant: u64) -> Fence {
        Fence { grant, tag: format!("tag-{grant}") }
    }

    // Unit tests of this crate get by without a helper crate: one folder per test, removed at its end.
    fn in_folder(name: &str, test: impl Fn(&dyn Fn() -> Guard)) {
        let folder =
            std::env::temp_dir().join(format!("leasehold-guard-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        test(&|| {
            let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
            Guard::load(rustix::fs::open(&folder, flags, Mode::empty()).unwrap()).unwrap()
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_fence_rises_and_never_falls_and_survives_the_init() {
        in_folder("rises", |load| {
            let mut guard = load();
            guard.prepare("marker".into(), fence(3)).unwrap();
            guard.raise(fence(7)).unwrap();
            assert_eq!(guard.raise(fence(6)), Err(Refusal::StaleFence { fence: 7 }));
            guard.raise(fence(7)).unwrap();
            assert_eq!(load().read(), (Some("marker".into()), Some(fence(7))));
        });
    }

    #[test]
    fn a_marker_is_set_once() {
        in_folder("marker", |load| {
            let mut guard = load();
            guard.prepare("one".into(), fence(1)).unwrap();
            guard.prepare("one".into(), fence(1)).unwrap();
            assert_eq!(guard.prepare("two".into(), fence(2)), Err(Refusal::MarkerDiffers));
            assert_eq!(guard.read(), (Some("one".into()), Some(fence(1))));
        });
    }
}
