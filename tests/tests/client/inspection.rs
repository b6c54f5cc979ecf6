//! What operators see of queues, jobs and workers, whatever the jobs' types.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq::limits::{JOBS_PAGE_MAX, SEARCH_SCAN_MAX};
use delayq::{CancelOutcome, Client, DeadReason, ErrorKind, JobId, JobInfo, JobPage, JobQuery, JobState, RawJob};
use delayq_tests::{eventually, server_and_client};

use crate::kit::{Act, Only, Stage, TASKS, Task, does, only, pass};

const HOUR: Duration = Duration::from_secs(3600);

async fn page(client: &Client, query: &JobQuery) -> JobPage {
    client.jobs(TASKS).list(query).await.unwrap()
}

/// All jobs that a query finds, page by page.
async fn all(client: &Client, query: &JobQuery) -> Vec<JobInfo> {
    let mut found = Vec::new();
    let mut query = query.clone();
    loop {
        let page = page(client, &query).await;
        found.extend(page.jobs);
        // A cursor survives being a text.
        let Some(next) = page.next else { return found };
        query = query.after(next.to_string().parse().unwrap());
    }
}

#[tokio::test]
async fn queues_in_use_are_listed() {
    let (server, client) = server_and_client().await;
    assert!(client.queues().await.unwrap().is_empty());
    client.enqueue::<Task>().queue("b-queue").send(pass(1)).await.unwrap();
    client.enqueue::<Task>().queue("a-queue").send(pass(1)).await.unwrap();
    let stage = Stage::start(&client);
    eventually("all three are listed", || async {
        let queues = client.queues().await.unwrap();
        (queues == ["a-queue", "b-queue", TASKS]).then_some(())
    })
    .await;
    // What a foreign hand put among them is nobody's queue.
    server.command(&["ZADD", "delayq:queues", "0", "no name", "0", "{x}:dead", "-5", ""]).unwrap();
    assert_eq!(client.queues().await.unwrap(), ["a-queue", "b-queue", TASKS]);
    stage.stop().await;
}

