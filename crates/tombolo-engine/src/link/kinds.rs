//! Kinds of links between two processes of one machine, and how each process gets its end (ISL-11).
//!
//! One process has started the other with a UNIX socket as its standard input. Over that socket it sends the name of
//! the link that the other process must open, and removes the name when the answer has arrived. A link of UNIX sockets
//! is that socket itself. Not here: messages (a link's users have them), the choice of a kind (`tombolo links`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, mkfifoat, open, unlink};
use rustix::pipe::PipeFlags;

use super::descriptors::Descriptors;
use super::framed::Framed;
use super::queue::{QueuePair, Queues};
use super::ring::{MEMORY_BYTES, Ring};
use super::unix::Control;
use super::{Link, UnixLink};

/// How long one end waits for the other to open the link that it was offered.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a link consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Memory that both processes share.
    Ring,
    /// A pair of UNIX sockets.
    Unix,
    /// A TCP connection over the loopback.
    Tcp,
    /// Two pipes.
    Pipe,
    /// Two named pipes.
    Fifo,
    /// Two POSIX message queues.
    MessageQueue,
}

impl LinkKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ring, Self::Unix, Self::Tcp, Self::Pipe, Self::Fifo, Self::MessageQueue];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Unix => "unix",
            Self::Tcp => "tcp",
            Self::Pipe => "pipe",
            Self::Fifo => "fifo",
            Self::MessageQueue => "message_queue",
        }
    }

    /// Whether one thread may receive while another one sends ([`Link::split`]): not over a ring or queues, whose ends
    /// have a state that both would change.
    pub const fn has_halves(self) -> bool {
        !matches!(self, Self::Ring | Self::MessageQueue)
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

fn failed(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(what.to_string())
}

/// The next message of a link, in words.
fn hear(link: &mut UnixLink) -> io::Result<String> {
    let mut waited = false;
    loop {
        match link.receive().map_err(failed)? {
            Some(message) => return Ok(String::from_utf8_lossy(message).into_owned()),
            None if waited => return Err(failed("the other process does not answer")),
            None => link.wait(PATIENCE),
        }
        waited = true;
    }
}

fn say(link: &mut UnixLink, words: &str) -> io::Result<()> {
    let sent = link.send(&[words.as_bytes()]).map_err(failed)?;
    if sent { Ok(()) } else { Err(failed("the other process does not listen")) }
}

/// Says what the other end is to open, and waits until it has.
fn tell(control: &mut UnixLink, kind: LinkKind, places: [&str; 2]) -> io::Result<()> {
    match ask(control, kind, places)? {
        answer if answer == OPENED => Ok(()),
        answer => Err(failed(answer)),
    }
}

/// The same; what it answers.
fn ask(control: &mut UnixLink, kind: LinkKind, places: [&str; 2]) -> io::Result<String> {
    say(control, &[kind.name(), places[0], places[1]].join("\0"))?;
    hear(control)
}

const OPENED: &str = "opened";

/// What this process has open, as another one of the same user finds it.
fn seen_by_others(descriptor: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd())
}

/// Makes a link of this kind with the process at the other end of `control`, which calls [`accept`]. Names
/// that it needs for a moment are made in `directory`.
///
/// # Errors
/// When the system has no such thing, or the other process does not answer.
pub fn offer(kind: LinkKind, mut control: UnixLink, directory: &Path) -> io::Result<Box<dyn Link>> {
    match kind {
        LinkKind::Unix => {
            tell(&mut control, kind, [""; 2])?;
            Ok(Box::new(control))
        }
        LinkKind::Tcp => offer_tcp(control),
        LinkKind::Pipe => {
            // A process that is started meanwhile must not keep them open.
            let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
            let (own_input, output) = pipe()?;
            let (input, own_output) = pipe()?;
            tell(&mut control, kind, [&seen_by_others(&input), &seen_by_others(&output)])?;
            Ok(Box::new(Framed::new(Descriptors::new(own_input, own_output)?)))
        }
        LinkKind::Fifo => offer_fifo(control, directory),
        LinkKind::Ring => {
            let memory = rustix::fs::memfd_create("tombolo-ring", MemfdFlags::CLOEXEC)?;
            rustix::fs::ftruncate(&memory, MEMORY_BYTES)?;
            tell(&mut control, kind, [&seen_by_others(&memory), ""])?;
            Ok(Box::new(Framed::new(Ring::new(&memory, true, Control::of(control))?)))
        }
        LinkKind::MessageQueue => offer_queues(control),
    }
}

#[expect(clippy::disallowed_types, reason = "this is the link door")]
fn offer_tcp(mut control: UnixLink) -> io::Result<Box<dyn Link>> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let answer = ask(&mut control, LinkKind::Tcp, [&listener.local_addr()?.to_string(), ""])?;
    let address = answer.strip_prefix(OPENED).and_then(|rest| rest.trim().parse().ok());
    let Some(address) = address else { return Err(failed(answer)) };
    loop {
        // Any process of the machine may connect; the other end is recognised by its address.
        let (socket, from) = listener.accept()?;
        if from == address {
            return tcp(socket);
        }
    }
}

