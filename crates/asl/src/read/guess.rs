//! Guesses the meaning of a misspelt name.

/// Longer names are not compared.
const COMPARED_MAX: usize = 80;

/// The nearest of `known`, if one is near enough.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name: Vec<char> = name.chars().take(COMPARED_MAX + 1).collect();
    if name.len() > COMPARED_MAX {
        return None;
    }
    let lower: Vec<char> = name.iter().map(char::to_ascii_lowercase).collect();
    let allowed = (name.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let other: Vec<char> =
            candidate.chars().take(COMPARED_MAX + 1).map(|c| c.to_ascii_lowercase()).collect();
        if other.len().abs_diff(lower.len()) > allowed && !is_beginning(&lower, &other) {
            continue;
        }
        let distance = if is_beginning(&lower, &other) { allowed } else { distance(&lower, &other) };
        if distance <= allowed && best.is_none_or(|(known, _)| distance < known) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `Timeout` is not far from `TimeoutSeconds`.
fn is_beginning(name: &[char], candidate: &[char]) -> bool {
    name.len() >= 5 && candidate.starts_with(name)
}

/// A hint with the nearest of `known`.
pub(super) fn hint<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
    let nearest = nearest(name, known)?;
    Some(if nearest.eq_ignore_ascii_case(name) {
        format!("names are case-sensitive: write `{nearest}`")
    } else {
        format!("did you mean `{nearest}`?")
    })
}

/// The edit distance: letters that change, are added, removed, or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j - 1] + same).min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["Next", "Resource", "ResultPath", "TimeoutSeconds", "End"];
        for (name, expected) in [
            ("Nxet", Some("Next")),
            ("next", Some("Next")),
            ("Resorce", Some("Resource")),
            ("TimeoutSecond", Some("TimeoutSeconds")),
            ("ResultPaths", Some("ResultPath")),
            ("timeout", Some("TimeoutSeconds")),
            ("Time", None),
            ("Colour", None),
            ("", None),
            ("_comment_why", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(hint("end", known).as_deref(), Some("names are case-sensitive: write `End`"));
    }
}
