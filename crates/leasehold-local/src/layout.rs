//! The state directory: where sandboxes are, how a name is taken, how one is found.
//!
//! Everything here is blocking file work, done on the blocking pool. Nothing here starts or ends a process.

use crate::error::LocalError;
use crate::record::{Record, digest_of};
use crate::remove_tree::remove_tree;
use data_encoding::BASE32_NOPAD;
use leasehold_core::{SandboxId, SandboxName};
use leasehold_init::identity::ProcessIdentity;
use leasehold_init::protocol::{
    BIRTH_FILE, DESTROYING_FILE, HOME_FOLDER, LOCK_FILE, OutsideIds, RECORD_FILE, ROOT_FOLDER,
    TEMPORARY_FOLDER, TIMER_FILE, TimerEnd, WORKSPACE_FOLDER,
};
use rustix::fs::{
    FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, flock, openat, renameat_with,
};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const DRAFTS_LOCK: &str = "drafts.lock";
const DRAFT_PREFIX: &str = ".new-";
const GONE_PREFIX: &str = ".gone-";
const OPEN_FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Random bits of an id, beside the digest of the name.
pub(crate) const ID_BYTES: usize = 10;

/// The folders that a sandbox sees, with their modes.
const OWN_FOLDERS: [(&str, u32); 3] =
    [(WORKSPACE_FOLDER, 0o755), (HOME_FOLDER, 0o700), (TEMPORARY_FOLDER, 0o1777)];

/// The state directory.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    folder: OwnedFd,
}

/// The directory of one sandbox.
#[derive(Debug)]
pub(crate) struct SandboxDirectory {
    pub(crate) path: PathBuf,
    pub(crate) folder: OwnedFd,
}

/// A sandbox that is there, as its directory tells.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) directory: SandboxDirectory,
    pub(crate) record: Record,
}

/// The name of a sandbox's directory.
fn directory_name(name: &SandboxName) -> String {
    digest_of(&["sandbox name", name.as_str()])
}

/// The id of a sandbox: where it is, and which of those that were ever there.
pub(crate) fn id_of(name: &SandboxName, random: &[u8; ID_BYTES]) -> Result<SandboxId, LocalError> {
    let random = BASE32_NOPAD.encode(random).to_ascii_lowercase();
    SandboxId::new(format!("{}-{random}", directory_name(name)))
        .map_err(|error| LocalError::Unsuitable(error.to_string()))
}

impl StateDirectory {
    /// Opens the state directory, makes it if it is absent, and removes what earlier processes left half done
    /// there and no sandbox is.
    pub(crate) fn open(path: &Path) -> Result<Self, LocalError> {
        let file_error = |action| {
            let path = path.to_owned();
            move |source| LocalError::File { action, path, source }
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(file_error("make"))?;
        let path = std::path::absolute(path).map_err(file_error("find"))?;
        let metadata = std::fs::metadata(&path).map_err(file_error("look at"))?;
        let own = metadata.uid() == rustix::process::geteuid().as_raw();
        if !own || metadata.permissions().mode() & 0o077 != 0 {
            return Err(LocalError::ExposedDirectory { path });
        }
        let folder = rustix::fs::open(&path, OPEN_FOLDER, Mode::empty()).map_err(|errno| {
            LocalError::File { action: "open", path: path.clone(), source: errno.into() }
        })?;
        let state = Self { path, folder };
        state.remove_rubbish()?;
        Ok(state)
    }

    fn file_error(&self, action: &'static str) -> impl FnOnce(Errno) -> LocalError + use<> {
        let path = self.path.clone();
        move |errno| LocalError::File { action, path, source: errno.into() }
    }

    /// Puts a draft together: all of a sandbox's directory but the record.
    ///
    /// The lock goes along until the draft has become a sandbox, so that nobody takes it for rubbish.
    pub(crate) fn draft(&self, random: &str, outside: OutsideIds) -> Result<Draft<'_>, LocalError> {
        let lock = self.drafts_lock().map_err(self.file_error("lock"))?;
        flock(&lock, FlockOperation::LockShared).map_err(self.file_error("lock"))?;
        let name = format!("{DRAFT_PREFIX}{random}");
        rustix::fs::mkdirat(&self.folder, &name, Mode::RWXU)
            .map_err(self.file_error("make a sandbox in"))?;
        let folder = openat(&self.folder, &name, OPEN_FOLDER, Mode::empty())
            .map_err(self.file_error("make a sandbox in"))?;
        let draft = Draft { state: self, name, folder, _lock: lock, published: false };
        draft.make_folders(outside).map_err(self.file_error("make a sandbox in"))?;
        Ok(draft)
    }

