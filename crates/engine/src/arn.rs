//! The ARNs of machines, executions and their parts.
//!
//! This module builds and parses them, so that a built ARN parses to the same parts. Parsing is strict: it accepts only
//! ARNs of Step Functions. The caller compares partition, region and account.

use perdura_asl::machine::MachineType;
use uuid::Uuid;

/// Builds ARNs for one partition, region and account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arns {
    /// `aws`
    pub partition: String,
    /// `us-east-1`
    pub region: String,
    /// `123456789012`
    pub account: String,
}

impl Default for Arns {
    fn default() -> Self {
        Self { partition: "aws".into(), region: "us-east-1".into(), account: "123456789012".into() }
    }
}

/// The namespace of generated labels.
const LABELS: Uuid = Uuid::from_u128(0x2f4c_91d2_6d0b_4c5e_9a7e_5b1d_8f0c_3a61);

/// The longest name of a machine, an execution or an activity, in characters.
pub const NAME_MAX: usize = 80;

/// Whether Step Functions accepts this as the name of a machine, an execution or an activity.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.chars().count()) && name.chars().all(is_allowed_in_name)
}

/// Whether Step Functions allows this character in names.
pub fn is_allowed_in_name(char: char) -> bool {
    !char.is_whitespace() && !char.is_control() && !"<>{}[]?*\"#%\\^|~`$&,;:/".contains(char)
}

impl Arns {
    fn states(&self, rest: &[&str]) -> String {
        let Self { partition, region, account } = self;
        let mut arn = ["arn:", partition, ":states:", region, ":", account, ":"].concat();
        arn.reserve_exact(rest.iter().map(|part| part.len()).sum());
        arn.extend(rest.iter().copied());
        arn
    }

    /// A state machine's.
    pub fn machine(&self, name: &str) -> String {
        self.states(&["stateMachine:", name])
    }

    /// The ARN of the machine that a Map Run's children run: a part of another machine.
    pub fn labelled(&self, machine: &str, label: &str) -> String {
        self.states(&["stateMachine:", machine, "/", label])
    }

    /// A version's.
    pub fn version(&self, machine: &str, version: u32) -> String {
        self.states(&["stateMachine:", machine, ":", &version.to_string()])
    }

    /// An alias's.
    pub fn alias(&self, machine: &str, alias: &str) -> String {
        self.states(&["stateMachine:", machine, ":", alias])
    }

    /// A Map Run's.
    pub fn map_run(&self, machine: &str, label: &str, id: Uuid) -> String {
        self.states(&["mapRun:", machine, "/", label, ":", &id.to_string()])
    }

    /// An activity's.
    pub fn activity(&self, name: &str) -> String {
        self.states(&["activity:", name])
    }

    /// The default role.
    pub fn default_role(&self) -> String {
        format!("arn:{}:iam::{}:role/perdura", self.partition, self.account)
    }

    /// An execution's; an Express one also has a unique part.
    pub fn execution(&self, machine: &str, name: &str, kind: MachineType, unique: &str) -> String {
        match kind {
            MachineType::Standard => self.states(&["execution:", machine, ":", name]),
            MachineType::Express => self.states(&["express:", machine, ":", name, ":", unique]),
        }
    }
}

/// A parsed ARN of Step Functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arn<'a> {
    /// `aws`
    pub partition: &'a str,
    /// `us-east-1`
    pub region: &'a str,
    /// `123456789012`
    pub account: &'a str,
    /// The named thing.
    pub named: Named<'a>,
}

