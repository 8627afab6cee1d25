//! Downloads from a hub on this machine that misbehaves: what ends under a final name is right to the last bit, and
//! everything else is one clear error.

use hub::settings::{Patience, Token};
use hub::{Error, Event, Hub, Settings, Silent, Watch};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::local_hub::{Faults, LocalHub, Seen};

/// A folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hub-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that do not repeat.
fn bytes(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

fn settings(local: &LocalHub, cache: &Folder) -> Settings {
    let patience = Patience {
        tries: 3,
        pause: Duration::from_millis(2),
        longest: Duration::from_millis(5),
        silence: Duration::from_secs(20),
    };
    Settings {
        endpoint: local.endpoint.clone(),
        cache: cache.0.clone(),
        token: None,
        offline: false,
        certificates: None,
        patience,
    }
}

fn hub(local: &LocalHub, cache: &Folder) -> Hub {
    Hub::new(settings(local, cache), Box::new(Silent))
}

fn with_token(local: &LocalHub, cache: &Folder, token: &str) -> Hub {
    Hub::new(Settings { token: Token::new(token, "HF_TOKEN"), ..settings(local, cache) }, Box::new(Silent))
}

/// What is in the cache under final names is what the hub has; returns how many files these are.
fn finals_are(cache: &Folder, all: &[&[u8]]) -> usize {
    let mut count = 0;
    let repos = std::fs::read_dir(&cache.0).expect("a cache").flatten();
    for blobs in repos.map(|repo| repo.path().join("blobs")) {
        for blob in std::fs::read_dir(blobs).into_iter().flatten().flatten() {
            if blob.path().extension().is_none_or(|ending| ending != "incomplete") {
                let found = std::fs::read(blob.path()).expect("a blob");
                assert!(all.contains(&&*found), "a file under a final name is wrong: {}", blob.path().display());
                count += 1;
            }
        }
    }
    count
}

fn unfinished(hub: &Hub) -> u64 {
    hub.partials().iter().map(|partial| partial.bytes).sum()
}

fn ranges(seen: &[Seen]) -> Vec<&str> {
    seen.iter().filter(|seen| seen.server == "store").map(|seen| seen.range.as_deref().unwrap_or("-")).collect()
}

#[test]
fn the_layout_of_the_cache() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(1, 300_000);
    local.add("user/model-GGUF", "model-Q4_K_M.gguf", &model);
    local.add("user/model-GGUF", "model-Q8_0.gguf", &bytes(2, 2000));
    local.add("user/model-GGUF", "small/tiny-F32.gguf", b"few bytes");
    let hub = hub(&local, &cache);
    let pulled = hub.pull("user/model-GGUF").expect("downloaded");
    let folder = cache.0.join("models--user--model-GGUF");
    let commit = local.commit("user/model-GGUF");
    assert_eq!(pulled.path, folder.join("snapshots").join(&commit).join("model-Q4_K_M.gguf"));
    assert_eq!((pulled.bytes, pulled.downloaded), (300_000, 1));
    assert_eq!(std::fs::read(&pulled.path).expect("the model"), model);
    let link = std::fs::read_link(&pulled.path).expect("a link");
    let blob = link.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    assert_eq!(link, Path::new("../../blobs").join(&blob));
    assert_eq!(blob.len(), 64, "named by its SHA-256");
    assert_eq!(std::fs::read_to_string(folder.join("refs/main")).expect("a branch"), commit);

    let tiny = hub.pull("user/model-GGUF:f32").expect("downloaded").path;
    assert_eq!(std::fs::read(&tiny).expect("the model"), b"few bytes");
    let link = std::fs::read_link(&tiny).expect("a link");
    assert_eq!(link, Path::new("../../../blobs").join(testkit::local_hub::git(b"few bytes")));

    local.seen();
    assert_eq!(hub.locate("user/model-GGUF:Q4_K_M").expect("here"), Some(pulled.path.clone()));
    for name in ["user/model-GGUF", "model-GGUF:q4_k_m", "model-Q4_K_M", "model-Q4_K_M.gguf"] {
        assert_eq!(hub.resolve(name).expect(name), pulled.path, "{name}");
    }
    let address = format!("{}/user/model-GGUF/resolve/main/model-Q4_K_M.gguf", local.endpoint);
    assert_eq!(hub.resolve(&address).expect("here"), pulled.path);
    assert_eq!(hub.locate("user/model-GGUF:Q8_0").expect("a name"), None);
    assert_eq!(local.seen().len(), 0, "what is here needs no network");
    assert_eq!(hub.pull("user/model-GGUF:Q4_K_M").expect("here").downloaded, 0);
    let entries = hub.entries();
    assert_eq!(entries.iter().map(|entry| &*entry.quant).collect::<Vec<_>>(), ["F32", "Q4_K_M"]);
    let ambiguous = hub.locate("model-GGUF").expect_err("two models");
    assert!(ambiguous.to_string().contains("user/model-GGUF:F32"), "{ambiguous}");
}

