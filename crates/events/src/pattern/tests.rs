use super::*;
use crate::Event;

fn matches(pattern: &str, event: &Event) -> bool {
    let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    Patterns::new([((), pattern)]).expect("one pattern").matching(event).count() == 1
}

fn with(data: &str) -> Event {
    let mut event = Event::new("Order Placed", "shop").expect("valid");
    event.set("id", "1").expect("valid");
    event.set_json(data);
    event
}

/// Each row: tests for the field `a`, values that match, values that do not.
#[test]
fn operators_mean_what_event_bridge_says() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            r#""x""#,
            &[r#""x""#, r#""\u0078""#, r#"["y","x"]"#],
            &[r#""X""#, "1", "null", "{}", "[]", r#"{"x":"x"}"#],
        ),
        ("1", &["1", "1.0", "1e0", "10E-1", "[[2],[1]]"], &[r#""1""#, "1.0000000000000000001", "true"]),
        ("9007199254740993", &["9007199254740993"], &["9007199254740992"]),
        ("null", &["null"], &[r#""null""#, "0", r#""""#]),
        ("true, false", &["true", "false"], &["null", "1"]),
        (r#""""#, &[r#""""#], &["null", r#"" ""#]),
        (r#"{"exact":"x"}"#, &[r#""x""#], &[r#""y""#]),
        (r#"{"prefix":"ab"}"#, &[r#""ab""#, r#""abc""#], &[r#""a""#, r#""Abc""#, r#""xab""#, "1"]),
        (r#"{"prefix":""}"#, &[r#""""#, r#""x""#], &["1", "null"]),
        (r#"{"prefix":{"equals-ignore-case":"äB"}}"#, &[r#""ÄBc""#, r#""äb""#], &[r#""ab""#]),
        (r#"{"suffix":"ab"}"#, &[r#""ab""#, r#""cab""#], &[r#""abc""#, "1"]),
        (r#"{"suffix":{"equals-ignore-case":".PNG"}}"#, &[r#""a.png""#, r#"".Png""#], &[r#""a.png ""#]),
        (r#"{"equals-ignore-case":"ÀB"}"#, &[r#""àb""#, r#""ÀB""#], &[r#""ab""#, r#""àbc""#]),
        (
            r#"{"wildcard":"a*c"}"#,
            &[r#""ac""#, r#""abc""#, r#""acc""#, r#""a/c/c""#],
            &[r#""a""#, r#""ab""#, r#""bac""#],
        ),
        (r#"{"wildcard":"*"}"#, &[r#""""#, r#""x""#], &["1"]),
        (r#"{"wildcard":"*/x/*"}"#, &[r#""/x/""#, r#""a/x/b""#, r#""/x/x/""#], &[r#""x/""#, r#""/x""#]),
        (r#"{"wildcard":"a\\*\\\\*"}"#, &[r#""a*\\""#, r#""a*\\b""#], &[r#""ab\\""#]),
        (r#"{"wildcard":"x"}"#, &[r#""x""#], &[r#""xx""#]),
        (r#"{"wildcard":"*aab"}"#, &[r#""aab""#, r#""aaab""#, r#""aabaab""#], &[r#""aaba""#]),
        (r#"{"anything-but":"x"}"#, &[r#""y""#, "1", "null", r#"["x","y"]"#], &[r#""x""#, "[]", r#"["x"]"#]),
        (r#"{"anything-but":["x","y"]}"#, &[r#""z""#], &[r#""x""#, r#""y""#]),
        (r#"{"anything-but":[1,2]}"#, &["3", r#""1""#], &["1.0", "2"]),
        (r#"{"anything-but":{"prefix":"x"}}"#, &[r#""y""#, "1"], &[r#""x""#, r#""xy""#]),
        (r#"{"anything-but":{"prefix":["x","y"]}}"#, &[r#""z""#], &[r#""xa""#, r#""ya""#]),
        (r#"{"anything-but":{"suffix":"x"}}"#, &[r#""xy""#], &[r#""yx""#]),
        (r#"{"anything-but":{"wildcard":"*/lib/*"}}"#, &[r#""/usr/bin""#], &[r#""/usr/lib/a""#]),
        (r#"{"anything-but":{"equals-ignore-case":["a","b"]}}"#, &[r#""c""#], &[r#""A""#, r#""b""#]),
        (
            r#"{"numeric":[">",0,"<=",5]}"#,
            &["0.1", "5", "5.0"],
            &["0", "5.0000000000000000001", r#""1""#, "-1"],
        ),
        (r#"{"numeric":["<=",5,">",0]}"#, &["5"], &["0"]),
        (r#"{"numeric":["=",3.018e2]}"#, &["301.8", "301.80"], &["301.9"]),
        (r#"{"numeric":["<",-10]}"#, &["-10.5", "-1e3", "-1e400"], &["-10", "0", "10", "1e400"]),
        (r#"{"numeric":[">=",1e400]}"#, &["1e400", "1e401"], &["1e399"]),
        (r#"{"numeric":[">=",0]}"#, &["0", "-0.0", "1e-9"], &["-1e-9"]),
        (r#"{"exists":true}"#, &["1", "null", r#""""#, "[[1]]"], &["{}", "[]", r#"{"b":1}"#]),
        (r#"{"exists":false}"#, &["{}", "[]", r#"{"b":1}"#], &["null", "[1]"]),
        (
            r#"{"cidr":"10.0.0.0/24"}"#,
            &[r#""10.0.0.0""#, r#""10.0.0.255""#],
            &[r#""10.0.1.0""#, r#""10.0.0""#, "10"],
        ),
        (r#"{"cidr":"0.0.0.0/0"}"#, &[r#""1.2.3.4""#], &[r#""::1""#]),
        (
            r#"{"cidr":"2001:db8::/33"}"#,
            &[r#""2001:db8::1""#, r#""2001:DB8:7fff::""#],
            &[r#""2001:db8:8000::""#, r#""10.0.0.1""#],
        ),
        (r#"{"cidr":"10.0.0.7/32"}"#, &[r#""10.0.0.7""#], &[r#""10.0.0.6""#]),
    ];
    for (tests, yes, no) in table {
        let pattern = format!(r#"{{"data":{{"a":[{tests}]}}}}"#);
        for (values, wanted) in [(yes, true), (no, false)] {
            for value in *values {
                let event = with(&format!(r#"{{"a":{value},"b":"x"}}"#));
                assert_eq!(matches(&pattern, &event), wanted, "{pattern} and {value}");
            }
        }
    }
}

#[test]
fn a_pattern_sees_attributes_and_data_under_both_names() {
    let mut event = with(r#"{"state":"running","deep":{"a":{"b":1}}}"#);
    event.set("resources", r#"["arn:aws:s3:::a","arn:aws:s3:::b"]"#).expect("valid");
    event.set("idempotencykey", "k").expect("valid");
    for (pattern, wanted) in [
        (r#"{"source":["shop"],"detail-type":["Order Placed"],"detail":{"state":["running"]}}"#, true),
        (r#"{"source":["shop"],"type":["Order Placed"],"data":{"state":["running"]}}"#, true),
        (r#"{"resources":["arn:aws:s3:::b"]}"#, true),
        (r#"{"resources":[{"suffix":":c"}]}"#, false),
        (r#"{"idempotencykey":["k"]}"#, true),
        (r#"{"id":["1"],"subject":[{"exists":false}]}"#, true),
        (r#"{"id":[1]}"#, false),
        (r#"{"detail":{"deep":{"a":{"b":[1]}}}}"#, true),
        (r#"{"detail":{"deep.a.b":[1]}}"#, false),
        (r#"{"detail":{"deep":["x"]}}"#, false),
    ] {
        assert_eq!(matches(pattern, &event), wanted, "{pattern}");
    }
}

#[test]
fn data_that_is_no_json_offers_no_fields() {
    let mut event = with("1");
    event.set_json(r#"{"a":1,"b":"#);
    assert!(matches(r#"{"data":{"a":[{"exists":false}]}}"#, &event));
    assert!(matches(r#"{"source":["shop"]}"#, &event));
    event.set("datacontenttype", "text/plain").expect("valid");
    event.set_data(Some(br#"{"a":1}"#.to_vec()));
    assert!(!matches(r#"{"data":{"a":[1]}}"#, &event));
    event.set_json("7");
    assert!(matches(r#"{"data":[7]}"#, &event));
    event.set_json(r#"{"a":"\ud800","b":1}"#);
    assert!(matches(r#"{"data":{"b":[1]}}"#, &event));
}

#[test]
fn two_fields_match_in_one_element_or_not_at_all() {
    let event = with(
        r#"{"employees":[{"first":"John","last":"Doe"},{"first":"Anna","last":"Smith","tags":["a","b"]},
            [{"first":"Peter","last":"Jones"}]],"others":[{"x":1},{"y":2}],"z":3,
            "rooms":[{"no":1,"beds":[{"kind":"A","free":0},{"kind":"B","free":1}]},{"no":2,"beds":[{"kind":"A","free":1}]}]}"#,
    );
    for (data, wanted) in [
        (r#"{"employees":{"first":["Anna"]}}"#, true),
        (r#"{"employees":{"first":["Anna"],"last":["Smith"]}}"#, true),
        (r#"{"employees":{"first":["Anna"],"last":["Jones"]}}"#, false),
        (r#"{"employees":{"first":["Peter"],"last":["Jones"]}}"#, true),
        (r#"{"employees":{"first":["Peter"],"last":["Doe"]}}"#, false),
        (r#"{"employees":{"first":["Anna"],"tags":["b"]},"z":[3]}"#, true),
        (r#"{"employees":{"first":["Peter"],"tags":["b"]}}"#, false),
        (r#"{"others":{"x":[1],"y":[2]}}"#, false),
        (r#"{"others":{"x":[1]},"employees":{"last":["Doe"]}}"#, true),
        (r#"{"others":{"x":[1],"w":[{"exists":false}]}}"#, true),
        (r#"{"rooms":{"no":[1],"beds":{"kind":["A"],"free":[1]}}}"#, false),
        (r#"{"rooms":{"no":[2],"beds":{"kind":["A"],"free":[1]}}}"#, true),
        (r#"{"rooms":{"no":[1],"beds":{"kind":["A"]}}}"#, true),
        (r#"{"rooms":{"beds":{"kind":["B"],"free":[1]}}}"#, true),
    ] {
        assert_eq!(matches(&format!(r#"{{"data":{data}}}"#), &event), wanted, "{data}");
    }
}

#[test]
fn an_or_is_a_choice_between_fields() {
    let pattern = r#"{"source":["shop"],"$or":[{"data":{"a":[1]}},{"type":["x"],"data":{"$or":[{"b":[1]},{"c":[1]}]}}]}"#;
    let event = |kind: &str, data: &str| {
        let mut event = with(data);
        event.set("type", kind).expect("valid");
        event
    };
    for (kind, data, wanted) in [
        ("y", r#"{"a":1}"#, true),
        ("y", r#"{"b":1}"#, false),
        ("x", r#"{"b":1}"#, true),
        ("x", r#"{"c":1}"#, true),
        ("x", r#"{"d":1}"#, false),
    ] {
        assert_eq!(matches(pattern, &event(kind, data)), wanted, "{kind} {data}");
    }
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let stars = format!(r#"{{"a":[{{"wildcard":"{}"}}]}}"#, "x*".repeat(17));
    let long = format!(r#"{{"a":["{}"]}}"#, "x".repeat(PATTERN_BYTES_MAX));
    let ors = (0..10).map(|at| format!(r#"{{"a{at}":[1]}}"#)).collect::<Vec<_>>().join(",");
    let ors = format!(
        r#"{{"data":{{"x":{{"$or":[{ors}]}},"y":{{"$or":[{ors}]}},"z":{{"$or":[{ors}]}},"w":{{"$or":[{ors}]}}}}}}"#
    );
    let many = (0..1_200).map(|at| format!(r#""{at}":[1]"#)).collect::<Vec<_>>().join(",");
    let many = format!(r#"{{"data":{{{many},"$or":[{}]}}}}"#, vec![r#"{"x":[1]}"#; 100].join(","));
    let deep = format!("{}1{}", r#"{"data":"#.repeat(200), "}".repeat(200));
    for (pattern, place, why) in [
        ("", "", "byte 0"),
        ("[]", "", "is a JSON object"),
        ("{}", "", "empty object"),
        (r#"{"source":["a"],"source":["b"]}"#, "", "a name twice"),
        (r#"{"source":"a"}"#, "/source", "brackets"),
        (r#"{"source":[]}"#, "/source", "empty list"),
        (r#"{"data":{"a":{}}}"#, "/data/a", "empty object"),
        (r#"{"source":[["a"]]}"#, "/source/0", "list within"),
        (r#"{"source":["a",{}]}"#, "/source/1", "one member"),
        (r#"{"source":[{"prefix":"a","suffix":"b"}]}"#, "/source/0", "one member"),
        (r#"{"source":[{"begins":"a"}]}"#, "/source/0/begins", "no such operator"),
        (r#"{"source":[{"prefix":1}]}"#, "/source/0/prefix", "a string"),
        (r#"{"source":[{"prefix":{"wildcard":"a"}}]}"#, "/source/0/prefix", "equals-ignore-case"),
        (
            r#"{"source":[{"suffix":{"equals-ignore-case":1}}]}"#,
            "/source/0/suffix/equals-ignore-case",
            "a string",
        ),
        (r#"{"source":[{"exists":"yes"}]}"#, "/source/0/exists", "true or false"),
        (r#"{"source":[{"anything-but":null}]}"#, "/source/0/anything-but", "a string, a number"),
        (r#"{"source":[{"anything-but":[]}]}"#, "/source/0/anything-but", "empty list"),
        (r#"{"source":[{"anything-but":["a",1]}]}"#, "/source/0/anything-but", "not of both"),
        (r#"{"source":[{"anything-but":{"numeric":["=",1]}}]}"#, "/source/0/anything-but", "one of prefix"),
        (r#"{"source":[{"wildcard":"a**b"}]}"#, "/source/0/wildcard", "in a row"),
        (r#"{"source":[{"wildcard":"a\\b"}]}"#, "/source/0/wildcard", "another"),
        (&*stars, "/a/0/wildcard", "more than 16"),
        (r#"{"data":{"a":[{"numeric":[">"]}]}}"#, "/data/a/0/numeric", "a list like"),
        (r#"{"data":{"a":[{"numeric":[]}]}}"#, "/data/a/0/numeric", "a list like"),
        (r#"{"data":{"a":[{"numeric":[">","1"]}]}}"#, "/data/a/0/numeric", "a list like"),
        (r#"{"data":{"a":[{"numeric":["=",1,"<",2]}]}}"#, "/data/a/0/numeric", "a list like"),
        (r#"{"data":{"a":[{"numeric":[">",1,">",2]}]}}"#, "/data/a/0/numeric", "a list like"),
        (r#"{"data":{"a":[{"numeric":[">",5,"<",5]}]}}"#, "/data/a/0/numeric", "no number"),
        (r#"{"data":{"a":[{"cidr":"10.0.0.0"}]}}"#, "/data/a/0/cidr", "a network like"),
        (r#"{"data":{"a":[{"cidr":"10.0.0.0/33"}]}}"#, "/data/a/0/cidr", "a network like"),
        (r#"{"data":{"a":[1e9999999999999999999]}}"#, "", "more than 18"),
        (r#"{"version":["0"]}"#, "/version", "the same in every"),
        (r#"{"orderId":["0"]}"#, "/orderId", "under `data`"),
        (r#"{"$or":{"a":[1]}}"#, "/$or", "a list of objects"),
        (r#"{"$or":[{"a":[1]}]}"#, "/$or", "at least two"),
        (r#"{"$or":[{"a":[1]},1]}"#, "/$or/1", "objects"),
        (r#"{"$or":[{"a":[1]},{}]}"#, "/$or/1", "empty object"),
        (r#"{"data":{"$or":[{"prefix":["a"]},{"b":[1]}]}}"#, "/data/$or/0/prefix", "name of an operator"),
        (r#"{"data":{"a/b~":{"c":1}}}"#, "/data/a~1b~0/c", "brackets"),
        (&*long, "", "longer than"),
        (&*ors, "/data/w", "more than 1000 combinations"),
        (&*many, "/data/$or", "more than 20000 fields"),
        (&*deep, "", "too deeply"),
    ] {
        let error = Pattern::parse(pattern).expect_err(pattern);
        assert_eq!(error.place, place, "{pattern}: {error}");
        assert!(error.what.contains(why), "{pattern}: {error}");
    }
}

#[test]
fn wildcards_that_together_would_cost_too_much_are_refused_and_others_are_not() {
    let set = |wildcards: Vec<String>| {
        Patterns::new(wildcards.into_iter().enumerate().map(|(at, wildcard)| {
            let pattern = format!(r#"{{"data":{{"path":[{{"wildcard":"{wildcard}"}}]}}}}"#);
            (at, Pattern::parse(&pattern).expect("one is cheap"))
        }))
    };
    let error = set((0..3_000).map(|at| format!("*a{at}b*c")).collect()).err().expect("too complex");
    assert!(error.place == "/data/path" && error.what.contains("states alive"), "{error}");
    for wildcards in [
        (0..3_000).map(|at| format!("tenant-{at}/*.png")).collect(),
        (0..3_000).map(|at| format!("*-{at}-*")).collect::<Vec<_>>(),
        (0..3_000).map(|at| format!("orders/*/item-{at}")).collect(),
    ] {
        assert!(set(wildcards).is_ok());
    }
}

#[test]
fn a_long_value_costs_no_more_than_the_automaton_allows() {
    // Backtracking would take years.
    let stars = "a*".repeat(15);
    let event = with(&format!(r#"{{"path":"{}"}}"#, "a".repeat(100_000)));
    assert!(!matches(&format!(r#"{{"data":{{"path":[{{"wildcard":"*{stars}b"}}]}}}}"#), &event));
    assert!(matches(&format!(r#"{{"data":{{"path":[{{"wildcard":"*{stars}a"}}]}}}}"#), &event));
}

#[test]
fn many_elements_of_many_lists_are_looked_at_once() {
    let elements =
        (0..20_000).map(|at| format!(r#"{{"a":{},"b":{}}}"#, at % 2, (at + 1) % 2)).collect::<Vec<_>>();
    let event = with(&format!(r#"{{"list":[{}]}}"#, elements.join(",")));
    assert!(!matches(r#"{"data":{"list":{"a":[1],"b":[1]}}}"#, &event));
    assert!(matches(r#"{"data":{"list":{"a":[1],"b":[0]}}}"#, &event));
}

#[test]
fn a_name_twice_in_the_data_stops_nothing() {
    let event = with(
        r#"{"list":[{"a":1},{"a":2,"b":3}],"list":[[{"b":1,"a":1}],{"in":[{"a":7}]}],"list":{"a":4},"list":5,"b":1,"b":2}"#,
    );
    for (data, wanted) in [
        (r#"{"list":{"a":[2],"b":[3]}}"#, true),
        (r#"{"list":{"a":[4]},"b":[2]}"#, true),
        (r#"{"list":{"a":[2],"b":[9]}}"#, false),
        (r#"{"list":{"a":[1],"b":[1],"in":{"a":[7]}}}"#, false),
        (r#"{"list":{"a":[4],"b":[1],"in":{"a":[8]}}}"#, false),
    ] {
        assert_eq!(matches(&format!(r#"{{"data":{data}}}"#), &event), wanted, "{data}");
    }
}

#[test]
fn keys_are_told_once_and_in_order() {
    let parse = |text: &str| Pattern::parse(text).expect(text);
    let patterns = Patterns::new([
        ("c", parse(r#"{"source":["shop"]}"#)),
        ("none", parse(r#"{"source":["other"]}"#)),
        ("a", parse(r#"{"$or":[{"source":["shop"]},{"id":["1"]}]}"#)),
        ("b", parse(r#"{"source":["shop"]}"#)),
    ])
    .expect("few");
    assert_eq!(patterns.matching(&with("1")).collect::<Vec<_>>(), [&"c", &"a", &"b"]);
    assert_eq!(patterns.len(), 4);
    assert!(Patterns::<()>::new([]).expect("none").matching(&with("1")).next().is_none());
}
