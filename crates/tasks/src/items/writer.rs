//! Writes the results of a run.
//!
//! The files follow from the results alone: the same names and the same bytes, however often a crash makes perdura
//! write them. The manifest comes last, so a reader that finds it finds all files that it names.

use super::ItemStores;
use super::entry::{Class, before, behind, closing, entries, key};
use super::outlet::Outlet;
use super::place::{Place, PlaceError};
use super::writing::{Output, Writing};
use perdura_engine::Fault;
use perdura_engine::asl::error::RESULT_WRITER;
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_runtime::{ChildResult, Reply, WriteOrder};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many results may wait to be written.
const RESULTS_AHEAD: usize = 16;

/// Writes the results of the order, and replies with the result of its state.
pub async fn write(stores: &ItemStores, order: WriteOrder) {
    if order.writer.resource.is_none() {
        return order.refuse();
    }
    let WriteOrder { writer, map_run_arn, results, reply } = order;
    let (reply, written) = match Writing::of(&writer, &map_run_arn) {
        Err(what) => (reply, Err(format!("The ResultWriter cannot be used: {what}."))),
        Ok(writing) => {
            let told = tell(results, &writing);
            let mut run = Run { stores, writing: &writing, map_run_arn: &map_run_arn, reply };
            let written = match told {
                Ok(told) => run.write(told).await,
                Err(error) => Err(run.failed(error)),
            };
            (run.reply, written)
        }
    };
    reply.send(written.map_err(|cause| {
        tracing::warn!(cause, "results cannot be written");
        Fault::new(RESULT_WRITER, cause)
    }));
}

/// A message of the thread that reads results.
enum Told {
    /// The entries of one child, and their file.
    Entries(Class, Vec<String>),
    /// All were read, or the rest cannot be read. A thread that panics sends neither.
    End(Result<(), String>),
}

/// Reads results on a thread of its own, because each comes from a disk.
fn tell(
    results: Box<dyn Iterator<Item = Result<ChildResult, impl std::fmt::Display + 'static>> + Send>,
    writing: &Writing,
) -> Result<mpsc::Receiver<Told>, PlaceError> {
    let (sender, receiver) = mpsc::channel(RESULTS_AHEAD);
    let transformation = writing.transformation;
    let work = move || {
        let mut end = Ok(());
        for result in results {
            match result {
                Ok(child) => {
                    let (class, texts) = entries(&child, transformation);
                    if sender.blocking_send(Told::Entries(class, texts)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    end = Err(error.to_string());
                    break;
                }
            }
        }
        // Fails only if the receiver is gone.
        drop(sender.blocking_send(Told::End(end)));
    };
    match std::thread::Builder::new().name("results".into()).spawn(work) {
        Ok(_) => Ok(receiver),
        Err(error) => Err(PlaceError::Failed(format!("there is no thread to read results with: {error}"))),
    }
}

/// One order under way.
struct Run<'r> {
    stores: &'r ItemStores,
    writing: &'r Writing,
    map_run_arn: &'r Arc<str>,
    reply: Reply<Result<Payload, Fault>>,
}