#[test]
fn transfers_that_break_off_are_resumed() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(3, 900_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { cut: Some((200_000, 4)), ..Faults::default() });
    let hub = hub(&local, &cache);
    let path = hub.pull("a/b:Q4_0").expect("downloaded in five pieces").path;
    assert_eq!(std::fs::read(path).expect("the model"), model);
    let seen = local.seen();
    let expected = ["-", "bytes=200000-", "bytes=400000-", "bytes=600000-", "bytes=800000-"];
    assert_eq!(ranges(&seen), expected);
}

#[test]
fn a_later_command_goes_on_where_an_earlier_one_gave_up() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(4, 500_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { cut: Some((0, 9)), ..Faults::default() });
    let hub = hub(&local, &cache);
    let error = hub.pull("a/b").expect_err("no progress").to_string();
    assert!(error.contains("broke off") && error.contains("m-Q4_0.gguf") && error.contains("resumes"), "{error}");
    local.fault(Faults { cut: Some((300_000, 1)), status: None, ..Faults::default() });
    // After the first piece the server is gone for good.
    let watch = Stumble(local.clone());
    let stumbling = Hub::new(settings(&local, &cache), Box::new(watch));
    stumbling.pull("a/b").expect_err("the server fails");
    assert_eq!(finals_are(&cache, &[&model]), 0);
    assert_eq!(unfinished(&hub), 300_000);
    assert_eq!(hub.locate("a/b").expect("a name"), None, "what is not complete is not there");

    local.fault(Faults::default());
    local.seen();
    let path = hub.pull("a/b").expect("resumed").path;
    assert_eq!(std::fs::read(path).expect("the model"), model);
    assert_eq!(ranges(&local.seen()), ["bytes=300000-"]);
    assert_eq!(unfinished(&hub), 0);
}

/// Makes the server fail once a transfer has broken off.
struct Stumble(LocalHub);

impl Watch for Stumble {
    fn hear(&self, event: &Event) {
        if matches!(event, Event::Retry { .. }) {
            self.0.fault(Faults { status: Some((503, 100)), ..Faults::default() });
        }
    }
}

#[test]
fn servers_that_fall_silent() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(40, 300_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { cut: Some((100_000, 1)), silence: Duration::from_secs(60), ..Faults::default() });
    let mut settings = settings(&local, &cache);
    settings.patience.silence = Duration::from_secs(2);
    let path = Hub::new(settings, Box::new(Silent)).pull("a/b").expect("resumed").path;
    assert_eq!(std::fs::read(path).expect("the model"), model);
    assert_eq!(ranges(&local.seen()), ["-", "bytes=100000-"]);
}

#[test]
fn servers_without_ranges() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(5, 400_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { cut: Some((100_000, 2)), no_ranges: true, ..Faults::default() });
    let path = hub(&local, &cache).pull("a/b").expect("from the start each time").path;
    assert_eq!(std::fs::read(path).expect("the model"), model);
}

