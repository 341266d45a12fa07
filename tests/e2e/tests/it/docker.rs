//! The backend `docker`, on an engine of the tests' own.

mod far;
mod network;
mod rig;
mod service;
mod snapshots;
mod walls;

use warren_testkit::conformance::conformance;

use self::rig::{DockerRig, STEPS, STEPS_ELSEWHERE};

#[test]
fn docker_is_a_backend() {
    let engine = warren_e2e::DockerEngine::new();
    conformance(|| DockerRig::new(&engine));
}

#[test]
fn an_engine_elsewhere_is_a_backend() {
    let engine = warren_e2e::DockerEngine::elsewhere();
    conformance(|| DockerRig::new(&engine));
}

/// A new step is a new point in the list, so a step that no deed passes cannot be.
#[test]
fn every_step_of_the_engine_is_one_of_the_suite_s() {
    let own = warren_isolate::CrashPoint::ALL.into_iter().filter(|point| point.name().starts_with("docker."));
    for point in own {
        let of_a_deed = STEPS.iter().chain(&STEPS_ELSEWHERE).any(|(_, steps)| steps.contains(&point.name()));
        assert!(of_a_deed || snapshots::STEPS.contains(&point.name()), "{}", point.name());
    }
}
