//! The ranks' output, where it does not go straight to ours.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::events::Event;

/// The outputs that are read, each by a thread, and whether anything moves there.
#[derive(Default)]
pub(super) struct Outputs {
    /// Not kept open by us: who has nobody to pass its lines on to has to learn it.
    pipes: Vec<Weak<File>>,
    flow: Arc<Flow>,
    /// Lines that had come when this was last looked at.
    seen: u64,
}

/// What the threads are doing.
#[derive(Default)]
struct Flow {
    lines: AtomicU64,
    /// Those that may be waiting until somebody reads what they write.
    writing: AtomicU64,
}

impl Outputs {
    /// Passes lines on, each with the rank's number in front.
    pub(super) fn tag(
        &mut self,
        rank: u32,
        from: impl Into<OwnedFd>,
        to: impl Write + Send + 'static,
        events: Sender<Event>,
    ) -> io::Result<()> {
        tag(rank, self.pipe(from), to, Arc::clone(&self.flow), events)
    }

    /// Makes events of lines.
    pub(super) fn listen(&mut self, from: impl Into<OwnedFd>, events: Sender<Event>) -> io::Result<()> {
        listen(self.pipe(from), Arc::clone(&self.flow), events)
    }

    fn pipe(&mut self, from: impl Into<OwnedFd>) -> Arc<File> {
        let pipe = Arc::new(File::from(from.into()));
        self.pipes.push(Arc::downgrade(&pipe));
        pipe
    }

    /// Whether somebody who reads our output keeps us waiting.
    pub(super) fn are_held_up(&self) -> bool {
        self.flow.writing.load(Ordering::Relaxed) > 0
    }

    /// Whether nothing has come since this was last asked, and nothing is there.
    pub(super) fn are_idle(&mut self) -> bool {
        let lines = self.flow.lines.load(Ordering::Relaxed);
        let is_new = std::mem::replace(&mut self.seen, lines) != lines;
        !is_new && !self.are_held_up() && !self.pipes.iter().any(has_more)
    }
}

/// Whether the thread that reads a pipe will find something there, be it the end.
fn has_more(pipe: &Weak<File>) -> bool {
    let Some(pipe) = pipe.upgrade() else { return false };
    poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

fn tag(
    rank: u32,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    flow: Arc<Flow>,
    events: Sender<Event>,
) -> io::Result<()> {
    each_line(from, Arc::clone(&flow), events, move |line, _| {
        // One write a line, so that lines of different ranks don't mix.
        let mut tagged = format!("[{rank}] ").into_bytes();
        tagged.extend_from_slice(line);
        tagged.push(b'\n');
        flow.writing.fetch_add(1, Ordering::Relaxed);
        let written = to.write_all(&tagged).and_then(|()| to.flush());
        flow.writing.fetch_sub(1, Ordering::Relaxed);
        // A terminal that others have made nonblocking has not gone.
        written.map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |()| true)
    })
}

fn listen(from: impl Read + Send + 'static, flow: Arc<Flow>, events: Sender<Event>) -> io::Result<()> {
    each_line(from, flow, events, |line, events| {
        // The queue lives as long as the tool.
        events.send(Event::Line(String::from_utf8_lossy(line).into_owned())).is_ok()
    })
}

/// Takes lines as long as `take` wants them. Then the pipe is closed, as it would be if its writer wrote straight to who has gone.
fn each_line(
    from: impl Read + Send + 'static,
    flow: Arc<Flow>,
    events: Sender<Event>,
    mut take: impl FnMut(&[u8], &Sender<Event>) -> bool + Send + 'static,
) -> io::Result<()> {
    let read = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // A reader that fails has nothing more to say.
        while let Ok(1..) = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            flow.lines.fetch_add(1, Ordering::Relaxed);
            if !take(line.strip_suffix(b"\n").unwrap_or(&line), &events) {
                break;
            }
            line.clear();
        }
        drop(from);
        let _ = events.send(Event::OutputClosed);
    };
    thread::Builder::new().name("output".into()).spawn(read).map(drop)
}

/// Longer lines are cut, so that a rank that writes no line end does not fill our memory. Solutions are long.
const LINE_BYTES_MAX: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_has_its_rank() {
        let (sender, receiver) = mpsc::channel();
        let output = Shared::default();
        tag(7, &b"one\n\nlast"[..], output.clone(), Arc::default(), sender).unwrap();
        assert!(matches!(receiver.recv().unwrap(), Event::OutputClosed));
        assert_eq!(*output.0.lock().unwrap(), b"[7] one\n[7] \n[7] last\n");
    }

    #[test]
    fn lines_become_events() {
        let (sender, receiver) = mpsc::channel();
        listen(&b"a\nb"[..], Arc::default(), sender).unwrap();
        let lines: Vec<_> =
            receiver.iter().map_while(|event| matches!(event, Event::Line(_)).then_some(event)).collect();
        assert_eq!(lines.len(), 2);
    }
}
