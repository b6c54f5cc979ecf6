//! Looks whether the server deletes keys when its memory is full: jobs would be among them.

use redis::aio::MultiplexedConnection;

use super::target::Target;

/// Warns of a server that would delete jobs. One that doesn't let this user ask is not asked again.
pub(super) async fn warn(connection: &mut MultiplexedConnection, target: &Target) {
    let info: redis::RedisResult<String> = redis::cmd("INFO").arg("memory").query_async(connection).await;
    match info {
        Ok(info) => {
            if let Some(policy) = evicting(&info) {
                tracing::warn!(
                    server = %target,
                    policy,
                    "the server deletes keys when its memory is full, jobs among them: set its maxmemory-policy to noeviction"
                );
            }
        }
        Err(error) => tracing::debug!(server = %target, ?error, "the server doesn't say whether it deletes keys"),
    }
}

/// The policy, if it deletes keys that have no time to live, as those of delayq, and has a limit to do so at.
fn evicting(info: &str) -> Option<&str> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let limited = field("maxmemory").is_some_and(|bytes| bytes != "0");
    field("maxmemory_policy").filter(|policy| limited && policy.starts_with("allkeys-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_policy_that_takes_keys_without_a_time_to_live_is_warned_of() {
        let info = |max: &str, policy: &str| {
            format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{max}\r\nmaxmemory_human:0B\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "allkeys-of-a-later-release"] {
            assert_eq!(evicting(&info("1000", policy)), Some(policy));
            assert_eq!(evicting(&info("0", policy)), None, "without a limit nothing is deleted");
        }
        for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
            assert_eq!(evicting(&info("1000", policy)), None);
        }
        assert_eq!(evicting(""), None);
    }
}
