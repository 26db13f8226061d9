//! The figures of a ledger, and how Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use leasehold_core::{Attention, Kind, Lease, Owner, State, Timestamp, due_at};
use leasehold_ports::{BrakeState, LeaseFilter, Ledger, LedgerMode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::failure::Failure;
use crate::scan;

/// Upper bounds of the teardown histogram, in seconds: a kill is quick, a provider may take an hour.
const TEARDOWN_BUCKETS: [f64; 12] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0];

/// What a ledger holds, in numbers.
#[derive(Debug)]
pub(crate) struct Figures {
    open: BTreeMap<(Kind, State), u64>,
    quarantined: u64,
    oldest_cleanup: Duration,
    cleanup_tries: u64,
    overdue: u64,
    longest_overdue: Duration,
    attention: BTreeMap<Attention, u64>,
    owners: Option<BTreeMap<Owner, u64>>,
    teardown: Histogram,
    damaged_rows: u64,
    restored: bool,
    brake: BrakeState,
    size: u64,
    format: u32,
}

impl Figures {
    /// Goes through the whole ledger once; those that have ended tell how long their ends took.
    pub(crate) async fn read(
        ledger: &dyn Ledger,
        size: u64,
        format: u32,
        by_owner: bool,
    ) -> Result<Self, Failure> {
        let now = ledger.now();
        let every = [Kind::Lease, Kind::Template, Kind::Debt].into_iter().flat_map(|kind| {
            let open = State::ALL.into_iter().filter(|state| *state != State::Closed);
            open.map(move |state| ((kind, state), 0))
        });
        let mut figures = Self {
            open: every.collect(),
            quarantined: 0,
            oldest_cleanup: Duration::ZERO,
            cleanup_tries: 0,
            overdue: 0,
            longest_overdue: Duration::ZERO,
            attention: Attention::ALL.into_iter().map(|attention| (attention, 0)).collect(),
            owners: by_owner.then(BTreeMap::new),
            teardown: Histogram::new(TEARDOWN_BUCKETS),
            damaged_rows: u64::try_from(ledger.damaged().await?.len()).unwrap_or(u64::MAX),
            restored: matches!(ledger.mode().await?, LedgerMode::Restored { .. }),
            brake: ledger.brake().await?,
            size,
            format,
        };
        let filter = LeaseFilter { closed: true, ..LeaseFilter::default() };
        scan::each(ledger, filter, |lease| figures.count(lease, now)).await?;
        Ok(figures)
    }

    fn count(&mut self, lease: &Lease, now: Timestamp) {
        if let (Some(cleanup), Some(receipt)) = (&lease.cleanup, &lease.receipt) {
            self.teardown.observe(receipt.at.since(cleanup.since).as_secs_f64());
        }
        if !lease.is_open() {
            return;
        }
        *self.open.entry((lease.kind, lease.state)).or_default() += 1;
        self.quarantined += u64::from(lease.is_quarantined());
        if let Some(cleanup) = &lease.cleanup {
            self.oldest_cleanup = self.oldest_cleanup.max(now.since(cleanup.since));
            self.cleanup_tries += u64::from(cleanup.tries);
        }
        if let Some(late) = due_at(lease).map(|due| now.since(due))
            && !late.is_zero()
        {
            self.overdue += 1;
            self.longest_overdue = self.longest_overdue.max(late);
        }
        for attention in &lease.attention {
            *self.attention.entry(*attention).or_default() += 1;
        }
        if let Some(owners) = &mut self.owners {
            *owners.entry(lease.owner.clone()).or_default() += 1;
        }
    }

    /// In Prometheus' text format, version 0.0.4.
    pub(crate) fn into_text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("leasehold");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// A gauge with one value for each label set.
fn gauges<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = ([(&'a str, &'a str); N], f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// A gauge with one value.
fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// Exact up to 2^53; a count above it has other problems.
fn number(count: u64) -> f64 {
    count as f64
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let flag = |on: bool| if on { 1.0 } else { 0.0 };
        let version = [([("version", env!("CARGO_PKG_VERSION"))], 1.0)];
        gauges(to, "build_info", "Which Leasehold wrote this", version)?;
        let open = self.open.iter().map(|((kind, state), count)| {
            ([("kind", kind.name()), ("state", state.name())], number(*count))
        });
        gauges(to, "open_leases", "Open rows by what they stand for and where they stand", open)?;
        let help = "Open leases whose removal was tried and not proved";
        gauge(to, "quarantined_leases", help, number(self.quarantined))?;
        let help = "How long ago the oldest removal that is not proved yet was decided";
        gauge(to, "oldest_cleanup_age_seconds", help, self.oldest_cleanup.as_secs_f64())?;
        let help = "How often the removals that are not proved yet were tried";
        gauge(to, "cleanup_tries", help, number(self.cleanup_tries))?;
        let help = "Leases with work that is due and that nobody has done";
        gauge(to, "overdue_leases", help, number(self.overdue))?;
        let help = "For how long the most overdue work has been due";
        gauge(to, "longest_overdue_seconds", help, self.longest_overdue.as_secs_f64())?;
        let reasons = self
            .attention
            .iter()
            .map(|(attention, count)| ([("reason", attention.name())], number(*count)));
        gauges(to, "attention_leases", "Leases that need a person, by reason", reasons)?;
        if let Some(owners) = &self.owners {
            let owners = owners.iter().map(|(owner, count)| {
                let labels = [("company", owner.company()), ("environment", owner.environment())];
                (labels, number(*count))
            });
            gauges(to, "owner_open_leases", "Open rows by owner", owners)?;
        }
        let brake = &self.brake;
        let help = "Whether the brake stops removals that nobody asked for";
        gauge(to, "brake_on", help, flag(brake.on))?;
        let help = "Removals that the brake has counted in its window";
        gauge(to, "brake_removals", help, f64::from(brake.recent))?;
        let help = "Removals that the brake lets pass in its window";
        gauge(to, "brake_limit", help, f64::from(brake.limit))?;
        let help = "Whether the ledger is in restored mode";
        gauge(to, "restored_mode", help, flag(self.restored))?;
        let help = "Rows of the ledger that cannot be read";
        gauge(to, "damaged_rows", help, number(self.damaged_rows))?;
        gauge(to, "ledger_size_bytes", "Size of the ledger's files", number(self.size))?;
        gauge(to, "ledger_format", "Format of the ledger", f64::from(self.format))?;
        let help = "Time from the decision to remove a sandbox to the proof, of all on record";
        let histogram =
            to.encode_descriptor("teardown_seconds", help, None, MetricType::Histogram)?;
        self.teardown.encode(histogram)
    }
}
