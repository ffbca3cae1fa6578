//! Records the end of an operation.
//!
//! No answer is sent before it is recorded: every later caller gets what this caller gets. If the store goes away after
//! the effect, the end is offered repeatedly, for as long as no other process holds the operation.

use crate::answer::{Answer, Kept, retained_headers};
use crate::asked::{CONTENT_DIGEST, Refusal};
use crate::content::{Content, Whole};
use crate::door::store_problem;
use crate::ending::{Ended, OutcomeUnknown, Verdict, verdict};
use crate::observe::What;
use crate::policy::Mode;
use crate::problem::{Problem, Reason};
use crate::record::{Completion, Ending, Holding};
use crate::run::{Finished, Produced, Run, SAVE_AGAIN};
use crate::service;
use crate::store::{StoreError, Transaction};
use crate::vault::Sealing;
use crate::wait;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the caller waits for the record of its end while the store is down.
const SAVE_PATIENCE: Duration = Duration::from_secs(5);

/// An end to record.
enum End {
    /// With the event for observers once it is recorded.
    Completed(Completion, What),
    /// Nothing was done.
    Released,
}

type Answered = Result<Response<Content>, Problem>;

impl Run {
    /// Records the end of the handler, and returns the recorded answer.
    pub(crate) async fn end(
        self: &Arc<Self>,
        finished: Finished,
        transaction: Option<Box<dyn Transaction>>,
    ) -> Answered {
        let ran_for = self.began.elapsed();
        self.note_pace(ran_for);
        self.tell(What::Saving { epoch: self.grant.epoch, ran_for });
        let produced = match finished {
            Finished::Produced(produced) => *produced,
            Finished::Panicked => {
                return self.broke(transaction, true, StatusCode::INTERNAL_SERVER_ERROR).await;
            }
            Finished::TimedOut => return self.broke(transaction, false, StatusCode::GATEWAY_TIMEOUT).await,
            Finished::Lost => {
                self.roll_back(transaction).await;
                return self.winner().await;
            }
        };
        let response = match produced {
            Produced::Whole(parts, whole) => Response::from_parts(parts, Content::whole(whole)),
            Produced::Flowing(parts, body) => Response::from_parts(parts, Content::Flowing(body)),
            Produced::StillRunning => {
                let goes_on = What::GoesOn { epoch: self.grant.epoch };
                return self.unended(goes_on, Err(wait::in_progress(&self.asked))).await;
            }
            Produced::Unknown => {
                // The connection that could tell is gone, so there is no one to ask.
                let problem = Problem::new(Reason::OutcomeUnknown).about(self.asked.operation);
                return self.unknown(false, Err(problem)).await;
            }
            Produced::Broke => {
                return self.broke(transaction, false, StatusCode::INTERNAL_SERVER_ERROR).await;
            }
        };
        match verdict(&self.policy().mode, Ended::with(&response)) {
            Verdict::Keep => self.keep(response, transaction).await,
            Verdict::Unknown => {
                let told = match response.extensions().get::<OutcomeUnknown>() {
                    Some(OutcomeUnknown { status, detail }) => {
                        Err(service::outcome_unknown(&self.asked).with_status(*status).detail(detail))
                    }
                    None => Ok(response),
                };
                self.unknown(false, told).await
            }
            Verdict::Release if self.roll_back(transaction).await => self.give_back(Ok(response)).await,
            Verdict::Release => self.not_undone(false, StatusCode::INTERNAL_SERVER_ERROR).await,
        }
    }

