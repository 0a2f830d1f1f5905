//! The ranks' output, where it does not go straight to ours.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::Sender;
use std::thread;

use super::events::Event;

/// Passes lines on, each with the rank's number in front.
pub(super) fn tag(
    rank: u32,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    events: Sender<Event>,
) -> io::Result<()> {
    each_line(from, events, move |line, _| {
        // One write a line, so that lines of different ranks don't mix.
        let mut tagged = format!("[{rank}] ").into_bytes();
        tagged.extend_from_slice(line);
        tagged.push(b'\n');
        let _ = to.write_all(&tagged).and_then(|()| to.flush());
    })
}

/// Makes events of lines.
pub(super) fn listen(from: impl Read + Send + 'static, events: Sender<Event>) -> io::Result<()> {
    each_line(from, events, |line, events| {
        // The queue lives as long as the tool.
        let _ = events.send(Event::Line(String::from_utf8_lossy(line).into_owned()));
    })
}

fn each_line(
    from: impl Read + Send + 'static,
    events: Sender<Event>,
    mut take: impl FnMut(&[u8], &Sender<Event>) + Send + 'static,
) -> io::Result<()> {
    let read = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // A reader that fails has nothing more to say.
        while let Ok(1..) = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            take(line.strip_suffix(b"\n").unwrap_or(&line), &events);
            line.clear();
        }
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
        tag(7, &b"one\n\nlast"[..], output.clone(), sender).unwrap();
        assert!(matches!(receiver.recv().unwrap(), Event::OutputClosed));
        assert_eq!(*output.0.lock().unwrap(), b"[7] one\n[7] \n[7] last\n");
    }

    #[test]
    fn lines_become_events() {
        let (sender, receiver) = mpsc::channel();
        listen(&b"a\nb"[..], sender).unwrap();
        let lines: Vec<_> =
            receiver.iter().map_while(|event| matches!(event, Event::Line(_)).then_some(event)).collect();
        assert_eq!(lines.len(), 2);
    }
}