impl Run<'_> {
    fn failed(&self, what: impl std::fmt::Display) -> String {
        let Writing { bucket, folder, .. } = self.writing;
        format!("The results cannot be written to S3://{bucket}/{folder}: {what}.")
    }

    async fn write(&mut self, mut told: mpsc::Receiver<Told>) -> Result<Payload, String> {
        let place = self.stores.place(&self.writing.bucket).map_err(|error| self.failed(error))?;
        let mut files =
            Class::ALL.map(|class| Files::new(class, self.writing, self.stores.result_file_bytes_max()));
        let written = self.write_files(&place, &mut told, &mut files).await;
        if let Err(error) = written {
            for files in files {
                files.discard().await;
            }
            return Err(self.failed(error));
        }
        let manifest_key = format!("{}manifest.json", self.writing.folder);
        let manifest = self.manifest(&files).to_string();
        let outlet = place.create(&manifest_key).await.map_err(|error| self.failed(error))?;
        end_with(outlet, &manifest).await.map_err(|error| self.failed(error))?;
        let details: Map =
            [("Bucket", Value::from(self.writing.bucket.clone())), ("Key", manifest_key.into())]
                .into_iter()
                .collect();
        let result: Map =
            [("MapRunArn", Value::from(self.map_run_arn.clone())), ("ResultWriterDetails", details.into())]
                .into_iter()
                .collect();
        Ok(Value::from(result).into())
    }

    async fn write_files(
        &mut self,
        place: &Place,
        told: &mut mpsc::Receiver<Told>,
        files: &mut [Files<'_>; 3],
    ) -> Result<(), String> {
        loop {
            let (class, entries) = match told.recv().await {
                Some(Told::Entries(class, entries)) => (class, entries),
                Some(Told::End(Ok(()))) => break,
                Some(Told::End(Err(error))) => return Err(format!("they cannot be read back: {error}")),
                None => return Err("the thread that reads them died; this is a mistake in perdura".into()),
            };
            if !self.reply.is_wanted() {
                return Err("nobody waits for them any more".into());
            }
            let file =
                files.iter_mut().find(|files| files.class == class).expect("there is one for each class");
            for entry in entries {
                file.add(place, &entry).await.map_err(|error| error.to_string())?;
            }
        }
        for file in files {
            file.close().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn manifest(&self, files: &[Files<'_>; 3]) -> Value {
        let lists = files.iter().map(|files| {
            let list = files.done.iter().map(|(key, size)| {
                let file: Map =
                    [("Key", Value::from(key.as_str())), ("Size", (*size).into())].into_iter().collect();
                Value::from(file)
            });
            (files.class.name(), list.collect::<Value>())
        });
        let manifest: Map = [
            ("DestinationBucket", Value::from(self.writing.bucket.clone())),
            ("MapRunArn", self.map_run_arn.clone().into()),
            ("ResultFiles", Value::from(lists.collect::<Map>())),
        ]
        .into_iter()
        .collect();
        manifest.into()
    }
}

/// The files of one class: the finished ones, and the one under way.
struct Files<'w> {
    class: Class,
    folder: &'w str,
    output: Output,
    bytes_max: u64,
    done: Vec<(String, u64)>,
    open: Option<(Outlet, u64)>,
}

impl<'w> Files<'w> {
    fn new(class: Class, writing: &'w Writing, bytes_max: u64) -> Self {
        let Writing { folder, output, .. } = writing;
        Self { class, folder, output: *output, bytes_max, done: Vec::new(), open: None }
    }

    fn key(&self) -> String {
        key(self.folder, self.class, self.done.len(), self.output)
    }

    async fn add(&mut self, place: &Place, entry: &str) -> Result<(), PlaceError> {
        let room = (entry.len() + 2) as u64;
        if self.open.as_ref().is_some_and(|(_, size)| size + room > self.bytes_max) {
            self.close().await?;
        }
        let key = self.key();
        let (outlet, size) = match &mut self.open {
            Some(open) => open,
            none => none.insert((place.create(&key).await?, 0)),
        };
        for piece in [before(self.output, *size == 0), entry, behind(self.output)] {
            outlet.write(piece.as_bytes()).await?;
            *size += piece.len() as u64;
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), PlaceError> {
        let key = self.key();
        let Some((outlet, size)) = self.open.take() else { return Ok(()) };
        let end = closing(self.output);
        end_with(outlet, end).await?;
        self.done.push((key, size + end.len() as u64));
        Ok(())
    }

    async fn discard(self) {
        if let Some((outlet, _)) = self.open {
            outlet.discard().await;
        }
    }
}

/// Writes the end of a file, and completes it.
async fn end_with(mut outlet: Outlet, text: &str) -> Result<(), PlaceError> {
    match outlet.write(text.as_bytes()).await {
        Ok(()) => outlet.finish().await,
        Err(error) => {
            outlet.discard().await;
            Err(error)
        }
    }
}
