//! The fate of a question, by policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use warren_core::network::{NetworkMode, NetworkPolicy};

use super::support::*;
use crate::dns::question::{Carrier, Question};

const GATEWAY: &str = "169.254.77.1";

fn anything() -> impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static {
    |request, _| {
        let name = request.queries[0].name.to_string();
        let texts = [format!("{name} 300 A 192.0.2.1"), format!("{name} 300 TXT hello")];
        vec![answered(request, &texts.map(|text| record(&text))).to_vec().unwrap()]
    }
}

#[tokio::test]
async fn an_allowed_name_is_asked_in_our_own_words_and_pinned() {
    let world = World::new(policy(NetworkMode::Allow, &["*.example"], &[]), anything()).await;
    let mut asked = extended(question("wWw.eXaMpLe", RecordType::A), 4096);
    let option = hickory_proto::rr::rdata::opt::EdnsOption::Unknown(65001, b"secret".to_vec());
    asked.edns.as_mut().unwrap().options_mut().insert(option);
    let answer = world.ask_with(&asked, Carrier::Packet).await;
    assert_eq!(shown(&answer), ["wWw.eXaMpLe. 300 A 192.0.2.1"], "the client compares what it asked");
    assert!(answer.queries[0].name.eq_case(&asked.queries[0].name));
    assert!(answer.recursion_available && !answer.authoritative && !answer.truncation);
    assert!(world.pinned("www.example", "192.0.2.1"));
    let (_, sent) = world.fake.asked().pop().unwrap();
    assert_eq!(sent.queries[0].name.to_ascii(), "www.example.", "not even the case leaves");
    assert!(sent.edns.as_ref().unwrap().options().as_ref().is_empty(), "nor do options");
    assert_ne!(sent.id, asked.id);
    assert_eq!(world.told(), ["Allowed www.example allow *.example"]);
}

#[tokio::test]
async fn a_name_that_is_not_allowed_leaves_nothing_but_an_entry() {
    let world = World::new(policy(NetworkMode::Allow, &["ok.example"], &[]), anything()).await;
    let answer = world.ask("c2VjcmV0.evil.example", RecordType::A).await;
    assert_eq!(shown(&answer), [format!("c2VjcmV0.evil.example. 1 A {GATEWAY}")]);
    for wanted in
        [RecordType::AAAA, RecordType::TXT, RecordType::HTTPS, RecordType::MX, RecordType::Unknown(4711)]
    {
        let answer = world.ask("evil.example", wanted).await;
        assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::NoError, 0), "{wanted}");
    }
    assert_eq!(world.fake.heard(), [""; 0]);
    assert!(!world.pinned("evil.example", GATEWAY));
    let told =
        ["c2vjcmv0.evil.example", "evil.example"].map(|name| format!("Denied {name} not in the allow list"));
    assert_eq!(world.told(), told, "those that are alike are told together");
}

#[tokio::test]
async fn a_name_to_be_asked_about_leads_to_the_gateway_and_is_told_by_the_connection() {
    let world = World::new(policy(NetworkMode::Ask, &["ok.example"], &[]), anything()).await;
    assert_eq!(
        shown(&world.ask("new.example", RecordType::A).await),
        [format!("new.example. 1 A {GATEWAY}")]
    );
    assert!(world.ask("new.example", RecordType::AAAA).await.answers.is_empty());
    assert!(world.fake.heard().is_empty() && world.told().is_empty());
    assert_eq!(shown(&world.ask("ok.example", RecordType::A).await), ["ok.example. 300 A 192.0.2.1"]);
}

#[tokio::test]
async fn a_policy_that_changes_is_followed_at_once() {
    let world = World::new(policy(NetworkMode::Allow, &[], &[]), anything()).await;
    world.ask("a.example", RecordType::A).await;
    world.guest.policies.send_replace(Arc::from([policy(NetworkMode::Allow, &["a.example"], &[])]));
    assert_eq!(shown(&world.ask("a.example", RecordType::A).await), ["a.example. 300 A 192.0.2.1"]);
    let both =
        [policy(NetworkMode::Allow, &["a.example"], &[]), policy(NetworkMode::Public, &[], &["a.example"])];
    world.guest.policies.send_replace(Arc::from(both));
    assert_eq!(shown(&world.ask("a.example", RecordType::A).await), [format!("a.example. 1 A {GATEWAY}")]);
    assert_eq!(world.fake.heard().len(), 1);
}

#[tokio::test]
async fn nobody_asks_anything_without_a_network() {
    let world = World::new(NetworkPolicy::none(), anything()).await;
    let answer = world.ask("a.example", RecordType::A).await;
    assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::Refused, 0));
    world.book.leave(&world.guest.id);
    assert_eq!(world.ask("a.example", RecordType::A).await.response_code, ResponseCode::Refused);
    assert!(world.fake.heard().is_empty());
}

