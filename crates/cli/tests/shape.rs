//! The shape of the house, read from the manifests.
//!
//! No room leans on one to its right, and the pure rooms get no clock, no dice, no sockets and no
//! runtime. The compiler cannot say this for us: an arrow that points right compiles well until the day
//! it is a cycle, and by then code leans on it. Each check is a function from manifest to complaints, so
//! that it can be shown a bad manifest and seen to complain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The rooms, and what each may lean on. Development dependencies are held to the same arrows.
const ROOMS: &[(&str, &[&str])] = &[
    ("asl", &[]),
    ("engine", &["asl"]),
    ("store", &["asl", "engine"]),
    ("runtime", &["asl", "engine", "store"]),
    ("sigv4", &[]),
    ("tasks", &["asl", "engine", "store", "runtime", "sigv4"]),
    ("canonical", &[]),
    ("idempotency", &["canonical"]),
    ("events", &["canonical"]),
    ("inbox", &[]),
    ("server", &["asl", "engine", "store", "runtime", "idempotency", "sigv4"]),
    ("perdura", &["asl", "engine", "store", "runtime"]),
    ("sim", &["asl", "engine", "store", "runtime"]),
    ("bench", &["asl", "engine", "store", "runtime", "tasks"]),
    (
        "cli",
        &["asl", "engine", "store", "runtime", "tasks", "bench", "idempotency", "server", "perdura", "sigv4"],
    ),
];

/// The rooms that only compute.
const PURE: &[&str] = &["asl", "engine", "sigv4", "canonical", "events"];

/// What a pure room has no use for. A name that ends in `*` stands for all that begin so.
#[rustfmt::skip]
const IMPURE: &[&str] = &[
    // Async.
    "async-*", "async_*", "embassy-*", "futures*", "glommio", "monoio", "pollster", "smol*", "tokio*",
    // Network.
    "attohttpc", "axum*", "curl*", "h2", "hyper*", "isahc", "lapin", "mio*", "quinn*", "reqwest*", "rustls*",
    "socket2", "surf", "tonic*", "tower*", "tungstenite", "ureq*", "warp",
    // Storage and files.
    "deadpool*", "diesel*", "fs-err", "glob", "heed*", "libsqlite3-sys", "memmap*", "notify*", "postgres*",
    "redb", "rocksdb*", "rusqlite*", "sea-orm*", "sled", "sqlx*", "tempfile", "walkdir",
    // Clocks.
    "chrono*", "coarsetime", "cron*", "instant", "minstant", "quanta", "time", "web-time",
    // Dice, and hashers seeded by them.
    "ahash", "fastrand", "getrandom", "nanoid", "oorandom", "rand*", "ulid",
    // Threads, environment, logs.
    "config", "crossbeam*", "dotenv*", "env_logger", "figment", "log", "rayon*", "threadpool", "tracing*",
];

/// Features that put a clock, dice or files into a crate that is otherwise welcome.
const IMPURE_FEATURES: &[(&str, &[&str])] = &[
    ("jiff", &["default", "tz-system", "tzdb-zoneinfo", "tzdb-concatenated"]),
    ("uuid", &["v1", "v4", "v6", "v7", "rng", "rng-rand", "rng-getrandom", "fast-rng"]),
];

/// What the `clippy.toml` of a pure room must name.
const DISALLOWED_METHODS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "uuid::Uuid::new_v4",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::env::var",
    "std::fs::read",
    "std::fs::read_to_string",
];
const DISALLOWED_TYPES: &[&str] = &["std::collections::HashMap", "std::collections::HashSet"];

/// One line of a `[dependencies]` table, with what the workspace says of it.
struct Dependency {
    /// The package's own name, however the manifest renames it.
    package: String,
    /// For tests and benches only.
    for_tests: bool,
    /// Those it asks for, `default` among them unless it says no.
    features: BTreeSet<String>,
}

