//! Whole texts against regular expressions that stand outside of expressions, such as the patterns of service models.

use super::meter::Meter;
use super::regex::Regex;
use std::rc::Rc;

/// How much work the texts of one matching may take together, in the units of an evaluation.
const WORK_MAX: u64 = 8_000_000;

/// Matches texts as JavaScript would, until they have taken too much work together.
pub struct Matching(Rc<Meter>);

impl Default for Matching {
    fn default() -> Self {
        Self(Meter::within(WORK_MAX))
    }
}

impl Matching {
    /// Whether the pattern matches all of the text. `None`: it is no pattern, or too much work.
    pub fn whole(&self, pattern: &str, text: &str) -> Option<bool> {
        let regex = Regex::new(&format!("^(?:{pattern})$"), "").ok()?;
        self.0.work(regex.weight() as u64).ok()?;
        // Such a pattern matches at the beginning or nowhere.
        regex.find(text, 0, &self.0).ok().map(|found| found.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_all_of_a_text() {
        let matching = Matching::default();
        for (pattern, text, expected) in [
            ("[a-z]+", "abc", Some(true)),
            ("[a-z]+", "abc1", Some(false)),
            ("a|b", "bc", Some(false)),
            ("^(?=.*[a-z])[a-z0-9]+$", "1a", Some(true)),
            ("^(?=.*[a-z])[a-z0-9]+$", "11", Some(false)),
            ("(ab)|()", "", Some(true)),
            ("[a", "a", None),
        ] {
            assert_eq!(matching.whole(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_that_explodes_gives_no_answer() {
        let matching = Matching::default();
        assert_eq!(matching.whole("(a+)+b", &"a".repeat(64)), None);
        assert_eq!(matching.whole("[a-z]+", "abc"), None, "all texts have one bound together");
    }
}
