//! A function that is a local command: one process group for each call.

use super::outcome::{failed, of_command, timed_out};
use super::process::{self, Group};
use super::{Calling, Functions, Program};
use perdura_engine::{Certainty, Fault, Outcome};
use std::sync::Arc;
use std::time::Duration;

/// Ends a command when nobody waits for it any more.
struct EndOnDrop(Group);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Functions {
    pub(super) async fn command(
        &self,
        program: &Arc<Program>,
        timeout: Option<Duration>,
        calling: Calling<'_>,
    ) -> Outcome {
        let _place = self.places.acquire().await.expect("the places are never closed");
        let (wire, input) = (calling.call.key.wire().to_string(), calling.invocation.payload.text().clone());
        let (program, group, bytes_max) = (program.clone(), Group::default(), self.answer_bytes_max);
        let _ending = EndOnDrop(group.clone());
        let running =
            tokio::task::spawn_blocking(move || process::run(&program, &wire, input, bytes_max, &group));
        let ended = match timeout {
            None => running.await,
            Some(most) => match tokio::time::timeout(most, running).await {
                Ok(ended) => ended,
                Err(_) => return timed_out(most, Certainty::Ambiguous),
            },
        };
        match ended {
            Ok(ended) => of_command(&ended, &calling.call.resource.arn, calling.invocation.shape),
            // The command may have been running for long.
            Err(error) => {
                let cause = format!("the command could not be attended to: {error}");
                failed(Fault::new("Runtime.ExitError", cause), Certainty::Ambiguous)
            }
        }
    }
}
