//! The edge between real clients and a real server, all on this machine's loopback.

mod clients;
mod origin;
mod requests;
mod sockets;

use std::net::SocketAddr;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use warren_core::catalog::SecretCatalog as _;
use warren_core::network::{Injection, NetworkPolicy, Secret, SecretRecord};
use warren_core::{Owner, SandboxId};
use warren_testkit::MemoryCatalog;

use super::*;
use origin::Origin;

pub(super) const VALUE: &str = "real-secret-4f9d2c61";
pub(super) const HOST: &str = "api.example";

/// A sandbox's way to one host: connections to `address` are intercepted.
struct World {
    data: TempDir,
    origin: Origin,
    edge: Arc<Edge>,
    catalog: Arc<MemoryCatalog>,
    guest: Arc<Guest>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl World {
    /// With a secret for the host, set in `Authorization`.
    async fn new() -> Self {
        Self::with(Injection::Header { header: "Authorization".to_owned(), template: "Bearer {}".to_owned() })
            .await
    }

    async fn with(injection: Injection) -> Self {
        let data = tempfile::tempdir().unwrap();
        let origin = Origin::start(&data.path().join("origin-ca")).await;
        let extra = data.path().join("origin-ca/ca.pem");
        Self::between(data, origin, Some(extra), injection).await
    }

    async fn between(data: TempDir, origin: Origin, extra_ca: Option<PathBuf>, injection: Injection) -> Self {
        let catalog = Arc::new(MemoryCatalog::new());
        let record = SecretRecord {
            name: "token".parse().unwrap(),
            hosts: vec![HOST.parse().unwrap()],
            injection,
            created_unix_ms: 1,
            changed_unix_ms: 1,
        };
        catalog.put_secret(&Owner::first(), &Secret { record, value: VALUE.to_owned() }).unwrap();
        let book = Arc::new(Book::default());
        let parts = EdgeParts {
            secrets: Arc::clone(&catalog) as Arc<dyn SecretCatalog>,
            book: Arc::clone(&book),
            authority: Arc::new(Authority::open(&data.path().join("ca")).unwrap()),
            extra_ca,
        };
        let edge = Arc::new(Edge::new(parts).unwrap());
        let policy = NetworkPolicy { secrets: vec!["token".parse().unwrap()], ..NetworkPolicy::public() };
        let guest = Guest::new(SandboxId::from_random([7; 16]), Owner::first(), Vec::new(), &[policy]);
        let guest = book.enter(guest);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Arc::clone(&edge), Arc::clone(&guest), origin.address));
        Self { data, origin, edge, catalog, guest, address, serving }
    }

    /// The certificates that a program in the sandbox has to trust.
    fn trusted(&self) -> PathBuf {
        self.data.path().join("ca/ca.pem")
    }

    fn set_policies(&self, policies: &[NetworkPolicy]) {
        self.guest.policies.send_replace(Arc::from(policies));
    }

    fn refused(&self) -> u64 {
        self.guest.figures.denied.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, edge: Arc<Edge>, guest: Arc<Guest>, origin: SocketAddr) {
    let port = listener.local_addr().unwrap().port();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (edge, guest) = (Arc::clone(&edge), Arc::clone(&guest));
        connections.spawn(async move {
            let dial: Dial = Arc::new(move || Box::pin(TcpStream::connect(origin)));
            drop(edge.intercept(&guest, &HOST.parse().unwrap(), port, client, dial).await);
        });
    }
}

#[tokio::test]
async fn a_host_is_bound_by_a_secret_that_the_policy_names() {
    let world = World::new().await;
    let (edge, guest) = (&world.edge, &world.guest);
    let binds = async |host: &str| edge.binds(guest, &host.parse().unwrap(), 443).await.unwrap();
    assert!(binds(HOST).await);
    assert!(!binds("other.example").await);
    assert!(!binds("www.api.example").await);
    world.catalog.fail_next_call("secrets", warren_core::catalog::CatalogErrorKind::Host);
    let error = edge.binds(guest, &HOST.parse().unwrap(), 443).await.unwrap_err();
    assert!(matches!(error, EdgeError::Catalog(_)), "{error}");
    // One that is gone still means its hosts, and one that was never there may mean any.
    world.catalog.remove_secret(&Owner::first(), &"token".parse().unwrap()).unwrap();
    assert!(binds(HOST).await);
    assert!(!binds("other.example").await);
    let never = NetworkPolicy { secrets: vec!["never".parse().unwrap()], ..NetworkPolicy::public() };
    world.set_policies(&[never]);
    let error = edge.binds(guest, &"other.example".parse().unwrap(), 443).await.unwrap_err();
    assert!(matches!(error, EdgeError::Gone(_)), "{error}");
    world.set_policies(&[NetworkPolicy::public()]);
    assert!(!binds(HOST).await);
}

#[tokio::test]
async fn a_binding_with_ports_is_for_these_ports() {
    let world = World::new().await;
    let mut secret = world.catalog.secret(&Owner::first(), &"token".parse().unwrap()).unwrap().unwrap();
    secret.record.hosts = vec!["api.example:443".parse().unwrap()];
    world.catalog.put_secret(&Owner::first(), &secret).unwrap();
    let binds = async |host: &str, port| world.edge.binds(&world.guest, &host.parse().unwrap(), port).await;
    assert!(binds(HOST, 443).await.unwrap());
    assert!(!binds(HOST, 8443).await.unwrap());
    assert!(!binds("www.api.example", 443).await.unwrap());
}

#[test]
fn plain_http_is_told_to_use_tls() {
    let response = Edge::refuse_plain(&HOST.parse().unwrap(), true);
    assert_eq!(response.status(), 403);
    let text = format!("{:?}", response.body());
    assert!(text.contains("secret_needs_tls") && text.contains("https://api.example"), "{text}");
}
