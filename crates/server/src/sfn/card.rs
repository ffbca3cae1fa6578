//! What is kept of a machine beside its definitions: versions, aliases, tags, and that it is being deleted.
//!
//! A card is read, changed by one of the functions below, and kept again if nobody else has changed it meanwhile. None
//! of them touches anything: they say what the card is afterwards, or what AWS would say.

use super::error::{ApiError, Code};
use super::locate::version_number;
use perdura_engine::Timestamp;
use perdura_runtime::{Chosen, Qualified, Resolver};
use perdura_store::RevisionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most tags of one resource.
const TAGS_MAX: usize = 50;
/// What a program names the revision by that a machine was created with.
const INITIAL: &str = "INITIAL";

/// The card of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Card {
    /// The revision that the machine was created with, which has no id on AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<RevisionId>,
    /// In the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) versions: Vec<Version>,
    /// Numbers are not used again.
    pub(super) last_version: u32,
    /// By name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) aliases: BTreeMap<String, Alias>,
    /// By key.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub(super) tags: Tags,
    /// It takes no executions any more, and goes when the last one has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) deleting: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A revision that has a number and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) number: u32,
    pub(super) revision: RevisionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) created_at: Timestamp,
}

/// A name for one version, or for two with weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alias {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) routes: Vec<Route>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// Where an alias leads, and how many of a hundred starts go there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Route {
    pub(super) version: u32,
    pub(super) weight: u32,
}

/// How many versions and aliases a machine may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) versions: usize,
    pub(super) aliases: usize,
}

/// A change of an alias; what is absent stays.
#[derive(Clone, Debug, Default)]
pub(super) struct AliasChange {
    pub(super) description: Option<String>,
    pub(super) routes: Option<Vec<Route>>,
}

impl Card {
    pub(super) fn version(&self, number: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// Gives the current revision a number, unless it has one. A revision id that the caller names must be the
    /// current one's.
    pub(super) fn publish(
        &mut self,
        current: (RevisionId, Option<&str>),
        wanted: Option<&str>,
        new: (Option<String>, Timestamp),
        most: Most,
    ) -> Result<Version, ApiError> {
        let ((revision, id), (description, created_at)) = (current, new);
        let id = id.unwrap_or(INITIAL);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != id) {
            return Err(ApiError::new(
                Code::ConflictException,
                format!(
                    "Failed to publish the State Machine version for revision {wanted}. The current State Machine \
                     revision is {id}."
                ),
            ));
        }
        if let Some(known) = self.versions.iter().rev().find(|version| version.revision == revision) {
            return Ok(known.clone());
        }
        if self.versions.len() >= most.versions {
            let message = format!("The maximum number of versions for a state machine is {}", most.versions);
            return Err(ApiError::new(Code::ServiceQuotaExceededException, message));
        }
        self.last_version += 1;
        let version = Version { number: self.last_version, revision, description, created_at };
        self.versions.push(version.clone());
        Ok(version)
    }

    /// Takes a version away; one that is not there is no mistake.
    pub(super) fn delete_version(&mut self, number: u32) -> Result<(), ApiError> {
        let leads_here = |alias: &Alias| alias.routes.iter().any(|route| route.version == number);
        let names = self.aliases.iter().filter(|(_, alias)| leads_here(alias));
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            return Err(ApiError::new(
                Code::ConflictException,
                format!(
                    "Version to be deleted must not be referenced by an alias. Current list of aliases referencing \
                     this version: [{}]",
                    names.join(", ")
                ),
            ));
        }
        self.versions.retain(|version| version.number != number);
        Ok(())
    }

    /// Makes an alias. The same one again is no mistake.
    pub(super) fn create_alias(
        &mut self,
        name: &str,
        change: AliasChange,
        now: Timestamp,
        most: Most,
    ) -> Result<Alias, ApiError> {
        let routes = change.routes.unwrap_or_default();
        self.check_routes(&routes)?;
        if let Some(known) = self.aliases.get(name) {
            if known.routes == routes && known.description == change.description {
                return Ok(known.clone());
            }
            let message = format!(
                "Failed to create alias because an alias with the same name and a different routing configuration \
                 already exists: {name}"
            );
            return Err(ApiError::new(Code::ConflictException, message));
        }
        if self.aliases.len() >= most.aliases {
            let message = format!("The maximum number of aliases for a state machine is {}", most.aliases);
            return Err(ApiError::new(Code::ServiceQuotaExceededException, message));
        }
        let alias = Alias { description: change.description, routes, created_at: now, updated_at: now };
        self.aliases.insert(name.to_owned(), alias.clone());
        Ok(alias)
    }

    pub(super) fn update_alias(
        &mut self,
        name: &str,
        change: AliasChange,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        if let Some(routes) = &change.routes {
            self.check_routes(routes)?;
        }
        let alias = self.aliases.get_mut(name).ok_or_else(no_such_alias)?;
        if let Some(routes) = change.routes {
            alias.routes = routes;
        }
        if change.description.is_some() {
            alias.description = change.description;
        }
        alias.updated_at = now;
        Ok(())
    }

    /// That what is routed to is there.
    fn check_routes(&self, routes: &[Route]) -> Result<(), ApiError> {
        let is_there = |route: &Route| self.version(route.version).is_some();
        if routes.iter().all(is_there) { Ok(()) } else { Err(no_such_alias()) }
    }

    /// Which version an alias stands for, this time.
    pub(super) fn route(&self, alias: &str, chance: u128) -> Option<&Version> {
        let routes = &self.aliases.get(alias)?.routes;
        let die = (chance % 100) as u32;
        let mut upto = 0;
        let fits = |route: &&Route| {
            upto += route.weight;
            die < upto
        };
        let route = routes.iter().find(fits).or(routes.last())?;
        self.version(route.version)
    }
}

