//! The suite of all ledgers, on both of this crate's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

mod memory {
    use std::sync::Arc;

    use async_trait::async_trait;
    use leasehold_core::NodeId;
    use leasehold_ledger::suite::{Subject, TestClock, samples::NOW};
    use leasehold_ledger::{MemoryLedger, ledger_suite};
    use leasehold_ports::{Clock, Ledger, LedgerMode};

    struct Memory(MemoryLedger);

    #[async_trait]
    impl Subject for Memory {
        fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
            Arc::new(self.0.share(clock))
        }

        async fn restore(&self, why: &str) {
            self.0.set_mode(LedgerMode::Restored { why: why.to_owned() });
        }

        async fn kill(&self, process: Arc<dyn Ledger>, node: &NodeId) {
            drop(process);
            self.0.mark_dead(node);
        }
    }

    ledger_suite!(Memory(MemoryLedger::new(TestClock::at(NOW))));
}

mod sqlite {
    use std::sync::Arc;

    use async_trait::async_trait;
    use leasehold_core::NodeId;
    use leasehold_ledger::ledger_suite;
    use leasehold_ledger::suite::{Subject, TestClock, samples::NOW};
    use leasehold_ports::{Clock, Ledger};
    use tempfile::TempDir;

    use crate::common::open;

    struct Sqlite(TempDir);

    #[async_trait]
    impl Subject for Sqlite {
        fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
            Arc::new(open(self.0.path(), clock).unwrap())
        }

        async fn restore(&self, why: &str) {
            let ledger = open(self.0.path(), TestClock::at(NOW)).unwrap();
            let why = why.to_owned();
            let written = ledger
                .with_connection(move |connection| {
                    connection.execute("UPDATE ledger SET restored = ?1", [why])
                })
                .await;
            assert_eq!(written.unwrap().unwrap(), 1);
        }

        async fn kill(&self, process: Arc<dyn Ledger>, _: &NodeId) {
            // The locks go with the last handle, as they go with a process.
            drop(process);
        }
    }

    ledger_suite!(Sqlite(tempfile::tempdir().unwrap()));
}
