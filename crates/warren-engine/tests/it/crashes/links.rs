//! A tour through the policies of a sandbox.

use warren_core::network::GrantEffect;
use warren_core::{NetworkMode, NetworkPolicy};
use warren_engine::{Engine, EngineError, Point, StoppedFiles};

use super::Promises;
use crate::networks::{asked, rules};
use crate::support::*;
use crate::travel::forks;

/// Every way to change where a sandbox may go.
pub(super) async fn through_policies(
    world: &World,
    engine: &Engine,
    promises: &Promises,
) -> Result<(), EngineError> {
    let me = owner();
    let id = &engine.acquire(&me, acquire()).await?.sandbox.id;
    super::work(engine, promises, id).await?;
    let list = NetworkPolicy { allow: rules(&["a.example"]), ..NetworkPolicy::of(NetworkMode::Allow) };
    engine.set_network(&me, id, list).await?;
    engine.allow(&me, id, rules(&["b.example:443"]), Some(60_000)).await?;
    engine.pause(&me, id).await?;
    engine.deny(&me, id, rules(&["a.example"]), None).await?;
    engine.resume(&me, id).await?;
    world.pass(engine, 61).await;
    let fork = &engine.fork(&me, &Point::Sandbox(id.clone()), forks(1)).await?[0].sandbox.id;
    promises.holds(fork, "precious");
    engine.set_network(&me, fork, NetworkPolicy::none()).await?;
    engine.stop(&me, id, StoppedFiles::Keep, "tour").await?;
    engine.set_network(&me, id, NetworkPolicy::of(NetworkMode::Ask)).await?;
    engine.resume(&me, id).await?;
    world.networks.act(id, asked("c.example", 443));
    let ask = engine.network_asks(&me, id).await?.remove(0);
    engine.answer_network_ask(&me, id, ask.number, GrantEffect::Allow, None).await?;
    promises.give_up(fork);
    engine.stop(&me, fork, StoppedFiles::Delete, "tour").await?;
    Ok(())
}

/// Every link obeys at least the policy that the record has.
pub(super) fn assert_none_is_loose(world: &World) {
    use warren_core::catalog::SandboxCatalog as _;
    for record in world.catalog.unfinished_sandboxes(&warren_testkit::sample_node()).unwrap() {
        let policies = world.networks.policies(&record.id);
        let obeys = |policies: &Vec<NetworkPolicy>| policies.contains(&record.spec.network);
        assert!(policies.as_ref().is_none_or(obeys), "{policies:?} is looser than {record:?}");
    }
}
