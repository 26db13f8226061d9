//! Trees and bytes that nobody chose.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod support;

use leasehold_archive::{PackOptions, Root, UnpackOptions, Watch, pack, unpack_replacing};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use support::{Forged, Place};

#[derive(Debug, Clone)]
enum Node {
    File(Vec<u8>, u32),
    Link(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Node>, u32),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no slash, no zero", |&byte| byte != b'/' && byte != 0);
    let name = prop_oneof![
        8 => prop::collection::vec(byte.clone(), 1..12),
        1 => prop::collection::vec(byte, 90..255),
    ];
    name.prop_filter("a name of its own", |name| name != b"." && name != b"..")
}

fn node() -> impl Strategy<Value = Node> {
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..1_100),
        (0..600_000_usize).prop_map(|length| vec![b'x'; length]),
    ];
    let leaf = prop_oneof![
        (content, 0o400..0o1000_u32).prop_map(|(content, mode)| Node::File(content, mode)),
        prop::collection::vec(1..=255_u8, 1..300).prop_map(Node::Link),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        (prop::collection::btree_map(name(), inner, 0..6), 0o700..0o1000_u32)
            .prop_map(|(children, mode)| Node::Directory(children, mode))
    })
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::File(content, mode) => {
            fs::write(path, content).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(*mode)).unwrap();
        }
        Node::Link(target) => symlink(OsString::from_vec(target.clone()), path).unwrap(),
        Node::Directory(children, mode) => {
            fs::create_dir(path).unwrap();
            for (name, child) in children {
                make(&path.join(OsString::from_vec(name.clone())), child);
            }
            fs::set_permissions(path, PermissionsExt::from_mode(*mode)).unwrap();
        }
    }
}

/// An archive whose headers are right, and whose fields are anything.
fn hostile_archive() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        Just("a".to_owned()),
        Just("a/b".to_owned()),
        Just("a/b/c".to_owned()),
        Just("b".to_owned()),
        Just(".".to_owned()),
        Just("../outside/canary".to_owned()),
        Just("../outside".to_owned()),
        Just("a/../../outside/canary".to_owned()),
        Just("/tmp".to_owned()),
        "[ab./]{0,12}",
    ];
    let flag = prop_oneof![
        prop::sample::select(&b"0125LKxg"[..]),
        prop::sample::select(&b"\x0034567SDV"[..]),
    ];
    let content = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(any::<u8>(), 0..600),
        1 => Just(b"14 path=../out\n".to_vec()),
        1 => Just(b"12 path=a/b\n".to_vec()),
        1 => Just(b"11 size=99\n".to_vec()),
    ];
    let entry = (flag, name.clone(), name, content, any::<u16>());
    prop::collection::vec(entry, 0..12).prop_map(|entries| {
        let mut archive = Forged::new();
        for (flag, name, link, content, mode) in entries {
            let (name, link) = (name.as_bytes(), link.as_bytes());
            archive = archive
                .header(flag, name, link, content.len() as u64, |header| {
                    header.set_mode(u32::from(mode) & 0o7777 | 0o700);
                })
                .content(&content);
        }
        archive.end()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back_as_it_was(children in prop::collection::btree_map(name(), node(), 0..6)) {
        let place = Place::in_memory();
        make(&place.path("tree"), &Node::Directory(children, 0o755));
        let root = Root::open(place.path("tree")).unwrap();
        let mut archive = Vec::new();
        let options = PackOptions::default();
        let packed = pack(&root, &mut archive, &options, &mut Watch::none()).unwrap();
        let options = UnpackOptions::default();
        let unpacked =
            unpack_replacing(&place.root(), "copy", &archive[..], &options, &mut Watch::none())
                .unwrap();
        prop_assert_eq!(packed, unpacked);
        let root = Root::open(place.path("copy")).unwrap();
        let mut again = Vec::new();
        pack(&root, &mut again, &PackOptions::default(), &mut Watch::none()).unwrap();
        prop_assert!(again == archive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_unpacked_inside(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        // Confinement is judged by `unpack`.
        let _ = Place::in_memory().unpack(&bytes);
    }

    #[test]
    fn any_entries_are_refused_or_unpacked_inside(archive in hostile_archive()) {
        let place = Place::in_memory();
        let _ = place.unpack(&archive);
        // And once more over what the first time made.
        let _ = place.unpack(&archive);
    }

    #[test]
    fn any_damage_is_refused_or_unpacked_inside(
        mut archive in hostile_archive(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for (index, byte) in damage {
            let index = index.index(archive.len());
            archive[index] = byte;
        }
        archive.truncate(cut.index(archive.len() + 1));
        let _ = Place::in_memory().unpack(&archive);
    }
}
