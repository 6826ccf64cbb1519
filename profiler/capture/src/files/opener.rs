//! Opens the files of recorded programs in separate processes: a file system that a program serves (FUSE) may never answer, and a process that waits for it
//! can't even be killed. Draining continues meanwhile, and the recording ends without the file.

pub mod helper;
mod served;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};
use rustc_hash::FxHashMap;

use self::helper::{Answer, Ask};
use crate::proc::open_files;
use crate::socket::link::Link;
use crate::socket::packet;
use base::event::Mapping;

/// How long a file may take, or a piece of a file that is copied.
const PATIENCE: Duration = Duration::from_secs(5);
/// When to try a file system again that did not answer.
const AGAIN: Duration = Duration::from_secs(20);
/// A file that takes this long no longer delays others.
const SLOW: Duration = Duration::from_millis(100);
/// The most time between two turns that counts as waiting: we may have been stopped meanwhile.
const STEP: Duration = Duration::from_millis(100);
/// How many such steps the end of a recording waits without an answer.
const LAST_STEPS: u32 = 30;
/// Maximum number of processes at once.
const HELPERS: usize = 8;
/// Maximum number of abandoned processes: beyond this no more files are opened.
const GIVEN_UP: u32 = 32;
/// Maximum bytes of all copies of files.
const COPIES: u64 = 512 << 20;
/// The reason for files whose process ended.
const ENDED: &str = "the process that opens files ended";
/// Maximum bytes of an answer.
const ANSWER_LIMIT: usize = 4096;

/// Starts the other end of a socket, a process or (in tests) something else, with the rights of a user; `None`: with our own.
pub type Start = fn(OwnedFd, Option<u32>) -> io::Result<Option<Child>>;

/// Something to open.
#[derive(Debug, Clone)]
pub enum Job {
    /// A mapped file.
    Mapped(Box<Mapping>),
    /// The folder of a compiler's perf map: the compiler's number, and its process.
    Folder(u64, u32),
    /// A perf map: its compiler's number, its process, and its folder.
    PerfMap(u64, u32, Ask, Rc<Folder>),
}

/// A folder that is opened with `O_PATH` only.
#[derive(Debug)]
pub struct Folder {
    /// Its descriptor (`O_PATH`): closing it involves no file system.
    pub file: File,
    /// Device and inode.
    pub id: (u64, u64),
}

/// The place of a file that does not answer: others in the same place are not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Device(u32, u32),
    Process(u32),
    Folder((u64, u64)),
}

/// Why a file was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It may not be read, or does not exist.
    Refused(String),
    /// Its file system does not answer.
    Silent,
}

/// An open file, and its device and inode.
pub type Opened = (OwnedFd, (u64, u64));

/// A finished job and its result.
pub type Done = (Job, Result<Opened, Failure>);

/// A message of a process.
enum Heard {
    Opened(Opened, u64),
    Refused(String),
    Gone,
}

/// A process that opens one file at a time.
struct Helper {
    child: Option<Child>,
    link: Link,
    job: Option<Job>,
    waited: Duration,
}

/// Distributes jobs to the processes that open files.
pub struct Opener {
    start: Start,
    user: Option<u32>,
    helpers: Vec<Helper>,
    queue: VecDeque<Job>,
    /// When each place stopped answering.
    silent: FxHashMap<Place, Instant>,
    looked: Instant,
    copies_left: u64,
    given_up: u32,
    last_steps: u32,
    buffer: Vec<u8>,
}

impl Job {
    fn place(&self) -> Place {
        match self {
            Self::Mapped(mapping) => Place::Device(mapping.file.major, mapping.file.minor),
            Self::Folder(_, pid) => Place::Process(*pid),
            Self::PerfMap(.., folder) => Place::Folder(folder.id),
        }
    }
}

impl Helper {
    fn start(start: Start, user: Option<u32>) -> io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok(Self {
            child: start(theirs, user)?,
            link: ours.into(),
            job: None,
            waited: Duration::ZERO,
        })
    }

    fn is_slow(&self) -> bool {
        self.job.is_some() && self.waited >= SLOW
    }

    fn send(&mut self, job: Job, copy: u64) {
        let (ask, folder) = match &job {
            Job::Mapped(mapping) => (Ask::mapped(mapping), None),
            Job::Folder(_, pid) => (Ask::Folder(*pid), None),
            Job::PerfMap(_, _, ask, folder) => (ask.clone(), Some(folder.file.as_fd())),
        };
        let _ = self.link.send(&(ask, copy), folder); // if it is gone, the next read shows it
        (self.job, self.waited) = (Some(job), Duration::ZERO);
    }

    /// Its next message, if there is one.
    fn hear(&mut self, buffer: &mut [u8]) -> Option<Heard> {
        loop {
            let packet = match packet::receive(self.link.as_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(packet) if packet.len > 0 => packet,
                Err(Errno::EAGAIN) => return None,
                Err(Errno::EINTR) => continue,
                _ => return Some(Heard::Gone),
            };
            let answer = serde_json::from_slice(buffer.get(..packet.len).unwrap_or_default());
            return Some(match (answer, packet.descriptor) {
                (Ok(Answer::Copying), _) => {
                    self.waited = Duration::ZERO;
                    continue;
                }
                (Ok(Answer::Opened { id, copied }), Some(file)) => Heard::Opened((file, id), copied),
                (Ok(Answer::Opened { .. }), None) => Heard::Refused(open_files::remedy()),
                (Ok(Answer::Refused(why)), _) => Heard::Refused(why),
                (Err(_), _) => Heard::Gone,
            });
        }
    }
}

