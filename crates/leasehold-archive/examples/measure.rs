//! Measures packing and unpacking, beside `cp` of the same tree: best of `ROUNDS`, interleaved.
//!
//! ```text
//! cargo build --release -p leasehold-archive --example measure
//! cargo run --release -p leasehold-archive --example measure [FOLDER]
//! ```
//!
//! FOLDER (default: the temporary folder) decides which file system is measured. Nothing is synced.

#![expect(clippy::disallowed_methods, reason = "a measurement needs real time")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails has nothing to report")]

use leasehold_archive::{PackOptions, Root, UnpackOptions, Watch, pack, unpack_replacing};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const FILES: usize = 5_000;
const LARGE: usize = 256 << 20;

fn main() {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let place = tempfile::tempdir_in(folder).unwrap();
    let small = place.path().join("small");
    let content: Vec<u8> = (0..4_096_u32).map(|index| index.to_le_bytes()[0]).collect();
    for index in 0..FILES {
        let directory = small.join(format!("directory-{}", index / 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("file-{index}")), &content).unwrap();
    }
    forget_peak();
    let base = peak_memory();
    let [pack, unpack, copy] = measure(place.path(), &small);
    let rate = |time: Duration| FILES as f64 / time.as_secs_f64();
    println!(
        "{FILES} files of 4 KiB: pack {:.0} files/s, unpack {:.0} files/s, cp -r {:.0} files/s",
        rate(pack),
        rate(unpack),
        rate(copy)
    );
    let small_peak = peak_memory() - base;
    let large = place.path().join("large");
    fs::create_dir(&large).unwrap();
    let mut file = File::create(large.join("file")).unwrap();
    for _ in 0..LARGE / content.len() {
        file.write_all(&content).unwrap();
    }
    forget_peak();
    let base = peak_memory();
    let [pack, unpack, copy] = measure(place.path(), &large);
    let rate = |time: Duration| (LARGE >> 20) as f64 / time.as_secs_f64();
    println!(
        "one file of {} MiB: pack {:.0} MiB/s, unpack {:.0} MiB/s, cp {:.0} MiB/s",
        LARGE >> 20,
        rate(pack),
        rate(unpack),
        rate(copy)
    );
    let large_peak = peak_memory() - base;
    println!(
        "peak memory above base: {small_peak} KiB for the small files, {large_peak} KiB for the large"
    );
}

/// Packs a tree into a file, unpacks that file, and copies the tree, each into a new place.
fn measure(place: &Path, tree: &Path) -> [Duration; 3] {
    let archive = place.join("archive.tar");
    let root = Root::open(tree).unwrap();
    let target = Root::open(place).unwrap();
    let mut best = [Duration::MAX; 3];
    let mut keep = |index: usize, begun: Instant| best[index] = best[index].min(begun.elapsed());
    for _ in 0..ROUNDS {
        let _ = fs::remove_file(&archive);
        let output = File::create(&archive).unwrap();
        let begun = Instant::now();
        pack(&root, output, &PackOptions::default(), &mut Watch::none()).unwrap();
        keep(0, begun);
        let input = File::open(&archive).unwrap();
        let options = UnpackOptions::default();
        let begun = Instant::now();
        unpack_replacing(&target, "unpacked", input, &options, &mut Watch::none()).unwrap();
        keep(1, begun);
        fs::remove_dir_all(place.join("unpacked")).unwrap();
        let begun = Instant::now();
        let status = Command::new("cp").arg("-r").arg(tree).arg(place.join("copy")).status();
        keep(2, begun);
        assert!(status.unwrap().success());
        fs::remove_dir_all(place.join("copy")).unwrap();
    }
    best
}

/// The most memory that this process has had since [`forget_peak`], in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Lets the kernel count the peak anew, from what is in use now.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}
