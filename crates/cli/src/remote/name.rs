//! The ARNs of machines and executions: parsing and building.

use perdura_engine::Arns;

/// The form of an execution's name.
#[derive(Debug, PartialEq)]
pub(super) enum Meant<'a> {
    Arn(&'a str),
    Name { machine: Option<&'a str>, name: &'a str },
}

pub(super) fn meant(which: &str) -> Meant<'_> {
    if which.starts_with("arn:") {
        return Meant::Arn(which);
    }
    match which.split_once('/') {
        Some((machine, name)) => Meant::Name { machine: Some(machine), name },
        None => Meant::Name { machine: None, name: which },
    }
}

/// The machine's name in its ARN, or in that of one of its executions.
pub(super) fn machine(arn: &str) -> &str {
    let whole = arn.split(':').nth(6).unwrap_or(arn);
    // A child of a Map Run has the Map's label after the machine.
    whole.split_once('/').map_or(whole, |(machine, _)| machine)
}

/// An execution of a Standard machine.
pub(super) fn execution(machine_arn: &str, name: &str) -> String {
    let of = machine_arn.replacen(":stateMachine:", ":execution:", 1);
    format!("{of}:{name}")
}

/// The partition, region and account of an ARN.
pub(super) fn arns(arn: &str) -> Option<Arns> {
    match arn.split(':').collect::<Vec<_>>()[..] {
        ["arn", partition, "states", region, account, _, _, ..] => {
            Some(Arns { partition: partition.into(), region: region.into(), account: account.into() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_named_by_arn_by_machine_or_alone() {
        let arn = "arn:aws:states:eu-west-1:111122223333:execution:order:A-1";
        for (which, expected) in [
            (arn, Meant::Arn(arn)),
            ("order/A-1", Meant::Name { machine: Some("order"), name: "A-1" }),
            ("A-1", Meant::Name { machine: None, name: "A-1" }),
        ] {
            assert_eq!(meant(which), expected, "{which}");
        }
    }

    #[test]
    fn arns_are_taken_apart_and_made() {
        let order = "arn:aws-cn:states:cn-north-1:111122223333:stateMachine:order";
        let one = "arn:aws-cn:states:cn-north-1:111122223333:execution:order:A-1";
        assert_eq!(execution(order, "A-1"), one);
        for arn in [order, one, &format!("{order}:7"), &one.replacen(":order:", ":order/Each:", 1)] {
            assert_eq!(machine(arn), "order", "{arn}");
        }
        let whose = arns(order).map(|arns| (arns.partition, arns.region, arns.account));
        assert_eq!(whose, Some(("aws-cn".into(), "cn-north-1".into(), "111122223333".into())));
        assert_eq!(arns("arn:aws:sqs:us-east-1:111122223333:q"), None);
    }
}