#[test]
fn wrong_bytes_are_never_kept() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(6, 200_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { wrong: 100, ..Faults::default() });
    let hub = hub(&local, &cache);
    let error = hub.pull("a/b").expect_err("wrong bytes").to_string();
    assert!(error.contains("m-Q4_0.gguf") && error.contains("hash") && error.contains("thrown away"), "{error}");
    assert!(!error.contains('\n'));
    assert_eq!(finals_are(&cache, &[&model]), 0);
    assert_eq!(unfinished(&hub), 0);
    assert_eq!(hub.locate("a/b").expect("a name"), None);
    local.fault(Faults::default());
    assert_eq!(std::fs::read(hub.pull("a/b").expect("right bytes").path).expect("the model"), model);
}

#[test]
fn a_broken_beginning_is_fetched_again() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(7, 200_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    let hub = hub(&local, &cache);
    for left in [vec![9; 100_000], vec![9; 200_000], vec![9; 300_000], model[..100_000].to_vec()] {
        let is_right = model.starts_with(&left);
        let blob = hub.pull("a/b").expect("downloaded").path.canonicalize().expect("a blob");
        std::fs::remove_file(&blob).expect("removed");
        std::fs::write(format!("{}.incomplete", blob.display()), &left).expect("written");
        local.seen();
        let path = hub.pull("a/b").expect("downloaded").path;
        assert_eq!(std::fs::read(path).expect("the model"), model);
        let seen = local.seen();
        assert_eq!(ranges(&seen).contains(&"-"), !is_right, "{:?}", ranges(&seen));
    }
}

#[test]
fn the_token_stays_with_the_hub() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(8, 100_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.add("plain/plain", "m-Q4_0.gguf", &model);
    local.hide("a/b", "hf_good");
    let hub = with_token(&local, &cache, "hf_good");
    hub.pull("a/b").expect("allowed");
    hub.pull(&format!("{}/plain/m-Q4_0.gguf", local.store)).expect("a public file");
    let seen = local.seen();
    let with = |server: &str, token: Option<&str>| {
        let of: Vec<_> = seen.iter().filter(|seen| seen.server == server).collect();
        !of.is_empty() && of.iter().all(|seen| seen.authorization.as_deref() == token)
    };
    assert!(with("hub", Some("Bearer hf_good")), "{seen:?}");
    assert!(with("store", None), "{seen:?}");
}

#[test]
fn refusals_say_what_to_do() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    for repo in ["a/open", "a/hidden", "a/gated"] {
        local.add(repo, "m-Q4_0.gguf", &bytes(9, 5000));
    }
    local.add("a/open", "m-Q6_K-00001-of-00002.gguf", b"half");
    local.add("a/words", "README.md", b"words");
    local.hide("a/hidden", "hf_good");
    local.gate("a/gated");
    let anonymous = hub(&local, &cache);
    let refused = |hub: &Hub, name: &str, parts: &[&str]| {
        let error = hub.pull(name).expect_err(name).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{name}: {error}");
        assert!(!error.contains('\n') && !error.contains("hf_"), "{error}");
    };
    refused(&anonymous, "a/nothing", &["no repository a/nothing", "HF_TOKEN"]);
    refused(&anonymous, "a/hidden", &["no repository a/hidden", "private", "HF_TOKEN"]);
    refused(&anonymous, "a/gated", &["gated", "accept its conditions", "/a/gated", "HF_TOKEN"]);
    refused(&with_token(&local, &cache, "hf_bad"), "a/open", &["refuses the token from HF_TOKEN"]);
    refused(&with_token(&local, &cache, "hf_other"), "a/hidden", &["may not read it"]);
    refused(&with_token(&local, &cache, "hf_other"), "a/gated", &["gated", "does not belong"]);
    with_token(&local, &cache, "hf_good").pull("a/gated").expect("allowed");
    refused(&anonymous, "a/open:Q9_0", &["no file of quantisation Q9_0", "it has: Q4_0", "a/open:QUANT"]);
    refused(&anonymous, "a/open:Q6_K", &["m-Q6_K", "1 of 2 parts"]);
    refused(&anonymous, "hf.co/a/open/x.gguf", &["no file x.gguf"]);
    refused(&anonymous, "hf.co/a/open/resolve/v9/m-Q4_0.gguf", &["no branch, tag or commit 'v9'"]);
    refused(&anonymous, "a/words", &["no GGUF files"]);
    refused(&anonymous, &format!("{}/plain/none.gguf", local.store), &["answers 404", "check the address"]);
    refused(&anonymous, "qwen3-0.6b", &["no repository Qwen/Qwen3-0.6B-GGUF", "table", "never checked"]);
    let unknown = anonymous.pull("qwen3-0.6c").expect_err("no such name").to_string();
    assert!(unknown.contains("did you mean qwen3-0.6b"), "{unknown}");
    let offline = Hub::new(Settings { offline: true, ..settings(&local, &cache) }, Box::new(Silent));
    local.seen();
    let error = offline.resolve("a/open").expect_err("not here").to_string();
    assert!(error.contains("--offline") && error.contains("kernloom pull a/open"), "{error}");
    assert!(offline.resolve("a/gated").is_ok(), "what is here can be used");
    assert_eq!(local.seen().len(), 0);
}