/// All dependencies of a manifest, those of single platforms included.
fn dependencies(manifest: &Table, workspace: &Table) -> Vec<Dependency> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = std::iter::once(manifest)
        .chain(platforms.into_iter().flat_map(|targets| targets.values().filter_map(Value::as_table)));
    let mut found = Vec::new();
    for table in tables {
        for (kind, for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            for (name, spec) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let inherited = spec.get("workspace").and_then(Value::as_bool) == Some(true);
                let shared = inherited.then(|| workspace_dependency(workspace, name)).flatten();
                let said =
                    |key| [Some(spec), shared].into_iter().flatten().filter_map(move |spec| spec.get(key));
                let defaults = said("default-features").all(|value| value.as_bool() != Some(false));
                let features =
                    said("features").filter_map(Value::as_array).flatten().filter_map(Value::as_str);
                found.push(Dependency {
                    package: said("package").find_map(Value::as_str).unwrap_or(name).to_owned(),
                    for_tests,
                    features: features.chain(defaults.then_some("default")).map(str::to_owned).collect(),
                });
            }
        }
    }
    found
}

fn workspace_dependency<'a>(workspace: &'a Table, name: &str) -> Option<&'a Value> {
    workspace.get("workspace")?.get("dependencies")?.get(name)
}

/// Arrows that point right, and rooms that nobody has placed yet.
fn wrong_arrows(room: &str, manifest: &Table, workspace: &Table) -> Vec<String> {
    let Some((_, may_use)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!(
            "crates/{room} has no place yet: add it to ROOMS in shape.rs and to ARCHITECTURE.md"
        )];
    };
    let ours = |package: &str| match package {
        "perdura" => Some("perdura".to_owned()),
        other => other.strip_prefix("perdura-").map(str::to_owned),
    };
    // A room may name itself for its tests, to turn its own features on.
    let itself =
        |dependency: &&Dependency| dependency.for_tests && ours(&dependency.package).as_deref() == Some(room);
    dependencies(manifest, workspace)
        .iter()
        .filter(|dependency| !itself(dependency))
        .filter_map(|dependency| ours(&dependency.package))
        .filter(|target| !may_use.contains(&target.as_str()))
        .map(|target| {
            format!(
                "crates/{room} may not depend on {target}, only on {may_use:?}; \
                 can the part that chooses be told from the part that acts?"
            )
        })
        .collect()
}

/// Dependencies by which time, chance or the outside world would enter a pure room.
fn impurities(room: &str, manifest: &Table, workspace: &Table) -> Vec<String> {
    let mut complaints = Vec::new();
    for dependency in dependencies(manifest, workspace).iter().filter(|dependency| !dependency.for_tests) {
        let package = &dependency.package;
        if IMPURE.iter().any(|pattern| matches(pattern, package)) {
            complaints.push(format!("crates/{room} is a pure room and cannot depend on {package}"));
        }
        let banned =
            IMPURE_FEATURES.iter().filter(|(name, _)| name == package).flat_map(|(_, banned)| *banned);
        for feature in banned.filter(|feature| dependency.features.contains(**feature)) {
            complaints.push(format!(
                "crates/{room} is a pure room and cannot use {package} with feature {feature}"
            ));
        }
    }
    complaints
}

fn matches(pattern: &str, package: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == package, |prefix| package.starts_with(prefix))
}

/// What each crate takes from the workspace, so that a rule is written once.
fn not_inherited(room: &str, manifest: &Table) -> Vec<String> {
    let inherits = |value: Option<&Value>| value.and_then(|v| v.get("workspace")?.as_bool()) == Some(true);
    let package = manifest.get("package");
    let mut complaints: Vec<String> = ["version", "edition", "rust-version", "license", "publish"]
        .iter()
        .filter(|key| !inherits(package.and_then(|package| package.get(*key))))
        .map(|key| format!("crates/{room}/Cargo.toml: write `{key}.workspace = true`"))
        .collect();
    if !inherits(manifest.get("lints")) {
        complaints.push(format!("crates/{room}/Cargo.toml: write `[lints]` with `workspace = true`"));
    }
    complaints
}

