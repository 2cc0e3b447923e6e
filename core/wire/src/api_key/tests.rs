use super::*;

/// What a listener of Apache Kafka 4.4.0 for clients says of itself, as captured; without the keys of
/// telemetry, which it tells only if it has a receiver.
const CAPTURED: &str = "0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 \
    15:0-6 16:0-5 17:0-1 18:0-5 19:2-7 20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-6 \
    29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2 35:1-5 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-3 \
    43:0-2 44:0-1 45:0-1 46:0 47:0 48:0-1 49:0-1 50:0 51:0 55:0-2 57:0-2 60:0-2 61:0 64:0 65:0 66:0-2 \
    68:0-1 69:0-1 74:0-1 75:0 76:1 77:1 78:1-2 79:1-2 80:0-1 81:0 83:0 84:0 85:0-1 86:0 87:0-1 88:0-1 \
    89:0-1 90:0-1 91:0 92:0 93:0 94:0";

#[test]
fn the_table_is_what_kafka_tells_clients() {
    let mut told = Vec::new();
    for key in ApiKey::ALL.iter().filter(|key| key.listeners().broker) {
        if [ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry].contains(key) {
            continue;
        }
        // Kafka tells versions of Produce that it does not have, for the sake of old clients.
        let low = if *key == ApiKey::Produce { 0 } else { *key.versions().start() };
        let high = *key.versions().end();
        let range = if low == high { low.to_string() } else { format!("{low}-{high}") };
        told.push(format!("{}:{range}", key.code()));
    }
    assert_eq!(told.join(" "), CAPTURED);
    assert_eq!(told.len(), 77);
}

#[test]
fn keys_are_found_by_their_number() {
    for key in ApiKey::ALL {
        assert_eq!(ApiKey::from_i16(key.code()), Some(*key));
    }
    assert_eq!(ApiKey::from_i16(4), None);
    assert_eq!(ApiKey::from_i16(-1), None);
    assert_eq!(ApiKey::from_i16(i16::MAX), None);
}

#[test]
fn what_the_codec_knows_and_what_is_released_can_differ() {
    assert_eq!(ApiKey::InitProducerId.versions(), 0..=5);
    assert_eq!(ApiKey::InitProducerId.versions_with_unstable(), 0..=6);
    assert_eq!(ApiKey::Vote.listeners(), Listeners { broker: false, controller: true });
    assert_eq!(ApiKey::SaslHandshake.flexible_since(), None);
    assert!(!ApiKey::SaslHandshake.is_flexible(1));
    assert!(ApiKey::Produce.is_flexible(9) && !ApiKey::Produce.is_flexible(8));
    assert_eq!(ApiKey::Produce.to_string(), "Produce");
}
