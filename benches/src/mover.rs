//! What a program can do by itself to have data move while it computes: threads at sockets, such as one for each way of a message.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::cores;
use crate::mid_page::MidPage;

/// A load, and a thread that moves it each time it is told to, and sleeps in between.
pub(crate) struct Mover<L> {
    /// `None` while the thread has it.
    load: Option<L>,
    begin: Sender<L>,
    done: Receiver<io::Result<L>>,
}

/// The load is a message.
impl Mover<MidPage<u8>> {
    /// Sends so many bytes each time.
    pub(crate) fn sending(mut stream: TcpStream, bytes: usize) -> io::Result<Self> {
        Self::new(MidPage::new(0, bytes), move |message| stream.write_all(message))
    }

    /// Receives so many bytes each time.
    pub(crate) fn receiving(mut stream: TcpStream, bytes: usize) -> io::Result<Self> {
        Self::new(MidPage::new(0, bytes), move |message| stream.read_exact(message))
    }
}

impl<L: Send + 'static> Mover<L> {
    pub(crate) fn new(
        load: L,
        mut transfer: impl FnMut(&mut L) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (begin, loads) = channel::<L>();
        let (moved, done) = channel();
        let work = move || {
            cores::roam();
            // Until nobody is left to tell it to.
            for mut load in loads {
                let result = transfer(&mut load).map(|()| load);
                if moved.send(result).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("mover".into()).spawn(work)?;
        Ok(Self { load: Some(load), begin, done })
    }

    pub(crate) fn load(&self) -> Option<&L> {
        self.load.as_ref()
    }

    pub(crate) fn load_mut(&mut self) -> Option<&mut L> {
        self.load.as_mut()
    }

    /// Wakes the thread.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Some(load) = self.load.take() else { return Ok(()) };
        self.begin.send(load).map_err(|_| io::Error::other("the thread has ended"))
    }

    /// Sleeps until the thread has done what it was told.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        if self.load.is_none() {
            self.load = Some(self.done.recv().map_err(io::Error::other)??);
        }
        Ok(())
    }
}