/// What the `clippy.toml` of a pure room forgets to forbid.
fn not_forbidden(clippy: &Table) -> Vec<String> {
    let listed = |key: &str| -> BTreeSet<String> {
        let entries = clippy.get(key).and_then(Value::as_array).into_iter().flatten();
        entries
            .filter_map(|entry| entry.as_str().or_else(|| entry.get("path")?.as_str()))
            .map(str::to_owned)
            .collect()
    };
    let missing = |key: &str, wanted: &[&str]| {
        let listed = listed(key);
        wanted
            .iter()
            .filter(|path| !listed.contains(**path))
            .map(|path| format!("{key} lacks {path}"))
            .collect::<Vec<_>>()
    };
    let mut complaints = missing("disallowed-methods", DISALLOWED_METHODS);
    complaints.extend(missing("disallowed-types", DISALLOWED_TYPES));
    complaints
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

fn read(path: &Path) -> Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn workspace() -> Table {
    read(&root().join("Cargo.toml"))
}

/// Every room that exists, with its manifest.
fn rooms() -> Vec<(String, Table)> {
    let crates = fs::read_dir(root().join("crates")).expect("crates/ is there");
    let mut rooms: Vec<(String, Table)> = crates
        .map(|entry| entry.expect("crates/ can be listed").path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| {
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            (name, read(&path.join("Cargo.toml")))
        })
        .collect();
    rooms.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(rooms.iter().any(|(name, _)| name == "cli"), "at least the room of this test is found");
    rooms
}

#[track_caller]
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

#[test]
fn dependencies_point_left() {
    let workspace = workspace();
    let complaints: Vec<String> =
        rooms().iter().flat_map(|(room, manifest)| wrong_arrows(room, manifest, &workspace)).collect();
    assert_none(&complaints);
}

#[test]
fn pure_rooms_have_no_clock_no_dice_and_no_outside_world() {
    let workspace = workspace();
    for (room, manifest) in rooms().iter().filter(|(room, _)| PURE.contains(&room.as_str())) {
        assert_none(&impurities(room, manifest, &workspace));
        let clippy = read(&root().join("crates").join(room).join("clippy.toml"));
        let complaints = not_forbidden(&clippy);
        assert!(complaints.is_empty(), "crates/{room}/clippy.toml: {complaints:?}");
    }
    for lint in ["disallowed_methods", "disallowed_types"] {
        assert_eq!(workspace["workspace"]["lints"]["clippy"][lint].as_str(), Some("deny"), "{lint}");
    }
}

#[test]
fn every_crate_takes_its_rules_from_the_workspace_and_unsafe_code_is_forbidden() {
    let complaints: Vec<String> =
        rooms().iter().flat_map(|(room, manifest)| not_inherited(room, manifest)).collect();
    assert_none(&complaints);
    assert_eq!(workspace()["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
}

#[test]
fn packages_are_named_after_their_rooms() {
    for (room, manifest) in rooms() {
        let expected = if room == "perdura" { room } else { format!("perdura-{room}") };
        assert_eq!(manifest["package"]["name"].as_str(), Some(expected.as_str()));
    }
}

#[test]
fn no_toolchain_file_pins_a_compiler() {
    let with_root = rooms().into_iter().map(|(room, _)| root().join("crates").join(room)).chain([root()]);
    for folder in with_root {
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            assert!(!folder.join(name).exists(), "{}: rust-version says enough", folder.join(name).display());
        }
    }
}

/// `cargo run` at the top needs no `--bin` as long as there is one binary.
#[test]
fn perdura_is_the_only_binary() {
    let mut binaries = Vec::new();
    for (room, manifest) in rooms() {
        let listed = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
        binaries.extend(listed.filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)));
        let folder = root().join("crates").join(&room).join("src");
        let main = folder.join("main.rs").exists() && manifest.get("bin").is_none();
        if main || folder.join("bin").exists() {
            binaries.push(format!("one of crates/{room}/src without a [[bin]]"));
        }
    }
    assert_eq!(
        binaries,
        ["perdura"],
        "name the default in the workspace's default-members if a second is due"
    );
}