#[test]
fn servers_that_are_not_there() {
    let cache = Folder::new();
    let local = LocalHub::start();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let nowhere = Settings { endpoint: format!("http://{gone}"), ..settings(&local, &cache) };
    let error = Hub::new(nowhere, Box::new(Silent)).pull("a/b").expect_err("nobody is there").to_string();
    assert!(error.contains(&format!("cannot reach {gone}")) && error.contains("HTTPS_PROXY"), "{error}");
    // A page that is no listing.
    let other = Settings { endpoint: format!("{}/plain", local.store), ..settings(&local, &cache) };
    Hub::new(other, Box::new(Silent)).pull("a/b").expect_err("no hub");
    // A server that is busy for a while.
    local.add("a/b", "m-Q4_0.gguf", &bytes(10, 5000));
    local.fault(Faults { status: Some((503, 2)), ..Faults::default() });
    hub(&local, &cache).pull("a/b").expect("after two tries");
    local.fault(Faults { status: Some((500, 100)), ..Faults::default() });
    let error = hub(&local, &cache).pull("a/b").expect_err("always busy").to_string();
    assert!(error.contains("answers 500"), "{error}");
}

#[test]
fn files_of_other_servers() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(11, 300_000);
    local.add("plain/plain", "m-Q4_0.gguf", &model);
    let url = format!("{}/plain/m-Q4_0.gguf", local.store);
    local.fault(Faults { cut: Some((100_000, 3)), ..Faults::default() });
    let hub = hub(&local, &cache);
    let path = hub.resolve(&url).expect("downloaded");
    assert_eq!(std::fs::read(&path).expect("the model"), model);
    local.seen();
    assert_eq!(hub.resolve(&url).expect("here"), path);
    assert_eq!(local.seen().len(), 0);
    // Another version is told by its tag.
    let other = bytes(12, 300_000);
    local.add("plain/plain", "m-Q4_0.gguf", &other);
    assert_eq!(std::fs::read(hub.pull(&url).expect("downloaded").path).expect("the model"), other);
    // Without a tag nothing can be resumed, and a server that always breaks off is given up.
    local.add("plain/plain", "n-Q4_0.gguf", &model);
    let url = format!("{}/plain/n-Q4_0.gguf", local.store);
    local.fault(Faults { cut: Some((100_000, 2)), no_tags: true, ..Faults::default() });
    assert_eq!(std::fs::read(hub.pull(&url).expect("downloaded").path).expect("the model"), model);
    let third = bytes(13, 299_999);
    local.add("plain/plain", "n-Q4_0.gguf", &third);
    local.fault(Faults { cut: Some((100_000, 1000)), no_tags: true, ..Faults::default() });
    assert!(matches!(hub.pull(&url), Err(Error::BrokenOff { .. })));
}