impl Opener {
    /// Opens files for this user; `None`: with our own rights.
    ///
    /// # Errors
    /// When no process can be created.
    pub fn new(start: Start, user: Option<u32>) -> io::Result<Self> {
        Ok(Self {
            helpers: vec![Helper::start(start, user)?],
            start,
            user,
            queue: VecDeque::new(),
            silent: FxHashMap::default(),
            looked: Instant::now(),
            copies_left: COPIES,
            given_up: 0,
            last_steps: LAST_STEPS,
            buffer: vec![0; ANSWER_LIMIT],
        })
    }

    /// The IDs of its processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.helpers
            .iter()
            .filter_map(|helper| Some(helper.child.as_ref()?.id()))
    }

    /// The sockets that become readable once there is an answer.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.helpers.iter().map(|helper| helper.link.as_fd())
    }

    /// Queues a job.
    pub fn open(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// Whether there is nothing left to open.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.helpers.iter().all(|helper| helper.job.is_none())
    }

    /// Returns what was opened, and what won't be. Never waits.
    pub fn turn(&mut self) -> Vec<Done> {
        let mut done = self.collect();
        let now = Instant::now();
        let step = now.saturating_duration_since(self.looked).min(STEP);
        self.looked = now;
        for helper in &mut self.helpers {
            helper.waited += step;
        }
        self.give_up(PATIENCE, &mut done);
        self.assign(&mut done);
        done
    }

    /// As [`Self::turn`], for the end of a recording: waits for the remaining files, and gives up after a while. `None`: nothing remains.
    pub fn finish(&mut self) -> Option<Vec<Done>> {
        if self.is_idle() {
            return None;
        }
        let mut done = self.turn();
        if self.last_steps == 0 {
            self.give_up(Duration::ZERO, &mut done);
            let rest = std::mem::take(&mut self.queue);
            done.extend(rest.into_iter().map(|job| (job, Err(Failure::Silent))));
        }
        if done.is_empty() {
            let poll_fd = |socket| PollFd::new(socket, PollFlags::POLLIN);
            let mut sockets: Vec<PollFd<'_>> = self.sockets().map(poll_fd).collect();
            let step = PollTimeout::try_from(STEP).unwrap_or(PollTimeout::ZERO);
            let answers = poll(&mut sockets, step).unwrap_or(0);
            self.last_steps -= u32::from(answers == 0);
        }
        Some(done)
    }

    fn collect(&mut self) -> Vec<Done> {
        let mut done = Vec::new();
        let gone = self.helpers.extract_if(.., |helper| {
            let (result, is_gone) = match helper.hear(&mut self.buffer) {
                None => return false,
                Some(Heard::Opened(opened, copied)) => {
                    self.copies_left = self.copies_left.saturating_sub(copied);
                    (Ok(opened), false)
                }
                Some(Heard::Refused(why)) => (Err(Failure::Refused(why)), false),
                Some(Heard::Gone) => (Err(Failure::Refused(ENDED.to_owned())), true),
            };
            done.extend(helper.job.take().map(|job| (job, result)));
            is_gone
        });
        self.given_up += u32::try_from(gone.count()).unwrap_or(u32::MAX);
        done
    }

    /// Abandons processes that have not answered for `patience`: they can't be reaped, and end when their file systems do.
    fn give_up(&mut self, patience: Duration, done: &mut Vec<Done>) {
        let now = Instant::now();
        for mut helper in self
            .helpers
            .extract_if(.., |helper| helper.job.is_some() && helper.waited >= patience)
        {
            if let Some(child) = &mut helper.child {
                let _ = child.kill(); // it may have ended already
            }
            self.given_up += 1;
            if let Some(job) = helper.job.take() {
                self.silent.insert(job.place(), now);
                done.push((job, Err(Failure::Silent)));
            }
        }
    }

    /// Hands jobs to idle processes.
    fn assign(&mut self, done: &mut Vec<Done>) {
        let mut waiting = VecDeque::new();
        while let Some(job) = self.queue.pop_front() {
            let place = job.place();
            let is_silent = self.silent.get(&place).is_some_and(|since| since.elapsed() < AGAIN);
            if is_silent || self.given_up >= GIVEN_UP {
                done.push((job, Err(Failure::Silent)));
                continue;
            }
            let is_slow_there =
                |helper: &Helper| helper.is_slow() && helper.job.as_ref().map(Job::place) == Some(place);
            if self.helpers.iter().any(is_slow_there) {
                waiting.push_back(job);
                continue;
            }
            let Some(index) = self.idle() else {
                waiting.push_back(job);
                break;
            };
            if let Some(helper) = self.helpers.get_mut(index) {
                helper.send(job, self.copies_left);
            }
        }
        waiting.extend(self.queue.drain(..));
        self.queue = waiting;
    }

    /// Index of an idle process; of a new one if the others take long.
    fn idle(&mut self) -> Option<usize> {
        if let Some(index) = self.helpers.iter().position(|helper| helper.job.is_none()) {
            return Some(index);
        }
        if self.helpers.len() < HELPERS && self.helpers.iter().all(Helper::is_slow) {
            self.helpers.push(Helper::start(self.start, self.user).ok()?);
            return Some(self.helpers.len() - 1);
        }
        None
    }
}

/// Starts `ngmi __open`, which inherits neither our folder nor our output.
///
/// # Errors
/// When no process can be created.
pub fn process(socket: OwnedFd, user: Option<u32>) -> io::Result<Option<Child>> {
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["__open", &socket.as_raw_fd().to_string()]);
    if let Some(user) = user {
        command.args(["--user", &user.to_string()]);
    }
    command.current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn();
    drop(socket);
    started.map(Some)
}

#[cfg(test)]
mod tests;
