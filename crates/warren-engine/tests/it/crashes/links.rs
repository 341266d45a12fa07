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
    let id = &engine.of(&me).sessions().acquire(acquire()).await?.sandbox.id;
    super::work(engine, promises, id).await?;
    let list = NetworkPolicy { allow: rules(&["a.example"]), ..NetworkPolicy::of(NetworkMode::Allow) };
    engine.of(&me).sandbox(id).network().set(list).await?;
    engine.of(&me).sandbox(id).network().allow(rules(&["b.example:443"]), Some(60_000)).await?;
    engine.of(&me).sandbox(id).pause().await?;
    engine.of(&me).sandbox(id).network().deny(rules(&["a.example"]), None).await?;
    engine.of(&me).sandbox(id).resume().await?;
    world.pass(engine, 61).await;
    let fork = &engine.of(&me).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await?[0].sandbox.id;
    promises.holds(fork, "precious");
    engine.of(&me).sandbox(fork).network().set(NetworkPolicy::none()).await?;
    engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await?;
    engine.of(&me).sandbox(id).network().set(NetworkPolicy::of(NetworkMode::Ask)).await?;
    engine.of(&me).sandbox(id).resume().await?;
    world.networks.act(id, asked("c.example", 443));
    let ask = engine.of(&me).sandbox(id).network().asks().await?.remove(0);
    engine.of(&me).sandbox(id).network().answer(ask.number, GrantEffect::Allow, None).await?;
    promises.give_up(fork);
    engine.of(&me).sandbox(fork).stop(StoppedFiles::Delete).await?;
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
