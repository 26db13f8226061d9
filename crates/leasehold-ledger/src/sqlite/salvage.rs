//! What the searches go by, when the row itself cannot be read.

use leasehold_core::{
    AcquireKey, BirthFingerprint, Home, LeaseId, Owner, Pin, Salvage, SandboxId, SandboxName,
};
use leasehold_ports::LedgerError;
use rusqlite::{Connection, OptionalExtension as _};

use super::columns::{self, Damage, READ, number};
use super::failure::storage;

/// Each is a text of ours, or is damaged too.
struct Columns {
    version: i64,
    company: String,
    environment: String,
    home: String,
    key: Option<String>,
    sandbox: Option<String>,
    birth: Option<String>,
    attempt: Option<String>,
}

/// None if the row is not there, or can be read.
///
/// # Errors
/// `Damaged` if what is kept beside the row cannot be read either.
pub(super) fn salvage(
    connection: &Connection,
    lease: &LeaseId,
) -> Result<Option<Salvage>, LedgerError> {
    let sql = format!(
        "SELECT {READ}, company, environment, homes.body, acquire_key, leases.sandbox, pins.birth, \
         attempt FROM leases JOIN owners USING (owner) JOIN homes USING (home) \
         LEFT JOIN pins ON pins.home = leases.home AND pins.sandbox = leases.sandbox \
         AND pins.lease = leases.lease WHERE id = ?1"
    );
    let found = connection
        .query_row(&sql, [lease.as_str()], |row| {
            let read = columns::read(row)?;
            let columns = Columns {
                version: row.get(1)?,
                company: row.get(4)?,
                environment: row.get(5)?,
                home: row.get(6)?,
                key: row.get(7)?,
                sandbox: row.get(8)?,
                birth: row.get(9)?,
                attempt: row.get(10)?,
            };
            Ok(read.is_err().then_some(columns))
        })
        .optional()
        .map_err(storage)?;
    let Some(columns) = found.flatten() else { return Ok(None) };
    understand(lease, columns).map(Some)
}

fn understand(lease: &LeaseId, columns: Columns) -> Result<Salvage, LedgerError> {
    let damaged = |what: &str| {
        let problem = format!("{what} is damaged too, and only a backup can tell");
        LedgerError::from(Damage { lease: lease.to_string(), problem })
    };
    let birth = |birth: Option<String>| birth.and_then(|text| BirthFingerprint::new(text).ok());
    let pin = match columns.sandbox {
        None => None,
        Some(sandbox) => Some(Pin {
            sandbox: SandboxId::new(sandbox).map_err(|_| damaged("its sandbox"))?,
            birth: birth(columns.birth).ok_or_else(|| damaged("the birth of its sandbox"))?,
        }),
    };
    Ok(Salvage {
        id: lease.clone(),
        version: number(columns.version),
        owner: Owner::new(columns.company, columns.environment)
            .map_err(|_| damaged("its owner"))?,
        home: serde_json::from_str::<Home>(&columns.home).map_err(|_| damaged("its home"))?,
        key: columns.key.map(AcquireKey::new).transpose().map_err(|_| damaged("its key"))?,
        pin,
        attempt: columns
            .attempt
            .map(SandboxName::new)
            .transpose()
            .map_err(|_| damaged("the name of its attempt"))?,
    })
}
