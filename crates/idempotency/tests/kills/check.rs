//! What may have come of one key, whatever happened: decided from all answers in their order, and from how often it was
//! done in the end.

use crate::caller::Route;

/// An answer that says how the operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The handler's own.
    Answered(String),
    /// `OUTCOME_UNKNOWN`.
    Unknown,
    /// Something that should not be answered at all.
    Strange(String),
}

impl Answer {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "201",
            Self::Unknown => "unknown",
            Self::Strange(_) => "strange",
        }
    }
}

/// How often something was done, and how often that was tried: a receiver that honours keys does not do it each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) times: usize,
    pub(crate) tries: usize,
}

/// What is wrong with that.
pub(crate) fn faults(route: Route, answers: &[Answer], done: Done) -> Vec<String> {
    let Done { times, tries } = done;
    let mut faults = Vec::new();
    if times > 1 {
        faults.push(format!("it was done {times} times"));
    }
    if tries < times || tries > 2 {
        faults.push(format!("it was tried {tries} times, and done {times} times"));
    }
    let mut first = None;
    for answer in answers {
        match (answer, first) {
            (Answer::Strange(what), _) => faults.push(format!("somebody was answered {what}")),
            (Answer::Answered(_), None) => first = Some(answer),
            (Answer::Answered(_), Some(first)) if answer != first => {
                faults.push(format!("two callers were answered {first:?} and {answer:?}"));
            }
            (Answer::Unknown, Some(_)) => faults.push("an answer was known, and then no longer".to_owned()),
            (Answer::Answered(_), Some(_)) | (Answer::Unknown, None) => {}
        }
    }
    if first.is_some() && times == 0 {
        faults.push("somebody was told that it was done, and it was not".to_owned());
    }
    match (route, answers.last()) {
        (_, None) => faults.push("nobody was answered".to_owned()),
        (Route::Transfers | Route::Orders | Route::Levels, Some(_)) if times == 0 => {
            faults.push("it was not done".to_owned());
        }
        (Route::Transfers | Route::Orders | Route::Levels, Some(Answer::Unknown)) => {
            faults.push("its outcome stayed unknown".to_owned());
        }
        (_, Some(_)) => {}
    }
    faults
}

#[test]
fn each_thing_that_must_not_be_is_found() {
    let answered = |text: &str| Answer::Answered(text.to_owned());
    let (paid, other) = (answered("paid"), answered("paid again"));
    let table: &[(Route, Vec<Answer>, usize, &str)] = &[
        (Route::Payments, vec![paid.clone(), paid.clone()], 1, ""),
        (Route::Payments, vec![Answer::Unknown], 0, ""),
        (Route::Payments, vec![Answer::Unknown, paid.clone()], 1, ""),
        (Route::Payments, vec![Answer::Unknown], 2, "done 2 times"),
        (Route::Payments, vec![paid.clone()], 0, "told that it was done"),
        (Route::Payments, vec![paid.clone(), other], 1, "two callers"),
        (Route::Payments, vec![paid.clone(), Answer::Unknown], 1, "no longer"),
        (Route::Payments, vec![Answer::Strange("404".to_owned())], 0, "answered 404"),
        (Route::Payments, vec![], 0, "nobody"),
        (Route::Transfers, vec![paid.clone()], 1, ""),
        (Route::Transfers, vec![Answer::Unknown], 1, "stayed unknown"),
        (Route::Orders, vec![Answer::Unknown], 0, "not done"),
        (Route::Naive, vec![paid.clone(), paid.clone()], 2, "done 2 times"),
    ];
    for (route, answers, times, expected) in table {
        let found = faults(*route, answers, Done { times: *times, tries: *times }).join("; ");
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{answers:?}: {found}");
    }
    let tried =
        |times, tries| faults(Route::Orders, std::slice::from_ref(&paid), Done { times, tries }).join("; ");
    assert_eq!([tried(1, 1), tried(1, 2)], ["", ""]);
    assert!(tried(1, 3).contains("tried 3 times") && tried(1, 0).contains("tried 0 times"));
}
