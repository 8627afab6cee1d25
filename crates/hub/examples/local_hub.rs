//! A hub on this machine over the files of a folder (`FOLDER/user/repo/…`), for trying clients without a network.
//!
//! `local_hub FOLDER [CUT]` prints its address and serves until it is stopped. With CUT, each body of a large file breaks
//! off after so many bytes, three times in all.

use std::path::Path;
use testkit::local_hub::{Faults, LocalHub};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: local_hub FOLDER [CUT]");
        std::process::exit(2);
    };
    let hub = LocalHub::start();
    for user in std::fs::read_dir(&folder)? {
        let user = user?;
        for repo in std::fs::read_dir(user.path())? {
            let repo = repo?;
            let id = format!("{}/{}", user.file_name().to_string_lossy(), repo.file_name().to_string_lossy());
            add(&hub, &id, &repo.path(), "")?;
        }
    }
    if let Some(bytes) = arguments.next().and_then(|bytes| bytes.parse().ok()) {
        hub.fault(Faults { cut: Some((bytes, 3)), ..Faults::default() });
    }
    println!("{}", hub.endpoint);
    loop {
        std::thread::park();
    }
}

fn add(hub: &LocalHub, repo: &str, folder: &Path, above: &str) -> std::io::Result<()> {
    for item in std::fs::read_dir(folder)? {
        let item = item?;
        let path = format!("{above}{}", item.file_name().to_string_lossy());
        match item.path().is_dir() {
            true => add(hub, repo, &item.path(), &format!("{path}/"))?,
            false => hub.add(repo, &path, &std::fs::read(item.path())?),
        }
    }
    Ok(())
}
