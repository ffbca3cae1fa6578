//! What is kept of a machine beside its definitions: versions, aliases, tags, and that it is being deleted.
//!
//! A card is read, changed by one of the functions below, and kept again if nobody else has changed it meanwhile. None
//! of them touches anything: they say what the card is afterwards, or why it cannot be.

use crate::naming::Via;
use perdura_engine::Timestamp;
use perdura_store::{Head, RevisionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most tags of one resource.
pub const TAGS_MAX: usize = 50;
/// What a program names the revision by that a machine was created with.
const INITIAL: &str = "INITIAL";

/// Why a card stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardError {
    /// Another revision counts than the one that was meant.
    OtherRevision {
        /// The one that was meant.
        wanted: String,
        /// The one that counts.
        current: String,
    },
    /// There are as many versions as there may be.
    VersionsFull(usize),
    /// There are as many aliases as there may be.
    AliasesFull(usize),
    /// These aliases lead to the version.
    LedTo(Vec<String>),
    /// An alias of this name leads elsewhere.
    AliasTaken(String),
    /// There is no such alias, or no version that it should lead to.
    NotThere,
    /// There would be so many tags.
    TagsFull(usize),
}

/// Why nothing of a machine is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstartable {
    /// It is being deleted.
    Deleting,
    /// It has no such version or alias.
    NoSuchQualifier,
}

/// The card of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Card {
    /// The revision that the machine was created with, which has no id on AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<RevisionId>,
    /// In the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Version>,
    /// Numbers are not used again.
    pub last_version: u32,
    /// By name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, Alias>,
    /// By key.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// It takes no executions any more, and goes when the last one has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub deleting: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A revision that has a number and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub number: u32,
    pub revision: RevisionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub created_at: Timestamp,
}

/// A name for one version, or for two with weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alias {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub routes: Vec<Route>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Where an alias leads, and how many of a hundred starts go there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub version: u32,
    pub weight: u32,
}

/// How many versions and aliases a machine may have.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub versions: usize,
    pub aliases: usize,
}

/// A change of an alias; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct AliasChange {
    pub description: Option<String>,
    pub routes: Option<Vec<Route>>,
}

impl Card {
    /// As it is kept.
    pub fn read(head: &Head) -> serde_json::Result<Self> {
        serde_json::from_str(&head.card)
    }

    /// Which definition is started for a caller who names the machine, or a version or an alias of it, and what it is
    /// started through.
    pub fn start(
        &self,
        current: RevisionId,
        qualifier: Option<&str>,
        chance: u128,
    ) -> Result<(RevisionId, Via), Unstartable> {
        if self.deleting {
            return Err(Unstartable::Deleting);
        }
        let Some(qualifier) = qualifier else { return Ok((current, Via::default())) };
        let (version, alias) = match version_number(qualifier) {
            Some(number) => (self.version(number), None),
            None => (self.route(qualifier, chance), Some(qualifier.into())),
        };
        let version = version.ok_or(Unstartable::NoSuchQualifier)?;
        Ok((version.revision, Via { version: Some(version.number), alias, ..Via::default() }))
    }

    /// A version by its number.
    pub fn version(&self, number: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// Gives the current revision a number, unless it has one. A revision id that the caller names must be the
    /// current one's.
    pub fn publish(
        &mut self,
        current: (RevisionId, Option<&str>),
        wanted: Option<&str>,
        new: (Option<String>, Timestamp),
        most: Most,
    ) -> Result<Version, CardError> {
        let ((revision, id), (description, created_at)) = (current, new);
        let id = id.unwrap_or(INITIAL);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != id) {
            return Err(CardError::OtherRevision { wanted: wanted.to_owned(), current: id.to_owned() });
        }
        if let Some(known) = self.versions.iter().rev().find(|version| version.revision == revision) {
            return Ok(known.clone());
        }
        if self.versions.len() >= most.versions {
            return Err(CardError::VersionsFull(most.versions));
        }
        self.last_version += 1;
        let version = Version { number: self.last_version, revision, description, created_at };
        self.versions.push(version.clone());
        Ok(version)
    }

