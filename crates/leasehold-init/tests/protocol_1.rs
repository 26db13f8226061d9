//! Version 1 of the control protocol, as it was really spoken: recorded between a manager and an init of
//! that version. `>` is the manager, `<` the init.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails shall say where")]

use leasehold_init::protocol::{Call, Greeting, Reply};

const RECORDED: &str = include_str!("fixtures/protocol-1.txt");

#[test]
fn every_frame_of_version_1_is_understood_and_would_be_written_the_same() {
    let mut frames = 0;
    for line in RECORDED.lines() {
        let again = match line.split_once(' ').unwrap() {
            ("<", body) if body.contains("oldest_protocol") => {
                serde_json::to_string(&serde_json::from_str::<Greeting>(body).unwrap())
            }
            ("<", body) => serde_json::to_string(&serde_json::from_str::<Reply>(body).unwrap()),
            (">", body) => serde_json::to_string(&serde_json::from_str::<Call>(body).unwrap()),
            other => panic!("{other:?}"),
        };
        assert_eq!(again.unwrap(), line[2..]);
        frames += 1;
    }
    assert_eq!(frames, 23);
}
