//! Step Functions Local's format: test cases that name mocked responses, with answers by the number of the call.

use super::{Answer, For, Mocks, Page};
use anyhow::Result;
use perdura_asl::node::{Member, Node, find};
use perdura_engine::Fault;

pub(super) fn read(page: Page<'_>, root: &Node, wanted: &For<'_>) -> Result<Mocks> {
    let part = |name: &str| {
        let node = root.get(name).ok_or_else(|| page.wrong(root.span, format!("{name} is missing")))?;
        page.object(node, name)
    };
    let (machines, responses) = (part("StateMachines")?, part("MockedResponses")?);
    let machine =
        choose(page, machines, Some(wanted.machine_name), root, "state machine", "a file of that name")?;
    let cases = machine.value.get("TestCases").ok_or_else(|| {
        page.wrong(machine.value.span, format!("the state machine {:?} has no TestCases", machine.key))
    })?;
    let cases_list = page.object(cases, "TestCases")?;
    let remedy = "a # and its name behind that of the file";
    let case = match wanted.case {
        Some(name) => find(cases_list, name).ok_or_else(|| {
            page.wrong(cases.span, format!("there is no test case {name:?}, only {}", names(cases_list)))
        })?,
        None => choose(page, cases_list, None, cases, "test case", remedy)?,
    };
    let mut mocks = Mocks::default();
    for Member { key: state, key_span, value } in page.object(&case.value, "a test case")? {
        let state = page.mockable(wanted.machine, state, *key_span)?;
        let name = page.text(value, "the name of a mocked response")?;
        let response = find(responses, name).ok_or_else(|| {
            page.wrong(value.span, format!("there is no mocked response {name:?}, only {}", names(responses)))
        })?;
        page.put(&mut mocks, state, sequence(page, response)?)?;
    }
    Ok(mocks)
}

/// The member with this name, or else the only one.
fn choose<'n>(
    page: Page<'_>,
    members: &'n [Member],
    name: Option<&str>,
    around: &Node,
    what: &str,
    remedy: &str,
) -> Result<&'n Member> {
    if let Some(member) = name.and_then(|name| find(members, name)) {
        return Ok(member);
    }
    match members {
        [only] => Ok(only),
        [] => Err(page.wrong(around.span, format!("there is no {what}"))),
        _ => Err(page.wrong(
            around.span,
            format!("there is more than one {what}: {}; choose by {remedy}", names(members)),
        )),
    }
}

fn names(members: &[Member]) -> String {
    let names: Vec<String> = members.iter().take(10).map(|member| format!("{:?}", member.key)).collect();
    names.join(", ")
}

/// Calls by number, `"0"`, or range, `"1-2"`: from 0, without gaps.
fn sequence(page: Page<'_>, response: &Member) -> Result<Vec<(u64, Answer)>> {
    let members = page.object(&response.value, "a mocked response")?;
    let mut ranges = Vec::new();
    for member in members {
        let range = range(&member.key).ok_or_else(|| {
            let message =
                format!("{:?} is no number or range of calls, such as \"0\" or \"1-2\"", member.key);
            page.wrong(member.key_span, message)
        })?;
        ranges.push((range, member));
    }
    ranges.sort_by_key(|(range, _)| *range);
    let mut answers: Vec<(u64, Answer)> = Vec::new();
    for ((first, last), member) in ranges {
        let next = answers.last().map_or(0, |(last, _)| last + 1);
        if first != next {
            let message = format!("the answer to call {next} was to come next, not that to call {first}");
            return Err(page.wrong(member.key_span, message));
        }
        answers.push((last, answer(page, &member.value)?));
    }
    if answers.is_empty() {
        return Err(page.wrong(response.value.span, format!("{:?} has no answers", response.key)));
    }
    Ok(answers)
}

fn range(key: &str) -> Option<(u64, u64)> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u64>().ok()).flatten()
    };
    match key.split_once('-') {
        None => number(key).map(|call| (call, call)),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        }
    }
}

