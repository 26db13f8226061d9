//! The configuration: `leasehold.toml` in the state directory, or the file that `--config` names.
//!
//! No other place is looked at: a file in the current directory could be anybody's. A field that is
//! not known is an error, since a misspelt limit must not pass for no limit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::catalogue::codes;
use leasehold_core::{Clocks, Owner};
use leasehold_keeper::Settings;
use leasehold_ports::Limits;
use serde::{Deserialize, Deserializer};

use crate::failure::Failure;
use crate::origin::{Origin, Sourced};
use crate::state_directory::{StateDirectory, user_name};
use crate::times;

/// How long a lease of the command line lives unless somebody says otherwise.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// What is in force.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Whose leases are meant where a call does not say.
    pub(crate) owner: Owner,
    /// How long a lease lives where a call does not say.
    pub(crate) lifetime: Duration,
    /// Limits and times of the keeper.
    pub(crate) settings: Settings,
    /// The file that was read, if there is one.
    pub(crate) file: Sourced<Option<PathBuf>>,
    rows: Vec<Row>,
}

/// One line of `config show`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// The file as it is written. Every field may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    defaults: Defaults,
    limits: LimitsSection,
    clocks: ClocksSection,
    cleanup: CleanupSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Defaults {
    owner: Option<OwnerText>,
    lifetime: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsSection {
    leases_per_owner: Option<u32>,
    leases_per_home: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ClocksSection {
    provisioning: Option<DurationText>,
    idle_active: Option<DurationText>,
    idle_parked: Option<DurationText>,
    longest_life: Option<DurationText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CleanupSection {
    drain: Option<DurationText>,
    grace: Option<DurationText>,
    proof: Option<DurationText>,
    longest_retry: Option<DurationText>,
}

#[derive(Clone, Debug)]
struct DurationText(Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = times::parse_duration(&text).map_err(serde::de::Error::custom)?;
        if duration.is_zero() {
            return Err(serde::de::Error::custom("a duration of zero"));
        }
        Ok(Self(duration))
    }
}

#[derive(Clone, Debug)]
struct OwnerText(Owner);

impl<'de> Deserialize<'de> for OwnerText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl Configuration {
    /// Reads the file that was asked for, or the one in the state directory if there is one.
    pub(crate) fn read(state: &StateDirectory, asked_for: Option<&Path>) -> Result<Self, Failure> {
        let (path, origin) = match asked_for {
            Some(path) => (path.to_owned(), Origin::Argument("--config")),
            None => (state.configuration_file(), Origin::Default),
        };
        let file = match fs::read_to_string(&path) {
            Ok(text) => Some(parse(&path, &text)?),
            // Whether the state directory can be used is for the ledger to say.
            Err(error) if asked_for.is_none() && is_absence(&error) => None,
            Err(error) => return Err(invalid(&path, &error)),
        };
        Self::of(file, path, origin)
    }

    fn of(file: Option<File>, path: PathBuf, origin: Origin) -> Result<Self, Failure> {
        let read = Sourced::new(file.is_some().then(|| path.clone()), origin);
        let file = file.unwrap_or_default();
        let default_settings = Settings::default();
        let mut show = Show { path, rows: Vec::new() };
        let owner = match file.defaults.owner {
            Some(owner) => Sourced::new(owner.0, Origin::File(show.path.clone())),
            None => Sourced::new(owner_of_user()?, Origin::Default),
        };
        show.rows.push(Row {
            name: "defaults.owner",
            value: owner.value.to_string(),
            origin: owner.origin,
        });
        let lifetime = show.duration("defaults.lifetime", file.defaults.lifetime, LIFETIME);
        let limits = Limits {
            per_owner: show.number(
                "limits.leases_per_owner",
                file.limits.leases_per_owner,
                default_settings.limits.per_owner,
            ),
            per_home: show.number(
                "limits.leases_per_home",
                file.limits.leases_per_home,
                default_settings.limits.per_home,
            ),
        };
        let (clocks, usual) = (file.clocks, default_settings.clocks);
        let clocks = Clocks {
            provisioning: show.duration(
                "clocks.provisioning",
                clocks.provisioning,
                usual.provisioning,
            ),
            idle_active: show.duration("clocks.idle_active", clocks.idle_active, usual.idle_active),
            idle_parked: show.duration("clocks.idle_parked", clocks.idle_parked, usual.idle_parked),
            longest_life: show.duration(
                "clocks.longest_life",
                clocks.longest_life,
                usual.longest_life,
            ),
        };
        let (cleanup, usual) = (file.cleanup, default_settings);
        let settings = Settings {
            limits,
            clocks,
            drain: show.duration("cleanup.drain", cleanup.drain, usual.drain),
            grace: show.duration("cleanup.grace", cleanup.grace, usual.grace),
            proof: show.duration("cleanup.proof", cleanup.proof, usual.proof),
            longest_retry: show.duration(
                "cleanup.longest_retry",
                cleanup.longest_retry,
                usual.longest_retry,
            ),
            ..default_settings
        };
        Ok(Self { owner: owner.value, lifetime, settings, file: read, rows: show.rows })
    }

    /// Every value, in the order of the file.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Collects what `config show` prints while the values are chosen, so that neither can miss one.
struct Show {
    path: PathBuf,
    rows: Vec<Row>,
}

impl Show {
    fn pick<T>(&self, set: Option<T>, usual: T) -> (T, Origin) {
        match set {
            Some(value) => (value, Origin::File(self.path.clone())),
            None => (usual, Origin::Default),
        }
    }

    fn duration(
        &mut self,
        name: &'static str,
        set: Option<DurationText>,
        usual: Duration,
    ) -> Duration {
        let (value, origin) = self.pick(set.map(|text| text.0), usual);
        self.rows.push(Row { name, value: times::short(value), origin });
        value
    }

    fn number(&mut self, name: &'static str, set: Option<u32>, usual: u32) -> u32 {
        let (value, origin) = self.pick(set, usual);
        self.rows.push(Row { name, value: value.to_string(), origin });
        value
    }
}

fn owner_of_user() -> Result<Owner, Failure> {
    Owner::new("local", user_name()).map_err(|error| {
        Failure::bad_argument(
            "the user's name as an owner",
            format!("{error}: name one with --owner"),
        )
    })
}

fn parse(path: &Path, text: &str) -> Result<File, Failure> {
    toml::from_str(text).map_err(|error| invalid(path, &error))
}

fn invalid(path: &Path, problem: &dyn std::fmt::Display) -> Failure {
    let problem = problem.to_string();
    let message =
        format!("the configuration {} cannot be used: {}", path.display(), problem.trim_end());
    Failure::new(codes::CONFIGURATION_INVALID, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Configuration, Failure> {
        let path = PathBuf::from("leasehold.toml");
        Configuration::of(Some(parse(&path, text)?), path, Origin::Default)
    }

    #[test]
    fn what_is_not_set_has_its_default() {
        let configuration = of("").unwrap();
        assert_eq!(configuration.settings, Settings::default());
        assert!(configuration.rows().iter().all(|row| row.origin == Origin::Default));
    }

    #[test]
    fn what_is_set_is_in_force_and_says_where_it_comes_from() {
        let configuration = of("[limits]\nleases_per_owner = 1\n[clocks]\nidle_active = '5m'\n\
            [defaults]\nowner = 'acme/production'\nlifetime = '2h'")
        .unwrap();
        assert_eq!(configuration.settings.limits.per_owner, 1);
        assert_eq!(configuration.settings.clocks.idle_active, Duration::from_secs(300));
        assert_eq!(configuration.owner.to_string(), "acme/production");
        assert_eq!(configuration.lifetime, Duration::from_secs(7_200));
        let from_file = configuration.rows().iter().filter(|row| row.origin != Origin::Default);
        assert_eq!(from_file.count(), 4);
    }

    #[test]
    fn a_field_that_is_not_known_is_an_error() {
        let failure = of("[limits]\nleases_per_ower = 1").unwrap_err();
        assert_eq!(failure.code(), Some("configuration-invalid"));
        assert!(failure.message().contains("leases_per_ower"), "{}", failure.message());
    }

    #[test]
    fn a_duration_has_a_unit_and_is_not_zero() {
        for text in ["90", "0s", "soon"] {
            assert!(of(&format!("[clocks]\nidle_active = '{text}'")).is_err(), "{text}");
        }
    }
}