/// Tells a node what versions and aliases stand for, for the executions that steps start.
pub fn resolver() -> Resolver {
    Resolver(Arc::new(|asked: Qualified<'_>| {
        let card: Card = match serde_json::from_str(&asked.head.card) {
            Ok(card) => card,
            Err(error) => {
                tracing::error!(machine = %asked.head.name, %error, "its versions and aliases cannot be read");
                return None;
            }
        };
        let (version, alias) = match version_number(asked.qualifier) {
            Some(number) => (card.version(number)?, None),
            None => (card.route(asked.qualifier, asked.chance)?, Some(asked.qualifier.into())),
        };
        Some(Chosen { revision: version.revision, version: version.number, alias })
    }))
}

/// AWS's words for an alias, or a version that an alias should lead to, that is not there.
pub(super) fn no_such_alias() -> ApiError {
    ApiError::new(Code::ResourceNotFound, "Request references a resource that does not exist.")
}

/// Tags by key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tags(pub(super) BTreeMap<String, String>);

impl Tags {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets some; a key that is there gets the new value.
    pub(super) fn put(
        &mut self,
        tags: impl IntoIterator<Item = (String, String)>,
        arn: &str,
    ) -> Result<(), ApiError> {
        self.0.extend(tags);
        if self.0.len() > TAGS_MAX {
            let message = format!("Resource has {} tags; the most is {TAGS_MAX}: '{arn}'", self.0.len());
            return Err(ApiError::new(Code::TooManyTags, message).with("resourceName", arn));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { versions: 3, aliases: 2 };
    const NOW: Timestamp = Timestamp(1_000);

    fn published(card: &mut Card, revision: u64) -> Result<u32, ApiError> {
        card.publish((RevisionId(revision), None), None, (None, NOW), MOST).map(|version| version.number)
    }

    fn routes(of: &[(u32, u32)]) -> AliasChange {
        let routes = of.iter().map(|(version, weight)| Route { version: *version, weight: *weight });
        AliasChange { description: None, routes: Some(routes.collect()) }
    }

    #[test]
    fn a_revision_gets_one_number_and_a_number_is_not_used_again() {
        let mut card = Card::default();
        assert_eq!(published(&mut card, 7), Ok(1));
        assert_eq!(published(&mut card, 7), Ok(1));
        assert_eq!(published(&mut card, 8), Ok(2));
        card.delete_version(2).expect("nothing leads there");
        assert_eq!(published(&mut card, 8), Ok(3));
        card.delete_version(9).expect("what is not there is gone");
    }

    #[test]
    fn a_version_is_published_of_the_revision_that_was_meant() {
        let mut card = Card::default();
        let publish = |card: &mut Card, current: Option<&str>, wanted: Option<&str>| {
            card.publish((RevisionId(1), current), wanted, (None, NOW), MOST).map_err(|error| error.code)
        };
        assert_eq!(publish(&mut card, None, Some("r2")), Err(Code::ConflictException));
        assert!(publish(&mut card, None, Some(INITIAL)).is_ok());
        assert!(publish(&mut card, Some("r2"), Some("r2")).is_ok());
    }

    #[test]
    fn quotas_hold() {
        let mut card = Card::default();
        for revision in 1..=3 {
            published(&mut card, revision).expect("there is room");
        }
        assert_eq!(
            published(&mut card, 4).map_err(|error| error.code),
            Err(Code::ServiceQuotaExceededException)
        );
        for name in ["a", "b"] {
            card.create_alias(name, routes(&[(1, 100)]), NOW, MOST).expect("there is room");
        }
        let third = card.create_alias("c", routes(&[(1, 100)]), NOW, MOST);
        assert_eq!(third.map_err(|error| error.code), Err(Code::ServiceQuotaExceededException));
        let tags = (0..=TAGS_MAX).map(|number| (number.to_string(), String::new()));
        let refused = card.tags.put(tags, "arn").map_err(|error| error.code);
        assert_eq!(refused, Err(Code::TooManyTags));
    }

    #[test]
    fn an_alias_divides_starts_by_weight() {
        let mut card = Card::default();
        for revision in 1..=2 {
            published(&mut card, revision).expect("there is room");
        }
        card.create_alias("live", routes(&[(1, 30), (2, 70)]), NOW, MOST).expect("it is well-formed");
        let ones = (0..100).filter(|die| card.route("live", *die).is_some_and(|version| version.number == 1));
        assert_eq!(ones.count(), 30);
        card.update_alias("live", routes(&[(1, 0), (2, 100)]), NOW).expect("it is there");
        assert!((0..100).all(|die| card.route("live", die).is_some_and(|version| version.number == 2)));
    }

    #[test]
    fn the_same_alias_again_is_no_mistake_and_another_one_is() {
        let mut card = Card::default();
        published(&mut card, 1).expect("there is room");
        published(&mut card, 2).expect("there is room");
        card.create_alias("live", routes(&[(1, 100)]), NOW, MOST).expect("it is new");
        card.create_alias("live", routes(&[(1, 100)]), NOW, MOST).expect("it is the same");
        let other = card.create_alias("live", routes(&[(2, 100)]), NOW, MOST);
        assert_eq!(other.map_err(|error| error.code), Err(Code::ConflictException));
        let nowhere = card.create_alias("new", routes(&[(5, 100)]), NOW, MOST);
        assert_eq!(nowhere.map_err(|error| error.code), Err(Code::ResourceNotFound));
        assert_eq!(card.delete_version(1).map_err(|error| error.code), Err(Code::ConflictException));
    }
}
