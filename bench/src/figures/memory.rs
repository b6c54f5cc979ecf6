//! How much of Redis's memory a pending job takes, everything included.

use std::time::Duration;

use delayq::Client;
use futures_util::{StreamExt, stream};

use super::{AS_IT_COMES, Sizes, short};
use crate::Res;
use crate::job::BenchOrder;
use crate::report::{Measure, Report, Sample};
use crate::server::{Persistence, Server};

/// How many sends are under way at once.
const SENDS: usize = 500;
/// The delays are spread over this.
const DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
const DELAY_MIN: Duration = Duration::from_secs(3600);
/// Until the server has freed what the connections took, and has grown its tables.
const CALM: Duration = Duration::from_secs(2);

const BYTES: Measure = Measure { key: "bytes_per_job", title: "bytes/job", digits: 1 };
const RSS: Measure = Measure { key: "rss_bytes_per_job", title: "resident bytes/job", digits: 1 };

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report = Report::new("memory", "memory of Redis a pending job, everything included", machine);
    report.setting(AS_IT_COMES);
    report.setting("sent one by one, each with a random delay of an hour to 30 days; used_memory before and after");
    let all_jobs = sizes.jobs(&[100_000, 1_000_000], &[20_000, 100_000]);
    for _ in 0..sizes.runs() {
        for jobs in &all_jobs {
            let server = Server::start(Persistence::Off)?;
            let before = look(&server)?;
            send(&server.url(), *jobs).await?;
            tokio::time::sleep(CALM).await;
            let after = look(&server)?;
            let each = |n: f64| n / *jobs as f64;
            let name = short(*jobs);
            let sample = Sample::default().with(BYTES, each(after.0 - before.0)).with(RSS, each(after.1 - before.1));
            report.add(&name, &sample);
            report.label(&name, "jobs", *jobs as f64);
        }
    }
    Ok(report)
}

fn look(server: &Server) -> Res<(f64, f64)> {
    let info = server.info()?;
    Ok((info.number("used_memory")?, info.number("used_memory_rss")?))
}

async fn send(url: &str, jobs: usize) -> Res<()> {
    let client = Client::connect(url).await?;
    let spread_ms = (DELAY_MAX - DELAY_MIN).as_millis() as u64;
    let mut sends = stream::iter(0..jobs as u64)
        .map(|n| {
            let delay = DELAY_MIN + Duration::from_millis(fastrand::u64(..spread_ms));
            client.schedule(delay).send(BenchOrder::numbered(n))
        })
        .buffer_unordered(SENDS);
    while let Some(sent) = sends.next().await {
        sent?;
    }
    Ok(())
}
