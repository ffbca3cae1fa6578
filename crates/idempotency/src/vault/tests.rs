use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32]).expect("long enough")
}

fn vault(keys: Option<Arc<dyn DataKeys>>) -> Vault {
    Vault::new(&secret(1), "", keys)
}

fn encrypting() -> Vault {
    vault(Some(Arc::new(DerivedKeys::new(secret(2)))))
}

fn sealing() -> Sealing<'static> {
    Sealing {
        tenant: "acme",
        scope: ScopeTag([1; 16]),
        operation: OperationId::from_hash([2; 16]),
        request: RequestTag([3; 32]),
        epoch: Epoch(4),
    }
}

/// Keys in a table, from which a tenant can be removed.
#[derive(Default)]
struct Table(Mutex<BTreeMap<String, Keys>>);

/// The newest last.
type Keys = Vec<(KeyId, [u8; 32])>;

impl Table {
    fn add(&self, tenant: &str, id: u8) {
        self.0.lock().unwrap().entry(tenant.to_owned()).or_default().push((KeyId([id; 8]), [id; 32]));
    }
}

impl DataKeys for Table {
    fn newest(&self, tenant: &str) -> Option<(KeyId, DataKey)> {
        self.0.lock().unwrap().get(tenant)?.last().map(|(id, key)| (*id, DataKey::new(*key)))
    }

    fn by_id(&self, tenant: &str, id: KeyId) -> Option<DataKey> {
        let table = self.0.lock().unwrap();
        table.get(tenant)?.iter().find(|(known, _)| *known == id).map(|(_, key)| DataKey::new(*key))
    }
}

#[test]
fn what_is_sealed_opens_where_it_belongs() {
    for vault in [vault(None), encrypting()] {
        for answer in [&b""[..], b"x", &[7; 10_000]] {
            let stored = vault.seal(&sealing(), answer).expect("sealed");
            assert_eq!(vault.open(&sealing(), &stored).as_deref(), Ok(answer), "{vault:?}");
        }
    }
}

