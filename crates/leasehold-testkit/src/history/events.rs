//! What happens around the calls: crashes, lost keys, clocks that jump, sandboxes that vanish,
//! ledgers that are put back.

use std::sync::Arc;
use std::time::Duration;

use leasehold_ports::Ledger as _;

use super::HistorySettings;
use super::stage::{Copy, NODES, Stage, WRONG_KEY};
use crate::random::RandomStream;

/// When the rare things of a history happen, by the number of the call after which they do.
pub(super) struct Disturbances {
    crashes: Vec<u32>,
    copy_at: Option<u32>,
    restore_at: Option<u32>,
    copy: Option<Copy>,
    restored: bool,
    jump_at: Option<u32>,
    down: [bool; NODES],
    keys_are_wrong: bool,
}

impl Disturbances {
    pub(super) fn drawn(settings: &HistorySettings, stream: &mut RandomStream) -> Self {
        let moment = |stream: &mut RandomStream| 4 + u32::try_from(stream.below(26)).unwrap_or(0);
        let mut crashes = vec![moment(stream)];
        while stream.happens(400) {
            crashes.push(moment(stream));
        }
        let restore_at = stream.happens(settings.restores_per_mille).then(|| moment(stream) + 4);
        let copy_at = restore_at.map(|restore| restore - 1 - restore / 3);
        let jump_at = stream.happens(100).then(|| moment(stream));
        Self {
            crashes,
            copy_at,
            restore_at,
            copy: None,
            restored: false,
            jump_at,
            down: [false; NODES],
            keys_are_wrong: false,
        }
    }

    /// What happens right after call `number` was made, or is under way.
    pub(super) async fn disturb(
        &mut self,
        stage: &Arc<Stage>,
        stream: &mut RandomStream,
        number: u32,
        works: [bool; NODES],
    ) {
        if self.copy_at == Some(number) {
            self.copy = Some(stage.copy_ledger());
        }
        if self.restore_at == Some(number) {
            self.restore(stage, works).await;
        }
        if self.crashes.contains(&number) {
            self.crash(stage, stream);
        } else if stream.happens(400) {
            self.start_again(stage, works).await;
        }
        if self.jump_at == Some(number) {
            jump(stage, stream);
        }
        match stream.below(100) {
            0 | 1 => stage.world.one_vanishes(),
            2 | 3 => {
                stage.world.stranger_creates();
            }
            4..=6 => self.keys_are_wrong = draw_keys(stage, stream),
            // Somebody finds the right key before long.
            10..=24 if self.keys_are_wrong => {
                self.keys_are_wrong = false;
                stage.credentials.set(&["key-1"]);
            }
            7 => stage.prove_deaths(),
            8 if self.restored && stream.happens(300) => {
                let _ = stage.memory.accept().await;
            }
            _ => {}
        }
    }

    /// Everything runs again, for the quiet after it all.
    pub(super) async fn settle(&mut self, stage: &Arc<Stage>, works: [bool; NODES]) {
        self.start_again(stage, works).await;
    }

    fn crash(&mut self, stage: &Stage, stream: &mut RandomStream) {
        let drawn = stream.index(NODES);
        let node = if stage.keeper(drawn).is_some() { drawn } else { NODES - 1 - drawn };
        stage.crash_node(node, stream.happens(600));
        self.down[node] = true;
    }

    async fn start_again(&mut self, stage: &Arc<Stage>, works: [bool; NODES]) {
        for (node, works) in works.into_iter().enumerate() {
            if std::mem::take(&mut self.down[node]) {
                stage.start_node(node, works).await;
            }
        }
    }

    /// All nodes stop, an older copy of the ledger is put in its place, and they start again.
    async fn restore(&mut self, stage: &Arc<Stage>, works: [bool; NODES]) {
        let Some(copy) = self.copy.take() else { return };
        for node in 0..NODES {
            stage.crash_node(node, true);
            self.down[node] = true;
        }
        // Once the tasks are gone.
        stage.world.time().sleep(Duration::from_millis(1)).await;
        stage.restore_ledger(&copy);
        self.restored = true;
        stage.book().leases_of_keys_are_unknown();
        // Whoever was alive when the copy was made is dead now.
        for record in stage.memory.nodes().await.unwrap_or_default() {
            stage.judge.node_died(&record.node);
            stage.memory.mark_dead(&record.node);
        }
        self.start_again(stage, works).await;
    }
}

/// An operator sets the clock, or the machine slept.
fn jump(stage: &Stage, stream: &mut RandomStream) {
    let millis = match stream.below(4) {
        0 => -3_600_000,
        1 => -40_000,
        2 => 120_000,
        _ => 3_000_000,
    };
    stage.journal.note(format_args!("clock jumps by {millis} ms"));
    stage.clock.jump(millis);
}

/// Keys are lost, swapped, rotated, found. Whether the right ones are not at hand now.
fn draw_keys(stage: &Stage, stream: &mut RandomStream) -> bool {
    let keys: &[&str] = match stream.below(8) {
        0 => &[],
        1 => &[WRONG_KEY],
        2 => &[WRONG_KEY, "key-1"],
        3 => &["key-2"],
        _ => &["key-1"],
    };
    stage.journal.note(format_args!("keys at hand: {keys:?}"));
    stage.credentials.set(keys);
    keys.iter().all(|key| *key == WRONG_KEY)
}
