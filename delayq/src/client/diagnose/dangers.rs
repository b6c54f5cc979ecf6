//! What endangers jobs on a server: looked at when a worker starts.

use futures_util::future::{join, join_all};

use super::super::Client;
use super::{Finding, Level, memory, replication, rights, server};
use crate::error::{Error, ErrorKind};
use crate::store::{Info, Shard, Store, Told};

/// Something that a worker should not be started over.
pub(crate) struct Danger {
    /// What was found, and what to do.
    pub(crate) finding: Finding,
    /// The kind of error it is for who refuses to start.
    pub(crate) kind: ErrorKind,
    /// Whether connecting has warned of it already.
    pub(crate) was_told: bool,
}

/// What each server says of itself, those left out that don't; and those of several that don't answer, if the queue is on one of
/// them the scripts will say so.
async fn infos(store: &Store) -> Result<Vec<(Option<String>, Info)>, Error> {
    let servers = store.servers().await?;
    let asked = join_all(servers.iter().map(|(_, server)| server.info())).await;
    let mut told = Vec::new();
    for ((name, _), info) in servers.into_iter().zip(asked) {
        match info {
            Ok(Told::Answer(info)) => told.push((name, info)),
            Ok(_) => {}
            Err(error) if name.is_none() => return Err(error),
            Err(error) => tracing::debug!(?name, %error, "a node of the cluster doesn't say what it is"),
        }
    }
    Ok(told)
}

impl Client {
    /// Asks two questions at once: a policy that deletes jobs, a version that is too old, a replica, a right that is missing, scripts
    /// that can't run. What isn't told is no danger.
    ///
    /// # Errors
    /// The store doesn't answer, or can't be worked with at the moment.
    pub(crate) async fn dangers(&self, shard: &Shard) -> Result<Vec<Danger>, Error> {
        // Over a connection of its own: what users ask meanwhile finds the pool as it would be without a worker.
        let store = self.store().in_order();
        let (infos, probed) = join(infos(&store), store.probe(shard)).await;
        let mut dangers = Vec::new();
        for (name, info) in infos? {
            // A node of a cluster that was demoted just now is no matter: another one has its slots.
            let role = replication::role(&info).filter(|_| name.is_none());
            let found = [server::version(&info), Some(memory::policy(&info)), role];
            for finding in found.into_iter().flatten().filter(|finding| finding.level == Level::Wrong) {
                let finding = finding.of_server(name.as_deref());
                let was_told = finding.check == memory::POLICY && memory::connecting_warns(&info);
                dangers.push(Danger { finding, kind: ErrorKind::Unsupported, was_told });
            }
        }
        match probed {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Denied => {
                let finding = Finding::said(rights::RIGHTS, Level::Wrong, &error);
                dangers.push(Danger { finding, kind: ErrorKind::Denied, was_told: false });
            }
            // A replica refuses to write; where INFO says what it is, that is told already.
            Err(error) if error.to_string().contains("READONLY") => {
                if !dangers.iter().any(|danger| danger.finding.check == replication::ROLE) {
                    let finding = Finding::said(replication::ROLE, Level::Wrong, &error);
                    dangers.push(Danger { finding, kind: ErrorKind::Unsupported, was_told: false });
                }
            }
            Err(error) if error.is_temporary() => return Err(error),
            // It doesn't pass by waiting, such as a key of another program's.
            Err(error) => {
                let finding = Finding::said(rights::SCRIPTS, Level::Wrong, &error);
                dangers.push(Danger { finding, kind: error.kind(), was_told: false });
            }
        }
        Ok(dangers)
    }
}
