//! The ARNs by which executions and machines are known.

use perdura_asl::machine::MachineType;

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

/// The longest name of a machine, an execution or an activity, in characters.
pub const NAME_MAX: usize = 80;

/// Whether Step Functions takes this as the name of a machine, an execution or an activity.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.chars().count()) && name.chars().all(is_allowed_in_name)
}

/// What Step Functions allows in names.
pub fn is_allowed_in_name(char: char) -> bool {
    !char.is_whitespace() && !char.is_control() && !"<>{}[]?*\"#%\\^|~`$&,;:/".contains(char)
}

impl Arns {
    fn states(&self, rest: &str) -> String {
        format!("arn:{}:states:{}:{}:{rest}", self.partition, self.region, self.account)
    }

    /// A state machine's.
    pub fn machine(&self, name: &str) -> String {
        self.states(&format!("stateMachine:{name}"))
    }

    /// An execution's; an Express one also has a unique part.
    pub fn execution(&self, machine: &str, name: &str, kind: MachineType, unique: &str) -> String {
        match kind {
            MachineType::Standard => self.states(&format!("execution:{machine}:{name}")),
            MachineType::Express => self.states(&format!("express:{machine}:{name}:{unique}")),
        }
    }
}

/// The Map Run of one label in one machine: `arn:…:mapRun:MACHINE/LABEL:UNIQUE`.
pub(crate) fn map_run(machine_arn: &str, label: &str, unique: &str) -> String {
    format!("{}/{label}:{unique}", machine_arn.replacen(":stateMachine:", ":mapRun:", 1))
}

/// The chance from which a Map Run's ARN was made.
pub(crate) fn map_run_bits(arn: &str) -> u128 {
    let unique = arn.rsplit(':').next().unwrap_or_default();
    uuid::Uuid::parse_str(unique).map_or(0, |unique| unique.as_u128())
}

/// The region in an ARN, where it has one.
pub(crate) fn region(arn: &str) -> &str {
    arn.split(':').nth(3).unwrap_or_default()
}
