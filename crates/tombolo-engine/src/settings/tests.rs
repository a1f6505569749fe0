//! What texts become settings, and which are refused with what words.

use std::time::Duration;

use super::*;

const GB: u64 = 1 << 30;

crate::setting_list! {
    /// Settings such as a program that uses the engine may have.
    static LIST;

    COUNTED = Setting::new("counted", Kind::Count(100, 1_000_000), Default::Is("2k"), "how many are counted");
    MEMORY_LIMIT =
        Setting::new("memory_limit", Kind::Bytes(GB / 16, GB << 14), Default::Means("none"), "the most memory");
    SECONDS = Setting::new(
        "seconds",
        Kind::Duration(Duration::from_millis(1), Duration::from_secs(86_400)),
        Default::Is("5s"),
        "how long",
    );
    WAREHOUSES = Setting::new("warehouses", Kind::Count(1, 65_535), Default::Is("5"), "how large");
    COLOUR = Setting::new("colour", Kind::Choice(&["red", "green"]), Default::Is("red"), "which colour");
    IN_FLIGHT = Setting::new("in_flight", Kind::Count(1, 1_000), Default::Is("1"), "calls").also("window");
}

fn value(setting: &Setting, text: &str) -> Result<String, String> {
    setting.parse(text).map(|value| value.to_string()).map_err(|error| error.to_string())
}

#[test]
fn numbers_take_underscores_and_units() {
    let count = |text| COUNTED.parse(text);
    for (text, n) in
        [("1_000", 1_000), ("50k", 50_000), ("0.5M", 500_000), ("1.5k", 1_500), (" 200 ", 200)]
    {
        assert_eq!(count(text), Ok(Value::Count(n)), "{text}");
    }
    for text in [
        "",
        "k",
        "1.5",
        "-5",
        "1e3",
        "5.",
        ".5k",
        "1._5k",
        "5 m",
        "1.2.3",
        "0x10",
        "99999999999999999999999999999999999999999",
    ] {
        let message = count(text).unwrap_err().to_string();
        assert!(message.contains("is not a whole number"), "{text}: {message}");
    }
}

#[test]
fn sizes_and_times_have_units() {
    for (text, shown) in
        [("64MB", "64 MB"), ("1.5 GB", "1536 MB"), ("68719476736", "64 GB"), ("65536kb", "64 MB")]
    {
        assert_eq!(value(&MEMORY_LIMIT, text), Ok(shown.to_owned()), "{text}");
    }
    for (text, shown) in [
        ("5", "5 s"),
        ("5s", "5 s"),
        ("0.5", "500 ms"),
        ("2m", "2 m"),
        ("1500 ms", "1500 ms"),
        ("90s", "90 s"),
    ] {
        assert_eq!(value(&SECONDS, text), Ok(shown.to_owned()), "{text}");
    }
    for text in ["5M", "5h", "five", "1.2.3s"] {
        assert!(value(&SECONDS, text).unwrap_err().contains("is not a time"), "{text}");
    }
}

#[test]
fn limits_and_choices_are_named() {
    assert_eq!(
        value(&WAREHOUSES, "0").unwrap_err(),
        "setting warehouses: 0 is outside its limits: give 1 to 65535 (1_000, 50k, 2M)"
    );
    assert_eq!(
        value(&COLOUR, "blue").unwrap_err(),
        "setting colour: \"blue\" is not known: give one of red, green"
    );
    assert!(value(&MEMORY_LIMIT, "1 KB").unwrap_err().contains("64 MB to 16384 GB"));
}

#[test]
fn the_strongest_source_wins_whatever_the_order() {
    let mut settings = Settings::of(LIST);
    assert_eq!(settings.count(&WAREHOUSES), 5);
    settings.set("warehouses", "7", Source::Environment).unwrap();
    settings.set("warehouses", "9", Source::File).unwrap();
    assert_eq!(
        (settings.count(&WAREHOUSES), settings.source(&WAREHOUSES)),
        (7, Source::Environment)
    );
    settings.set("warehouses", "8", Source::Flag).unwrap();
    assert_eq!(settings.count(&WAREHOUSES), 8);
    let weaker_but_wrong = settings.set("warehouses", "none", Source::File);
    assert!(weaker_but_wrong.is_err(), "a mistake is a mistake even where it has no effect");
    assert!(
        settings
            .set("werehouses", "7", Source::File)
            .unwrap_err()
            .to_string()
            .contains("no such setting")
    );
    settings.set("in-flight", "4", Source::Flag).unwrap();
    assert_eq!(settings.count(&IN_FLIGHT), 4);
    settings.set("window", "5", Source::Flag).unwrap();
    assert_eq!(settings.count(&IN_FLIGHT), 5);
}

#[test]
fn the_registry_is_complete_and_consistent() {
    verify(ALL);
}
