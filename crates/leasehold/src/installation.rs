//! Wiring: the real ledger, provider, clock and randomness behind one keeper.
//!
//! Everything is opened when a verb first needs it, so that `explain` touches no disk and `ls` makes
//! no ledger.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use leasehold_core::{AccountId, Caller, Endpoint, Home, Owner, ProviderName};
use leasehold_keeper::{InstallationSecret, Keeper, Parts, Recovery, RecoveryScope};
use leasehold_ledger::{SqliteLedger, this_machine};
use leasehold_local::{InitProgram, LocalProvider};
use leasehold_ports::{Clock, Credential, Credentials, Provider, ProviderError, Random};

use secrecy::{ExposeSecret as _, SecretBox};

use crate::clock::{SystemClock, SystemRandom};
use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::output::Output;
use crate::state_directory::{StateDirectory, user_name};

/// One state directory with its configuration, and what works on it.
pub(crate) struct Installation {
    pub(crate) state: StateDirectory,
    pub(crate) configuration: Configuration,
    pub(crate) output: Output,
    pub(crate) clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// The node of this process, once a verb needed one.
    node: OnceLock<Keeper>,
}

/// Sandboxes of this machine need no key.
struct NoKeys;

#[async_trait]
impl Credentials for NoKeys {
    async fn for_home(&self, _home: &Home) -> Vec<Credential> {
        Vec::new()
    }
}

impl Installation {
    pub(crate) fn new(state: StateDirectory, configuration: Configuration, output: Output) -> Self {
        Self {
            state,
            configuration,
            output,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            node: OnceLock::new(),
        }
    }

    /// The ledger, made if there is none.
    pub(crate) fn ledger(&self) -> Result<Arc<SqliteLedger>, Failure> {
        let (clock, random) = (Arc::clone(&self.clock), Arc::clone(&self.random));
        Ok(Arc::new(SqliteLedger::open(self.state.path(), clock, random)?))
    }

    /// The ledger, for verbs that only read: none where none was ever made.
    pub(crate) fn ledger_to_read(&self) -> Result<Option<Arc<SqliteLedger>>, Failure> {
        self.state.has_ledger().then(|| self.ledger()).transpose()
    }

    /// The sandboxes of this machine.
    pub(crate) fn local_provider(&self) -> Result<LocalProvider, Failure> {
        let (clock, random) = (Arc::clone(&self.clock), Arc::clone(&self.random));
        LocalProvider::open(
            &self.state.sandboxes(),
            InitProgram::ThisProgram,
            clock,
            random,
            this_machine(),
        )
        .map_err(|error| {
            let message = error.to_string();
            Failure::new(ProviderError::from(error).code(), message)
        })
    }

    /// A keeper of its own node.
    pub(crate) async fn keeper(&self) -> Result<Keeper, Failure> {
        let ledger = self.ledger()?;
        let local: Arc<dyn Provider> = Arc::new(self.local_provider()?);
        let home = self.local_home()?;
        let secret = copy_of(ledger.secret());
        let keeper = Keeper::start(Parts {
            ledger,
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            credentials: Arc::new(NoKeys),
            providers: BTreeMap::from([((home.provider, home.endpoint), local)]),
            secret,
            settings: self.configuration.settings,
        });
        let keeper = keeper.await?;
        // A verb asks for one keeper; should it ask for two, recovery finds the other node dead.
        let _ = self.node.set(keeper.clone());
        Ok(keeper)
    }

    /// Takes this process's node off the ledger's list, in an orderly end. A node that a lease still
    /// names stays on it: its death is for recovery to find out.
    pub(crate) async fn leave(&self) {
        if let Some(keeper) = self.node.get()
            && let Err(error) = keeper.ledger().remove_node(keeper.node()).await
        {
            tracing::debug!(code = error.code(), "{error}");
        }
    }

    /// A keeper that has first removed what `run` and `acquire` processes that died left behind.
    pub(crate) async fn keeper_after_the_dead(&self) -> Result<Keeper, Failure> {
        let keeper = self.keeper().await?;
        match keeper.recover(RecoveryScope::DeadHolders).await {
            Ok(report) => self.tell_recovered(&report),
            // What the dead left is no reason to refuse the living.
            Err(error) => self.output.note(&format!(
                "what dead processes left could not be looked at: {}",
                Failure::from(error).message()
            )),
        }
        Ok(keeper)
    }

    fn tell_recovered(&self, report: &Recovery) {
        for lease in &report.ended {
            self.output.note(&format!("removed what a dead process left: {lease}"));
        }
        for (lease, error) in &report.failed {
            let code = error.code();
            self.output.note(&format!("{lease}, left by a dead process: {error} [{code}]"));
        }
    }

    /// Where the sandboxes of this machine live. The path of the state directory is no part of it: the
    /// same directory may be mounted elsewhere tomorrow.
    pub(crate) fn local_home(&self) -> Result<Home, Failure> {
        let user = rustix::process::geteuid().as_raw();
        let wrong = |error: &dyn std::fmt::Display| Failure::bad_argument("the local home", error);
        Ok(Home {
            provider: ProviderName::new("local").map_err(|error| wrong(&error))?,
            endpoint: Endpoint::new("local:sandboxes").map_err(|error| wrong(&error))?,
            account: AccountId::new(format!("uid-{user}")).map_err(|error| wrong(&error))?,
            machine: this_machine(),
        })
    }

    /// The owner that a call names, or the one that counts where it names none.
    pub(crate) fn owner(&self, named: Option<&Owner>) -> Owner {
        named.unwrap_or(&self.configuration.owner).clone()
    }

    /// Whoever runs this is the operator of this installation: they can read and write its files.
    pub(crate) fn operator(&self) -> Caller {
        Caller::Operator(user_name())
    }
}

/// The keeper's own copy of the secret; each is wiped when it is dropped.
fn copy_of(secret: &SecretBox<[u8; 32]>) -> InstallationSecret {
    InstallationSecret::new(SecretBox::init_with_mut(|bytes: &mut [u8; 32]| {
        bytes.copy_from_slice(secret.expose_secret());
    }))
}