#[test]
fn a_blob_copied_to_another_record_does_not_open() {
    let here = sealing();
    let elsewhere = [
        ("tenant", Sealing { tenant: "emca", ..here }),
        ("scope", Sealing { scope: ScopeTag([9; 16]), ..here }),
        ("operation", Sealing { operation: OperationId::from_hash([9; 16]), ..here }),
        ("request", Sealing { request: RequestTag([9; 32]), ..here }),
        ("epoch", Sealing { epoch: Epoch(5), ..here }),
    ];
    // The second tenant has the same data key, so that only the binding keeps it out.
    let table = Table::default();
    table.add("acme", 1);
    table.add("emca", 1);
    for vault in [vault(None), encrypting(), vault(Some(Arc::new(table)))] {
        let stored = vault.seal(&here, b"answer").expect("sealed");
        for (what, other) in &elsewhere {
            assert_eq!(vault.open(other, &stored), Err(OpenError::Damaged), "{what}, {vault:?}");
        }
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_noticed() {
    for vault in [vault(None), encrypting()] {
        let stored = vault.seal(&sealing(), b"answer").expect("sealed");
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.to_vec();
                damaged[at] ^= 1 << bit;
                assert!(vault.open(&sealing(), &damaged.into()).is_err(), "byte {at} bit {bit}");
            }
            assert!(vault.open(&sealing(), &stored.slice(..at)).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn sealed_bytes_hold_nothing_of_the_answer_and_never_repeat() {
    let vault = encrypting();
    let seal = || vault.seal(&sealing(), b"card 4111111111111111").expect("sealed");
    let (first, second) = (seal(), seal());
    assert_ne!(first, second);
    assert!(!first.windows(4).any(|window| window == b"4111"));
}

#[test]
fn a_plain_answer_opens_after_encryption_was_switched_on_but_not_under_another_secret() {
    let stored = vault(None).seal(&sealing(), b"answer").expect("sealed");
    assert_eq!(encrypting().open(&sealing(), &stored).as_deref(), Ok(&b"answer"[..]));
    assert_eq!(Vault::new(&secret(9), "", None).open(&sealing(), &stored), Err(OpenError::Damaged));
}

#[test]
fn a_sealed_answer_without_keys_says_that_the_key_is_not_there() {
    let stored = encrypting().seal(&sealing(), b"answer").expect("sealed");
    assert_eq!(vault(None).open(&sealing(), &stored), Err(OpenError::NoKey));
}

#[test]
fn rotation_opens_the_old_and_seals_with_the_new() {
    let old = encrypting();
    let both = vault(Some(Arc::new(DerivedKeys::new(secret(3)).and_older(secret(2)))));
    let new = vault(Some(Arc::new(DerivedKeys::new(secret(3)))));
    let before = old.seal(&sealing(), b"before").expect("sealed");
    let after = both.seal(&sealing(), b"after").expect("sealed");
    assert_eq!(both.open(&sealing(), &before).as_deref(), Ok(&b"before"[..]));
    assert_eq!(new.open(&sealing(), &after).as_deref(), Ok(&b"after"[..]));
    assert_eq!(new.open(&sealing(), &before), Err(OpenError::NoKey));
    assert_eq!(old.open(&sealing(), &after), Err(OpenError::NoKey));
}

#[test]
fn an_erased_tenant_is_closed_and_keeps_nothing_new_while_others_go_on() {
    let table = Arc::new(Table::default());
    table.add("acme", 1);
    table.add("other", 2);
    let vault = vault(Some(table.clone()));
    let other = Sealing { tenant: "other", ..sealing() };
    let stored = vault.seal(&sealing(), b"answer").expect("sealed");
    let kept = vault.seal(&other, b"answer").expect("sealed");
    table.0.lock().unwrap().remove("acme");
    assert_eq!(vault.open(&sealing(), &stored), Err(OpenError::NoKey));
    assert!(matches!(vault.seal(&sealing(), b"answer"), Err(SealError::NoKey)));
    assert_eq!(vault.open(&other, &kept).as_deref(), Ok(&b"answer"[..]));
    let bound = vault.bind(&sealing(), b"201");
    assert_eq!(vault.open(&sealing(), &bound).as_deref(), Ok(&b"201"[..]));
    assert_eq!(vault.open(&other, &bound), Err(OpenError::Damaged));
}

#[test]
fn each_part_of_an_operation_counts_and_bytes_do_not_move_between_them() {
    let vault = vault(None);
    let key = Uuid::from_u128(1);
    let operation = |tenant: &str, principal: &str, method: &Method, template: &str, key: Uuid| {
        vault.operation(&Scope::new(tenant, principal), method, template, key)
    };
    let all = [
        operation("a", "b", &Method::POST, "/c", key),
        operation("ab", "", &Method::POST, "/c", key),
        operation("", "ab", &Method::POST, "/c", key),
        operation("a", "bP", &Method::from_bytes(b"OST").unwrap(), "/c", key),
        operation("a", "b", &Method::from_bytes(b"POST1").unwrap(), "/c", key),
        operation("a", "b", &Method::PATCH, "/c", key),
        operation("a", "b", &Method::POST, "/d", key),
        operation("a", "b", &Method::POST, "/c", Uuid::from_u128(2)),
        Vault::new(&secret(9), "", None).operation(&Scope::new("a", "b"), &Method::POST, "/c", key),
    ];
    assert_eq!(BTreeSet::from(all).len(), all.len());
    assert_eq!(all[0], operation("a", "b", &Method::POST, "/c", key));
    assert_eq!(OperationId::parse(&all[0].to_string()), Some(all[0]));
}

#[test]
fn the_uses_of_the_secret_are_apart() {
    // The same parts under each label, and the label moved into a part.
    let parts: &[&[u8]] = &[b"x"];
    let all = [
        keyed(&[1; 32], "operation", parts),
        keyed(&[1; 32], "scope", parts),
        keyed(&[1; 32], "request", parts),
        keyed(&[1; 32], "check", parts),
        keyed(&[1; 32], "check", &[]),
        keyed(&[1; 32], "plain answer", parts),
        keyed(&[1; 32], "", &[b"check", b"x"]),
        keyed(&[1; 32], "checkx", &[]),
        keyed(&[1; 32], "check", &[b"x", b""]),
    ];
    assert_eq!(BTreeSet::from(all).len(), all.len());
}

#[test]
fn tags_are_pinned_because_they_are_stored() {
    let vault = vault(None);
    let scope = Scope::new("acme", "ann");
    let operation = vault.operation(&scope, &Method::POST, "/orders", Uuid::from_u128(7));
    let fingerprint = Fingerprint::from_bytes([5; 32]);
    let hex =
        |bytes: &[u8]| bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect::<String>();
    let pinned = [
        operation.to_string(),
        hex(&vault.scope(&scope).0),
        hex(&vault.request(operation, &fingerprint).0),
        hex(&vault.check()),
    ];
    assert_eq!(pinned, PINNED);
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).expect("a nibble")
}

/// Computed apart from this code, with another implementation of HMAC.
const PINNED: [&str; 4] = [
    "e185f786-70aa-893c-8973-29f6d891f472",
    "5e9cf4e5337588463e2b1b3ab743ad1b",
    "fb1b95690928209b6f11b12a83b1271e8ee8d79e3a42c3ec0ea844da7538dac6",
    "407d744baa8be7485df6e4f6bcf4deef",
];

#[test]
fn stored_forms_are_pinned_because_they_must_open_later() {
    // Computed apart from this code, with other implementations of HMAC and AES-GCM.
    let plain = "0083a69d189f2f50d91cab4c2f4835d674616e73776572";
    let sealed = "01f905544c57b92337000102030405060708090a0bd9a8101f0b6b7973e09405c0e02829dc6a755aaa9cef";
    for stored in [plain, sealed] {
        let pairs = stored.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let stored: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        assert_eq!(encrypting().open(&sealing(), &stored.into()).as_deref(), Ok(&b"answer"[..]));
    }
}

#[test]
fn a_request_has_another_tag_in_another_operation() {
    let vault = vault(None);
    let fingerprint = Fingerprint::from_bytes([5; 32]);
    let tag = |operation: u8| vault.request(OperationId::from_hash([operation; 16]), &fingerprint);
    assert_ne!(tag(1), tag(2));
    assert_ne!(tag(1), vault.request(OperationId::from_hash([1; 16]), &Fingerprint::from_bytes([6; 32])));
}

#[test]
fn operations_whose_keys_were_made_one_after_the_other_lie_side_by_side() {
    let vault = vault(None);
    let scope = Scope::new("acme", "ann");
    let key = |milliseconds: u64, rest: u8| {
        let mut bytes = [rest; 16];
        bytes[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
        uuid::Builder::from_bytes(bytes).with_version(uuid::Version::SortRand).into_uuid()
    };
    let of = |milliseconds, rest| vault.operation(&scope, &Method::POST, "/orders", key(milliseconds, rest));
    let at = 1_700_000_000_000;
    let made: Vec<_> = (0..100).map(|n| of(at + n, 0x91_u8.wrapping_mul(n as u8))).collect();
    assert!(made.is_sorted());
    assert_ne!(of(at, 1), of(at, 2), "the rest of the key counts");
    let other = vault.operation(&Scope::new("acme", "bob"), &Method::POST, "/orders", key(at, 1));
    assert_ne!(of(at, 1), other, "so does the caller");
}

#[test]
fn a_short_secret_is_refused() {
    assert_eq!(Secret::new([7; 31]).err(), Some(SecretTooShort { given: 31 }));
    assert!(Secret::new([7; 32]).is_ok());
    assert!(SecretTooShort { given: 3 }.to_string().contains("at least 32"));
}

#[test]
fn debug_shows_no_secret() {
    let text = "a secret that must not be seen 1";
    let secret = Secret::new(text).expect("long enough");
    let keys = DerivedKeys::new(secret.clone()).and_older(secret.clone());
    let shown = format!("{secret:?} {:?} {keys:?}", DataKey::new([77; 32]));
    let vault = format!("{:?}", Vault::new(&secret, "", Some(Arc::new(keys))));
    for shown in [shown, vault] {
        assert!(
            !shown.contains("secret") && !shown.contains("77, 77") && !shown.contains("97, 32"),
            "{shown}"
        );
    }
}

#[test]
fn realms_share_the_check_and_nothing_else() {
    let [plain, shop, club] = ["", "shop", "club"].map(|realm| Vault::new(&secret(1), realm, None));
    assert!(plain.check() == shop.check() && shop.check() == club.check());
    let scope = Scope::new("a", "b");
    let operation = |vault: &Vault| vault.operation(&scope, &Method::POST, "/c", Uuid::from_u128(7));
    let seen = [&plain, &shop, &club].map(|vault| (operation(vault), vault.scope(&scope)));
    for (n, one) in seen.iter().enumerate() {
        for other in &seen[n + 1..] {
            assert!(one.0 != other.0 && one.1 != other.1, "{seen:?}");
        }
    }
}
