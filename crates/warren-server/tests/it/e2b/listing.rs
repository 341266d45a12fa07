use serde_json::{Value, json};

use super::{call, create, id_of, info, make};
use crate::support::{Answer, TestServer};

fn list(server: &TestServer, query: &str) -> Answer {
    call(server, "GET", &format!("/v2/sandboxes?{query}")).pass()
}

fn ids(answer: &Answer) -> Vec<String> {
    answer.json().as_array().expect("a list").iter().map(id_of).collect()
}

/// Sandboxes, each a second later than the one before.
fn make_some(server: &TestServer, count: usize) -> Vec<String> {
    let made = (0..count).map(|_| {
        server.clock.advance_s(1);
        make(server)
    });
    made.collect()
}

/// All pages, one after the other.
fn all_pages(server: &TestServer, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let answer = list(server, &format!("{query}{token}")).expect(200);
        pages.push(ids(&answer));
        match answer.header("x-next-token") {
            Some(next) => token = format!("&nextToken={next}"),
            None => return pages,
        }
    }
}

#[test]
fn pages_show_every_sandbox_once_in_either_order() {
    let server = TestServer::start();
    let made = make_some(&server, 5);
    let newest_first: Vec<_> = made.iter().rev().cloned().collect();
    let pages = all_pages(&server, "limit=2");
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(pages.concat(), newest_first);
    assert_eq!(all_pages(&server, "limit=2&order=asc").concat(), made);
    assert_eq!(all_pages(&server, "limit=5").len(), 1, "a full page is the last one if nothing follows");
    assert_eq!(list(&server, "limit=2").expect(200).header("x-total-running"), Some("5"));
    let token = list(&server, "limit=2").expect(200).header("x-next-token").unwrap().to_owned();
    for wrong in
        [format!("order=asc&nextToken={token}"), "nextToken=x".into(), "limit=0".into(), "limit=101".into()]
    {
        let refused = list(&server, &wrong).expect(400).json();
        assert_eq!(refused["code"], 400, "{wrong}");
    }
    assert!(list(&server, "order=up").expect(400).json()["message"].as_str().unwrap().contains("order"));
}

#[test]
fn states_are_told_apart() {
    let server = TestServer::start();
    let made = make_some(&server, 3);
    for (id, body) in [(&made[1], json!({})), (&made[2], json!({"memory": false}))] {
        call(&server, "POST", &format!("/sandboxes/{id}/pause")).json(&body).pass().expect(204);
    }
    let running = list(&server, "state=running").expect(200);
    assert_eq!((ids(&running), running.header("x-total-running")), (vec![made[0].clone()], Some("1")));
    let paused = list(&server, "state=paused").expect(200);
    assert_eq!(
        (ids(&paused), paused.header("x-total-running")),
        (vec![made[2].clone(), made[1].clone()], None)
    );
    for everything in ["", "state=running,paused", "state=running%2Cpaused", "state=paused&state=running"] {
        assert_eq!(ids(&list(&server, everything).expect(200)).len(), 3, "{everything}");
    }
    list(&server, "state=ready").expect(400);
    let early: Value = call(&server, "GET", "/sandboxes").pass().expect(200).json();
    assert_eq!(early.as_array().unwrap().iter().map(id_of).collect::<Vec<_>>(), [made[0].clone()]);
}

#[test]
fn metadata_is_compared_as_it_was_given() {
    let server = TestServer::start();
    let odd = id_of(&create(&server, json!({"metadata": {"a b": "c&d", "user": "ann"}})));
    let plain = id_of(&create(&server, json!({"metadata": {"user": "ann"}})));
    assert_eq!(ids(&list(&server, "metadata=a%252520b%3Dc%252526d").expect(200)), std::slice::from_ref(&odd));
    let mut both = ids(&list(&server, "metadata=user%3Dann").expect(200));
    both.sort();
    let mut expected = vec![odd.clone(), plain];
    expected.sort();
    assert_eq!(both, expected);
    let two = "metadata=user%3Dann%26a%252520b%3Dc%252526d";
    assert_eq!(ids(&list(&server, two).expect(200)), std::slice::from_ref(&odd));
    assert_eq!(ids(&list(&server, "metadata=user%3Dbob").expect(200)), [""; 0]);
    let early = call(&server, "GET", &format!("/sandboxes?{two}")).pass().expect(200);
    assert_eq!(ids(&early), [odd]);
    list(&server, "metadata=nonsense").expect(400);
}

#[test]
fn a_start_that_was_told_is_found_again() {
    let server = TestServer::start();
    let made = make_some(&server, 3);
    let started = info(&server, &made[1])["startedAt"].as_str().unwrap().to_owned();
    let found = ids(&list(&server, &format!("startedAfter={started}")).expect(200));
    assert_eq!(found, [made[2].clone(), made[1].clone()]);
    let python = started.replace('Z', "000%2B00:00");
    assert_eq!(ids(&list(&server, &format!("startedAfter={python}")).expect(200)), found);
    list(&server, "startedAfter=yesterday").expect(400);
}

#[test]
fn a_template_is_known_by_its_name() {
    let server = TestServer::start();
    let made = make_some(&server, 1);
    assert_eq!(ids(&list(&server, "template=base").expect(200)), made);
    assert_eq!(ids(&list(&server, "template=nobody").expect(200)), [""; 0]);
    list(&server, "template=base:latest").expect(400);
}
