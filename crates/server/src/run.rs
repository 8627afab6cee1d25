//! A server from its first address to its last answer.

use crate::app::{App, Options};
use crate::loader::Loader;
use crate::router::router;
use crate::system;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long a client may take for the head of a request.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// An address that everybody can reach, and no key.
    #[error("{0} can be reached from outside and there is no key; give --api-key, or --insecure if that is meant")]
    Open(String),
    /// An address that everybody can reach, and no key for those who manage models.
    #[error("{0} can be reached from outside: --manage-models needs a loopback address, or --api-key")]
    Manage(String),
    /// The system.
    #[error("the server cannot run: {0}")]
    System(#[from] io::Error),
    /// A device that is gone.
    #[error("{0}; nothing can be computed any more, so the server has ended")]
    Lost(String),
    /// The model could not be loaded; whoever loads it has said why.
    #[error("{0}")]
    Load(String),
}

/// Refuses what would let everybody in by accident.
///
/// # Errors
/// [`ServeError::Open`] and [`ServeError::Manage`].
pub fn check(options: &Options, insecure: bool) -> Result<(), ServeError> {
    match options.open_host() {
        Some(host) if options.api_keys.is_empty() && !insecure => Err(ServeError::Open(host.to_owned())),
        Some(host) if options.api_keys.is_empty() && options.manage_models => Err(ServeError::Manage(host.to_owned())),
        _ => Ok(()),
    }
}

/// Listens, has `loader` load its usual model meanwhile if it has one, and serves until SIGTERM or Ctrl-C. `listening` hears
/// of the addresses. From the signal on nothing new is taken; what is under way may go on for [`Options::drain`]. A second
/// signal ends at once. When a device is gone, what is open gets an error, and the server ends.
///
/// # Errors
/// Addresses that cannot be had, a usual model that cannot be loaded, and a device that is gone.
pub fn run(options: Options, listening: impl FnOnce(&[SocketAddr]), loader: Arc<dyn Loader>) -> Result<(), ServeError> {
    system::keep_no_large_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(serve(Arc::new(App::of(options, Some(loader))), listening));
    // Connections that never end, and bodies that nobody waits for, end with the program.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

async fn serve(app: Arc<App>, listening: impl FnOnce(&[SocketAddr])) -> Result<(), ServeError> {
    let (end, ended) = watch::channel(false);
    let mut addresses = vec![];
    let mut servers = vec![];
    let mut port = app.options.port;
    for host in &app.options.hosts {
        let host = host.trim_matches(['[', ']']);
        let failed = |error| ServeError::Listen { address: format!("{host}:{port}"), error };
        let listener = TcpListener::bind((host, port)).await.map_err(failed)?;
        let address = listener.local_addr()?;
        port = address.port();
        addresses.push(address);
        servers.push(tokio::spawn(accept(listener, app.clone(), ended.clone())));
    }
    listening(&addresses);
    let mut signals = Signals::new()?;
    tokio::spawn(app.shelf.clone().tend());
    let mut lost = None;
    tokio::select! {
        opened = app.shelf.open() => match opened {
            Ok(()) => tokio::select! {
                problem = loss(&app) => lost = Some(problem),
                () = signals.next() => {}
            },
            Err(problem) => return Err(ServeError::Load(problem.message)),
        },
        () = signals.next() => {}
    }
    tokio::select! {
        () = drain(&app) => {}
        () = signals.next() => {}
    }
    let _ = end.send(true);
    // Answers that were cut short are told so; idle connections are not waited for.
    for server in servers {
        let _ = tokio::time::timeout(Duration::from_millis(500), server).await;
    }
    lost.map_or(Ok(()), |problem| Err(ServeError::Lost(problem)))
}

/// Waits until the device of a model is gone, and says why.
async fn loss(app: &App) -> String {
    loop {
        if let Some(problem) = app.shelf.stats().lost {
            return problem;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Takes connections until the end.
async fn accept(listener: TcpListener, app: Arc<App>, ended: watch::Receiver<bool>) {
    let router = router(app);
    let mut http = http1::Builder::new();
    // Names of headers are written as they always were: some scripts compare them letter by letter.
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).title_case_headers(true);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = over(ended.clone()) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or a client that was too quick: both pass.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let ended = ended.clone();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                () = over(ended) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
    }
}

async fn over(mut ended: watch::Receiver<bool>) {
    let _ = ended.wait_for(|over| *over).await;
}

/// Waits until all answers are given, or cuts them short when the time is over.
async fn drain(app: &Arc<App>) {
    app.drain();
    let deadline = tokio::time::Instant::now() + app.options.drain;
    while app.active() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let models = app.shelf.loaded();
    models.iter().for_each(|loaded| loaded.model.worker.abort());
    for _ in 0..100 {
        if models.iter().all(|loaded| loaded.model.worker.is_ended()) && app.active() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The signals that end a server.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
        }
        #[cfg(not(unix))]
        Ok(Signals {})
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_need_a_key_or_a_word() {
        let on = |host: &str| Options { hosts: vec![host.into()], ..Options::default() };
        for host in ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.9.1"] {
            assert!(check(&on(host), false).is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.evil.com"] {
            assert!(check(&on(host), false).unwrap_err().to_string().contains(host));
            assert!(check(&on(host), true).is_ok());
            assert!(check(&Options { api_keys: vec!["k".into()], ..on(host) }, false).is_ok());
            let manages = Options { manage_models: true, ..on(host) };
            assert!(check(&manages, true).unwrap_err().to_string().contains("--manage-models"));
            assert!(check(&Options { api_keys: vec!["k".into()], ..manages }, false).is_ok());
        }
    }
}