/// The kinds of things with ARNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A machine.
    Machine { name: &'a str },
    /// A version or an alias of a machine.
    Qualified {
        /// The machine's name.
        name: &'a str,
        /// A version's number, or an alias's name.
        qualifier: &'a str,
    },
    /// The part of a machine that a Map Run's children run.
    Labelled {
        /// The machine's name.
        name: &'a str,
        /// The Map's label.
        label: &'a str,
    },
    /// A Standard execution.
    Execution {
        /// Its machine's name.
        machine: &'a str,
        /// The Map's label, of a child of a Map Run.
        label: Option<&'a str>,
        name: &'a str,
    },
    /// An Express execution.
    Express {
        /// Its machine's name.
        machine: &'a str,
        /// The Map's label, of a child of a Map Run.
        label: Option<&'a str>,
        /// Its name; several executions may have the same.
        name: &'a str,
        id: &'a str,
    },
    /// A Map Run.
    MapRun {
        /// The machine's name.
        machine: &'a str,
        /// The Map's label.
        label: &'a str,
        id: Uuid,
    },
    /// An activity.
    Activity { name: &'a str },
}

/// Why a text is not an ARN of Step Functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArnError {
    /// It lacks the prefix of ARNs, or has too few parts.
    NoArn,
    /// It belongs to another service.
    OtherService,
    /// Step Functions has nothing of this kind.
    UnknownKind,
    /// A name in it is missing, too long, or has invalid characters.
    BadName,
}

impl<'a> Arn<'a> {
    /// Parses an ARN.
    pub fn parse(arn: &'a str) -> Result<Self, ArnError> {
        let mut parts = arn.splitn(7, ':');
        let mut next = || parts.next().ok_or(ArnError::NoArn);
        if next()? != "arn" {
            return Err(ArnError::NoArn);
        }
        let (partition, service, region, account) = (next()?, next()?, next()?, next()?);
        if partition.is_empty() || region.is_empty() || account.is_empty() {
            return Err(ArnError::NoArn);
        }
        if service != "states" {
            return Err(ArnError::OtherService);
        }
        let named = Named::parse(next()?, next()?)?;
        Ok(Self { partition, region, account, named })
    }

    /// Whether it is of this partition, region and account.
    pub fn is_of(&self, arns: &Arns) -> bool {
        self.partition == arns.partition && self.region == arns.region && self.account == arns.account
    }
}

impl<'a> Named<'a> {
    fn parse(kind: &str, rest: &'a str) -> Result<Self, ArnError> {
        let parts: Vec<&str> = rest.split(':').collect();
        match (kind, parts.as_slice()) {
            ("stateMachine", [machine]) => Ok(match part_of(machine)? {
                (name, None) => Self::Machine { name },
                (name, Some(label)) => Self::Labelled { name, label: checked(label)? },
            }),
            ("stateMachine", [name, qualifier]) => {
                Ok(Self::Qualified { name: checked(name)?, qualifier: checked(qualifier)? })
            }
            ("execution", [machine, name]) => {
                let (machine, label) = part_of(machine)?;
                Ok(Self::Execution { machine, label, name: checked(name)? })
            }
            ("express", [machine, name, id]) => {
                let (machine, label) = part_of(machine)?;
                Ok(Self::Express { machine, label, name: checked(name)?, id: checked(id)? })
            }
            ("mapRun", [machine, id]) => {
                let (machine, Some(label)) = part_of(machine)? else { return Err(ArnError::BadName) };
                let id = Uuid::try_parse(id).map_err(|_| ArnError::BadName)?;
                Ok(Self::MapRun { machine, label, id })
            }
            ("activity", [name]) => Ok(Self::Activity { name: checked(name)? }),
            ("stateMachine" | "execution" | "express" | "mapRun" | "activity", _) => Err(ArnError::BadName),
            _ => Err(ArnError::UnknownKind),
        }
    }
}

fn checked(name: &str) -> Result<&str, ArnError> {
    if is_name(name) { Ok(name) } else { Err(ArnError::BadName) }
}

/// A machine's name, and the label of a Map in it, after those of the Maps around it.
fn part_of(machine: &str) -> Result<(&str, Option<&str>), ArnError> {
    match machine.split_once('/') {
        None => Ok((checked(machine)?, None)),
        Some((name, label)) => {
            label.split('/').try_for_each(|label| checked(label).map(|_| ()))?;
            Ok((checked(name)?, Some(label)))
        }
    }
}

/// The Map Run of one label in one machine: `arn:…:mapRun:MACHINE/LABEL:UNIQUE`.
pub(crate) fn map_run(machine_arn: &str, label: &str, unique: Uuid) -> String {
    format!("{}/{label}:{unique}", machine_arn.replacen(":stateMachine:", ":mapRun:", 1))
}

