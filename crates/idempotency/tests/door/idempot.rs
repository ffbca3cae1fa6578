//! The scenarios that idempot-js holds itself to (github.com/idempot-dev/idempot-js, `tests/spec/idempotency.feature` at
//! b39392a), in our words and with our keys.
//!
//! Each scenario ends with what theirs expects. Where we answer otherwise on purpose, it stands beside it why; and that
//! we do is looked at too, so that the list stays true.

use crate::asks::{Ask, Told, key};
use crate::faulty::Verb;
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop, paid};
use Expects::{Done, Header, Member, Orders, Recorded, Refused, Says};
use http::{Method, header};
use perdura_idempotency::observe::What;
use perdura_idempotency::record::Standing;
use perdura_idempotency::store::Store;
use perdura_idempotency::{Policy, Profile};

/// What a scenario of theirs ends with.
#[derive(Clone, Copy, Debug)]
enum Expects {
    /// The last answer is the handler's.
    Done,
    /// The last answer is a problem with this status.
    Refused(u16),
    /// It has this member.
    Member(&'static str),
    /// It says so somewhere.
    Says(&'static str),
    /// It has this header, and the header says `true`.
    Header(&'static str),
    /// So many orders were made.
    Orders(u32),
    /// So many ends are on record, and the last is that of an answer.
    Recorded(usize),
}

/// Their scenarios are about this request, under the n-th key.
fn order(n: u32) -> Ask {
    Ask::pay(&key(n)).body(r#"{"foo":"bar"}"#)
}

/// The same key, for something else.
fn other(n: u32) -> Ask {
    order(n).body(r#"{"baz":"qux"}"#)
}

/// A request whose handler ends only after the scenario.
fn held(n: u32) -> Ask {
    order(n).header("x-held", "")
}

const LINKS: Option<&str> =
    Some("a problem's type and reason are ours and never change; a section of a draft does");
const TWO_ORDERS: Option<&str> =
    Some("two equal orders under two keys are two orders; what makes one of them is the key");
const NO_DETAIL: Option<&str> =
    Some("the title says all; more would tell of a request that may be somebody else's");

/// The scenario, what is sent, what theirs expects in the end, and why we answer otherwise where we do.
type Scenario = (&'static str, Vec<Ask>, &'static [Expects], Option<&'static str>);

fn scenarios() -> Vec<Scenario> {
    let keyed = |key: &str| vec![order(1).header("idempotency-key", key)];
    let (one, twice) = (|| vec![order(1)], || vec![order(1), order(1)]);
    let keyless = || vec![order(1).without("idempotency-key")];
    let (reused, two_keys) = (|| vec![order(1), other(1)], || vec![order(1), order(2)]);
    let at_once = || order(1).header("prefer", "wait=0");
    let to = |method, path: &str| order(1).method(method).to(path);
    let long = "a".repeat(256);
    vec![
        ("no key", keyless(), &[Refused(400), Member("type"), Member("title"), Member("detail")], None),
        ("no key: a link to the draft", keyless(), &[Says("section-2.1")], LINKS),
        ("an empty key", keyed(""), &[Refused(400), Member("type"), Member("title"), Member("detail")], None),
        (
            "too long a key",
            keyed(&long),
            &[Refused(400), Member("type"), Member("title"), Member("detail")],
            None,
        ),
        (
            "a list of keys",
            keyed("key,with,commas,longer-than-twenty-chars"),
            &[Refused(400), Member("detail")],
            None,
        ),
        ("a sound key", keyed("8e03978e-40d5-43e8-bc93-6894a57f9324"), &[Done], None),
        (
            "any text as a key",
            keyed("abc123456789012345678"),
            &[Done],
            Some("a key is a UUID, so that nobody guesses it and no two clients draw the same"),
        ),
        ("the first is recorded with its answer", one(), &[Recorded(1)], None),
        ("the first makes one order and is told so", one(), &[Done, Orders(1), Says("payment")], None),
        ("a repetition has the stored answer", twice(), &[Done, Says("payment")], None),
        (
            "a repetition is marked by their header",
            twice(),
            &[Header("x-idempotent-replayed")],
            Some("ours has no X-, as RFC 6648 asks"),
        ),
        ("a repetition is marked", twice(), &[Header("idempotency-replayed")], None),
        ("a repetition makes no record and no order", twice(), &[Recorded(1), Orders(1)], None),
        ("many repetitions", vec![order(1); 4], &[Done, Orders(1)], None),
        ("another key for the same content", two_keys(), &[Refused(409)], TWO_ORDERS),
        ("another key for the same content: one order", two_keys(), &[Orders(1)], TWO_ORDERS),
        ("the key for another content", reused(), &[Refused(422), Member("type"), Member("title")], None),
        ("the key for another content: details", reused(), &[Member("detail")], NO_DETAIL),
        ("the key for another content: a link to the draft", reused(), &[Says("section-2.2")], LINKS),
        ("while the first runs", vec![held(1), at_once()], &[Refused(409), Member("title")], None),
        (
            "while the first runs: a link to the draft",
            vec![held(1), at_once()],
            &[Says("section-2.6")],
            LINKS,
        ),
        (
            "while the first runs: their word for it",
            vec![held(1), at_once()],
            &[Says("processed")],
            Some("the title says that it has not ended yet; a program reads the reason"),
        ),
        ("GET is not touched", vec![to(Method::GET, "/payments"); 2], &[Done, Orders(2), Recorded(0)], None),
        ("PUT is not touched", vec![to(Method::PUT, "/drafts/1"); 2], &[Done, Orders(2), Recorded(0)], None),
        (
            "DELETE is not touched",
            vec![to(Method::DELETE, "/drafts/1"); 2],
            &[Done, Orders(2), Recorded(0)],
            None,
        ),
        ("no content", vec![order(1).body("")], &[Done], None),
        (
            "PATCH is protected",
            vec![to(Method::PATCH, "/payments/1"); 2],
            &[Done, Orders(1), Recorded(1)],
            None,
        ),
    ]
}

/// What there is to see when a scenario has ended.
struct Seen {
    told: Told,
    orders: u32,
    ends: usize,
    is_answered: bool,
}

impl Seen {
    fn is(&self, expects: Expects) -> bool {
        let told = &self.told;
        match expects {
            Done => told.status == 201,
            Refused(status) => {
                told.status == status && told.header(header::CONTENT_TYPE) == "application/problem+json"
            }
            Member(name) => told.member(name).is_some(),
            Says(text) => String::from_utf8_lossy(&told.body).contains(text),
            Header(name) => told.headers.get(name).is_some_and(|value| value == "true"),
            Orders(orders) => self.orders == orders,
            Recorded(ends) => self.ends == ends && self.is_answered == (ends > 0),
        }
    }
}

on_each_store! {
    async fn each_scenario_of_idempot_js_ends_as_it_should_or_otherwise_on_purpose(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            if call.request.headers().contains_key("x-held") {
                call.till.at_the_gate().await;
            }
            paid(call.nth)
        });
        let shop = Shop::open(&ground, plan.set_up(|layer| layer.profile(Profile::Ietf))).await;
        for (nth, (what, sent, expected, otherwise)) in scenarios().into_iter().enumerate() {
            let (runs, ends) = (shop.till.runs(), shop.store.asked(Verb::Complete));
            let (mut running, mut last) = (None, None);
            for ask in sent {
                // Each scenario has a caller of its own, and so begins with nothing.
                let ask = ask.by(&format!("acme/{nth}"));
                if ask.request().headers().contains_key("x-held") {
                    running = Some(shop.send(&ask));
                    shop.till.began(runs + 1).await;
                } else {
                    last = Some(shop.ask(&ask).await);
                }
            }
            let ends = shop.store.asked(Verb::Complete) - ends;
            let is_answered = ends > 0 && {
                let record = shop.store.look(shop.store.operation()).await.unwrap();
                record.is_some_and(|record| matches!(record.standing, Standing::Completed { .. }))
            };
            let seen = Seen { told: last.unwrap(), orders: shop.till.runs() - runs, ends, is_answered };
            for expects in expected {
                assert_eq!(seen.is(*expects), otherwise.is_none(), "{what}: {expects:?}: {:?}", seen.told);
            }
            if let Some(running) = running {
                shop.till.open(1);
                running.await.unwrap();
            }
        }
    }

    /// Who is refused at once has to come again; who waits has the answer.
    async fn while_the_first_runs_a_second_waits_where_theirs_is_refused_at_once(ground) {
        let plan = Plan::waits(Policy::default()).set_up(|layer| layer.profile(Profile::Ietf));
        let shop = Shop::open(&ground, plan).await;
        let first = shop.send(&order(1));
        shop.till.began(1).await;
        let second = shop.send(&order(1));
        shop.events.until(1, |what| *what == What::Waiting).await;
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        assert!(second.await.unwrap().is_payment(1).is_replayed());
    }
}
