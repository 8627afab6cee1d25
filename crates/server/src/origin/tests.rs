use super::*;

/// A request as a browser or a program sends it.
#[derive(Clone, Default)]
struct Asked {
    method: Method,
    target: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

fn ask(method: Method, target: &'static str) -> Asked {
    Asked { method, target, headers: vec![] }
}

fn get() -> Asked {
    ask(Method::GET, "/v1/models")
}

fn post() -> Asked {
    ask(Method::POST, "/v1/chat/completions").with("content-type", "application/json")
}

impl Asked {
    fn with(mut self, name: &'static str, value: &'static str) -> Asked {
        self.headers.push((name, value));
        self
    }

    fn from(self, host: &'static str) -> Asked {
        self.with("host", host)
    }

    /// The status, 200 if it comes in; and whether an origin is told that it may.
    fn at(&self, door: &Admission) -> (u16, bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(*name, HeaderValue::from_static(value));
        }
        match door.check(&self.method, &self.target.parse().expect("a target"), &headers) {
            Ok(origin) => (200, origin.is_some()),
            Err(error) => (error.status.as_u16(), false),
        }
    }
}

fn door(hosts: &[&str], names: &[&str], origins: &[&str], has_keys: bool) -> Admission {
    let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    Admission::new(&owned(hosts), &owned(names), &owned(origins), has_keys)
}

fn plain() -> Admission {
    door(&["127.0.0.1"], &[], &[], false)
}

#[test]
fn a_host_is_a_name_of_this_machine_or_one_that_was_given() {
    let own = [
        "localhost",
        "localhost:8080",
        "LOCALHOST:1",
        "localhost.",
        "localhost.:80",
        "a.localhost",
        "evil.localhost:9",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.9.9.9",
        "[::1]",
        "[::1]:8080",
        "10.1.2.3:80",
        "[fe80::1%25eth0]:80",
        "0.0.0.0:8080",
        "localhost:",
    ];
    let others = [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "localhost.evil.example:8080",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "user:pw@127.0.0.1",
        "localhost:80:80",
        "localhost:x",
        "localhost:99999",
        "[::1",
        "[::1]x",
        "[localhost]",
        "::1",
        "",
        ".",
        "localhost/evil",
        "local host",
        "localhost\tx",
        "2130706433",
        "127.1",
        "localhost..",
        "evil.example.",
        "[::1].evil.example",
        "localhost,evil.example",
    ];
    for asked in [get(), post(), ask(Method::GET, "/"), ask(Method::GET, "/health"), ask(Method::OPTIONS, "/props")] {
        for host in own {
            assert_eq!(asked.clone().from(host).at(&plain()).0, 200, "{host}");
        }
        for host in others {
            assert_eq!(asked.clone().from(host).at(&plain()).0, 403, "{host}");
        }
        // A browser always says it.
        assert_eq!(asked.at(&plain()).0, 200);
        assert_eq!(asked.clone().from("localhost").from("evil.example").at(&plain()).0, 400);
    }
    let named = door(&["0.0.0.0", "box"], &["Gpu.Lan:9", " other "], &[], false);
    for host in ["box", "BOX:80", "gpu.lan", "gpu.lan:8080", "other.", "localhost"] {
        assert_eq!(post().from(host).at(&named).0, 200, "{host}");
    }
    for host in ["box.evil.example", "lan", "a.gpu.lan"] {
        assert_eq!(post().from(host).at(&named).0, 403, "{host}");
    }
    for door in [door(&["127.0.0.1"], &["*"], &[], false), door(&["0.0.0.0"], &[], &[], true)] {
        assert_eq!(post().from("anything.example").at(&door).0, 200);
    }
}

