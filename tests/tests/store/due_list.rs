//! due_list.

use delayq::ErrorKind;
use delayq::envelope::Record;
use delayq::store::ops::{DueCursor, DuePage, DueRow};
use delayq_tests::store_kit::{With, World, id, job, kind};

delayq_tests::store_cases!(
    pages_cover_all_that_wait_the_soonest_first,
    pages_of_all_priorities_are_one_list,
    a_page_begins_at_an_instant,
    pages_go_on_after_a_job_that_is_gone,
    pages_show_records_even_where_one_is_missing,
    pages_keep_to_their_bounds,
);

fn first(limit: usize) -> DuePage {
    DuePage { priority: Some(5), after: None, limit }
}

fn next(limit: usize, last: &DueRow) -> DuePage {
    DuePage { after: Some(last.cursor()), ..first(limit) }
}

async fn list(world: &World, page: &DuePage) -> Vec<DueRow> {
    world.store.due_list(&world.shard, page).await.unwrap()
}

fn ids(rows: &[DueRow]) -> Vec<Vec<u8>> {
    rows.iter().map(|row| row.id.clone()).collect()
}

async fn pages_cover_all_that_wait_the_soonest_first(world: &World) {
    // Several share a millisecond; another priority and what runs are other lists.
    let mut jobs: Vec<_> = (1..=25).rev().map(|n| job(n).due(format!("@{}", 5_000_000_000_000 + n / 4))).collect();
    jobs.push(job(99).priority(4));
    world.create(&jobs).await;
    let (mut seen, mut page) = (Vec::new(), first(4));
    loop {
        let rows = list(world, &page).await;
        assert!(rows.len() <= 4);
        let Some(last) = rows.last() else { break };
        page = next(4, last);
        seen.extend(ids(&rows));
    }
    assert_eq!(seen, (1..=25).map(|n| id(n).to_vec()).collect::<Vec<_>>());
    assert_eq!(ids(&list(world, &DuePage { priority: Some(4), ..first(10) }).await), [id(99).to_vec()]);
    world.open().await.take_one().await;
    assert_eq!(list(world, &DuePage { priority: Some(4), ..first(10) }).await, []);
}

async fn pages_of_all_priorities_are_one_list(world: &World) {
    // Five instants, each with jobs of three priorities: by instant, then priority, then id.
    let jobs: Vec<_> = (0..45u64)
        .map(|n| job(n).priority([7, 0, 5][n as usize % 3]).due(format!("@{}", 5_000_000_000_000 + n % 5)))
        .collect();
    world.create(&jobs).await;
    let mut wanted: Vec<(u64, u8, [u8; 16])> =
        (0..45u64).map(|n| (5_000_000_000_000 + n % 5, [7, 0, 5][n as usize % 3], id(n))).collect();
    wanted.sort_unstable();
    for limit in [1, 4, 7, 100] {
        let (mut seen, mut page) = (Vec::new(), DuePage { priority: None, ..first(limit) });
        loop {
            let rows = list(world, &page).await;
            let Some(last) = rows.last() else { break };
            page.after = Some(last.cursor());
            seen.extend(rows.iter().map(|row| (row.due_ms, row.priority, <[u8; 16]>::try_from(&row.id[..]).unwrap())));
        }
        assert_eq!(seen, wanted, "{limit} a page");
    }
}

async fn a_page_begins_at_an_instant(world: &World) {
    world.create(&(1..=6).map(|n| job(n).due(format!("@{}", 5_000_000_000_000 + n / 2))).collect::<Vec<_>>()).await;
    let from = |due_ms| Some(DueCursor { due_ms, priority: 0, id: Vec::new() });
    let page = DuePage { priority: None, after: from(5_000_000_000_002), limit: 10 };
    assert_eq!(ids(&list(world, &page).await), [id(4).to_vec(), id(5).to_vec(), id(6).to_vec()]);
    assert_eq!(list(world, &DuePage { after: from(5_000_000_000_004), ..page }).await, []);
}

async fn pages_go_on_after_a_job_that_is_gone(world: &World) {
    world.create(&(1..=6).map(|n| job(n).due(format!("@{}", 5_000_000_000_000 + n))).collect::<Vec<_>>()).await;
    let rows = list(world, &first(3)).await;
    world.store.cancel(&world.shard, &id(3)).await.unwrap();
    let rest = list(world, &next(3, &rows[2])).await;
    assert_eq!(ids(&rest), [id(4).to_vec(), id(5).to_vec(), id(6).to_vec()]);
}

async fn pages_show_records_even_where_one_is_missing(world: &World) {
    world.create(&[job(1), job(2).due("@2000")]).await;
    world.set_field("jobs", id(1), None).await;
    world.leaves_damage();
    let rows = list(world, &first(10)).await;
    assert_eq!((rows[0].due_ms, rows[0].record.len()), (1000, 0));
    let record = Record::decode(&rows[1].record).unwrap();
    assert_eq!((rows[1].due_ms, record.due_ms, &record.envelope[..]), (2000, 2000, &b"test 1\n{\"n\":2}"[..]));
}

async fn pages_keep_to_their_bounds(world: &World) {
    for limit in [0, 101] {
        assert_eq!(kind(world.store.due_list(&world.shard, &first(limit)).await), ErrorKind::InvalidArgument);
    }
    let beyond = DuePage { priority: Some(10), ..first(1) };
    assert_eq!(kind(world.store.due_list(&world.shard, &beyond).await), ErrorKind::InvalidArgument);
    // Seven of 1 MB: what is beyond 4 MiB comes with the next page.
    let large = |n| job(n).due(format!("@{}", 1000 + n)).envelope([b"test 1\n".to_vec(), vec![b'x'; 1 << 20]].concat());
    for n in 1..=7 {
        world.create(&[large(n)]).await;
    }
    let rows = list(world, &first(100)).await;
    assert_eq!(rows.len(), 3);
    assert_eq!(list(world, &next(100, &rows[2])).await.len(), 3);
}
