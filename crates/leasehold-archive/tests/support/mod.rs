//! A place with a root and a canary beside it, and archives made by hand.

#![allow(dead_code, reason = "each test file uses another part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use leasehold_archive::{
    ArchiveError, PackOptions, Refusal, Root, Summary, UnpackOptions, Watch, pack, unpack_into,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tar::Header;

pub(crate) const SECRET: &str = "what nobody may read or change";

/// A folder with `root`, and `outside` with a canary in it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    outside: Vec<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// In memory if this machine has a place for that: for tests that make and remove very much, where a
    /// disk that others sync makes them slow.
    pub(crate) fn in_memory() -> Self {
        Self::within(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn within(folder: tempfile::TempDir) -> Self {
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::create_dir_all(folder.path().join("outside/directory")).unwrap();
        fs::write(folder.path().join("outside/canary"), SECRET).unwrap();
        let outside = tree(&folder.path().join("outside"));
        Self { folder, outside }
    }

    pub(crate) fn root(&self) -> Root {
        Root::open(self.path("")).unwrap()
    }

    /// A path in the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    /// A path outside of it.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.folder.path().join("outside").join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Everything in the root, with types, modes, times and contents.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(&self.path(""))
    }

    /// Names in the root, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn unpack(&self, archive: &[u8]) -> Result<Summary, ArchiveError> {
        self.unpack_with(archive, &UnpackOptions::default())
    }

    pub(crate) fn unpack_with(
        &self,
        archive: &[u8],
        options: &UnpackOptions,
    ) -> Result<Summary, ArchiveError> {
        let result = unpack_into(&self.root(), archive, options, &mut Watch::none());
        self.assert_confined();
        result
    }

    pub(crate) fn pack(&self) -> (Vec<u8>, Summary) {
        self.pack_with(&PackOptions::default()).unwrap()
    }

    pub(crate) fn pack_with(
        &self,
        options: &PackOptions,
    ) -> Result<(Vec<u8>, Summary), ArchiveError> {
        let mut archive = Vec::new();
        let summary = pack(&self.root(), &mut archive, options, &mut Watch::none())?;
        Ok((archive, summary))
    }

    /// Nothing outside of the root was changed.
    pub(crate) fn assert_confined(&self) {
        assert_eq!(tree(&self.folder.path().join("outside")), self.outside);
        let mut beside: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        beside.sort();
        assert_eq!(beside, ["outside", "root"]);
    }
}

fn tree(top: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let facts = fs::symlink_metadata(&path).unwrap();
        let content = if facts.is_symlink() {
            format!("-> {:?}", fs::read_link(&path).unwrap())
        } else if facts.is_file() {
            format!("{:?}", fs::read(&path).unwrap())
        } else {
            if facts.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            String::new()
        };
        let (mode, seconds, nanoseconds) = (facts.mode(), facts.mtime(), facts.mtime_nsec());
        let name = path.strip_prefix(top).unwrap();
        lines.push(format!("{name:?} {mode:o} {seconds}.{nanoseconds:09} {content}"));
    }
    lines.sort();
    lines
}

/// An archive made by hand, without any check.
#[derive(Default)]
pub(crate) struct Forged {
    bytes: Vec<u8>,
}

impl Forged {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(b'0', name.as_bytes(), b"", content.as_bytes())
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.entry(b'5', name.as_bytes(), b"", b"")
    }

    pub(crate) fn symlink(self, name: &str, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().to_str().unwrap().as_bytes();
        self.long(b'K', target).entry(b'2', name.as_bytes(), b"", b"")
    }

    pub(crate) fn hard_link(self, name: &str, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().to_str().unwrap().as_bytes();
        self.long(b'K', target).entry(b'1', name.as_bytes(), b"", b"")
    }

    /// A GNU extension for a long name (`L`) or link (`K`).
    pub(crate) fn long(self, flag: u8, text: &[u8]) -> Self {
        self.entry(flag, b"././@LongLink", b"", &[text, b"\0"].concat())
    }

    /// A pax extended header with one record for each pair.
    pub(crate) fn pax(self, flag: u8, records: &[(&str, &str)]) -> Self {
        let mut data = String::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length += 1;
            }
            data += &format!("{length} {key}={value}\n");
        }
        self.entry(flag, b"pax", b"", data.as_bytes())
    }

    pub(crate) fn entry(self, flag: u8, name: &[u8], link: &[u8], content: &[u8]) -> Self {
        self.header(flag, name, link, content.len() as u64, |_| {}).content(content)
    }

    /// A header alone; `change` is made before the checksum.
    pub(crate) fn header(
        mut self,
        flag: u8,
        name: &[u8],
        link: &[u8],
        size: u64,
        change: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.as_old_mut().linkflag = [flag];
        header.set_size(size);
        header.set_mode(if flag == b'5' { 0o755 } else { 0o644 });
        header.set_mtime(1_000);
        change(&mut header);
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self
    }

    /// Content, filled up to a whole block.
    pub(crate) fn content(mut self, content: &[u8]) -> Self {
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// With the end mark.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 1024]);
        self.bytes
    }

    /// Without it.
    pub(crate) fn cut(self) -> Vec<u8> {
        self.bytes
    }
}

/// The reason of a refusal.
pub(crate) fn reason(result: Result<Summary, ArchiveError>) -> Refusal {
    match result {
        Err(ArchiveError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}
