//! Members come, go, crash and come back: who has which partition, and what it is told.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vltava_conformance::driver::Driver;
use vltava_conformance::group::{HEARTBEAT, Joining, Protocol, SESSION};
use vltava_conformance::suite::Suite;

use crate::scene::{PARTITIONS, Part, Scene, wait};

/// One member joins and reads; a second joins and they share; the first leaves and the second has all. Every
/// record is read once, as each commits before the group changes. Whoever assigns does it by ranges, a member of the
/// group or the coordinator; [`cooperative`] has what disturbs least.
pub(crate) fn life(suite: &Suite, name: &str, first: &Part, second: &Part) -> Result<()> {
    let mut scene = Scene::new(suite, name, first, 3)?;
    suite.tell(&first.client, |one| {
        suite.tell(&second.client, |two| {
            one.join(&by_range(&scene, first))?;
            scene.wait_until_shared(&mut [one])?;
            scene.wait_until_read(&mut [one], 0)?;
            scene.commit(&mut [one])?;
            scene.check_committed(one, &[Some(3); PARTITIONS as usize])?;

            two.join(&by_range(&scene, second))?;
            scene.wait_until_shared(&mut [one, two])?;
            scene.write(1)?;
            scene.wait_until_read(&mut [one, two], 0)?;
            scene.commit(&mut [one, two])?;

            one.leave()?;
            scene.wait_until_shared(&mut [two])?;
            scene.write(1)?;
            scene.wait_until_read(&mut [two], 4)?;
            scene.commit(&mut [two])?;
            two.leave()?;
            scene.wait_until_read(&mut [one, two], 0)?;
            scene.check_committed(two, &[Some(5); PARTITIONS as usize])
        })
    })
}

fn by_range<'a>(scene: &'a Scene<'_>, part: &Part) -> Joining<'a> {
    scene.joining(part).assigned_by("range")
}

/// Of classic members that crash: so long that what takes a session cannot be taken for what takes heartbeats.
const LONG_SESSION: Duration = Duration::from_secs(20);

/// What a member had that crashes is another's, once it had the time of two heartbeats to be heard over another
/// connection: its machine tells that it hung up. Others than our nodes wait for the end of its session.
pub(crate) fn crash(suite: &Suite, part: &Part) -> Result<()> {
    let mut scene = Scene::new(suite, "crash", part, 1)?;
    let mut crashing = Driver::start(&part.client, &suite.bootstrap()?)?;
    let session = if part.protocol == Protocol::Classic { LONG_SESSION } else { SESSION };
    // It comes first, so that how often it is heard is known: who was never heard has two thirds of its session.
    crashing.join(&scene.joining(part).with_session(session))?;
    scene.wait_until_shared(&mut [&mut crashing])?;
    scene.wait_until_read(&mut [&mut crashing], 0)?;
    scene.commit(&mut [&mut crashing])?;
    suite.tell(&part.client, |left| {
        left.join(&scene.joining(part).with_session(session))?;
        scene.wait_until_shared(&mut [left, &mut crashing])?;

        let killed = Instant::now();
        crashing.kill()?;
        scene.wait_until_shared(&mut [left])?;
        let passed = killed.elapsed();
        ensure!(passed > 2 * HEARTBEAT, "its partitions are another's after {passed:?}");
        ensure!(
            passed < session || !suite.is_ours()?,
            "its partitions are another's after {passed:?}: its session was waited for"
        );
        scene.write(1)?;
        scene.wait_until_read(&mut [left], 1)?;
        left.leave()
    })
}

/// A static member goes and comes back under its name: it has what it had, and the others do not notice.
pub(crate) fn static_restart(suite: &Suite, part: &Part) -> Result<()> {
    let mut scene = Scene::new(suite, "static", part, 1)?;
    suite.tell(&part.client, |other| {
        suite.tell(&part.client, |restarts| {
            other.join(&scene.joining(part))?;
            scene.wait_until_shared(&mut [other])?;
            scene.wait_until_read(&mut [other], 0)?;
            scene.commit(&mut [other])?;
            let instance = format!("{}-instance", scene.topic);
            let mut joining = scene.joining(part);
            joining.instance = Some(&instance);
            restarts.join(&joining)?;
            let seen = scene.wait_until_shared(&mut [other, restarts])?;
            let (changes, owned) = (seen[0].changes(), seen[1].owns());

            restarts.leave()?;
            scene.write(1)?;
            let mut joining = scene.joining(part);
            joining.instance = Some(&instance);
            restarts.join(&joining)?;
            wait(&mut [restarts], "it has what it had", |seen| seen[0].owns() == owned)?;
            scene.write(1)?;
            scene.wait_until_read(&mut [other, restarts], 1)?;
            let seen = other.member()?;
            ensure!(seen.changes() == changes, "the other one noticed: {seen:?}");
            other.leave()?;
            restarts.leave()
        })
    })
}

/// A member keeps what need not move, and reads on.
pub(crate) fn cooperative(suite: &Suite, part: &Part) -> Result<()> {
    let mut scene = Scene::new(suite, "cooperative", part, 1)?;
    let assignor = if part.protocol == Protocol::Classic { "cooperative-sticky" } else { "uniform" };
    suite.tell(&part.client, |stays| {
        suite.tell(&part.client, |comes| {
            let topic = scene.topic.clone();
            let mut joining = Joining::new(&topic, &topic, part.protocol);
            joining.assignor = assignor;
            stays.join(&joining)?;
            scene.wait_until_shared(&mut [stays])?;
            scene.wait_until_read(&mut [stays], 0)?;
            scene.commit(&mut [stays])?;

            comes.join(&joining)?;
            let seen = scene.wait_until_shared(&mut [stays, comes])?;
            let (kept, moved) = (seen[0].owns(), seen[1].owns());
            ensure!(seen[0].gave_up() == moved, "more than {moved:?} was given up: {:?}", seen[0]);
            scene.write(1)?;
            scene.wait_until_read(&mut [stays, comes], 0)?;
            scene.commit(&mut [stays, comes])?;

            comes.leave()?;
            let seen = scene.wait_until_shared(&mut [stays])?;
            ensure!(seen[0].gave_up() == moved, "{kept:?} was not kept: {:?}", seen[0]);
            scene.write(1)?;
            scene.wait_until_read(&mut [stays, comes], 0)?;
            stays.leave()
        })
    })
}
