use std::thread;

use warren_core::catalog::{Catalog, InsertError};

use super::super::records::sample_session;
use super::{Check, ann, bob, here, insert, key, new};

const DAY_MS: u64 = 24 * 3600 * 1000;

pub(super) const CHECKS: &[Check] = &[
    a_key_is_used_once_and_says_what_for,
    a_key_serves_later_sessions_too,
    of_many_at_once_one_wins,
    keys_are_forgotten_after_a_day,
];

fn a_key_is_used_once_and_says_what_for(catalog: &dyn Catalog) {
    let mut first = new(&ann(), 1);
    let word = key(&first, "word", 1000);
    first.idempotency = Some(word.clone());
    catalog.insert(first).expect("it is new");
    assert_eq!(catalog.remembered(&ann(), "word").expect("a query"), Some(word.clone()));
    assert_eq!(catalog.remembered(&ann(), "other").expect("a query"), None);

    let mut second = new(&ann(), 2);
    second.idempotency = Some(key(&second, "word", 2000));
    match catalog.insert(second.clone()) {
        Err(InsertError::Repeated(earlier)) => assert_eq!(earlier, word),
        other => panic!("{other:?}"),
    }
    assert_eq!(catalog.sandbox(&ann(), &second.sandbox.id).expect("a query"), None);

    let mut theirs = new(&bob(), 3);
    theirs.idempotency = Some(key(&theirs, "word", 2000));
    assert_eq!(catalog.remembered(&bob(), "word").expect("a query"), None);
    catalog.insert(theirs.clone()).expect("another owner's key is another key");
    assert_eq!(catalog.remembered(&bob(), "word").expect("a query"), theirs.idempotency);
}

fn a_key_serves_later_sessions_too(catalog: &dyn Catalog) {
    let mut first = insert(catalog, &ann(), 1);
    first.session = sample_session(&first.sandbox, 11);
    let word = key(&first, "word", 1000);
    catalog.insert_session(&first.session, Some(&word)).expect("the sandbox is there");
    let mut second = first.clone();
    second.session = sample_session(&first.sandbox, 12);
    match catalog.insert_session(&second.session, Some(&key(&second, "word", 1000))) {
        Err(InsertError::Repeated(earlier)) => assert_eq!(earlier, word),
        other => panic!("{other:?}"),
    }
    assert_eq!(catalog.session(&ann(), &second.session.id).expect("a query"), None);
    let mut third = new(&ann(), 13);
    third.idempotency = Some(key(&third, "word", 1000));
    assert!(matches!(catalog.insert(third), Err(InsertError::Repeated(_))), "one set of keys for both");
}

fn of_many_at_once_one_wins(catalog: &dyn Catalog) {
    const THREADS: u32 = 16;
    let attempt = |number: u32| {
        let mut new = new(&ann(), number);
        new.idempotency = Some(key(&new, "word", 1000));
        let session = new.session.id.clone();
        match catalog.insert(new) {
            Ok(()) => (true, session),
            Err(InsertError::Repeated(earlier)) => (false, earlier.session),
            Err(InsertError::Catalog(error)) => panic!("{error:?}"),
        }
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (1..=THREADS).map(|number| scope.spawn(move || attempt(number))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    assert_eq!(answers.iter().filter(|(won, _)| *won).count(), 1);
    assert!(answers.windows(2).all(|pair| pair[0].1 == pair[1].1), "all are told of the one session");
    assert_eq!(catalog.unfinished_sandboxes(&here()).expect("a query").len(), 1);
    assert_eq!(catalog.open_sessions(&here()).expect("a query").len(), 1);
}

fn keys_are_forgotten_after_a_day(catalog: &dyn Catalog) {
    let mut first = new(&ann(), 1);
    first.idempotency = Some(key(&first, "word", 1000));
    catalog.insert(first).expect("it is new");
    let mut repeat = new(&ann(), 2);
    repeat.idempotency = Some(key(&repeat, "word", 1000 + DAY_MS));
    assert!(matches!(catalog.insert(repeat.clone()), Err(InsertError::Repeated(_))));
    repeat.idempotency = Some(key(&repeat, "word", 1001 + DAY_MS));
    catalog.insert(repeat.clone()).expect("the key is a day old");
    assert_eq!(catalog.remembered(&ann(), "word").expect("a query"), repeat.idempotency);

    let mut other = new(&bob(), 3);
    other.idempotency = Some(key(&other, "other", 3000 + 3 * DAY_MS));
    catalog.insert(other).expect("it is new");
    assert_eq!(catalog.remembered(&ann(), "word").expect("a query"), None, "any insert forgets old ones");
    catalog.forget_sandboxes(&here(), 5000 + 4 * DAY_MS).expect("a change");
    assert_eq!(catalog.remembered(&bob(), "other").expect("a query"), None);
}
