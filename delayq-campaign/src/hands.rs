//! The runs of a campaign, one after the other or several at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::faults::Fault;
use crate::run::{self, Plan, Report};

/// What is still to be run.
type Todo = Arc<Mutex<VecDeque<(Fault, Plan)>>>;

/// Runs all of it, so many runs at once, until it is told to stop: what is under way then is broken off.
pub(crate) async fn run_all(
    todo: VecDeque<(Fault, Plan)>,
    at_once: u64,
    stop: impl Future<Output = ()>,
) -> Vec<Report> {
    let todo = Arc::new(Mutex::new(todo));
    let (stopper, stopped) = watch::channel(false);
    let hands: Vec<_> = (0..at_once)
        .map(|_| {
            let (todo, stopped) = (todo.clone(), stopped.clone());
            std::thread::spawn(move || work(&todo, stopped))
        })
        .collect();
    let mut reports = tokio::task::spawn_blocking(move || {
        let reports =
            hands.into_iter().map(|hand| hand.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        reports.flatten().collect()
    });
    let reports = tokio::select! {
        reports = &mut reports => reports,
        () = stop => {
            eprintln!("stopped");
            // The world is dropped with its run, and its servers and processes with the world.
            let _ = stopper.send(true);
            reports.await
        }
    };
    reports.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// One hand's work. A runtime of its own, since a run is bound to its thread.
fn work(todo: &Todo, mut stopped: watch::Receiver<bool>) -> Vec<Report> {
    let mut reports = Vec::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime for the runs: {error}");
            return reports;
        }
    };
    runtime.block_on(async {
        while let Some((fault, plan)) = next(todo) {
            tokio::select! {
                report = run::run(&fault, &plan) => reports.push(report),
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    });
    reports
}

fn next(todo: &Todo) -> Option<(Fault, Plan)> {
    todo.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}
