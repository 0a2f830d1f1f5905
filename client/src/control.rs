//! The control socket: attach, create a job, reserve memory. Launchers use it too.

use std::fmt;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ropeway_proto::control::{JobSpec, Refusal, Reply, Request, decode, encode};
use ropeway_proto::costs::Costs;
use ropeway_proto::hello::VersionRange;
use ropeway_proto::{JobId, Rank};
use ropeway_shm::descriptor;

use crate::Error;

/// A connection to a daemon on which one asks and waits for the answer.
pub struct ControlSocket {
    stream: UnixStream,
    received: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl ControlSocket {
    /// Speaks the control protocol on `stream`.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new(), descriptors: Vec::new() }
    }

    /// Asks the daemon and waits for its answer. A refusal is an error.
    pub fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.ask(request)?;
        self.answer()
    }

    /// Asks the daemon, and does not wait for its answer.
    pub fn ask(&mut self, request: &Request) -> Result<(), Error> {
        match self.stream.write_all(&encode(request)) {
            Ok(()) => Ok(()),
            // A daemon that has thrown us out may have said why before it closed.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(io_error("asking the daemon")(error)),
        }
    }

    /// Waits for an answer, as long as the stream's timeout says. If that is over, one may wait again.
    pub fn answer(&mut self) -> Result<Reply, Error> {
        accepted(self.receive()?)
    }

    /// Asks whether the daemon is of our build, so that programs with our library can use it.
    pub fn greeting() -> Request {
        Request::Greet { versions: VersionRange::CURRENT, build: ropeway_shm::BUILD }
    }

    /// What the daemon has answered to [`greeting`](Self::greeting).
    pub fn is_same_build(answer: Result<Reply, Error>) -> Result<bool, Error> {
        match answer {
            Ok(Reply::Greeted) => Ok(true),
            Ok(reply) => Err(unexpected(&reply)),
            // One that is older than the question throws us out for it.
            Err(Error::Evicted { .. }) => Ok(false),
            Err(error) if error.is_of_another_build() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says which rank is to come on this connection. If it is closed before, the daemon takes that rank for one that has left.
    pub fn expect(stream: &mut UnixStream, job: JobId, rank: Rank) -> io::Result<()> {
        stream.write_all(&encode(&Request::Expect { job, rank }))
    }

    /// Creates a job on the daemon's node. Says what messages cost, which the job's other nodes are to be told in its description.
    pub fn create_job(&mut self, spec: JobSpec) -> Result<Costs, Error> {
        Self::costs(self.call(&Self::creation(spec)))
    }

    /// Asks for a job.
    pub fn creation(spec: JobSpec) -> Request {
        Request::CreateJob { versions: VersionRange::CURRENT, spec }
    }

    /// What the daemon has answered to [`creation`](Self::creation): what messages cost.
    pub fn costs(answer: Result<Reply, Error>) -> Result<Costs, Error> {
        match answer? {
            Reply::JobCreated { costs } => Ok(costs),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Has the daemon do what ranks have asked for until now, and count what they have done without it.
    pub fn count(&mut self) -> Result<(), Error> {
        match self.call(&Request::Count)? {
            Reply::Counted => Ok(()),
            reply => Err(unexpected(&reply)),
        }
    }

    /// The next message. Descriptors that come with it are kept for [`take_descriptors`](Self::take_descriptors).
    pub(crate) fn receive(&mut self) -> Result<Reply, Error> {
        loop {
            match decode(&mut self.received) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(error) => return Err(Error::BadReply { what: error.to_string() }),
            }
            let mut bytes = [0; 2048];
            let count = match descriptor::receive(self.stream.as_fd(), &mut bytes, &mut self.descriptors) {
                Ok(0) => return Err(Error::DaemonGone),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(Error::DaemonGone),
                Err(error) => return Err(io_error("listening to the daemon")(error)),
            };
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    pub(crate) fn try_clone_stream(&self) -> Result<UnixStream, Error> {
        self.stream.try_clone().map_err(io_error("sharing the control socket"))
    }

    /// Says no more, and reads what comes until the daemon has closed its end.
    pub(crate) fn drain(&mut self) {
        // Both fail only if the daemon has closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = io::copy(&mut &self.stream, &mut io::sink());
    }
}

impl fmt::Debug for ControlSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlSocket").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Sorts out the replies that are errors.
pub(crate) fn accepted(reply: Reply) -> Result<Reply, Error> {
    match reply {
        Reply::Refused(Refusal::Version { daemon, client }) => Err(Error::VersionMismatch { daemon, client }),
        Reply::Refused(Refusal::OutOfMemory { requested, available, limit }) => {
            Err(Error::OutOfMemory { requested, available, limit })
        }
        Reply::Refused(refusal) => Err(Error::Refused(refusal)),
        Reply::Evicted { reason } => Err(Error::Evicted { reason }),
        reply => Ok(reply),
    }
}

/// A reply of the wrong kind.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::BadReply { what: format!("{reply:?}") }
}

pub(crate) fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io { doing, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ropeway_proto::JobId;
    use ropeway_proto::control::MemoryLimit;

    fn answered(reply: &Reply) -> Result<Reply, Error> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&encode(reply)).unwrap();
        let spec = JobSpec::single_node(JobId(1), 1);
        ControlSocket::new(ours).call(&Request::CreateJob { versions: VersionRange::CURRENT, spec })
    }

    #[test]
    fn an_answer_comes_back() {
        assert!(matches!(answered(&Reply::Registered), Ok(Reply::Registered)));
    }

    #[test]
    fn refusals_are_errors() {
        let (daemon, client) = (VersionRange { min: 8, max: 9 }, VersionRange::CURRENT);
        let error = answered(&Reply::Refused(Refusal::Version { daemon, client })).unwrap_err();
        let (text, ours) = (error.to_string(), VersionRange::CURRENT);
        assert_eq!(text, format!("no common protocol version: the daemon speaks 8 to 9, this library speaks {ours}"));
        let limit = MemoryLimit::Job;
        let error = answered(&Reply::Refused(Refusal::OutOfMemory { requested: 9, available: 4, limit })).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { requested: 9, available: 4, limit: MemoryLimit::Job }));
        let error = answered(&Reply::Evicted { reason: "lies".into() }).unwrap_err();
        assert!(matches!(error, Error::Evicted { reason } if reason == "lies"));
    }

    #[test]
    fn a_closed_socket_is_a_daemon_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(matches!(ControlSocket::new(ours).call(&Request::Detach), Err(Error::DaemonGone)));
    }
}
