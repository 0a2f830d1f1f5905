//! What a program can do by itself to have messages move while it computes: a thread at a socket for each way.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::cores;

/// A message, and a thread that moves it each time it is told to, and sleeps in between.
pub(crate) struct Mover {
    /// `None` while the thread has it.
    message: Option<Vec<u8>>,
    begin: Sender<Vec<u8>>,
    done: Receiver<io::Result<Vec<u8>>>,
}

impl Mover {
    /// Sends so many bytes each time.
    pub(crate) fn sending(mut stream: TcpStream, bytes: usize) -> io::Result<Self> {
        Self::new(bytes, move |message| stream.write_all(message))
    }

    /// Receives so many bytes each time.
    pub(crate) fn receiving(mut stream: TcpStream, bytes: usize) -> io::Result<Self> {
        Self::new(bytes, move |message| stream.read_exact(message))
    }

    fn new(bytes: usize, mut transfer: impl FnMut(&mut [u8]) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (begin, messages) = channel::<Vec<u8>>();
        let (moved, done) = channel();
        let work = move || {
            cores::roam();
            // Until nobody is left to tell it to.
            for mut message in messages {
                let result = transfer(&mut message).map(|()| message);
                if moved.send(result).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("mover".into()).spawn(work)?;
        Ok(Self { message: Some(vec![0; bytes]), begin, done })
    }

    pub(crate) fn message(&self) -> Option<&[u8]> {
        self.message.as_deref()
    }

    pub(crate) fn message_mut(&mut self) -> Option<&mut [u8]> {
        self.message.as_deref_mut()
    }

    /// Wakes the thread.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Some(message) = self.message.take() else { return Ok(()) };
        self.begin.send(message).map_err(io::Error::other)
    }

    /// Sleeps until the thread has done what it was told.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        if self.message.is_none() {
            self.message = Some(self.done.recv().map_err(io::Error::other)??);
        }
        Ok(())
    }
}
