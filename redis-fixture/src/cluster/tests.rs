//! Clusters as a test uses them: they start, their slots move, and their replicas take over.

use super::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A vote without a winner is repeated after four node timeouts.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where nobody dies: a node that the machine keeps from its turn is not taken for dead.
const CALM: [&str; 2] = ["--cluster-node-timeout", "10000"];
/// Where a replica takes over: a death is seen after this, and a further vote begins after multiples of it.
const QUICK: [&str; 2] = ["--cluster-node-timeout", "3000"];

/// Waits until another node than this one serves a slot.
fn await_owner_other_than(cluster: &Cluster, slot: u16, before: usize) -> io::Result<usize> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match cluster.owner(slot) {
            Ok(owner) if owner != before => return Ok(owner),
            other if Instant::now() > deadline => return other,
            _ => std::thread::sleep(LOOK),
        }
    }
}

#[test]
fn a_cluster_of_primaries_and_replicas_starts() -> Outcome {
    let cluster = Cluster::start(3, 1, &CALM)?;
    assert_eq!(cluster.len(), 6);
    let addresses: Vec<String> = (0..6).map(|node| format!("127.0.0.1:{}", cluster.node(node).port())).collect();
    assert_eq!(cluster.url(), format!("redis-cluster://{}", addresses.join(",")));
    for primary in 0..3 {
        assert_eq!(cluster.replicas_of(primary)?, [primary + 3]);
        assert_eq!(cluster.replicas_of(primary + 3)?, []);
    }
    let owners = [0, 5460, 5461, 10921, 10922, 16383].map(|slot| cluster.owner(slot));
    assert_eq!(owners.into_iter().collect::<io::Result<Vec<_>>>()?, [0, 0, 1, 1, 2, 2]);
    // As the documentation of Redis Cluster has it.
    assert_eq!(cluster.slot("123456789")?, 0x31c3);
    assert_eq!(cluster.slot("a{123456789}b")?, 0x31c3);
    Ok(())
}

#[test]
fn a_slot_moves_with_its_keys() -> Outcome {
    for settings in [&[][..], &["--requirepass", "secret"]] {
        let cluster = Cluster::start(3, 0, &[&CALM, settings].concat())?;
        let slot = cluster.slot("{a}")?;
        let from = cluster.owner(slot)?;
        let to = (from + 1) % 3;
        for nth in 0..250 {
            assert_eq!(cluster.node(from).command(&["SET", &format!("{{a}}{nth}"), "kept"])?, "+OK\r\n");
        }

        cluster.begin_move(slot, from, to)?;
        let missing = cluster.node(from).command(&["GET", "{a}missing"])?;
        assert!(missing.starts_with("-ASK"), "{missing}");
        assert_eq!(cluster.node(from).command(&["GET", "{a}7"])?, "$4\r\nkept\r\n");
        cluster.move_keys(slot, from, to)?;
        let moved = cluster.node(from).command(&["GET", "{a}7"])?;
        assert!(moved.starts_with("-ASK"), "{moved}");
        assert_eq!(cluster.owner(slot)?, from);
        cluster.end_move(slot, from, to)?;

        assert_eq!(cluster.owner(slot)?, to);
        for nth in 0..250 {
            assert_eq!(cluster.node(to).command(&["GET", &format!("{{a}}{nth}")])?, "$4\r\nkept\r\n");
        }
        let moved = cluster.node(from).command(&["GET", "{a}7"])?;
        assert!(moved.starts_with(&format!("-MOVED {slot} 127.0.0.1:{}", cluster.node(to).port())), "{moved}");
        cluster.await_ok(PATIENCE)?;

        cluster.move_slot(slot, to, from)?;
        assert_eq!(cluster.owner(slot)?, from);
        assert_eq!(cluster.node(from).command(&["GET", "{a}7"])?, "$4\r\nkept\r\n");
    }
    Ok(())
}

#[test]
fn a_replica_takes_over_by_command_and_gives_back() -> Outcome {
    let cluster = Cluster::start(3, 1, &QUICK)?;
    for (replica, primary) in [(3, 0), (0, 3), (3, 0)] {
        cluster.failover(replica)?;
        assert_eq!(cluster.owner(0)?, replica);
        cluster.await_ok(PATIENCE)?;
        assert_eq!(cluster.replicas_of(replica)?, [primary]);
    }
    let text = cluster.failover(3).err().map(|error| error.to_string());
    assert!(text.as_ref().is_some_and(|text| text.contains("node 3 is no replica")), "{text:?}");
    Ok(())
}

#[test]
fn a_replica_takes_over_from_a_primary_that_died() -> Outcome {
    let mut cluster = Cluster::start(3, 1, &QUICK)?;
    let id = cluster.id(0)?;
    cluster.node_mut(0).kill();
    assert!(cluster.await_ok(Duration::ZERO).is_err(), "nobody serves the slots of the dead");
    assert_eq!(cluster.replicas_of(0)?, [3]);
    assert_eq!(await_owner_other_than(&cluster, 0, 0)?, 3);
    cluster.await_ok(PATIENCE)?;

    cluster.node_mut(0).restart()?;
    assert_eq!(cluster.id(0)?, id);
    cluster.await_ok(PATIENCE)?;
    assert_eq!(cluster.owner(0)?, 3);
    let deadline = Instant::now() + PATIENCE;
    while cluster.replicas_of(3)? != [0] {
        assert!(Instant::now() < deadline, "it didn't become a replica of who took its place");
        std::thread::sleep(LOOK);
    }
    Ok(())
}

#[test]
fn a_cluster_needs_a_primary() {
    assert!(Cluster::start(0, 1, &[]).is_err());
}