#[expect(clippy::disallowed_types, reason = "this is the link door")]
fn tcp(socket: std::net::TcpStream) -> io::Result<Box<dyn Link>> {
    socket.set_nodelay(true)?;
    let input = OwnedFd::from(socket);
    let output = input.try_clone()?;
    Ok(Box::new(Framed::new(Descriptors::new(input, output)?)))
}

fn offer_fifo(mut control: UnixLink, directory: &Path) -> io::Result<Box<dyn Link>> {
    let places = ["in", "out"].map(|way| {
        directory.join(format!("fifo-{}-{}-{way}", std::process::id(), control.descriptor()))
    });
    let made = places.iter().try_for_each(|place| mkfifoat(CWD, place, Mode::RUSR | Mode::WUSR));
    let opened = made.map_err(io::Error::from).and_then(|()| {
        let input =
            open(&places[0], OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let [own_input, own_output] = places.each_ref().map(|place| place.to_string_lossy());
        let opened =
            |how| open(&places[1], how | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        // A pipe without a writer looks closed to its reader, and a pipe without a reader cannot be opened for
        // writing. So this end opens it for both until the other end reads.
        let both = opened(OFlags::RDWR)?;
        // The other one writes where this one reads.
        tell(&mut control, LinkKind::Fifo, [&own_output, &own_input])?;
        let output = opened(OFlags::WRONLY)?;
        drop(both);
        Descriptors::new(input, output)
    });
    // Names are not needed any more, whether or not they were made.
    places.iter().for_each(|place| _ = unlink(place));
    Ok(Box::new(Framed::new(opened?)))
}

fn offer_queues(mut control: UnixLink) -> io::Result<Box<dyn Link>> {
    // Names of queues are the machine's: process and socket make them unlike others.
    let name = |way| format!("/tombolo-{}-{}-{way}", std::process::id(), control.descriptor());
    let names = ["in", "out"].map(name);
    let opened = QueuePair::make(&names).and_then(|pair| {
        // The other one writes where this one reads.
        tell(&mut control, LinkKind::MessageQueue, [&names[1], &names[0]])?;
        Ok(pair)
    });
    QueuePair::forget(&names);
    Ok(Box::new(Framed::new(Queues::new(opened?, Control::of(control)))))
}

/// Opens the end of a link that the process at the other end of `control` offers.
///
/// # Errors
/// When what it says cannot be opened, which it learns, too.
pub fn accept(mut control: UnixLink) -> io::Result<Box<dyn Link>> {
    let offered = hear(&mut control)?;
    let mut words = offered.split('\0');
    let kind = words.next().and_then(LinkKind::named);
    let places = [(); 2].map(|()| words.next().unwrap_or_default());
    let opened = match kind {
        Some(kind) => Opened::open(kind, places),
        None => Err(failed(format!("a link of no known kind is offered: {offered}"))),
    };
    match opened {
        Ok(opened) => {
            say(&mut control, &opened.answer())?;
            opened.link(control)
        }
        Err(error) => {
            say(&mut control, &error.to_string())?;
            Err(error)
        }
    }
}

/// What was opened, before the other process learns that.
enum Opened {
    Control,
    Stream(Box<dyn Link>),
    /// A connection from this address.
    Connection(Box<dyn Link>, SocketAddr),
    Memory(OwnedFd),
    Queues(QueuePair),
}

impl Opened {
    fn open(kind: LinkKind, [first, second]: [&str; 2]) -> io::Result<Self> {
        let opened = |place: &str, how: OFlags| {
            Ok::<_, io::Error>(open(
                place,
                how | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )?)
        };
        Ok(match kind {
            LinkKind::Unix => Self::Control,
            LinkKind::Tcp => Self::connect(first)?,
            LinkKind::Pipe | LinkKind::Fifo => {
                let (input, output) =
                    (opened(first, OFlags::RDONLY)?, opened(second, OFlags::WRONLY)?);
                Self::Stream(Box::new(Framed::new(Descriptors::new(input, output)?)))
            }
            LinkKind::Ring => Self::Memory(opened(first, OFlags::RDWR)?),
            LinkKind::MessageQueue => Self::Queues(QueuePair::open([first, second])?),
        })
    }

    #[expect(clippy::disallowed_types, reason = "this is the link door")]
    fn connect(address: &str) -> io::Result<Self> {
        let socket = std::net::TcpStream::connect(address)?;
        let own = socket.local_addr()?;
        Ok(Self::Connection(tcp(socket)?, own))
    }

    /// The answer to the other process.
    fn answer(&self) -> String {
        match self {
            Self::Connection(_, own) => format!("{OPENED} {own}"),
            _ => OPENED.to_owned(),
        }
    }

    fn link(self, control: UnixLink) -> io::Result<Box<dyn Link>> {
        Ok(match self {
            Self::Control => Box::new(control),
            Self::Stream(link) | Self::Connection(link, _) => link,
            Self::Memory(memory) => {
                Box::new(Framed::new(Ring::new(&memory, false, Control::of(control))?))
            }
            Self::Queues(pair) => Box::new(Framed::new(Queues::new(pair, Control::of(control)))),
        })
    }
}