#[test]
fn what_is_refused_says_how_to_let_it_in() {
    let refusal = |asked: Asked| {
        let mut headers = HeaderMap::new();
        headers.extend(
            asked.headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        plain().check(&asked.method, &asked.target.parse().expect("a target"), &headers).expect_err("refused").message
    };
    assert!(refusal(get().from("box:80")).contains("--allowed-hosts box"));
    assert!(refusal(get().from("localhost").with("origin", "app://x")).contains("--cors-origins app://x"));
    assert!(refusal(get().from("localhost").with("sec-fetch-site", "cross-site")).contains("--cors-origins"));
}

#[test]
fn a_target_that_is_a_whole_address_counts_like_the_host() {
    for (target, host, status) in [
        ("http://localhost:8080/health", "localhost:8080", 200),
        ("http://evil.example/health", "localhost", 403),
        ("http://localhost/health", "evil.example", 403),
        ("http://localhost@evil.example/health", "localhost", 403),
    ] {
        assert_eq!(ask(Method::GET, target).from(host).at(&plain()).0, status, "{target} {host}");
    }
    // The page's own origin is that of the target.
    let asked = |origin| ask(Method::GET, "http://10.0.0.1:80/props").from("10.0.0.2").with("origin", origin);
    assert_eq!(asked("http://10.0.0.1").at(&plain()).0, 200);
    assert_eq!(asked("http://10.0.0.2").at(&plain()).0, 403);
}

#[test]
fn without_a_word_pages_of_this_machine_and_of_the_server_may_ask() {
    let at = |host, origin| {
        let all = [get(), post(), ask(Method::OPTIONS, "/v1/models")]
            .map(|a| a.from(host).with("origin", origin).at(&plain()));
        assert!(all.iter().all(|one| one == &all[0]), "{host} {origin} {all:?}");
        all[0]
    };
    for (host, origin) in [
        ("localhost:8080", "http://localhost:8080"),
        ("localhost:8080", "http://localhost:3000"),
        ("localhost:8080", "http://127.0.0.1:8080"),
        ("localhost:8080", "https://localhost"),
        ("127.0.0.1:8080", "http://[::1]:3000"),
        ("127.0.0.1:8080", "http://tauri.localhost"),
        ("127.0.0.1:8080", "HTTP://LOCALHOST"),
        ("10.0.0.7:8080", "http://10.0.0.7:8080"),
        ("10.0.0.7", "http://10.0.0.7"),
        ("10.0.0.7", "https://10.0.0.7:443"),
        ("[fe80::7]:80", "http://[FE80:0::7]"),
    ] {
        assert_eq!(at(host, origin), (200, true), "{host} {origin}");
    }
    for (host, origin) in [
        ("localhost:8080", "http://evil.example"),
        ("localhost:8080", "null"),
        ("localhost:8080", ""),
        ("localhost:8080", "localhost:8080"),
        ("localhost:8080", "http://localhost.evil.example"),
        ("localhost:8080", "http://localhost@evil.example"),
        ("localhost:8080", "http://evil.example@localhost"),
        ("localhost:8080", "http://evil.example:8080/localhost"),
        ("localhost:8080", "http://127.0.0.1.evil.example:8080"),
        ("localhost:8080", "file://"),
        ("localhost:8080", "app://localhost"),
        ("localhost:8080", "vscode-webview://localhost"),
        ("localhost:8080", "http://localhost http://evil.example"),
        ("10.0.0.7:8080", "http://10.0.0.7:8081"),
        ("10.0.0.7:8080", "http://10.0.0.7"),
        ("10.0.0.7:8080", "https://10.0.0.7:80"),
        ("10.0.0.7:8080", "http://10.0.0.8:8080"),
    ] {
        assert_eq!(at(host, origin), (403, false), "{host} {origin}");
    }
    let twice = post().from("localhost").with("origin", "http://localhost").with("origin", "http://evil.example");
    assert_eq!(twice.at(&plain()).0, 400);
}

#[test]
fn origins_that_are_given_stand_instead_of_this_machines() {
    let given =
        ["https://chat.example", "app://", "tauri://localhost", "vscode-webview://*", "null", "HTTP://a.example:80/"];
    let given = door(&["127.0.0.1"], &[], &given, false);
    let at = |door: &Admission, origin| post().from("127.0.0.1:8080").with("origin", origin).at(door).0;
    for origin in [
        "https://chat.example",
        "https://chat.example:443",
        "app://obsidian.md",
        "tauri://localhost",
        "null",
        "http://a.example",
        "vscode-webview://0b1c",
        "http://127.0.0.1:8080",
    ] {
        assert_eq!(at(&given, origin), 200, "{origin}");
    }
    for origin in [
        "http://chat.example",
        "https://b.chat.example",
        "apps://x",
        "tauri://other",
        "http://localhost:3000",
        "http://a.example:81",
    ] {
        assert_eq!(at(&given, origin), 403, "{origin}");
    }
    let both = door(&["127.0.0.1"], &[], &["localhost", "https://chat.example"], false);
    assert_eq!((at(&both, "http://localhost:3000"), at(&both, "https://chat.example")), (200, 200));
    let all = door(&["127.0.0.1"], &[], &["*"], false);
    for origin in ["http://evil.example", "null", "web.mydomain.fr"] {
        assert_eq!(at(&all, origin), 200, "{origin}");
    }
    // A key lets in whoever shows it, but no page of strangers.
    let keyed = door(&["0.0.0.0"], &[], &[], true);
    assert_eq!(post().from("any.example").with("origin", "http://evil.example").at(&keyed).0, 403);
    assert_eq!(post().from("any.example").with("origin", "https://any.example").at(&keyed).0, 200);
}

#[test]
fn links_show_the_page_and_nothing_else() {
    let browser = |target, site, mode| {
        ask(Method::GET, target).from("127.0.0.1:8080").with("sec-fetch-site", site).with("sec-fetch-mode", mode)
    };
    for (target, site, mode, status) in [
        ("/", "cross-site", "navigate", 200),
        ("/page/main.js", "cross-site", "navigate", 200),
        ("/", "cross-site", "no-cors", 403),
        ("/page/main.js", "cross-site", "no-cors", 403),
        ("/props", "cross-site", "navigate", 403),
        ("/health", "cross-site", "navigate", 403),
        ("/v1/models", "cross-site", "no-cors", 403),
        ("/v1/models", "Cross-Site", "cors", 403),
        ("/v1/models", "unheard-of", "cors", 403),
        ("/v1/models", "same-origin", "cors", 200),
        ("/v1/models", "none", "navigate", 200),
        ("/v1/models", "same-site", "no-cors", 200),
    ] {
        assert_eq!(browser(target, site, mode).at(&plain()).0, status, "{target} {site} {mode}");
    }
    let own = door(&["127.0.0.1"], &["api.example"], &[], false);
    let neighbour = |target, mode| {
        ask(Method::GET, target)
            .from("api.example")
            .with("sec-fetch-site", "same-site")
            .with("sec-fetch-mode", mode)
            .at(&own)
            .0
    };
    assert_eq!((neighbour("/props", "no-cors"), neighbour("/", "navigate")), (403, 200));
    let all = door(&["127.0.0.1"], &[], &["*"], false);
    assert_eq!(browser("/props", "cross-site", "no-cors").at(&all).0, 200);
    // A form of a stranger's page, which browsers send as a navigation.
    let form = ask(Method::POST, "/")
        .from("localhost")
        .with("sec-fetch-site", "cross-site")
        .with("sec-fetch-mode", "navigate");
    assert_eq!(form.at(&plain()).0, 403);
}

#[test]
fn pages_send_json_and_programs_what_they_like() {
    let send = |kind: Option<&'static str>, page: Option<(&'static str, &'static str)>| {
        let mut asked = ask(Method::POST, "/v1/chat/completions").from("localhost:8080");
        asked.headers.extend(kind.map(|kind| ("content-type", kind)).into_iter().chain(page));
        asked.at(&plain()).0
    };
    let pages = [("origin", "http://localhost:3000"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none")];
    let json =
        ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json", " application/json "];
    let others = [
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/json",
        "application/jsonp",
        "application/json+x",
        "json",
        "",
        "application/",
    ];
    for page in pages {
        json.iter().for_each(|kind| assert_eq!(send(Some(kind), Some(page)), 200, "{kind}"));
        others.iter().for_each(|kind| assert_eq!(send(Some(kind), Some(page)), 415, "{kind}"));
        assert_eq!(send(None, Some(page)), 415);
    }
    // As curl -d does.
    json.iter().chain(&others).for_each(|kind| assert_eq!(send(Some(kind), None), 200, "{kind}"));
    assert_eq!(send(None, None), 200);
}
