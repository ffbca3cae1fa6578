//! Our own format: `{"Charge": [{"error": "States.Timeout", "cause": "no answer"}, {"result": {}}]}`.

use super::{Answer, For, Mocks, Page};
use anyhow::Result;
use perdura_asl::node::{Member, Node, find};
use perdura_engine::Fault;

pub(super) fn read(page: Page<'_>, members: &[Member], wanted: &For<'_>) -> Result<Mocks> {
    let mut mocks = Mocks::default();
    for Member { key, key_span, value } in members {
        let state = page.mockable(wanted.machine, key, *key_span)?;
        let answers = value.as_array().filter(|answers| !answers.is_empty()).ok_or_else(|| {
            let message = format!("{key:?} has a list of answers, such as [{{\"result\": {{}}}}]");
            page.wrong(value.span, message)
        })?;
        let read = answers.iter().enumerate().map(|(call, node)| Ok((call as u64, answer(page, node)?)));
        page.put(&mut mocks, state, read.collect::<Result<_>>()?)?;
    }
    Ok(mocks)
}

fn answer(page: Page<'_>, node: &Node) -> Result<Answer> {
    let members = page.object(node, "an answer")?;
    if let Some(other) = members.iter().find(|member| !matches!(&*member.key, "result" | "error" | "cause")) {
        let message = format!("an answer has a result, or an error and a cause; there is no {:?}", other.key);
        return Err(page.wrong(other.key_span, message));
    }
    let text =
        |name: &str| find(members, name).map(|member| page.text(&member.value, name).cloned()).transpose();
    match (find(members, "result"), text("error")?, text("cause")?) {
        (Some(result), None, None) => Ok(Answer::Result(result.value.to_value().into())),
        (None, None, None) => Err(page.wrong(node.span, "an answer has a result or an error".into())),
        (None, error, cause) => Ok(Answer::Error(Fault { error, cause })),
        (Some(_), _, _) => Err(page.wrong(node.span, "an answer has a result or an error, not both".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::{mocks, refused};
    use super::*;

    #[test]
    fn a_list_is_the_sequence_of_calls() {
        let mut mocks = mocks(
            r#"{"Pay": [{"error": "E", "cause": "c"}, {"result": null}], "Ship": [{"cause": "only"}]}"#,
            None,
        );
        assert_eq!(mocks.answer("Pay"), Some(Answer::Error(Fault::new("E", "c"))));
        assert_eq!(
            mocks.answer("Ship"),
            Some(Answer::Error(Fault { error: None, cause: Some("only".into()) }))
        );
        for _ in 0..2 {
            assert_eq!(mocks.answer("Pay"), Some(Answer::Result(perdura_asl::json::Value::Null.into())));
        }
        assert_eq!(mocks.answer("Elsewhere"), None);
    }

    #[test]
    fn mistakes_have_a_place_and_a_reason() {
        for (text, expected) in [
            ("[]", "1:1: a mock file is an object, not an array"),
            (
                "{\n \"Pya\": []}",
                "2:2: the machine has no state \"Pya\"; its Task states are: \"Pay\", \"Ship\"",
            ),
            (r#"{"Done": [{"result": 1}]}"#, "1:2: \"Done\" is no Task state"),
            (r#"{"Pay": {"result": 1}}"#, "1:9: \"Pay\" has a list of answers"),
            (r#"{"Pay": []}"#, "1:9: \"Pay\" has a list of answers"),
            (r#"{"Pay": [5]}"#, "1:10: an answer is an object, not a number"),
            (r#"{"Pay": [{}]}"#, "1:10: an answer has a result or an error"),
            (r#"{"Pay": [{"result": 1, "error": "E"}]}"#, "not both"),
            (r#"{"Pay": [{"Return": 1}]}"#, "there is no \"Return\""),
            (r#"{"Pay": [{"error": 5}]}"#, "1:20: error is a string, not a number"),
            (r#"{"Pay": [{"result": 1}], "Pay": [{"result": 1}]}"#, "twice"),
            ("{", "a.json:1:"),
        ] {
            refused(text, None, expected);
        }
        refused("{}", Some("HappyPath"), "no test cases in this format");
    }
}
