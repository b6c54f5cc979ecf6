use delayq::{Job, JobContext, JobResult, delayed_job};

#[delayed_job(name = "remind", version = 1)]
struct Remind<'a> {
    note: &'a str,
}

// The compiler names this place too, since the lifetime has to go here as well.
impl Job for Remind<'_> {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = Remind { note: "" };
}
