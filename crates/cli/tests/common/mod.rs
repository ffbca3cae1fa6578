//! A folder for each test, and the real binary in it.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod receiver;
pub(crate) mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder of its own for one test, empty at the start.
pub(crate) struct Scene {
    pub(crate) folder: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test can be made");
        Self { folder }
    }

    /// Writes a file.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.folder.join(name), text).expect("a file of the test can be written");
        self
    }

    /// A machine of one Task, `Call`, that calls the function `f`, which is this shell script.
    pub(crate) fn function(self, script: &str, settings: &str) -> Self {
        let call = r#""Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f""#;
        let machine = format!(r#"{{"StartAt": "Call", "States": {{"Call": {{{call}, "End": true}}}}}}"#);
        let config = format!("[functions.f]\ncommand = ['sh', 'f.sh']\n{settings}");
        self.file("m.asl.json", &machine).file("f.sh", script).file("perdura.toml", &config)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_perdura"), arguments)
    }

    /// Another program, in the folder of the test.
    pub(crate) fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("TZ", "UTC")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs perdura to its end.
    pub(crate) fn perdura(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().expect("perdura runs").into()
    }

    /// Makes a named pipe, which closes when nobody is left that writes to it.
    pub(crate) fn pipe(self, name: &str) -> Self {
        let made = Command::new("mkfifo").arg(self.folder.join(name)).status();
        assert!(made.expect("mkfifo runs").success());
        self
    }

    /// Starts perdura.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("perdura runs")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("perdura writes UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ended {
    /// The exit code, and nothing on stdout.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, stderr: &[&str]) -> &Self {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        for part in stderr {
            assert!(self.stderr.contains(part), "stderr lacks {part:?}:\n{}", self.stderr);
        }
        self
    }

    /// Success, with this line on stdout.
    #[track_caller]
    pub(crate) fn gives(&self, output: &str) -> &Self {
        assert_eq!((self.code, &*self.stdout), (Some(0), &*format!("{output}\n")), "{self:?}");
        self
    }

    /// What was told, without the times.
    pub(crate) fn told(&self) -> Vec<&str> {
        let is_time =
            |line: &&str| line.as_bytes().get(2) == Some(&b':') && line.as_bytes().get(8) == Some(&b'.');
        self.stderr.lines().filter(is_time).map(|line| &line[14..]).collect()
    }
}
