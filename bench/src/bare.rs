//! What the scripts alone do: sessions claim and settle in one call after another, and run nothing.

use std::sync::Arc;
use std::time::Duration;

use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::envelope::Record;
use delayq::store::ops::{Claim, Verdict};
use delayq::store::{Member, Prefix, Store};
use uuid::Uuid;

use crate::Res;

/// How many jobs a call claims, and settles.
pub(crate) const BATCH: usize = 100;
const BYTES: usize = 4 << 20;
const LEASE: Duration = Duration::from_secs(60);

/// The store at a URL, without a client around it.
pub(crate) async fn store(url: &str) -> Res<Store> {
    let engine = RedisEngine::connect(Target::parse(url, Settings::default())?).await?;
    Ok(Store::new(Arc::new(engine), Prefix::default()))
}

/// Drains a queue by several sessions at once, each over connections of its own; answers how many jobs there were.
pub(crate) async fn drain(url: &str, queue: &str, sessions: usize, young: bool) -> Res<usize> {
    let mut draining = tokio::task::JoinSet::new();
    for _ in 0..sessions {
        let (store, queue) = (store(url).await?, queue.to_owned());
        draining.spawn(async move { drain_store(&store, &queue, usize::MAX, young).await });
    }
    let mut total = 0;
    while let Some(drained) = draining.join_next().await {
        total += drained??;
    }
    Ok(total)
}

/// Drains a queue by one session, of this many jobs at most.
pub(crate) async fn drain_store(store: &Store, queue: &str, most: usize, young: bool) -> Res<usize> {
    let shard = store.shard(queue, 0)?;
    let session = Uuid::now_v7().into_bytes();
    store.open(&shard, &session, LEASE).await?;
    let mut verdicts: Vec<(Member, Verdict)> = Vec::new();
    let (mut total, mut seq) = (0, 0);
    loop {
        seq += 1;
        let count = BATCH.min(most - total);
        if count == 0 {
            store.settle(&shard, &session, seq, &verdicts).await?.map_err(|refusal| format!("{refusal:?}"))?;
            break;
        }
        let claim = Claim { count, bytes: BYTES, timer_ms: 0, alone: None, in_company: false, verdicts: &verdicts };
        let claimed = store.claim(&shard, &session, seq, claim).await?.map_err(|refusal| format!("{refusal:?}"))?;
        let settled = std::mem::take(&mut verdicts).len();
        for job in claimed.jobs {
            // Read as a worker would.
            Record::decode(&job.record)?;
            let verdict = if young { Verdict::DoneYoung } else { Verdict::Done };
            verdicts.push((Member::new(&job.id, job.run), verdict));
        }
        total += verdicts.len();
        if verdicts.is_empty() && settled == 0 {
            break;
        }
    }
    store.close(&shard, &session).await?;
    Ok(total)
}
