//! Masks with a number stand for one thing each: `<uuid:1>` is the same wherever it stands in a case, and another
//! than `<uuid:2>`. So a list is in the right order, and a revision is the one that the update answered with.

use perdura_engine::asl::json::Value;
use std::collections::BTreeMap;

/// What masks stood for so far.
#[derive(Default)]
pub(crate) struct Bindings(BTreeMap<String, String>);

impl Bindings {
    /// Binds the masks of an answer that otherwise agrees; says where one stands for something else than before.
    pub(crate) fn bind(&mut self, recorded: &Value, ours: &Value) -> Vec<String> {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => {
                let pairs = recorded.iter().filter_map(|(name, recorded)| Some((recorded, ours.get(name)?)));
                pairs.flat_map(|(recorded, ours)| self.bind(recorded, ours)).collect()
            }
            (Value::Array(recorded), Value::Array(ours)) => recorded
                .iter()
                .zip(ours.iter())
                .flat_map(|(recorded, ours)| self.bind(recorded, ours))
                .collect(),
            (Value::String(recorded), Value::String(ours)) => captures(recorded, ours)
                .into_iter()
                .filter_map(|(mask, found)| self.put(mask, found))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn put(&mut self, mask: &str, found: &str) -> Option<String> {
        let known = self.0.entry(mask.to_owned()).or_insert_with(|| found.to_owned());
        (known != found).then(|| format!("<{mask}> is {found} here, and was {known} before"))
    }
}

/// What each numbered mask of a recorded text stands for in ours. Masks without a number stand for anything.
fn captures<'t>(recorded: &'t str, ours: &'t str) -> Vec<(&'t str, &'t str)> {
    let mut found = Vec::new();
    let (mut recorded, mut ours) = (recorded, ours);
    while let Some((before, rest)) = recorded.split_once('<') {
        let Some((mask, after)) = rest.split_once('>') else { break };
        let Some(start) = ours.find(before) else { break };
        ours = &ours[start + before.len()..];
        let literal = after.split(['<']).next().unwrap_or_default();
        // The account is masked by a number of its own.
        let literal = literal.split("111111111111").next().unwrap_or_default();
        let end = if after.is_empty() {
            Some(ours.len())
        } else {
            ours.find(literal).filter(|_| !literal.is_empty())
        };
        let Some(end) = end else { break };
        if mask.ends_with("idx")
            || mask.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
        {
            found.push((mask, &ours[..end]));
        }
        ours = &ours[end..];
        recorded = after
            .split_once("111111111111")
            .filter(|(before, _)| *before == literal)
            .map_or(after, |(_, rest)| rest);
    }
    found
}

#[test]
fn a_numbered_mask_stands_for_one_thing() {
    let arn = "arn:<partition>:states:<region>:111111111111:execution:<ArnPart_0idx>:<ExecArnPart_1idx>";
    let ours = "arn:aws:states:us-east-1:000000000000:execution:orders:first";
    assert_eq!(captures(arn, ours), [("ArnPart_0idx", "orders"), ("ExecArnPart_1idx", "first")]);
    let mut bindings = Bindings::default();
    assert_eq!(bindings.bind(&"<uuid:1>".into(), &"a".into()), [""; 0]);
    assert_eq!(bindings.bind(&"<uuid:2>".into(), &"b".into()), [""; 0]);
    assert_eq!(bindings.bind(&"<uuid:1>".into(), &"b".into()), ["<uuid:1> is b here, and was a before"]);
}