#[tokio::test]
async fn a_denied_name_is_closed_where_all_is_open() {
    let world =
        World::new(policy(NetworkMode::Public, &[], &["*.evil.example", "evil.example"]), anything()).await;
    for name in ["evil.example", "EVIL.example", "a.b.evil.example"] {
        let answer = world.ask(name, RecordType::A).await;
        assert_eq!(shown(&answer), [format!("{name}. 1 A {GATEWAY}")]);
    }
    assert!(world.fake.heard().is_empty());
    assert_eq!(world.told()[0], "Denied evil.example deny evil.example");
    assert_eq!(world.told()[1], "Denied a.b.evil.example deny *.evil.example");
    assert_eq!(shown(&world.ask("evil-example", RecordType::A).await), ["evil-example. 300 A 192.0.2.1"]);
}

#[tokio::test]
async fn an_alias_is_no_way_around_a_rule_that_denies() {
    let chain = records(&[
        "good.example 60 CNAME cdn.example",
        "cdn.example 60 CNAME x.evil.example",
        "x.evil.example 60 A 192.0.2.66",
    ]);
    let world = World::new(policy(NetworkMode::Public, &[], &["*.evil.example"]), always(chain)).await;
    let answer = world.ask("good.example", RecordType::A).await;
    assert_eq!(shown(&answer), [format!("good.example. 1 A {GATEWAY}")]);
    assert!(!world.pinned("good.example", "192.0.2.66"));
    assert_eq!(world.told().last().unwrap(), "Denied good.example deny *.evil.example");
    let resolved = world.names.upstream.resolve(&host("good.example")).await.unwrap();
    assert!(crate::dns::denied_alias(&world.book, &world.guest, &resolved.aliases).is_some());
}

#[tokio::test]
async fn allowed_questions_are_told_where_allowed_connections_are() {
    for (policy, told) in [
        (NetworkPolicy::public(), 0),
        (policy(NetworkMode::Public, &[], &["evil.example"]), 0),
        (NetworkPolicy::of(NetworkMode::Learn), 1),
        (policy(NetworkMode::Ask, &["a.example"], &[]), 1),
    ] {
        let world = World::new(policy, anything()).await;
        world.ask("a.example", RecordType::A).await;
        assert_eq!(world.told().len(), told);
    }
}

#[tokio::test]
async fn some_names_mean_the_same_everywhere() {
    let world = World::new(NetworkPolicy::public(), anything()).await;
    assert_eq!(shown(&world.ask("localhost", RecordType::A).await), ["localhost. 1 A 127.0.0.1"]);
    assert_eq!(shown(&world.ask("app.LOCALHOST", RecordType::AAAA).await), ["app.LOCALHOST. 1 AAAA ::1"]);
    assert!(world.ask("localhost", RecordType::TXT).await.answers.is_empty());
    assert_eq!(world.ask("x.invalid", RecordType::A).await.response_code, ResponseCode::NXDomain);
    assert_eq!(world.ask("x.onion", RecordType::A).await.response_code, ResponseCode::NXDomain);
    assert!(world.fake.heard().is_empty());
    assert_eq!(shown(&world.ask("notlocalhost", RecordType::A).await).len(), 1);
}

#[tokio::test]
async fn types_that_lead_around_the_proxies_have_no_records() {
    let world = World::new(NetworkPolicy::public(), anything()).await;
    for wanted in
        [RecordType::HTTPS, RecordType::SVCB, RecordType::DNAME, RecordType::NULL, RecordType::Unknown(42)]
    {
        let answer = world.ask("a.example", wanted).await;
        assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::NoError, 0), "{wanted}");
    }
    let meta = [
        RecordType::ANY,
        RecordType::AXFR,
        RecordType::IXFR,
        RecordType::OPT,
        RecordType::TSIG,
        RecordType::ZERO,
    ];
    for wanted in meta.into_iter().chain([249, 253, 254, 128].map(RecordType::from)) {
        assert_eq!(world.ask("a.example", wanted).await.response_code, ResponseCode::Refused, "{wanted}");
    }
    let mut chaos = question("version.bind", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(world.ask_with(&chaos, Carrier::Packet).await.response_code, ResponseCode::Refused);
    assert!(world.fake.heard().is_empty());
}

#[tokio::test]
async fn addresses_have_names_only_where_all_is_open_and_closed_ones_never() {
    let world = World::with_exceptions(NetworkPolicy::public(), &["10.1.0.0/16"], anything()).await;
    for name in ["1.2.0.192.in-addr.arpa", "192.in-addr.arpa", "in-addr.arpa", "5.0.1.10.in-addr.arpa"] {
        assert_eq!(world.ask(name, RecordType::PTR).await.response_code, ResponseCode::NoError, "{name}");
    }
    let heard = world.fake.heard().len();
    assert_eq!(heard, 4);
    let loopback = format!("1.{}ip6.arpa", "0.".repeat(31));
    for name in [
        "254.169.254.169.in-addr.arpa",
        "1.0.0.10.in-addr.arpa",
        "0.10.in-addr.arpa",
        "_ldap._tcp.3.0.10.in-addr.arpa",
        "0-63.3.0.10.in-addr.arpa",
        "9.8.7.1.0.0.10.in-addr.arpa",
        "d.f.ip6.arpa",
        "1.0.0.0.8.e.f.ip6.arpa",
        &loopback,
    ] {
        assert_eq!(world.ask(name, RecordType::PTR).await.response_code, ResponseCode::NXDomain, "{name}");
        assert_eq!(world.ask(name, RecordType::SRV).await.response_code, ResponseCode::NXDomain, "{name}");
    }
    assert_eq!(world.fake.heard().len(), heard);
    let closed = World::new(policy(NetworkMode::Allow, &["a.example"], &[]), anything()).await;
    let answer = closed.ask("1.2.0.192.in-addr.arpa", RecordType::PTR).await;
    assert_eq!(answer.response_code, ResponseCode::NXDomain);
    assert_eq!(closed.ask("1.2.0.192.in-addr.arpa", RecordType::A).await.answers.len(), 0);
    assert!(closed.fake.heard().is_empty());
}