fn answer(page: Page<'_>, node: &Node) -> Result<Answer> {
    match page.object(node, "an answer")? {
        [Member { key, value, .. }] if &**key == "Return" => Ok(Answer::Result(value.to_value().into())),
        [Member { key, value, .. }] if &**key == "Throw" => {
            let members = page.object(value, "Throw")?;
            let text = |name: &str| {
                find(members, name).map(|member| page.text(&member.value, name).cloned()).transpose()
            };
            Ok(Answer::Error(Fault { error: text("Error")?, cause: text("Cause")? }))
        }
        _ => Err(page.wrong(node.span, "an answer has either Return or Throw, and nothing else".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::{mocks, refused};
    use super::*;

    fn file(machines: &str, responses: &str) -> String {
        format!(r#"{{"StateMachines": {machines}, "MockedResponses": {responses}}}"#)
    }

    const RESPONSES: &str = r#"{"Good": {"0": {"Return": {"a": 1}}},
        "Bad": {"1-2": {"Throw": {"Error": "E", "Cause": "c"}}, "0": {"Throw": {"Error": "F"}}, "3": {"Return": 3}}}"#;

    #[test]
    fn a_test_case_names_the_response_of_each_state() {
        let machines = r#"{"order": {"TestCases": {"Happy": {"Pay": "Good"}, "Retry": {"Pay": "Bad", "Ship": "Good"}}},
                           "other": {"TestCases": {}}}"#;
        let mut mocks = mocks(&file(machines, RESPONSES), Some("Retry"));
        let error = |fault| Some(Answer::Error(fault));
        assert_eq!(mocks.answer("Pay"), error(Fault::named("F")));
        assert_eq!(mocks.answer("Pay"), error(Fault::new("E", "c")));
        assert_eq!(mocks.answer("Pay"), error(Fault::new("E", "c")));
        assert_eq!(mocks.answer("Pay"), Some(Answer::Result(perdura_asl::json::Value::from(3).into())));
        assert!(matches!(mocks.answer("Ship"), Some(Answer::Result(_))));
    }

    #[test]
    fn the_only_machine_and_the_only_case_need_no_name() {
        let mut mocks = mocks(&file(r#"{"x": {"TestCases": {"Happy": {"Pay": "Good"}}}}"#, RESPONSES), None);
        assert!(mocks.answer("Pay").is_some());
    }

    #[test]
    fn mistakes_have_a_place_and_a_reason() {
        let one = |responses: &str| file(r#"{"x": {"TestCases": {"Happy": {"Pay": "R"}}}}"#, responses);
        let two = r#"{"order": {"TestCases": {"A": {}, "B": {}}}}"#;
        for (text, case, expected) in [
            (r#"{"StateMachines": {}}"#.to_owned(), None, "MockedResponses is missing"),
            (file("{}", "{}"), None, "there is no state machine"),
            (file(r#"{"a": {}, "b": {}}"#, "{}"), None, "more than one state machine: \"a\", \"b\""),
            (file(r#"{"a": {}}"#, "{}"), None, "\"a\" has no TestCases"),
            (file(two, "{}"), None, "more than one test case: \"A\", \"B\"; choose by a # and its name"),
            (file(two, "{}"), Some("C"), "there is no test case \"C\", only \"A\", \"B\""),
            (one("{}"), None, "there is no mocked response \"R\""),
            (one(r#"{"R": {}}"#), None, "\"R\" has no answers"),
            (one(r#"{"R": {"x": {}}}"#), None, "\"x\" is no number or range"),
            (one(r#"{"R": {"2-1": {}}}"#), None, "\"2-1\" is no number or range"),
            (one(r#"{"R": {"1": {"Return": 1}}}"#), None, "the answer to call 0 was to come next"),
            (one(r#"{"R": {"0-2": {"Return": 1}, "2": {"Return": 1}}}"#), None, "call 3 was to come next"),
            (one(r#"{"R": {"0": {"Return": 1, "Throw": {}}}}"#), None, "either Return or Throw"),
            (file(r#"{"x": {"TestCases": {"H": {"Pya": "R"}}}}"#, "{}"), None, "no state \"Pya\""),
        ] {
            refused(&text, case, expected);
        }
    }
}