#[test]
fn hubs_that_list_no_hashes() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(14, 100_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { no_hashes: true, wrong: 1, ..Faults::default() });
    let hub = hub(&local, &cache);
    // The request for the size takes the wrong byte, as it reads nothing of the body.
    let path = match hub.pull("a/b") {
        Ok(pulled) => pulled.path,
        Err(error) => {
            assert!(matches!(error, Error::Hash { .. }), "{error}");
            hub.pull("a/b").expect("downloaded").path
        }
    };
    assert_eq!(std::fs::read(&path).expect("the model"), model);
    assert_eq!(path.canonicalize().expect("a blob").file_name().expect("a name").len(), 64);
}

#[test]
fn split_models_and_new_versions() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let parts: Vec<Vec<u8>> = (20..23).map(|seed| bytes(seed, 50_000)).collect();
    for (i, part) in parts.iter().enumerate() {
        local.add("a/b", &format!("Q4_0/m-Q4_0-0000{}-of-00003.gguf", i + 1), part);
    }
    let hub = hub(&local, &cache);
    let first = hub.pull("a/b").expect("downloaded").path;
    assert!(first.ends_with("Q4_0/m-Q4_0-00001-of-00003.gguf"));
    for (i, part) in parts.iter().enumerate() {
        let path = first.with_file_name(format!("m-Q4_0-0000{}-of-00003.gguf", i + 1));
        assert_eq!(std::fs::read(path).expect("a part"), *part);
    }
    assert_eq!(hub.entries()[0].bytes, 150_000);
    // A part that is missing makes the whole missing.
    let last = first.with_file_name("m-Q4_0-00003-of-00003.gguf");
    std::fs::remove_file(&last).expect("removed");
    assert_eq!(hub.locate("a/b").expect("a name"), None);
    assert_eq!(hub.pull("a/b").expect("linked again").downloaded, 0);
    // A new version of one part is all that is fetched.
    let new = bytes(30, 50_000);
    local.add("a/b", "Q4_0/m-Q4_0-00002-of-00003.gguf", &new);
    let pulled = hub.pull("a/b").expect("downloaded");
    assert_eq!(pulled.downloaded, 1);
    let second = pulled.path.with_file_name("m-Q4_0-00002-of-00003.gguf");
    assert_eq!(std::fs::read(second).expect("a part"), new);
    assert_eq!(hub.resolve("a/b").expect("here"), pulled.path, "the newest version");
}

#[test]
fn disks_that_are_too_small() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    local.add("a/b", "m-Q4_0.gguf", &bytes(15, 5000));
    local.fault(Faults { size: Some(1 << 60), ..Faults::default() });
    let error = hub(&local, &cache).pull("a/b").expect_err("no room").to_string();
    assert!(error.contains("1152921.5 TB are needed") && error.contains("HF_HOME"), "{error}");
    assert_eq!(ranges(&local.seen()), [""; 0], "nothing was fetched");
    local.fault(Faults::default());
    // A folder that cannot be made.
    let blocked = cache.0.join("file");
    std::fs::write(&blocked, b"").expect("a file");
    let hub = Hub::new(Settings { cache: blocked.join("hub"), ..settings(&local, &cache) }, Box::new(Silent));
    let error = hub.pull("a/b").expect_err("no folder").to_string();
    assert!(error.contains("cannot make the folder"), "{error}");
}

#[test]
fn several_at_once() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(16, 400_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    local.fault(Faults { cut: Some((150_000, 2)), ..Faults::default() });
    let settings = settings(&local, &cache);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let settings = settings.clone();
            std::thread::spawn(move || Hub::new(settings, Box::new(Silent)).pull("a/b").map(|pulled| pulled.path))
        })
        .collect();
    for thread in threads {
        let path = thread.join().expect("no panic").expect("downloaded");
        assert_eq!(std::fs::read(path).expect("the model"), model);
    }
    assert_eq!(finals_are(&cache, &[&model]), 1);
    assert_eq!(ranges(&local.seen()), ["-", "bytes=150000-", "bytes=300000-"], "fetched by one of them only");
}