#[tokio::test]
async fn a_job_is_shown_with_all_that_is_known_of_it() {
    let (_server, client) = server_and_client().await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let handle = client
        .schedule::<Only>(HOUR)
        .priority(2)
        .expires_in(HOUR)
        .retain_for(HOUR * 2)
        .trace_parent(parent)
        .send(only("k", Act::Pass))
        .await
        .unwrap();
    let job = client.jobs(TASKS).get(handle.id()).await.unwrap().expect("it waits");
    assert_eq!((job.state, job.name.as_deref(), job.version), (JobState::Waiting, Some("only"), Some(1)));
    assert_eq!((job.priority, job.attempts, job.attempts_max, job.crashes), (Some(2), 0, Some(1), 0));
    let due = job.due.unwrap();
    // Rounded up to whole ms, from a clock that is rounded down.
    let ahead = due.duration_since(job.enqueued_at.unwrap()).unsigned_abs();
    assert!(ahead == HOUR || ahead == HOUR + Duration::from_millis(1), "{ahead:?}");
    assert_eq!(job.expires_at.unwrap().duration_since(due).unsigned_abs(), HOUR);
    assert_eq!((job.retain_for, job.unique_key.as_deref()), (Some(HOUR * 2), Some("only:k")));
    assert_eq!(job.trace_parent.as_deref(), Some(parent));
    assert_eq!(job.payload, r#"{"key":"k","act":"Pass"}"#);
    assert!(job.failure.is_none() && job.running_since.is_none() && job.dead_since.is_none());
    assert!(!format!("{job:?}").contains("act"), "no payload in what is logged");

    // Whatever its type, it can be moved and cancelled.
    let any = client.job(TASKS, handle.id());
    let moved = any.reschedule(HOUR * 3).await.unwrap();
    assert_eq!(client.jobs(TASKS).get(handle.id()).await.unwrap().unwrap().due, Some(moved));
    assert_eq!(any.cancel().await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(client.jobs(TASKS).get(handle.id()).await.unwrap(), None);
    assert_eq!(client.jobs(TASKS).get(JobId::new()).await.unwrap(), None);
}

#[tokio::test]
async fn jobs_are_listed_by_state_page_by_page() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let mut dead = BTreeSet::new();
    for n in 0..5 {
        dead.insert(client.enqueue::<Task>().send(Task { n, act: Act::Bury }).await.unwrap().id());
    }
    let kept = client.enqueue::<Task>().retain_for(HOUR).send(pass(1)).await.unwrap().id();
    let running: BTreeSet<JobId> = {
        let sent = client.enqueue::<Task>().send_all((0..5).map(|_| does(Act::WaitPass))).await;
        sent.into_iter().map(|sent| sent.unwrap().id()).collect()
    };
    stage.take(11).await;
    let mut waiting = BTreeSet::new();
    for priority in [0, 5, 9] {
        let sent = client.schedule::<Task>(HOUR).priority(priority).send_all((0..4).map(pass)).await;
        waiting.extend(sent.into_iter().map(|sent| sent.unwrap().id()));
    }
    eventually("the ends are settled", || async {
        let stats = client.stats(TASKS).await.unwrap();
        (stats.dead == 5 && stats.retained == 1).then_some(())
    })
    .await;
    for limit in [1, 3, 100] {
        for (state, ids) in [
            (JobState::Waiting, &waiting),
            (JobState::Running, &running),
            (JobState::Dead, &dead),
            (JobState::Retained, &BTreeSet::from([kept])),
        ] {
            let found = all(&client, &JobQuery::new(state).limit(limit)).await;
            assert_eq!(found.len(), ids.len(), "{state}, {limit} a page: each once");
            assert_eq!(&found.iter().map(|job| job.id).collect::<BTreeSet<_>>(), ids, "{state}");
            assert!(found.iter().all(|job| job.state == state && job.name.as_deref() == Some("task")));
        }
    }
    let first = all(&client, &JobQuery::new(JobState::Dead)).await;
    let mut last = all(&client, &JobQuery::new(JobState::Dead).newest_first()).await;
    last.reverse();
    assert_eq!(first, last);
    assert!(first.iter().all(|job| job.failure.as_ref().is_some_and(|failure| failure.text.contains("told to"))));
    for (query, count) in [
        (JobQuery::new(JobState::Dead).reason(DeadReason::Buried), 5),
        (JobQuery::new(JobState::Dead).reason(DeadReason::CrashLoop), 0),
        (JobQuery::new(JobState::Dead).error_contains("told to"), 5),
        (JobQuery::new(JobState::Dead).error_contains("told not to"), 0),
        (JobQuery::new(JobState::Waiting).error_contains(""), 0),
    ] {
        assert_eq!(all(&client, &query).await.len(), count, "{query:?}");
    }
    let held = all(&client, &JobQuery::new(JobState::Running)).await;
    let sessions: Vec<Option<String>> =
        client.workers(TASKS).await.unwrap().into_iter().map(|worker| Some(worker.session)).collect();
    assert!(held.iter().all(|job| sessions.contains(&job.session)) && sessions.len() == 1);
    assert!(held.iter().all(|job| job.running_since >= job.due));
    let retained = all(&client, &JobQuery::new(JobState::Retained)).await;
    assert!(retained[0].retained_until.is_some());
    stage.open(5);
    stage.stop().await;
}

#[tokio::test]
async fn a_search_says_how_far_it_looked() {
    let (_server, client) = server_and_client().await;
    client.schedule::<Task>(HOUR).send_all((0..250).map(pass)).await.into_iter().for_each(|sent| drop(sent.unwrap()));
    let needle = client.schedule::<Only>(HOUR * 2).send(only("needle", Act::Pass)).await.unwrap();
    let by_payload = JobQuery::new(JobState::Waiting).payload_contains("needle");
    let found = page(&client, &by_payload).await;
    assert_eq!((found.jobs.len(), found.scanned), (1, 251));
    assert_eq!(found.jobs[0].id, needle.id());

    // A bounded one answers with what it has, and goes on where it ended.
    let bounded = by_payload.clone().scan(120);
    let first = page(&client, &bounded).await;
    assert_eq!((first.jobs.len(), first.scanned), (0, 120));
    assert_eq!(all(&client, &bounded).await[0].id, needle.id());

    // By name, and by due time, which is an index.
    assert_eq!(all(&client, &JobQuery::new(JobState::Waiting).name("only")).await.len(), 1);
    let now = client.stats(TASKS).await.unwrap().now;
    let late = JobQuery::new(JobState::Waiting).due_from(now + HOUR + HOUR / 2);
    assert_eq!((page(&client, &late).await.scanned, all(&client, &late).await.len()), (1, 1));
    let soon = JobQuery::new(JobState::Waiting).due_before(now + HOUR + HOUR / 2);
    assert_eq!(all(&client, &soon).await.len(), 250);
    let never = JobQuery::new(JobState::Waiting).due_before(now);
    assert_eq!((page(&client, &never).await.scanned, page(&client, &never).await.jobs.len()), (0, 0));
}

#[tokio::test]
async fn a_query_out_of_range_is_refused() {
    let (_server, client) = server_and_client().await;
    let waiting = || JobQuery::new(JobState::Waiting);
    let cursor = "d-1-00".parse().unwrap();
    for wrong in [
        waiting().limit(0),
        waiting().limit(JOBS_PAGE_MAX + 1),
        waiting().scan(0),
        waiting().scan(SEARCH_SCAN_MAX + 1),
        waiting().after(cursor),
    ] {
        let error = client.jobs(TASKS).list(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(client.jobs("no such name!").list(&waiting()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_forecast_tells_what_falls_due_when() {
    let (_server, client) = server_and_client().await;
    let minute = Duration::from_secs(60);
    for (delay, jobs) in [(Duration::ZERO, 3), (minute / 2, 4), (minute * 5 / 2, 5), (HOUR * 24, 6)] {
        let sent = client.schedule::<Task>(delay).send_all((0..jobs).map(pass)).await;
        sent.into_iter().for_each(|sent| drop(sent.unwrap()));
    }
    let forecast = client.forecast(TASKS, minute, 4).await.unwrap();
    assert_eq!((forecast.due, &forecast.steps[..], forecast.later), (3, &[4, 0, 5, 0][..], 6));
    for (step, steps) in [(minute, 0), (minute, 500), (Duration::ZERO, 1), (Duration::MAX, 1)] {
        let error = client.forecast(TASKS, step, steps).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[tokio::test]
async fn workers_say_who_they_are_and_what_they_do() {
    let (_server, client) = server_and_client().await;
    assert!(client.workers(TASKS).await.unwrap().is_empty());
    let mut stage = Stage::with(&client, |worker| worker.name("mail-1").concurrency(7));
    client.enqueue::<Task>().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    let worker = eventually("its first sign of life", || async {
        let workers = client.workers(TASKS).await.unwrap();
        workers.into_iter().find(|worker| worker.runs_total == Some(1))
    })
    .await;
    assert_eq!((worker.name.as_deref(), worker.running, worker.concurrency), (Some("mail-1"), 1, Some(7)));
    assert_eq!((worker.pid, worker.session.len()), (Some(std::process::id()), 32));
    assert!(worker.lateness.is_some() && worker.started_at.is_some());
    assert!(worker.lease_left.is_some_and(|left| left <= Duration::from_secs(2)));
    stage.open(1);
    stage.stop().await;
    assert!(client.workers(TASKS).await.unwrap().is_empty());
}

#[tokio::test]
async fn raw_jobs_are_run_like_any_other() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let id = JobId::new();
    let jobs = vec![
        RawJob::new("task", 1, r#"{"n":41,"act":"Pass"}"#).id(id),
        RawJob::new("not a name", 1, "{}"),
        RawJob::new("task", 0, "{}"),
        RawJob::new("task", 1, "{}").priority(10),
        RawJob::new("task", 1, vec![b'x'; 1024 * 1024 + 1]),
        RawJob::new("task", 1, "no JSON").unique("k").max_retries(7).at(Duration::from_millis(1)),
    ];
    let sent = client.send_raw(TASKS, jobs).await;
    let kinds: Vec<_> = sent.iter().map(|sent| sent.as_ref().err().map(delayq::Error::kind)).collect();
    let invalid = Some(ErrorKind::InvalidArgument);
    assert_eq!(kinds, [None, invalid, invalid, invalid, Some(ErrorKind::Payload), None]);
    assert_eq!(stage.next().await.id, id);
    let undecodable =
        eventually("the other is a dead letter", || async { all(&client, &JobQuery::new(JobState::Dead)).await.pop() })
            .await;
    assert_eq!((undecodable.payload.as_ref(), undecodable.attempts_max), (&b"no JSON"[..], Some(8)));
    stage.stop().await;
}

#[tokio::test]
async fn stats_tell_how_late_the_oldest_is() {
    let (_server, client) = server_and_client().await;
    client.schedule::<Task>(HOUR).send(pass(1)).await.unwrap();
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.oldest_due, stats.rates), (Duration::ZERO, None));
    client.schedule_at::<Task>(stats.now - HOUR).send(pass(2)).await.unwrap();
    let late = client.stats(TASKS).await.unwrap().oldest_due;
    assert!(late >= HOUR && late < HOUR + Duration::from_secs(60), "{late:?}");
}
