use super::*;

/// A manifest as the first version wrote it. It stays readable for ever: never change this text.
const FORMAT_1: &str = include_str!("manifest_format_1.json");
const LAYER: &str = "layer-ffffffff-ffff-4fff-bfff-ffffffffffff";

fn layer() -> LayerId {
    LAYER.parse().unwrap()
}

fn sample() -> Manifest {
    Manifest::new(
        layer(),
        Some("sbxaaaaaaaaaaaaaaaaaaaaaaaaab".parse().unwrap()),
        1_700_000_000_123,
        vec![1, 0],
    )
}

#[test]
fn manifests_of_format_1_stay_readable_and_are_written_the_same() {
    assert_eq!(Manifest::parse(FORMAT_1.trim_end().as_bytes(), &layer()).unwrap(), sample());
    assert_eq!(String::from_utf8(sample().text().unwrap()).unwrap(), FORMAT_1.trim_end());
}

#[test]
fn a_newer_format_is_refused_by_its_number_whatever_else_it_holds() {
    let newer = r#"{"format":2,"shape":"unheard of"}"#;
    let error = Manifest::parse(newer.as_bytes(), &layer()).unwrap_err();
    assert!(matches!(error, ManifestError::NewerFormat { format: 2 }), "{error:?}");
    let error = error.of(&layer());
    assert_eq!(error.kind, LayerErrorKind::Invalid);
    assert!(error.to_string().contains(LAYER), "{error}");
}

#[test]
fn a_torn_manifest_is_found_at_every_length() {
    let text = FORMAT_1.trim_end().as_bytes();
    for length in 0..text.len() {
        let error = Manifest::parse(&text[..length], &layer()).unwrap_err().of(&layer());
        assert_eq!(error.kind, LayerErrorKind::Damaged, "{length}");
    }
    let mut zeroes = text.to_vec();
    zeroes[40..].fill(0);
    assert!(Manifest::parse(&zeroes, &layer()).is_err());
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let text = FORMAT_1.trim_end().as_bytes();
    for place in 0..text.len() * 8 {
        let mut garbled = text.to_vec();
        garbled[place / 8] ^= 1 << (place % 8);
        assert!(Manifest::parse(&garbled, &layer()).is_err(), "bit {place}");
    }
}

#[test]
fn the_manifest_of_another_layer_is_refused() {
    let other = LayerId::from_random([0; 16]);
    let error = Manifest::parse(FORMAT_1.as_bytes(), &other).unwrap_err();
    assert!(matches!(&error, ManifestError::OtherLayer(found) if *found == layer()), "{error:?}");
}

#[test]
fn a_manifest_is_replaced_whole_and_read_back() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = File::open(scratch.path()).unwrap();
    let directory = std::os::fd::AsFd::as_fd(&directory);
    assert!(matches!(Manifest::read(directory, &layer()), Err(ManifestError::Absent)));
    std::fs::write(
        scratch.path().join("manifest.json.new"),
        "left by a crash, and longer than what comes now".repeat(99),
    )
    .unwrap();
    sample().write(directory).unwrap();
    assert_eq!(Manifest::read(directory, &layer()).unwrap(), sample());
    std::fs::write(scratch.path().join(FILE_NAME), vec![b' '; 100_000]).unwrap();
    assert!(matches!(Manifest::read(directory, &layer()), Err(ManifestError::TooLarge)));
}
