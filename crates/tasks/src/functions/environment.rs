//! The environment of a command, besides its key.
//!
//! The environment of this process may contain secrets: the key of connections, access keys, credentials of AWS. A
//! command is a program of somebody else, so it gets a short list of variables that programs need to run at all, and
//! those that the configuration names.

use perdura_sigv4::Secret;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that every command gets, if they are set here. `LC_…` goes with them.
const USUAL: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// The prefix of our own settings, secrets among them.
const OURS: &str = "PERDURA_";

/// The environment of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    inherited: Inherited,
    /// The names of further variables to pass on.
    pass: Vec<String>,
    /// Variables with a configured value.
    set: BTreeMap<String, Secret>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inherited {
    #[default]
    Usual,
    AllButOurs,
}

/// `env` and `env_pass`, as written.
pub(crate) struct Written {
    pub(crate) pass: Vec<String>,
    pub(crate) set: BTreeMap<String, Secret>,
}

impl Environment {
    /// The environment of a user's shell: all of it except our own settings.
    pub fn of_shell() -> Self {
        Self { inherited: Inherited::AllButOurs, ..Self::default() }
    }

    /// Adds configured variables, which override existing ones.
    pub(crate) fn with(mut self, written: Written) -> Result<Self, String> {
        for name in written.pass.iter().chain(written.set.keys()) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("{name:?} is no name of a variable, as in \"DATABASE_URL\""));
            }
            if name.starts_with(OURS) {
                return Err(format!("{name} is not for commands: what begins with {OURS} is perdura's own"));
            }
        }
        if let Some((name, _)) = written.set.iter().find(|(_, value)| value.reveal().contains('\0')) {
            return Err(format!("the value of {name} has a NUL character, which no variable can hold"));
        }
        self.pass.extend(written.pass);
        self.set.extend(written.set);
        Ok(self)
    }

    /// The values of these variables for a command.
    pub(super) fn of(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        let passed = ours.into_iter().filter(|(name, _)| self.passes(name));
        passed.chain(self.set.iter().map(|(name, value)| (name.into(), value.reveal().into())))
    }

    fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return self.inherited == Inherited::AllButOurs };
        let is_inherited = match self.inherited {
            Inherited::Usual => USUAL.contains(&name) || name.starts_with("LC_"),
            Inherited::AllButOurs => !name.starts_with(OURS),
        };
        is_inherited || self.pass.iter().any(|passed| passed == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pass: &[&str], set: &[(&str, &str)]) -> Written {
        Written {
            pass: pass.iter().map(ToString::to_string).collect(),
            set: set.iter().map(|(name, value)| (name.to_string(), Secret::new(*value))).collect(),
        }
    }

    fn got(environment: &Environment) -> BTreeMap<String, String> {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("PERDURA_CONNECTION_KEY", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("DATABASE_URL", "db"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let text = |text: OsString| text.into_string().expect("text");
        environment.of(ours).map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn a_command_gets_what_programs_need_and_what_is_named_for_it() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let usual = Environment::default();
        assert_eq!(got(&usual), map(&[("PATH", "/bin"), ("LC_ALL", "C")]));
        let more = usual
            .with(written(&["DATABASE_URL", "MISSING"], &[("PATH", "/own"), ("STAGE", "live")]))
            .unwrap();
        let expected = [("PATH", "/own"), ("LC_ALL", "C"), ("DATABASE_URL", "db"), ("STAGE", "live")];
        assert_eq!(got(&more), map(&expected));
        let shell = got(&Environment::of_shell());
        assert!(
            shell.contains_key("DATABASE_URL") && !shell.contains_key("PERDURA_CONNECTION_KEY"),
            "{shell:?}"
        );
        assert!(!format!("{more:?}").contains("live"), "{more:?}");
    }

    #[test]
    fn what_is_ours_cannot_be_passed_on() {
        for (pass, set, expected) in [
            (&["PERDURA_CONNECTION_KEY"][..], &[][..], "is perdura's own"),
            (&[], &[("PERDURA_DATA", "x")], "is perdura's own"),
            (&["A=B"], &[], "is no name of a variable"),
            (&[""], &[], "is no name of a variable"),
            (&[], &[("A", "x\0")], "has a NUL character"),
        ] {
            let found = Environment::default().with(written(pass, set)).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }
}
