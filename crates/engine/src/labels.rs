//! Labels: short pairs of key and value, set at an execution's start, to find it by.
//!
//! They never change. Definitions do not see them, and no decision depends on them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The most labels of one execution.
pub const LABELS_MAX: usize = 16;
/// The longest key of a label.
pub const LABEL_KEY_BYTES_MAX: usize = 63;
/// The longest value of a label.
pub const LABEL_VALUE_BYTES_MAX: usize = 255;

/// The labels of an execution, by key. Cloning shares.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(Option<Arc<BTreeMap<Arc<str>, Arc<str>>>>);

/// Why labels are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("an execution has at most {LABELS_MAX} labels, and here are {0}")]
    TooMany(usize),
    #[error(
        "{0:?} cannot be the key of a label: it has 1 to {LABEL_KEY_BYTES_MAX} bytes, without : and = and control \
         characters"
    )]
    Key(String),
    #[error(
        "the value of the label {0} is too long or has a control character: the most is {LABEL_VALUE_BYTES_MAX} bytes"
    )]
    Value(String),
    #[error("the label {0} is given twice")]
    Twice(String),
}

impl Labels {
    /// Labels that were checked.
    pub fn new<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, LabelError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        let mut count = 0;
        for (key, value) in pairs {
            let (key, value) = (key.as_ref(), value.as_ref());
            count += 1;
            if !is_key(key) {
                return Err(LabelError::Key(key.chars().take(LABEL_KEY_BYTES_MAX).collect()));
            }
            if value.len() > LABEL_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
                return Err(LabelError::Value(key.to_owned()));
            }
            if labels.insert(key.into(), value.into()).is_some() {
                return Err(LabelError::Twice(key.to_owned()));
            }
        }
        if count > LABELS_MAX {
            return Err(LabelError::TooMany(count));
        }
        Ok(Self(Some(labels).filter(|labels| !labels.is_empty()).map(Arc::new)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        self.0.as_ref()?.get(key)
    }

    /// By key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().flat_map(|labels| labels.iter())
    }
}

/// A key must not contain the separators of a label that is written as one text.
fn is_key(key: &str) -> bool {
    let is_wrong = |character: char| matches!(character, ':' | '=') || character.is_control();
    !key.is_empty() && key.len() <= LABEL_KEY_BYTES_MAX && !key.contains(is_wrong)
}

impl fmt::Debug for Labels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_few_and_short() {
        let many = |count: usize| (0..count).map(|n| (format!("k{n}"), "v")).collect::<Vec<_>>();
        assert_eq!(Labels::new(many(LABELS_MAX)).unwrap().iter().count(), LABELS_MAX);
        assert_eq!(Labels::new(many(LABELS_MAX + 1)), Err(LabelError::TooMany(LABELS_MAX + 1)));
        let (longest, value) = ("k".repeat(LABEL_KEY_BYTES_MAX), "é".repeat(LABEL_VALUE_BYTES_MAX / 2));
        assert!(Labels::new([(&longest, &value)]).is_ok());
        for key in ["", "a:b", "a=b", "a\nb", &format!("{longest}k")] {
            assert!(matches!(Labels::new([(key, "v")]), Err(LabelError::Key(_))), "{key:?}");
        }
        for value in ["a\u{7}b", &format!("{value}éé")] {
            assert_eq!(Labels::new([("k", value)]), Err(LabelError::Value("k".into())), "{value:?}");
        }
        assert_eq!(Labels::new([("k", "a"), ("k", "b")]), Err(LabelError::Twice("k".into())));
        assert!(Labels::new([("a b/ü", "x:y = z"), ("empty", "")]).is_ok());
    }

    #[test]
    fn no_labels_are_all_alike() {
        let none: [(&str, &str); 0] = [];
        assert_eq!(Labels::new(none).unwrap(), Labels::default());
        assert_eq!(
            serde_json::to_string(&Labels::new([("b", "2"), ("a", "1")]).unwrap()).unwrap(),
            r#"{"a":"1","b":"2"}"#
        );
    }
}
