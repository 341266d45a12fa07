//! A tour behind another wall and back.

use warren_core::{IsolationKind, WallChoice};
use warren_engine::{Engine, EngineError, StoppedFiles};

use super::Promises;
use crate::support::*;

/// A sandbox is moved while it runs, while it is stopped, and back; each time it writes.
pub(super) async fn through_walls(engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    let me = owner();
    let on_fake = warren_engine::Acquire { backend: Some("fake".to_owned()), ..acquire() };
    let id = engine.of(&me).sessions().acquire(on_fake).await?.sandbox.id;
    let write = async |text: &str| {
        promises.may_hold(&id, text);
        let result = exec(engine, &id, &format!("write /root/work {text}")).await?;
        assert_eq!(result.exit.code, 0);
        promises.holds(&id, text);
        Ok::<_, EngineError>(())
    };
    write("first").await?;
    engine.of(&me).sandbox(&id).move_to(WallChoice::tier(IsolationKind::UserKernel), false).await?;
    write("second").await?;
    engine.of(&me).sandbox(&id).stop(StoppedFiles::Keep).await?;
    engine.of(&me).sandbox(&id).move_to(WallChoice::backend("fake"), false).await?;
    engine.of(&me).sandbox(&id).resume().await?;
    write("third").await?;
    engine.of(&me).sandbox(&id).move_to(WallChoice::backend("wall"), false).await?;
    // As it is there, without having been written to.
    engine.of(&me).sandbox(&id).move_to(WallChoice::backend("fake"), false).await?;
    Ok(())
}