    /// Records the answer; in a transaction, together with the handler's changes.
    async fn keep(
        self: &Arc<Self>,
        answer: Response<Content>,
        transaction: Option<Box<dyn Transaction>>,
    ) -> Answered {
        let asked = &self.asked;
        let Ok((stored, retained)) = catch_unwind(AssertUnwindSafe(|| self.stored(&answer))) else {
            tracing::error!(operation = %asked.operation, "what takes out of answers what is not to be stored panicked");
            return self.broke(transaction, true, StatusCode::INTERNAL_SERVER_ERROR).await;
        };
        let (sealed, retained) = match self.door.vault.seal(&self.sealing(), &stored) {
            Ok(sealed) => (sealed, retained),
            // Without a data key no part of the answer may be stored, only that there was one.
            Err(error) => {
                tracing::error!(%error, operation = %asked.operation, "an answer could not be sealed");
                (self.bare(answer.status()), false)
            }
        };
        let completion = self.completion(Ending::Answered(sealed));
        let saved = What::Saved { epoch: self.grant.epoch, status: answer.status().as_u16(), retained };
        let end = End::Completed(completion.clone(), saved);
        let holding = match transaction {
            Some(transaction) => match transaction.complete(completion).await {
                Ok(holding) => {
                    self.recorded(&end, holding);
                    holding
                }
                Err(error @ StoreError::Detached(_)) => {
                    tracing::error!(%error, operation = %asked.operation, "idempotency");
                    return self.not_undone(false, StatusCode::INTERNAL_SERVER_ERROR).await;
                }
                Err(StoreError::Refused(error)) => {
                    tracing::warn!(%error, operation = %asked.operation, "a commit was refused");
                    return Box::pin(self.keep(self.commit_refused(), None)).await;
                }
                Err(StoreError::Undone(error)) => {
                    tracing::error!(%error, operation = %asked.operation, "a handler's transaction was rolled back");
                    return self
                        .give_back(Err(Problem::new(Reason::HandlerFailed).about(asked.operation)))
                        .await;
                }
                Err(error) => return self.unclear(&error).await,
            },
            None => self.save(end).await?,
        };
        match holding {
            Holding::Held => Ok(answer),
            Holding::Lost => self.winner().await,
        }
    }

    /// The answer, also of replays, if the database refused the commit.
    fn commit_refused(&self) -> Response<Content> {
        service::shown(&self.door, Problem::new(Reason::CommitRefused).about(self.asked.operation))
    }

    /// The stored form of an answer, and whether it has the content. The digest is stored too: opening the answer
    /// verifies that it is unchanged, so the digest need not be computed again.
    fn stored(&self, answer: &Response<Content>) -> (Vec<u8>, bool) {
        let (status, extra) = (answer.status(), &self.door.retained_headers);
        let headers = retained_headers(status, answer.headers(), extra);
        let (body, trailers, digest) = match answer.body() {
            Content::Whole(Whole { bytes, trailers }, digest) => {
                let trailers = retained_headers(status, trailers, extra);
                (Kept::Body(bytes.clone()), trailers, Some(digest.clone()))
            }
            Content::Flowing(_) => (Kept::NotRetained, HeaderMap::new(), None),
        };
        let mut stored = Answer { status, headers, body, trailers };
        match &self.door.redact {
            Some(redact) => redact(&mut stored),
            None => stored.headers.extend(digest.map(|digest| (CONTENT_DIGEST, digest))),
        }
        (stored.encode(), matches!(stored.body, Kept::Body(_)))
    }