#[test]
fn what_is_heard() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    local.add("a/b", "m-Q4_0.gguf", &bytes(17, 600_000));
    local.fault(Faults { cut: Some((400_000, 1)), ..Faults::default() });
    let heard = Arc::new(Mutex::new(vec![]));
    struct Ear(Arc<Mutex<Vec<String>>>);
    impl Watch for Ear {
        fn hear(&self, event: &Event) {
            self.0.lock().expect("no panic").push(format!("{event:?}"));
        }
    }
    Hub::new(settings(&local, &cache), Box::new(Ear(heard.clone()))).pull("a/b").expect("downloaded");
    let heard = heard.lock().expect("no panic").join("\n");
    let order = [
        "Plan { from: \"a/b\"",
        "bytes: 600000",
        "Begin",
        "At(0)",
        "Retry",
        "At(400000)",
        "At(600000)",
        "verified: true",
    ];
    let mut at = 0;
    for part in order {
        at += heard[at..].find(part).unwrap_or_else(|| panic!("no {part} in\n{heard}"));
    }
}

/// Waits until so many bytes are there.
struct Impatient(AtomicU64);

impl Watch for Impatient {
    fn hear(&self, event: &Event) {
        if let Event::At(position) = event {
            self.0.store(*position, Ordering::SeqCst);
        }
    }

    fn waits(&self) -> bool {
        self.0.load(Ordering::SeqCst) < 500_000
    }
}

#[test]
fn a_download_for_which_nobody_waits_stops_and_is_kept() {
    let (local, cache) = (LocalHub::start(), Folder::new());
    let model = bytes(18, 2_000_000);
    local.add("a/b", "m-Q4_0.gguf", &model);
    let hub = Hub::new(settings(&local, &cache), Box::new(Impatient(AtomicU64::new(0))));
    assert!(matches!(hub.pull("a/b"), Err(Error::Stopped { .. })));
    assert!((500_000..2_000_000).contains(&unfinished(&hub)), "{}", unfinished(&hub));
    let path = Hub::new(settings(&local, &cache), Box::new(Silent)).pull("a/b").expect("resumed").path;
    assert_eq!(std::fs::read(path).expect("the model"), model);
}

#[test]
fn removing() {
    use hub::remove::Removal;
    let (local, cache) = (LocalHub::start(), Folder::new());
    let shared = bytes(18, 10_000);
    local.add("a/b", "m-Q4_0.gguf", &shared);
    local.add("a/b", "x/copy-Q5_0.gguf", &shared);
    local.add("a/b", "m-Q8_0.gguf", &bytes(19, 20_000));
    let hub = hub(&local, &cache);
    for quant in ["Q4_0", "Q5_0", "Q8_0"] {
        hub.pull(&format!("a/b:{quant}")).expect("downloaded");
    }
    local.add("a/b", "README.md", b"a new commit");
    hub.pull("a/b:Q8_0").expect("linked");
    let entry = |quant: &str| hub.entries().into_iter().filter(|entry| entry.quant == quant).collect::<Vec<_>>();
    let remove = |entries: &[hub::Entry]| {
        let removal = Removal::plan(hub.cache(), "a/b", entries, false);
        removal.carry_out().expect("removed");
        removal.bytes
    };
    // Its bytes are those of the copy, which stays; entries count bytes once.
    assert_eq!(hub.entries().len(), 2);
    let q8 = entry("Q8_0");
    assert_eq!(remove(&q8), 20_000, "from both snapshots");
    assert_eq!(hub.locate("a/b:Q8_0").expect("a name"), None);
    let copies = hub.cache().named("a/b");
    assert_eq!(remove(&copies), 0, "another link leads to these bytes");
    let last = hub.cache().named("a/b");
    assert_eq!(last.len(), 1);
    assert_eq!(remove(&last), 10_000);
    assert!(!cache.0.join("models--a--b").exists() && !cache.0.join(".locks/models--a--b").exists());
    assert!(remove(&[]) == 0);
}