    fn drafts_lock(&self) -> Result<OwnedFd, Errno> {
        openat(
            &self.folder,
            DRAFTS_LOCK,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
    }

    /// Removes drafts that nobody is working on, and what remains of ended sandboxes.
    fn remove_rubbish(&self) -> Result<(), LocalError> {
        let lock = self.drafts_lock().map_err(self.file_error("lock"))?;
        let no_drafts_in_work = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        for name in self.entries()? {
            let is_rubbish = name.starts_with(GONE_PREFIX)
                || (name.starts_with(DRAFT_PREFIX) && no_drafts_in_work);
            if is_rubbish && let Ok(name) = CString::new(name) {
                remove_tree(&self.folder, &name).map_err(self.file_error("remove rubbish from"))?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<String>, LocalError> {
        let directory =
            rustix::fs::Dir::read_from(&self.folder).map_err(self.file_error("list"))?;
        directory
            .map(|entry| Ok(String::from_utf8_lossy(entry?.file_name().to_bytes()).into_owned()))
            .collect::<Result<_, Errno>>()
            .map_err(self.file_error("list"))
    }

    /// The sandbox that has a name.
    pub(crate) fn find_by_name(&self, name: &SandboxName) -> Result<Option<Found>, LocalError> {
        self.read(&directory_name(name))
    }

    /// The sandbox that has an id.
    pub(crate) fn find(&self, id: &SandboxId) -> Result<Option<Found>, LocalError> {
        let Some((directory, _)) = id.as_str().split_once('-') else { return Ok(None) };
        // Only what `directory_name` makes: an id is no way to name another path.
        if directory.is_empty()
            || !directory.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        {
            return Ok(None);
        }
        Ok(self.read(directory)?.filter(|found| found.record.id == *id))
    }

    /// The names of the sandboxes' directories after `from`, in order.
    pub(crate) fn directories(&self, from: Option<&str>) -> Result<Vec<String>, LocalError> {
        let mut names = self.entries()?;
        names.retain(|name| {
            !name.starts_with('.')
                && name != DRAFTS_LOCK
                && from.is_none_or(|from| name.as_str() > from)
        });
        names.sort_unstable();
        Ok(names)
    }

    /// The sandbox in a directory.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Found>, LocalError> {
        let folder = match openat(&self.folder, name, OPEN_FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(self.file_error("open a sandbox in")(errno)),
        };
        let directory = SandboxDirectory { path: self.path.join(name), folder };
        // Without a record it is no sandbox any more: the record is the last thing to go.
        let record = directory.read_json::<Record>(RECORD_FILE)?;
        Ok(record.map(|record| Found { directory, record }))
    }

    /// Makes a sandbox disappear, whose processes are gone and whose folders are empty.
    pub(crate) fn retire(&self, found: &Found) -> Result<(), LocalError> {
        let error = || self.file_error("remove a sandbox from");
        let gone = CString::new(format!("{GONE_PREFIX}{}", found.record.id.as_str()))
            .map_err(|_| error()(Errno::INVAL))?;
        let from = CString::new(found.directory.path.file_name().unwrap_or_default().as_bytes())
            .map_err(|_| error()(Errno::INVAL))?;
        match renameat_with(&self.folder, &from, &self.folder, &gone, RenameFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(error()(errno)),
        }
        // A second destroyer that came just now may still add its mark or open the lock.
        let mut result = remove_tree(&self.folder, &gone);
        for _ in 0..8 {
            if !matches!(result, Err(Errno::NOTEMPTY | Errno::EXIST)) {
                break;
            }
            result = remove_tree(&self.folder, &gone);
        }
        result.map_err(error())?;
        // The end is proved by the answer that follows, so it must outlive a power cut.
        rustix::fs::fsync(&self.folder).map_err(error())
    }
}

/// A sandbox's directory before it is one. Dropped unpublished, it is removed.
pub(crate) struct Draft<'state> {
    state: &'state StateDirectory,
    name: String,
    folder: OwnedFd,
    _lock: OwnedFd,
    published: bool,
}

impl Draft<'_> {
    fn make_folders(&self, outside: OutsideIds) -> Result<(), Errno> {
        for (name, mode) in OWN_FOLDERS {
            rustix::fs::mkdirat(&self.folder, name, Mode::RWXU)?;
            if let OutsideIds::Separate { id } = outside {
                let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
                rustix::fs::chownat(
                    &self.folder,
                    name,
                    Some(user),
                    Some(group),
                    rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                )?;
            }
            rustix::fs::chmodat(
                &self.folder,
                name,
                Mode::from_raw_mode(mode),
                rustix::fs::AtFlags::empty(),
            )?;
        }
        rustix::fs::mkdirat(&self.folder, ROOT_FOLDER, Mode::RWXU)?;
        openat(
            &self.folder,
            LOCK_FILE,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map(drop)
    }

    /// Makes the draft the sandbox of its name, with its record, durably.
    pub(crate) fn publish(mut self, record: Record) -> Result<Found, LocalError> {
        let path = self.state.path.join(directory_name(&record.name));
        let error = |action| {
            let path = path.clone();
            move |source| LocalError::File { action, path, source }
        };
        let text = serde_json::to_vec(&record)
            .map_err(|source| LocalError::DamagedRecord { path: path.clone(), source })?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.folder, RECORD_FILE, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(io::Error::from).map_err(error("make"))?);
        file.write_all(&text).map_err(error("write"))?;
        let parent = &self.state.folder;
        let name = path.file_name().unwrap_or_default();
        match renameat_with(parent, self.name.as_str(), parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => self.published = true,
            Err(Errno::EXIST) => return Err(LocalError::NameTaken),
            Err(errno) => return Err(error("make")(errno.into())),
        }
        // All three before the init is born. The rename first: then most file systems need one commit for all.
        file.sync_all().map_err(error("write"))?;
        for folder in [self.folder.as_fd(), parent.as_fd()] {
            rustix::fs::fsync(folder).map_err(io::Error::from).map_err(error("write"))?;
        }
        let folder = self.folder.try_clone().map_err(error("open"))?;
        Ok(Found { directory: SandboxDirectory { path, folder }, record })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published
            && let Ok(name) = CString::new(self.name.as_str())
        {
            // What stays is removed when the state directory is opened again.
            let _ = remove_tree(&self.state.folder, &name);
        }
    }
}

impl SandboxDirectory {
    fn file_error(
        &self,
        action: &'static str,
        name: &str,
    ) -> impl FnOnce(io::Error) -> LocalError + use<> {
        let path = self.path.join(name);
        move |source| LocalError::File { action, path, source }
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, LocalError> {
        let file = match openat(
            &self.folder,
            name,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.file_error("open", name)(errno.into())),
        };
        let mut text = Vec::new();
        File::from(file).read_to_end(&mut text).map_err(self.file_error("read", name))?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| LocalError::DamagedRecord { path: self.path.join(name), source })
    }

