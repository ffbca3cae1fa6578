//! Recording the end of an operation.
//!
//! Nothing is answered that is not recorded: what the caller is told, every later caller is told too. A store that went
//! away after the effect is offered the end again and again, for as long as nobody else holds the operation.

use crate::answer::{Answer, Kept, retained_headers};
use crate::asked::CONTENT_DIGEST;
use crate::content::Content;
use crate::door::store_problem;
use crate::ending::{Ended, Verdict, verdict};
use crate::observe::What;
use crate::problem::{Problem, Reason};
use crate::record::{Completion, Ending, Holding};
use crate::run::{Finished, Produced, Run, SAVE_AGAIN};
use crate::service;
use crate::store::{StoreError, Transaction};
use crate::vault::Sealing;
use crate::wait;
use http::{HeaderMap, Response, StatusCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the caller waits for its end to be recorded while the store is down.
const SAVE_PATIENCE: Duration = Duration::from_secs(5);

/// An end as it is offered to the store.
enum End {
    Completed(Completion),
    /// Nothing was done.
    Released,
}

type Answered = Result<Response<Content>, Problem>;

impl Run {
    /// Records how the handler ended, and answers what was recorded.
    pub(crate) async fn end(
        self: &Arc<Self>,
        finished: Finished,
        transaction: Option<Box<dyn Transaction>>,
    ) -> Answered {
        let ran_for = self.began.elapsed();
        self.note_pace(ran_for);
        self.tell(What::Saving { epoch: self.grant.epoch, ran_for });
        let response = match finished {
            Finished::Produced(Produced::Whole(parts, bytes)) => {
                Response::from_parts(parts, Content::whole(bytes))
            }
            Finished::Produced(Produced::Flowing(parts, body)) => {
                Response::from_parts(parts, Content::Flowing(body))
            }
            Finished::Produced(Produced::StillRunning) => return self.goes_on().await,
            Finished::Produced(Produced::Unknown) => {
                let problem = Problem::new(Reason::OutcomeUnknown).about(self.asked.operation);
                return self.unknown(false, Err(problem)).await;
            }
            Finished::Produced(Produced::Broke) => {
                return self.broke(transaction, false, StatusCode::INTERNAL_SERVER_ERROR).await;
            }
            Finished::Panicked => {
                return self.broke(transaction, true, StatusCode::INTERNAL_SERVER_ERROR).await;
            }
            Finished::TimedOut => return self.broke(transaction, false, StatusCode::GATEWAY_TIMEOUT).await,
            Finished::Lost => {
                roll_back(transaction).await;
                return self.winner().await;
            }
        };
        match verdict(&self.policy().mode, Ended::with(&response)) {
            Verdict::Keep => self.keep(response, transaction).await,
            Verdict::Unknown => self.unknown(false, Ok(response)).await,
            Verdict::Release => {
                roll_back(transaction).await;
                self.give_back(Ok(response)).await
            }
        }
    }

    /// Records the answer; in a transaction, together with what the handler did.
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
        let sealing = Sealing {
            tenant: &asked.scope.tenant,
            scope: asked.scope_tag,
            operation: asked.operation,
            request: asked.request,
            epoch: self.grant.epoch,
        };
        let (sealed, retained) = match self.door.vault.seal(&sealing, &stored) {
            Ok(sealed) => (sealed, retained),
            // Without a data key nothing of the answer may be kept, but that there was one is.
            Err(error) => {
                tracing::error!(%error, operation = %asked.operation, "an answer could not be sealed");
                let bare =
                    Answer { status: answer.status(), headers: HeaderMap::new(), body: Kept::NotRetained };
                (self.door.vault.bind(&sealing, &bare.encode()), false)
            }
        };
        let (bytes, status) = (sealed.len() as u64, answer.status().as_u16());
        let completion = self.completion(Ending::Answered(sealed));
        let held = match transaction {
            Some(transaction) => match transaction.complete(completion).await {
                Ok(Holding::Held) => Holding::Held,
                Ok(Holding::Lost) => {
                    self.tell(What::LeaseLost { epoch: self.grant.epoch });
                    Holding::Lost
                }
                Err(error) => return self.unclear(&error).await,
            },
            None => self.save(End::Completed(completion)).await?,
        };
        match held {
            Holding::Held => {
                self.door.spending.stored(asked.scope_tag, bytes, Instant::now().into_std());
                self.tell(What::Saved { epoch: self.grant.epoch, status, retained });
                Ok(answer)
            }
            Holding::Lost => self.winner().await,
        }
    }

    /// What is stored of an answer, and whether its content is. Its digest is stored too: whoever opens it has seen that
    /// not a bit of it has changed, and need not make the digest anew.
    fn stored(&self, answer: &Response<Content>) -> (Vec<u8>, bool) {
        let headers = retained_headers(answer.headers(), &self.door.retained_headers);
        let (body, digest) = match answer.body() {
            Content::Whole(bytes, digest) => (Kept::Body(bytes.clone()), Some(digest.clone())),
            Content::Flowing(_) => (Kept::NotRetained, None),
        };
        let mut stored = Answer { status: answer.status(), headers, body };
        match &self.door.redact {
            Some(redact) => redact(&mut stored),
            None => stored.headers.extend(digest.map(|digest| (CONTENT_DIGEST, digest))),
        }
        (stored.encode(), matches!(stored.body, Kept::Body(_)))
    }

    fn completion(&self, ending: Ending) -> Completion {
        let (operation, epoch) = (self.asked.operation, self.grant.epoch);
        Completion { operation, epoch, ending, keep: self.policy().keep }
    }

    async fn offer(&self, end: &End) -> Result<Holding, StoreError> {
        match end {
            End::Completed(completion) => self.door.store.complete(completion).await,
            End::Released => self.door.store.release(self.asked.operation, self.grant.epoch).await,
        }
    }

    /// Records the end, and goes on trying where the store is away. The caller is not kept longer than it has patience:
    /// it is then told to come again, and finds what was recorded meanwhile.
    async fn save(self: &Arc<Self>, end: End) -> Result<Holding, Problem> {
        let patience_until = Instant::now() + SAVE_PATIENCE;
        let mut pause = SAVE_AGAIN.0;
        loop {
            match self.offer(&end).await {
                Ok(holding) => {
                    if holding == Holding::Lost {
                        self.tell(What::LeaseLost { epoch: self.grant.epoch });
                    }
                    return Ok(holding);
                }
                // Offered again, it would be damaged still.
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
            sleep(pause).await;
            pause = (pause * 2).min(SAVE_AGAIN.1);
        }
    }

    /// Goes on offering the end for as long as it would be kept. The number of these is bounded by the budget of running
    /// operations, whose place each of them holds.
    async fn save_later(self: Arc<Self>, end: End) {
        let until = Instant::now() + self.policy().keep.answer_for;
        while Instant::now() < until {
            sleep(SAVE_AGAIN.1).await;
            match self.offer(&end).await {
                Ok(Holding::Held) => {
                    tracing::info!(operation = %self.asked.operation, "an end was recorded late");
                    return;
                }
                Ok(Holding::Lost) => {
                    self.tell(What::LeaseLost { epoch: self.grant.epoch });
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

    fn note_unsaved(&self, error: &StoreError) {
        tracing::warn!(%error, operation = %self.asked.operation, "an end could not be recorded yet");
        self.tell(What::SaveFailed { epoch: self.grant.epoch });
    }

    /// The handler did not answer: nothing is left of it where it was undone, and nothing is known where it was not.
    async fn broke(
        self: &Arc<Self>,
        transaction: Option<Box<dyn Transaction>>,
        panicked: bool,
        status: StatusCode,
    ) -> Answered {
        let operation = self.asked.operation;
        match verdict(&self.policy().mode, Ended::Broke) {
            Verdict::Release => {
                roll_back(transaction).await;
                let problem = Problem::new(Reason::HandlerFailed).about(operation).with_status(status);
                self.give_back(Err(problem)).await
            }
            Verdict::Unknown | Verdict::Keep => {
                self.unknown(panicked, Err(service::unknown(&self.asked).with_status(status))).await
            }
        }
    }

    /// Records that it is not known what was done, and answers `told` to the one whose request it was.
    async fn unknown(self: &Arc<Self>, panicked: bool, told: Answered) -> Answered {
        match self.save(End::Completed(self.completion(Ending::Unknown))).await? {
            Holding::Held => {
                self.door.spending.stored(self.asked.scope_tag, 0, Instant::now().into_std());
                self.tell(What::Unknown { epoch: self.grant.epoch, panicked });
                told
            }
            Holding::Lost => self.winner().await,
        }
    }

    /// The work goes on elsewhere. The next request is attached to it again; nobody has to look after it.
    async fn goes_on(self: &Arc<Self>) -> Answered {
        match self.save(End::Completed(self.completion(Ending::Unknown))).await? {
            Holding::Held => Err(wait::in_progress(&self.asked)),
            Holding::Lost => self.winner().await,
        }
    }

    /// The commit's answer was lost, so that it is not known whether it counts. Releasing finds out: it waits for the
    /// transaction's own lock, and is refused where the record was completed.
    async fn unclear(self: &Arc<Self>, error: &StoreError) -> Answered {
        self.note_unsaved(error);
        match self.save(End::Released).await? {
            Holding::Held => Err(store_problem(error).about(self.asked.operation)),
            Holding::Lost => self.winner().await,
        }
    }

    /// What the record says by now: the answer of whoever holds or held it last, never one's own. Where there is none, what
    /// was done in a transaction is undone: with it there would be a record.
    async fn winner(&self) -> Answered {
        let nobody = match verdict(&self.policy().mode, Ended::Broke) {
            Verdict::Release => Reason::HandlerFailed,
            Verdict::Unknown | Verdict::Keep => Reason::OutcomeUnknown,
        };
        self.winner_or(Err(Problem::new(nobody).about(self.asked.operation))).await
    }

    /// The same, or this where there is no record.
    async fn winner_or(&self, nobody: Answered) -> Answered {
        match self.door.store.look(self.asked.operation).await {
            Ok(Some(record)) => {
                let answer = service::found(&self.door, &self.asked, &record).await?;
                answer.ok_or_else(|| wait::in_progress(&self.asked))
            }
            Ok(None) => nobody,
            Err(error) => Err(store_problem(&error).about(self.asked.operation)),
        }
    }

    /// Forgets the operation: nothing was done, and the caller is `told` so, even if the store learns it only later.
    /// Where somebody else has taken it over, what came of that counts.
    pub(crate) async fn give_back(self: &Arc<Self>, told: Answered) -> Answered {
        match self.save(End::Released).await {
            Ok(Holding::Held) => {
                self.tell(What::Released { epoch: self.grant.epoch });
                told
            }
            Ok(Holding::Lost) => self.winner_or(told).await,
            Err(problem) => {
                tracing::debug!(reason = problem.reason().name(), "an operation is given back later");
                told
            }
        }
    }

    /// An average of how long the route's handler takes, in which the last one counts an eighth.
    fn note_pace(&self, ran_for: Duration) {
        let micros = u64::try_from(ran_for.as_micros()).unwrap_or(u64::MAX);
        let pace = &self.asked.route.pace;
        let before = pace.load(Ordering::Relaxed);
        let after = if before == 0 { micros } else { before - before / 8 + micros / 8 };
        pace.store(after, Ordering::Relaxed);
    }
}

/// Undoes what the handler did. A transaction that cannot be told to is undone when its connection ends.
async fn roll_back(transaction: Option<Box<dyn Transaction>>) {
    if let Some(transaction) = transaction
        && let Err(error) = transaction.roll_back().await
    {
        tracing::warn!(%error, "a transaction could not be rolled back; its connection was given up");
    }
}
