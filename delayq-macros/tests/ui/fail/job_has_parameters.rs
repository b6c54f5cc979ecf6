use delayq::{Job, JobContext, JobResult, delayed_job};
use serde::{Deserialize, Serialize};

#[delayed_job(name = "type", version = 1)]
struct Type<T> {
    #[serde(default)]
    note: Option<T>,
}

impl<T: Send + 'static> Job for Type<T> {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

#[delayed_job(name = "constant", version = 1)]
#[derive(Clone, Serialize)]
struct Constant<const N: usize>(u64);

impl<const N: usize> Job for Constant<N> {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

#[delayed_job(name = "several", version = 1)]
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Several<'a, 'b: 'a, T: Clone + 'a, const N: usize>
where
    T: Copy + 'b,
{
    #[serde(borrow)]
    note: &'a str,
    inner: T,
}

fn main() {
    let _ = Several::<u8, 1> { note: "", inner: 1 }.clone();
}