    /// Which process the init is, if one was ever born.
    pub(crate) fn init(&self) -> Result<Option<ProcessIdentity>, LocalError> {
        self.read_json(BIRTH_FILE)
    }

    /// Whether the sandbox's timer has ended it, or is just about to.
    pub(crate) fn timer_end(&self) -> Result<Option<TimerEnd>, LocalError> {
        self.read_json(TIMER_FILE)
    }

    /// Whether the sandbox's end has been decided.
    pub(crate) fn is_being_destroyed(&self) -> bool {
        rustix::fs::accessat(
            &self.folder,
            DESTROYING_FILE,
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )
        .is_ok()
    }

    /// Decides the sandbox's end: no init is born from now on.
    pub(crate) fn mark_destroying(&self) -> Result<(), LocalError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        openat(&self.folder, DESTROYING_FILE, flags, Mode::RUSR | Mode::WUSR)
            .map(drop)
            .map_err(|errno| self.file_error("mark", DESTROYING_FILE)(errno.into()))
    }

    /// Tries to lock the sandbox against births and other destroyers. `Ok(None)` while another has the lock.
    pub(crate) fn try_lock(&self) -> Result<Option<OwnedFd>, LocalError> {
        let error = |errno: Errno| self.file_error("lock", LOCK_FILE)(errno.into());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let lock =
            openat(&self.folder, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR).map_err(error)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(self.file_error("lock", LOCK_FILE)(errno.into())),
        }
    }

    /// Removes what the sandbox has written.
    pub(crate) fn remove_contents(&self) -> Result<(), LocalError> {
        for name in [c"workspace", c"home", c"tmp", c"root"] {
            remove_tree(&self.folder, name).map_err(|errno| {
                self.file_error("remove", &name.to_string_lossy())(errno.into())
            })?;
        }
        Ok(())
    }

    /// A path to a file of the sandbox that is short enough for a socket address, however long the state
    /// directory's own path is. Good as long as this value lives.
    pub(crate) fn short_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()))
    }
}