    /// Takes a version away; one that is not there is no mistake.
    pub fn delete_version(&mut self, number: u32) -> Result<(), CardError> {
        let leads_here = |alias: &Alias| alias.routes.iter().any(|route| route.version == number);
        let names = self.aliases.iter().filter(|(_, alias)| leads_here(alias));
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            return Err(CardError::LedTo(names));
        }
        self.versions.retain(|version| version.number != number);
        Ok(())
    }

    /// Makes an alias. The same one again is no mistake.
    pub fn create_alias(
        &mut self,
        name: &str,
        change: AliasChange,
        now: Timestamp,
        most: Most,
    ) -> Result<Alias, CardError> {
        let routes = change.routes.unwrap_or_default();
        self.check_routes(&routes)?;
        if let Some(known) = self.aliases.get(name) {
            if known.routes == routes && known.description == change.description {
                return Ok(known.clone());
            }
            return Err(CardError::AliasTaken(name.to_owned()));
        }
        if self.aliases.len() >= most.aliases {
            return Err(CardError::AliasesFull(most.aliases));
        }
        let alias = Alias { description: change.description, routes, created_at: now, updated_at: now };
        self.aliases.insert(name.to_owned(), alias.clone());
        Ok(alias)
    }

    pub fn update_alias(&mut self, name: &str, change: AliasChange, now: Timestamp) -> Result<(), CardError> {
        if let Some(routes) = &change.routes {
            self.check_routes(routes)?;
        }
        let alias = self.aliases.get_mut(name).ok_or(CardError::NotThere)?;
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
    fn check_routes(&self, routes: &[Route]) -> Result<(), CardError> {
        let is_there = |route: &Route| self.version(route.version).is_some();
        if routes.iter().all(is_there) { Ok(()) } else { Err(CardError::NotThere) }
    }

    /// Which version an alias stands for, this time.
    pub fn route(&self, alias: &str, chance: u128) -> Option<&Version> {
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

/// Tags by key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

impl Tags {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets some; a key that is there gets the new value.
    pub fn put(&mut self, tags: impl IntoIterator<Item = (String, String)>) -> Result<(), CardError> {
        self.0.extend(tags);
        if self.0.len() > TAGS_MAX { Err(CardError::TagsFull(self.0.len())) } else { Ok(()) }
    }
}

/// Whether a machine is being deleted.
pub fn is_deleting(head: &Head) -> bool {
    Card::read(head).is_ok_and(|card| card.deleting)
}

/// Whether a machine was deleted, or is being deleted, since it was seen; perhaps another of its name exists now.
pub fn is_gone(now: Option<&Head>, seen: &Head) -> bool {
    now.is_none_or(|now| is_deleting(now) || now.created_at != seen.created_at)
}

/// The number of a version, which is written in one way alone: `01` and `+1` are no numbers of versions.
pub fn version_number(qualifier: &str) -> Option<u32> {
    qualifier.parse().ok().filter(|number: &u32| number.to_string() == qualifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { versions: 3, aliases: 2 };
    const NOW: Timestamp = Timestamp(1_000);

    fn published(card: &mut Card, revision: u64) -> Result<u32, CardError> {
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
            card.publish((RevisionId(1), current), wanted, (None, NOW), MOST)
        };
        assert_eq!(
            publish(&mut card, None, Some("r2")),
            Err(CardError::OtherRevision { wanted: "r2".into(), current: INITIAL.into() })
        );
        assert!(publish(&mut card, None, Some(INITIAL)).is_ok());
        assert!(publish(&mut card, Some("r2"), Some("r2")).is_ok());
    }

    #[test]
    fn quotas_hold() {
        let mut card = Card::default();
        for revision in 1..=3 {
            published(&mut card, revision).expect("there is room");
        }
        assert_eq!(published(&mut card, 4), Err(CardError::VersionsFull(3)));
        for name in ["a", "b"] {
            card.create_alias(name, routes(&[(1, 100)]), NOW, MOST).expect("there is room");
        }
        let third = card.create_alias("c", routes(&[(1, 100)]), NOW, MOST);
        assert_eq!(third, Err(CardError::AliasesFull(2)));
        let tags = (0..=TAGS_MAX).map(|number| (number.to_string(), String::new()));
        let refused = card.tags.put(tags);
        assert_eq!(refused, Err(CardError::TagsFull(TAGS_MAX + 1)));
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
        assert_eq!(other, Err(CardError::AliasTaken("live".into())));
        let nowhere = card.create_alias("new", routes(&[(5, 100)]), NOW, MOST);
        assert_eq!(nowhere, Err(CardError::NotThere));
        assert_eq!(card.delete_version(1), Err(CardError::LedTo(vec!["live".into()])));
    }
    #[test]
    fn a_start_goes_by_what_counts_a_version_or_an_alias_and_never_to_a_machine_that_goes() {
        let mut card = Card::default();
        published(&mut card, 7).expect("there is room");
        card.create_alias("live", routes(&[(1, 100)]), NOW, MOST).expect("it is new");
        let current = RevisionId(9);
        assert_eq!(card.start(current, None, 0), Ok((current, Via::default())));
        for (qualifier, alias) in [("1", None), ("live", Some("live".into()))] {
            let via = Via { version: Some(1), alias, ..Via::default() };
            assert_eq!(card.start(current, Some(qualifier), 0), Ok((RevisionId(7), via)));
        }
        for qualifier in ["2", "01", "+1", "test", ""] {
            let refused = card.start(current, Some(qualifier), 0);
            assert_eq!(refused, Err(Unstartable::NoSuchQualifier), "{qualifier}");
        }
        card.deleting = true;
        for qualifier in [None, Some("1"), Some("live")] {
            assert_eq!(card.start(current, qualifier, 0), Err(Unstartable::Deleting));
        }
    }

    #[test]
    fn a_version_has_one_spelling() {
        assert_eq!(version_number("1"), Some(1));
        assert_eq!(version_number("4294967295"), Some(u32::MAX));
        for other in ["01", "00000001", "+1", "-1", "4294967296", "1a", ""] {
            assert_eq!(version_number(other), None, "{other}");
        }
    }
}
