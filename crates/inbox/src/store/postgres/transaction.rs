//! A handler's transaction: its writes and DONE are one commit.
//!
//! The row is ended under its epoch as the last thing before the commit, so it is locked only for that long. A handler that ended the
//! transaction by itself is found out by a mark that goes with it, and what it did counts as a failure.

use super::lent::{Lent, Trouble, unavailable, within};
use super::{EndParameters, Inner, Parameters, Postgres};
use crate::row::{Address, Ending, Held, Holding, Message};
use crate::store::{Pending, StoreError};
use crate::work::{Failed, Handler, Worked};
use deadpool_postgres::Transaction;
use std::sync::Arc;
use tokio_postgres::IsolationLevel;

/// A handler whose writes and DONE are one commit. It writes by the transaction that it is given, which it does not end.
///
/// ```
/// use perdura_inbox::store::postgres::transactional;
///
/// let handler = transactional(|transaction, message| {
///     Box::pin(async move {
///         let insert = "INSERT INTO presentation (id) VALUES ($1)";
///         transaction.execute(insert, &[&message.row.address.id.as_str()]).await?;
///         Ok(())
///     })
/// });
/// ```
pub fn transactional<F>(work: F) -> impl Handler<Postgres>
where
    F: for<'t> Fn(&'t Transaction<'t>, &'t Message) -> Pending<'t, Result<(), Failed>>
        + Send
        + Sync
        + 'static,
{
    Transactional(work)
}

struct Transactional<F>(F);

impl<F> Handler<Postgres> for Transactional<F>
where
    F: for<'t> Fn(&'t Transaction<'t>, &'t Message) -> Pending<'t, Result<(), Failed>>
        + Send
        + Sync
        + 'static,
{
    fn work<'a>(
        &'a self,
        store: &'a Postgres,
        message: Message,
        held: &'a Held,
    ) -> Pending<'a, Result<Worked, StoreError>> {
        Box::pin(async move { store.0.transact(&self.0, &message, held).await })
    }
}

/// Classes of errors by which a commit fails for reasons that are not in what was done: the connection, a conflict with another
/// transaction, a want of resources, an operator, the system, the server itself.
const PASSING: [&str; 6] = ["08", "40", "53", "57", "58", "XX"];

fn is_passing(error: &tokio_postgres::Error) -> bool {
    error.code().is_none_or(|code| PASSING.iter().any(|class| code.code().starts_with(class)))
}

impl Inner {
    async fn transact<F>(&self, work: &F, message: &Message, held: &Held) -> Result<Worked, StoreError>
    where
        F: for<'t> Fn(&'t Transaction<'t>, &'t Message) -> Pending<'t, Result<(), Failed>>,
    {
        let place = Arc::clone(&self.transactions).acquire_owned().await;
        let _place = place.map_err(|closed| StoreError::Unavailable(Box::new(closed)))?;
        let mut client = within(self.options.timeout_for, Lent::from(&self.pool)).await?;
        let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start();
        let transaction =
            within(self.options.timeout_for, async { begin.await.map_err(unavailable) }).await?;
        let millis = self.options.transaction_for.as_millis().clamp(1, 2_147_483_647);
        let mark = format!(
            "SET LOCAL inbox.epoch = '{}'; SET LOCAL statement_timeout = {millis}; \
             SET LOCAL idle_in_transaction_session_timeout = {millis}",
            held.epoch
        );
        within(self.options.timeout_for, async {
            transaction.batch_execute(&mark).await.map_err(unavailable)
        })
        .await?;
        // Dropped in the middle, the transaction is rolled back by closing its connection.
        if let Err(failed) = work(&transaction, message).await {
            within(self.options.timeout_for, async { transaction.rollback().await.map_err(unavailable) })
                .await?;
            client.give_back();
            return Ok(Worked::Failed(failed));
        }
        let end = format!(
            "SELECT CASE WHEN current_setting('inbox.epoch', true) = $5::bigint::text \
             THEN {}.inbox_end($1, $2, $3, $4, $5, $6, $7, $8) END",
            self.schema()
        );
        let parameters = EndParameters::new(held, &Ending::Done);
        let ended = within(self.options.timeout_for, async {
            let parameters = parameters.list();
            let ended =
                async { transaction.query_one(&transaction.prepare_cached(&end).await?, &parameters).await };
            Ok(ended.await)
        })
        .await?;
        let held_row: Option<bool> = match ended {
            Ok(row) => row.get(0),
            // A statement failed before and was passed over: nothing more is done in this transaction.
            Err(error) if !is_passing(&error) => return Ok(Worked::Failed(Failed::again(Trouble(error)))),
            Err(error) => return Err(unavailable(error)),
        };
        match held_row {
            Some(true) => {}
            Some(false) => return Ok(Worked::Ended(Holding::Lost)),
            None => {
                return Ok(Worked::Failed(Failed::dead(
                    "the handler ended the transaction that it shares with its row",
                )));
            }
        }
        let committed = tokio::time::timeout(self.options.timeout_for, transaction.commit()).await;
        match committed {
            Ok(Ok(())) => {
                client.give_back();
                self.bell.notify_waiters();
                Ok(Worked::Ended(Holding::Held))
            }
            // A deferred constraint, or a trigger that stands for one: nothing of it is there.
            Ok(Err(error)) if !is_passing(&error) => Ok(Worked::Failed(Failed::again(Trouble(error)))),
            Ok(Err(error)) => self.settle(held, unavailable(error)).await,
            Err(_) => {
                self.settle(held, StoreError::Unavailable("the commit was not answered in time".into())).await
            }
        }
    }

    /// After an error at the commit: whether it took place. Only that transaction ends this claim as done.
    async fn settle(&self, held: &Held, error: StoreError) -> Result<Worked, StoreError> {
        let sql = format!("SELECT {}.inbox_settled($1, $2, $3, $4, $5)", self.schema());
        let Held { address: Address { inbox, tenant, id }, owner, epoch } = held;
        let parameters: Parameters<'_> =
            &[&inbox.as_str(), &tenant.as_str(), &id.as_str(), &owner.as_str(), &epoch.0.cast_signed()];
        let settled = self.ask(&sql, parameters).await?;
        if super::read::only(&settled)?.get(0) { Ok(Worked::Ended(Holding::Held)) } else { Err(error) }
    }
}
