//! Traffic of sandboxes' links.

use warren_core::NetworkMode;
use warren_face::Desk;

use super::text::Text;

const MODES: [NetworkMode; 4] =
    [NetworkMode::Public, NetworkMode::Allow, NetworkMode::Ask, NetworkMode::Learn];

pub(super) async fn write(desk: &Desk, text: &mut Text) {
    let (total, census) = (desk.engine.network_totals().await, desk.engine.network_census());
    text.gauge(
        "warren_network_available",
        "1 if sandboxes can have a network.",
        u8::from(desk.networks.unavailable().is_none()),
    );
    text.family("warren_network_links", "gauge", "Sandboxes that are linked to the world, by mode.");
    for mode in MODES {
        let count = census.links.get(&mode).copied().unwrap_or(0);
        text.sample("warren_network_links", &format!(r#"mode="{mode}""#), count);
    }
    text.family("warren_network_bytes_total", "counter", "Bytes over all links, as sandboxes see them.");
    text.sample("warren_network_bytes_total", r#"direction="received""#, total.received_bytes);
    text.sample("warren_network_bytes_total", r#"direction="sent""#, total.sent_bytes);
    text.family("warren_network_packets_total", "counter", "Packets over all links, as sandboxes see them.");
    text.sample("warren_network_packets_total", r#"direction="received""#, total.received_packets);
    text.sample("warren_network_packets_total", r#"direction="sent""#, total.sent_packets);
    text.counter("warren_network_denied_total", "What sandboxes tried and were refused.", total.denied);
    text.gauge("warren_network_proxied", "Connections through the proxy now.", total.proxied);
    text.gauge("warren_network_pending_requests", "What waits for somebody's answer.", census.pending);
}