#[tokio::test]
async fn what_is_no_host_name_is_asked_of_nobody() {
    let world = World::new(policy(NetworkMode::Public, &[], &["*.evil.example"]), anything()).await;
    let odd: [&[&[u8]]; 7] = [
        &[b"a b", b"evil", b"example"],
        &[b"x.y", b"example"],
        &[b"x.evil.example"],
        &[b"\0", b"example"],
        &[b"\xff\xfe", b"example"],
        &[b"-a", b"example"],
        &[b"127", b"1"],
    ];
    for labels in odd {
        let mut asked = question("x", RecordType::TXT);
        asked.queries =
            vec![Query::query(Name::from_labels(labels.iter().copied()).unwrap(), RecordType::TXT)];
        let answer = world.ask_with(&asked, Carrier::Packet).await;
        assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::NXDomain, 0), "{labels:?}");
    }
    assert!(world.fake.heard().is_empty());
    assert_eq!(world.told().len(), odd.len());
}

#[tokio::test]
async fn the_root_is_asked_about_where_all_is_open() {
    let mut asked = question("x", RecordType::NS);
    asked.queries = vec![Query::query(Name::root(), RecordType::NS)];
    let open = World::new(NetworkPolicy::public(), anything()).await;
    open.ask_with(&asked, Carrier::Packet).await;
    assert_eq!(open.fake.heard(), [". NS"]);
    let closed = World::new(policy(NetworkMode::Allow, &["a.example"], &[]), anything()).await;
    closed.ask_with(&asked, Carrier::Packet).await;
    asked.queries[0].set_query_type(RecordType::A);
    open.ask_with(&asked, Carrier::Packet).await;
    assert!(closed.fake.heard().is_empty() && open.fake.heard().len() == 1);
}

#[tokio::test]
async fn what_is_no_question_gets_the_code_for_it_or_silence() {
    let world = World::new(NetworkPolicy::public(), anything()).await;
    let code = async |bytes: Vec<u8>| {
        let answer = world.names.respond(&world.guest, &bytes, Carrier::Packet).await;
        answer.map(|bytes| u16::from(Message::from_vec(&bytes).unwrap().response_code))
    };
    let asked = question("a.example", RecordType::A);
    let whole = asked.to_vec().unwrap();
    assert_eq!(code(Vec::new()).await, None);
    assert_eq!(code(whole[..11].to_vec()).await, None);
    assert_eq!(code(whole[..20].to_vec()).await, Some(ResponseCode::FormErr.into()));
    assert_eq!(code(asked.clone().into_response().to_vec().unwrap()).await, None, "no loop of answers");
    let mut update = asked.clone();
    update.metadata.op_code = OpCode::Update;
    assert_eq!(code(update.to_vec().unwrap()).await, Some(ResponseCode::NotImp.into()));
    let mut two = asked.clone();
    two.add_query(asked.queries[0].clone());
    assert_eq!(code(two.to_vec().unwrap()).await, Some(ResponseCode::FormErr.into()));
    let mut none = asked.clone();
    none.queries.clear();
    assert_eq!(code(none.to_vec().unwrap()).await, Some(ResponseCode::FormErr.into()));
    let mut newer = extended(asked, 1232);
    newer.edns.as_mut().unwrap().set_version(1);
    assert_eq!(code(newer.to_bytes().unwrap()).await, Some(ResponseCode::BADVERS.into()));
    assert!(world.fake.heard().is_empty());
}

/// Counts what is logged.
#[derive(Default)]
struct Log(Arc<AtomicUsize>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() <= tracing::Level::INFO {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_sandbox_cannot_fill_the_log() {
    let logged = Arc::new(AtomicUsize::new(0));
    // Options of EDNS that end too early, which the library has an opinion on.
    let mut asked = extended(question("a.example", RecordType::A), 1232).to_vec().unwrap();
    let length = asked.len() - 2;
    asked[length..].copy_from_slice(&[0, 6]);
    asked.extend([0xfd, 0xe9, 0, 5, 1, 2]);
    tracing::subscriber::with_default(Log(Arc::clone(&logged)), || {
        drop(Message::from_vec(&asked));
        assert_eq!(logged.swap(0, Ordering::Relaxed), 1, "it does");
        assert!(Question::read(&asked).is_ok());
    });
    assert_eq!(logged.load(Ordering::Relaxed), 0);
}