/// The label of a Map without one in its definition: a UUID, the same in all executions of the machine.
pub(crate) fn made_up_label(machine_arn: &str, state: &str) -> Uuid {
    Uuid::new_v5(&LABELS, format!("{machine_arn}/{state}").as_bytes())
}

/// The random bits of a Map Run's ARN.
pub(crate) fn map_run_bits(arn: &str) -> u128 {
    let unique = arn.rsplit(':').next().unwrap_or_default();
    uuid::Uuid::parse_str(unique).map_or(0, |unique| unique.as_u128())
}

/// The region in an ARN, if it has one.
pub(crate) fn region(arn: &str) -> &str {
    arn.split(':').nth(3).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let arns =
            Arns { partition: "aws-cn".into(), region: "cn-north-1".into(), account: "000000000000".into() };
        let id = Uuid::from_u128(7);
        let unique = id.to_string();
        let execution = |machine: &str, kind| arns.execution(machine, "e.1", kind, &unique);
        let (machine, name, id_text) = ("m-1", "e.1", unique.as_str());
        let cases = [
            (arns.machine("m-1"), Named::Machine { name: machine }),
            (arns.version("m-1", 3), Named::Qualified { name: machine, qualifier: "3" }),
            (arns.alias("m-1", "PROD"), Named::Qualified { name: machine, qualifier: "PROD" }),
            (arns.labelled("m-1", "l"), Named::Labelled { name: machine, label: "l" }),
            (execution("m-1", MachineType::Standard), Named::Execution { machine, label: None, name }),
            (execution("m-1/l", MachineType::Standard), Named::Execution { machine, label: Some("l"), name }),
            (
                execution("m-1", MachineType::Express),
                Named::Express { machine, label: None, name, id: id_text },
            ),
            (arns.map_run("m-1", "l", id), Named::MapRun { machine, label: "l", id }),
            (arns.map_run("m-1", "l/inner", id), Named::MapRun { machine, label: "l/inner", id }),
            (arns.activity("a"), Named::Activity { name: "a" }),
        ];
        for (arn, named) in cases {
            let read = Arn::parse(&arn);
            assert_eq!(read.map(|arn| arn.named), Ok(named), "{arn}");
            assert!(read.is_ok_and(|arn| arn.is_of(&arns) && !arn.is_of(&Arns::default())), "{arn}");
        }
    }

    #[test]
    fn what_is_no_arn_of_ours_is_refused() {
        let long = "x".repeat(81);
        let long = format!("arn:aws:states:us-east-1:1:stateMachine:{long}");
        let cases = [
            ("", ArnError::NoArn),
            ("m", ArnError::NoArn),
            ("arn:aws:states:us-east-1:1", ArnError::NoArn),
            ("arn:aws:states:us-east-1:1:stateMachine", ArnError::NoArn),
            ("ARN:aws:states:us-east-1:1:stateMachine:m", ArnError::NoArn),
            ("arn::states:us-east-1:1:stateMachine:m", ArnError::NoArn),
            ("arn:aws:states::1:stateMachine:m", ArnError::NoArn),
            ("arn:aws:states:us-east-1::stateMachine:m", ArnError::NoArn),
            ("arn:aws:lambda:us-east-1:1:function:m", ArnError::OtherService),
            ("arn:aws:states:us-east-1:1:machine:m", ArnError::UnknownKind),
            ("arn:aws:states:us-east-1:1:stateMachine:", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:stateMachine:m:1:2", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:stateMachine:m:", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:stateMachine:m/l:1", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:stateMachine:m/l/k", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:stateMachine:a b", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:execution:m", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:execution:m:e:x", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:express:m:e", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:mapRun:m:00000000-0000-0000-0000-000000000007", ArnError::BadName),
            ("arn:aws:states:us-east-1:1:mapRun:m/l:7", ArnError::BadName),
            (
                "arn:aws:states:us-east-1:1:mapRun:m/l//i:00000000-0000-0000-0000-000000000007",
                ArnError::BadName,
            ),
            (&long, ArnError::BadName),
        ];
        for (arn, error) in cases {
            assert_eq!(Arn::parse(arn), Err(error), "{arn}");
        }
    }
}
