//! What the scripts alone do: one session claims and settles in one call after another, and runs nothing.

use std::error::Error;
use std::sync::Arc;

use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::envelope::Record;
use delayq::store::ops::{Claim, Verdict};
use delayq::store::{Member, Prefix, Store};

/// Drains a queue in batches of 100; answers how many jobs there were.
pub(crate) async fn drain(url: &str, queue: &str, young: bool) -> Result<usize, Box<dyn Error>> {
    let engine = RedisEngine::connect(Target::parse(url, Settings::default())?).await?;
    let store = Store::new(Arc::new(engine), Prefix::default());
    drain_store(&store, queue, young).await.map_err(|error| error as Box<dyn Error>)
}

/// The same on a store that is there.
pub(crate) async fn drain_store(
    store: &Store,
    queue: &str,
    young: bool,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let shard = store.shard(queue, 0)?;
    let session = [7; 16];
    store.open(&shard, &session, std::time::Duration::from_secs(60)).await?;
    let mut verdicts: Vec<(Member, Verdict)> = Vec::new();
    let (mut total, mut seq) = (0, 0);
    loop {
        seq += 1;
        let claim = Claim { count: 100, bytes: 4 << 20, timer_ms: 0, alone: None, verdicts: &verdicts };
        let claimed = store.claim(&shard, &session, seq, claim).await?.map_err(|refusal| format!("{refusal:?}"))?;
        let settled = std::mem::take(&mut verdicts).len();
        for job in claimed.jobs {
            let run = Record::decode(&job.record)?.run;
            let verdict = if young { Verdict::DoneYoung } else { Verdict::Done };
            verdicts.push((Member::new(&job.id, run), verdict));
        }
        total += verdicts.len();
        if verdicts.is_empty() && settled == 0 {
            store.close(&shard, &session).await?;
            return Ok(total);
        }
    }
}
