//! Our own side: profile `memory` behind the pipeline, as `run debit-credit` has it.
//!
//! Not here: pipeline and callers (`durable/`), which run there unchanged.

use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::pipeline::{Builder, Durability, Executor, Pipeline, ValueLogGroups};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::value_log::LogWriter;

use super::rows::{Balances, Rows};
use super::{Engine, Opening};
use crate::compare::{Batch, Watch};
use crate::durable::{self, Answered, Answers, Calling, Clients, Database, OpenOptions, Request};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::Scale;
use crate::workload::debit_credit::input::Input;
use crate::workload::{Kind, Workload};

/// A pipeline with its callers.
type Running<'a, P> = (Pipeline<Database<P, Scale>>, Clients<'a, Scale>);

/// A store behind a pipeline.
struct Piped<'a, P: MemoryProfile>
where
    Database<P, Scale>: Executor<Request = Request<Scale>, Answer = Answered<Scale>>,
{
    clock: &'a SystemClock,
    /// Until it is closed.
    running: Option<Running<'a, P>>,
}

impl<P: MemoryProfile> Drop for Piped<'_, P>
where
    Database<P, Scale>: Executor<Request = Request<Scale>, Answer = Answered<Scale>>,
{
    /// Stages that the callers' thread steps end only if it steps them.
    fn drop(&mut self) {
        if let Some((pipeline, clients)) = self.running.take() {
            pipeline.shut();
            clients.finish();
        }
    }
}

/// Loads a database and starts its pipeline.
pub(super) fn open<'a>(
    opening: Opening<'a>,
    progress: &mut dyn FnMut(f64),
) -> Result<Box<dyn Engine + 'a>, Failure> {
    let (plan, scale) = (&opening.plan.run, opening.plan.scale());
    let failed = |error: &dyn std::fmt::Display| Failure::environment(error.to_string());
    let threads = plan.load_threads;
    let mut told = |done: usize, of: usize| progress(done as f64 / of as f64);
    if !opening.plan.is_durable() {
        let mut store = MemoryStore::<Memory>::new(plan.limits);
        let loaded = scale.load_parts(&mut store, threads, |_, done, of| {
            told(done, of);
            Ok(())
        });
        loaded.map_err(|error| failed(&error))?;
        return start(&opening, store, None);
    }
    let disk = OsDisk::create(&opening.directory).map_err(|error| failed(&error))?;
    let options =
        OpenOptions { limits: plan.limits, log: plan.log, threads, ..OpenOptions::default() };
    let created = durable::create::<MemoryLogged>(&[Arc::new(disk)], &options);
    let durable::Created { mut store, writer, .. } = created.map_err(|error| failed(&error))?;
    let writer = durable::load(&mut store, writer, &scale, threads, &mut told)?;
    start(&opening, store, Some(writer))
}

fn start<'a, P: MemoryProfile + 'a>(
    opening: &Opening<'a>,
    store: MemoryStore<P>,
    writer: Option<LogWriter>,
) -> Result<Box<dyn Engine + 'a>, Failure>
where
    Database<P, Scale>: Executor<Request = Request<Scale>, Answer = Answered<Scale>>,
{
    let (plan, clock) = (&opening.plan.run, opening.clock);
    let database = Database::new(store, &opening.plan.scale(), None);
    let database = database.map_err(|error| Failure::check(error.to_string()))?;
    let builder = Builder::new(database, plan.pipeline);
    let builder = match writer {
        Some(writer) => builder.log(Box::new(ValueLogGroups::new(writer))),
        None => builder,
    };
    let pipeline = builder.start(Arc::new(*clock));
    let pipeline = pipeline.map_err(|refused| Failure::environment(refused.to_string()))?;
    let calling = Calling {
        clients: plan.clients,
        in_flight: plan.in_flight,
        durability: Durability::Group,
        sequences: Vec::new(),
        acks: None,
    };
    let clients = Clients::new(&pipeline, calling, clock);
    Ok(Box::new(Piped { clock, running: Some((pipeline, clients)) }))
}

fn closed() -> Failure {
    Failure::check("the pipeline is closed already")
}

impl<P: MemoryProfile> Engine for Piped<'_, P>
where
    Database<P, Scale>: Executor<Request = Request<Scale>, Answer = Answered<Scale>>,
{
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn transport(&self) -> &'static str {
        "embedded"
    }

    fn run(&mut self, inputs: &[Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        let (_, clients) = self.running.as_mut().ok_or_else(closed)?;
        let mut answers = Answers::default();
        let watch = Watch::start(self.clock);
        clients.run(inputs, u64::MAX, &mut answers, durable::Watch::progress(&mut |_| ()))?;
        let total = answers.tally.total();
        let batch = watch.stop(total.committed, total.aborted);
        latencies.add(&answers.latencies[Kind::DebitCredit as usize]);
        Ok(batch)
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let (pipeline, clients) = self.running.take().ok_or_else(closed)?;
        pipeline.shut();
        clients.finish();
        let closed = pipeline.close();
        if let Some(reason) = closed.poison {
            return Err(Failure::environment(format!("the run ended: {reason}")));
        }
        let Some(mut database) = closed.executor else {
            return Err(Failure::check("the execution stage broke down"));
        };
        Ok(Rows::read(&mut database.store)?.balances())
    }
}