    fn sealing(&self) -> Sealing<'_> {
        let asked = &self.asked;
        Sealing {
            tenant: &asked.scope.tenant,
            scope: asked.scope_tag,
            operation: asked.operation,
            request: asked.request,
            epoch: self.grant.epoch,
        }
    }

    /// A record of an end without its answer.
    fn bare(&self, status: StatusCode) -> Bytes {
        let bare =
            Answer { status, headers: HeaderMap::new(), body: Kept::NotRetained, trailers: HeaderMap::new() };
        self.door.vault.bind(&self.sealing(), &bare.encode())
    }

    fn completion(&self, ending: Ending) -> Completion {
        let (operation, epoch) = (self.asked.operation, self.grant.epoch);
        Completion { operation, epoch, ending, keep: self.policy().keep }
    }

    async fn offer(&self, end: &End) -> Result<Holding, StoreError> {
        match end {
            End::Completed(completion, _) => self.door.store.complete(completion).await,
            End::Released => self.door.store.release(self.asked.operation, self.grant.epoch).await,
        }
    }

    /// The store has recorded the end: count it and report it.
    fn recorded(&self, end: &End, holding: Holding) {
        let epoch = self.grant.epoch;
        match (holding, end) {
            (Holding::Lost, _) => self.tell_lost(),
            (Holding::Held, End::Released) => self.tell_recorded(What::Released { epoch }),
            (Holding::Held, End::Completed(completion, told)) => {
                let bytes = match &completion.ending {
                    Ending::Answered(sealed) => sealed.len() as u64,
                    Ending::Unknown => 0,
                };
                self.door.spending.stored(self.asked.scope_tag, bytes, Instant::now().into_std());
                self.tell_recorded(told.clone());
            }
        }
    }

    /// Records the end, and retries while the store is away, as the holder of the operation: a process that took it
    /// over would do the work again. The caller waits only for a limited time; then it is told to retry, and finds the
    /// record.
    async fn save(self: &Arc<Self>, end: End) -> Result<Holding, Problem> {
        let patience_until = Instant::now() + SAVE_PATIENCE;
        let mut pause = SAVE_AGAIN.0;
        loop {
            match self.offer(&end).await {
                Ok(holding) => {
                    self.recorded(&end, holding);
                    return Ok(holding);
                }
                // A retry would find it damaged again.
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.note_unsaved(&error);
                    return Err(store_problem(&error).about(self.asked.operation));
                }
                Err(error) if Instant::now() < patience_until => self.note_unsaved(&error),
                Err(error) => {
                    tokio::spawn(self.clone().save_later(end));
                    return Err(store_problem(&error).about(self.asked.operation));
                }
            }
            self.rest(pause).await;
            pause = (pause * 2).min(SAVE_AGAIN.1);
        }
    }

    /// Retries for as long as the end would be kept. The number of these tasks is bounded by the budget of running
    /// operations, as each holds a place.
    async fn save_later(self: Arc<Self>, end: End) {
        let until = Instant::now() + self.policy().keep.answer_for;
        while Instant::now() < until {
            self.rest(SAVE_AGAIN.1).await;
            match self.offer(&end).await {
                Ok(holding) => {
                    tracing::info!(operation = %self.asked.operation, ?holding, "an end was taken late");
                    self.recorded(&end, holding);
                    return;
                }
                Err(error) => {
                    self.note_unsaved(&error);
                    if matches!(error, StoreError::Corrupt { .. }) {
                        return;
                    }
                }
            }
        }
    }

    /// Pauses before the next try, and renews the lease meanwhile.
    async fn rest(&self, pause: Duration) {
        self.stay_holder().await;
        sleep(pause.min(self.policy().lease_for / 3)).await;
    }

    fn note_unsaved(&self, error: &StoreError) {
        tracing::warn!(%error, operation = %self.asked.operation, "an end could not be recorded yet");
        self.tell(What::SaveFailed { epoch: self.grant.epoch });
    }

    /// The handler did not answer: its changes were rolled back, or the outcome is unknown.
    async fn broke(
        self: &Arc<Self>,
        transaction: Option<Box<dyn Transaction>>,
        panicked: bool,
        status: StatusCode,
    ) -> Answered {
        let operation = self.asked.operation;
        match verdict(&self.policy().mode, Ended::Broke) {
            Verdict::Release if self.roll_back(transaction).await => {
                let problem = Problem::new(Reason::HandlerFailed).about(operation).with_status(status);
                self.give_back(Err(problem)).await
            }
            Verdict::Release | Verdict::Unknown | Verdict::Keep => self.not_undone(panicked, status).await,
        }
    }

    /// The handler's changes may exist, and nothing can tell.
    async fn not_undone(self: &Arc<Self>, panicked: bool, status: StatusCode) -> Answered {
        self.unknown(panicked, Err(service::outcome_unknown(&self.asked).with_status(status))).await
    }

    /// Rolls back the handler's changes. `false`: they may exist all the same. A transaction that cannot be reached is
    /// rolled back when its connection ends.
    async fn roll_back(&self, transaction: Option<Box<dyn Transaction>>) -> bool {
        let Some(transaction) = transaction else { return true };
        match transaction.roll_back().await {
            Ok(()) => true,
            Err(error @ StoreError::Detached(_)) => {
                tracing::error!(%error, operation = %self.asked.operation, "idempotency");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "a transaction could not be rolled back; its connection was given up");
                true
            }
        }
    }

    /// Records an unknown outcome, and answers `told` to the caller of this request.
    async fn unknown(self: &Arc<Self>, panicked: bool, told: Answered) -> Answered {
        self.unended(What::Unknown { epoch: self.grant.epoch, panicked }, told).await
    }

    /// Records that there is no end, with this event for the observers.
    async fn unended(self: &Arc<Self>, what: What, told: Answered) -> Answered {
        let ending = match self.policy().mode {
            // Only a handler that ended its transaction itself comes here: unlike after a crash, it must not run again.
            Mode::Transactional => Ending::Answered(self.bare(StatusCode::INTERNAL_SERVER_ERROR)),
            Mode::Exempt | Mode::AtMostOnce | Mode::Durable(_) => Ending::Unknown,
        };
        match self.save(End::Completed(self.completion(ending), what)).await? {
            Holding::Held => told,
            Holding::Lost => self.winner().await,
        }
    }

    /// The commit's answer was lost, so it is unknown whether it counts. A release finds out: it waits for the
    /// transaction's own lock, and is refused if the record was completed.
    async fn unclear(self: &Arc<Self>, error: &StoreError) -> Answered {
        self.note_unsaved(error);
        let undone = Err(store_problem(error).about(self.asked.operation));
        match self.save(End::Released).await? {
            Holding::Held => undone,
            // Or it was released, and that answer was lost: then there is no record.
            Holding::Lost => self.winner_or(undone).await,
        }
    }

    /// The answer of the current record, from its latest holder, never this run's own. If there is no record, the
    /// changes of a transaction were rolled back: otherwise there would be one.
    async fn winner(&self) -> Answered {
        let nobody = match verdict(&self.policy().mode, Ended::Broke) {
            Verdict::Release => Problem::new(Reason::HandlerFailed).about(self.asked.operation),
            Verdict::Unknown | Verdict::Keep => service::outcome_unknown(&self.asked),
        };
        self.winner_or(Err(nobody)).await
    }

    /// The same, or `nobody` if there is no record.
    async fn winner_or(&self, nobody: Answered) -> Answered {
        match self.door.store.look(self.asked.operation).await {
            Ok(Some(record)) => {
                match self.authorise().await {
                    Ok(()) => {}
                    Err(Refusal::Problem(problem) | Refusal::Failed(problem)) => return Err(problem),
                    Err(Refusal::Answer(answer)) => return Ok(answer.map(Content::Flowing)),
                }
                let answer = service::found(&self.door, &self.asked, &record).await?;
                answer.ok_or_else(|| wait::in_progress(&self.asked))
            }
            Ok(None) => nobody,
            Err(error) => Err(store_problem(&error).about(self.asked.operation)),
        }
    }

    /// Releases the operation: nothing was done, and the caller gets `told`, even if the store learns it only later. If
    /// another process has taken it over, that one's result counts.
    pub(crate) async fn give_back(self: &Arc<Self>, told: Answered) -> Answered {
        match self.save(End::Released).await {
            Ok(Holding::Held) => told,
            Ok(Holding::Lost) => self.winner_or(told).await,
            Err(problem) => {
                tracing::debug!(reason = problem.reason().name(), "an operation is given back later");
                told
            }
        }
    }

    /// Updates the average duration of the route's handler; the newest counts an eighth.
    fn note_pace(&self, ran_for: Duration) {
        let micros = u64::try_from(ran_for.as_micros()).unwrap_or(u64::MAX);
        let pace = &self.asked.route.pace;
        let before = pace.load(Ordering::Relaxed);
        let after = if before == 0 { micros } else { before - before / 8 + micros / 8 };
        pace.store(after, Ordering::Relaxed);
    }
}