/// The checks above have been seen to fail.
mod on_a_bad_manifest {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().expect("the test's own TOML is right")
    }

    #[test]
    fn an_arrow_that_points_right_is_found_wherever_it_hides() {
        let workspace = table(
            "[workspace.dependencies]
             perdura-asl = { path = 'crates/asl' }
             perdura-runtime = { path = 'crates/runtime' }
             quiet = { path = 'crates/runtime', package = 'perdura-runtime' }",
        );
        let cases = [
            ("engine", "[dependencies]\nperdura-asl.workspace = true", 0),
            ("engine", "[dependencies]\nperdura-runtime.workspace = true", 1),
            ("engine", "[dependencies]\nquiet.workspace = true", 1),
            ("engine", "[dependencies]\nquiet = { package = 'perdura-store', path = '../store' }", 1),
            ("engine", "[dev-dependencies]\nperdura-sim = { path = '../sim' }", 1),
            ("engine", "[build-dependencies]\nperdura-cli = { path = '../cli' }", 1),
            ("engine", "[target.'cfg(unix)'.dependencies]\nperdura = { path = '../perdura' }", 1),
            ("asl", "[dependencies]\nperdura-engine = '0.1'\nperdura-store = '0.1'", 2),
            ("idempotency", "[dependencies]\nperdura-asl.workspace = true", 1),
            ("idempotency", "[dependencies]\nperdura-canonical = '0.1'", 0),
            ("events", "[dependencies]\nperdura-canonical = '0.1'\nperdura-engine = '0.1'", 1),
            ("canonical", "[dependencies]\nperdura-idempotency = '0.1'", 1),
            ("store", "[dependencies]\nperdura-idempotency = '0.1'", 1),
            ("server", "[dependencies]\nperdura-idempotency = '0.1'\nperdura-runtime.workspace = true", 0),
            ("sim", "[dependencies]\nperdura-server = '0.1'", 1),
            ("cli", "[dependencies]\nperdura-server = '0.1'\nperdura = '0.1'", 0),
            ("attic", "", 1),
        ];
        for (room, manifest, wrong) in cases {
            let complaints = wrong_arrows(room, &table(manifest), &workspace);
            assert_eq!(complaints.len(), wrong, "{room}: {manifest}: {complaints:?}");
        }
    }

    #[test]
    fn a_clock_a_die_and_a_socket_are_found_in_a_pure_room() {
        let workspace = table(
            "[workspace.dependencies]
             uuid = { version = '1', features = ['v5'] }
             ids = { package = 'uuid', version = '1', features = ['v4'] }",
        );
        let cases = [
            ("[dependencies]\nsha2 = '0.11'\nthiserror = '2'", 0),
            ("[dependencies]\njiff = { version = '0.2', default-features = false, features = ['std'] }", 0),
            ("[dependencies]\njiff = '0.2'", 1),
            ("[dependencies]\nuuid.workspace = true", 0),
            ("[dependencies]\nuuid = { workspace = true, features = ['v7'] }", 1),
            ("[dependencies]\nids.workspace = true", 1),
            ("[dependencies]\ntokio = '1'", 1),
            ("[dependencies]\ntokio-util = '0.7'\nfutures-core = '0.3'\nasync-trait = '0.1'", 3),
            ("[dependencies]\nreqwest = '0.13'\nhyper = '1'\nrusqlite = '0.41'", 3),
            ("[dependencies]\nrand = '0.9'\ngetrandom = '0.3'\nchrono = '0.4'\ntime = '0.3'", 4),
            ("[dependencies]\nclock = { package = 'chrono', version = '0.4' }", 1),
            ("[build-dependencies]\nreqwest = '0.13'", 1),
            ("[target.'cfg(unix)'.dependencies]\nmio = '1'", 1),
            ("[dev-dependencies]\nproptest = '1'\ntempfile = '3'", 0),
        ];
        for (manifest, wrong) in cases {
            let complaints = impurities("engine", &table(manifest), &workspace);
            assert_eq!(complaints.len(), wrong, "{manifest}: {complaints:?}");
        }
    }

    #[test]
    fn a_crate_that_goes_its_own_way_is_found() {
        let manifest = "[package]
             version.workspace = true
             edition = '2021'
             rust-version.workspace = true
             license.workspace = true
             publish.workspace = true
             [lints.rust]
             unsafe_code = 'allow'";
        let complaints = not_inherited("engine", &table(manifest));
        assert_eq!(complaints.len(), 2, "edition and lints: {complaints:?}");
    }

    #[test]
    fn a_clippy_file_that_forgets_the_clock_is_found() {
        let complete = table(&format!(
            "disallowed-methods = {DISALLOWED_METHODS:?}\ndisallowed-types = {DISALLOWED_TYPES:?}"
        ));
        assert_none(&not_forbidden(&complete));
        let forgetful = table("disallowed-methods = [{ path = 'std::time::SystemTime::now' }]");
        let complaints = not_forbidden(&forgetful);
        assert_eq!(complaints.len(), DISALLOWED_METHODS.len() - 1 + DISALLOWED_TYPES.len());
        assert!(complaints.contains(&"disallowed-methods lacks std::time::Instant::now".to_owned()));
    }
}
