//! Which connections are open, and which of them gives way when there are too many.
//!
//! `most` connections are regular. Once all of them are open, the next one displaces a connection that is
//! waiting for the head of a request: of the network that has most of those, the one that has waited longest.
//! So heads that never arrive keep nobody out. If every regular connection has a request in progress, the
//! next one is one of the reserve, which serves health checks only. The reserve displaces its oldest
//! connection, whatever that does.
//!
//! A connection changes its own state without the lock of the book, so that requests do not wait for each other.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The most connections of the reserve.
const RESERVE: usize = 64;

/// The connections of a listener.
pub struct Seats {
    most: usize,
    /// Counts connections and their waits, so that a smaller number is an earlier one.
    clock: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    regular: HashMap<u64, Regular>,
    /// By the order in which they were opened.
    reserve: BTreeMap<u64, Close>,
}

/// Dropping it tells the connection to close.
type Close = oneshot::Sender<()>;

struct Regular {
    network: IpAddr,
    state: Arc<State>,
    _close: Close,
}

/// What a connection does. Whoever changes it first decides: the connection, when a head has arrived, or the one that
/// displaces it.
struct State(AtomicU64);

/// A request is in progress.
const BUSY: u64 = 0;
/// It is of the reserve, or was displaced; the book knows. Every other number says since when the connection has been
/// waiting for the head of a request.
const NOT_REGULAR: u64 = u64::MAX;

impl State {
    /// Whether it was changed from one state to another.
    fn change(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Since when the connection has been waiting, if it has.
    fn waiting(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|state| ![BUSY, NOT_REGULAR].contains(state))
    }
}

/// What a connection may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Every request.
    Regular,
    /// Health checks only.
    Reserve,
}

/// The entry of one connection. Dropping it removes the entry.
pub struct Seat {
    seats: Arc<Seats>,
    id: u64,
    network: IpAddr,
    state: Arc<State>,
}

impl Seats {
    /// No connection is open yet.
    pub fn new(most: usize) -> Arc<Seats> {
        Arc::new(Seats { most, clock: AtomicU64::default(), book: Mutex::default() })
    }

    /// The next number, which is at least 1.
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Enters a new connection. It must close when the receiver returns.
    pub fn open(self: &Arc<Seats>, peer: IpAddr) -> (Arc<Seat>, Standing, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        let mut book = self.book.lock();
        let (id, network) = (self.tick(), network_of(peer));
        let state = Arc::new(State(AtomicU64::new(NOT_REGULAR)));
        let standing = match book.make_room(self.most) {
            true => {
                state.change(NOT_REGULAR, id);
                book.regular.insert(id, Regular { network, state: state.clone(), _close: close });
                Standing::Regular
            }
            false => {
                if book.reserve.len() >= RESERVE && book.reserve.pop_first().is_some() {
                    displaced("reserve");
                }
                book.reserve.insert(id, close);
                Standing::Reserve
            }
        };
        (Arc::new(Seat { seats: self.clone(), id, network, state }), standing, closed)
    }
}

impl Book {
    /// Whether there is room for a regular connection, after displacing one if there has to be.
    fn make_room(&mut self, most: usize) -> bool {
        if self.regular.len() < most {
            return true;
        }
        // If the head of a request arrives meanwhile, another connection has to give way.
        while let Some((id, since)) = self.longest_waiting() {
            if self.regular.get(&id).is_some_and(|gone| gone.state.change(since, NOT_REGULAR)) {
                self.regular.remove(&id);
                displaced("waiting");
                return true;
            }
        }
        false
    }

    /// The connection that has waited longest for a head, of the network with most such connections, and since when.
    fn longest_waiting(&self) -> Option<(u64, u64)> {
        let mut networks: HashMap<IpAddr, (usize, u64, u64)> = HashMap::new();
        for (id, connection) in &self.regular {
            let Some(since) = connection.state.waiting() else { continue };
            let (count, first, first_id) = networks.entry(connection.network).or_insert((0, u64::MAX, *id));
            *count += 1;
            if since < *first {
                (*first, *first_id) = (since, *id);
            }
        }
        let by_count = |(count, first, _): &(usize, u64, u64)| (*count, std::cmp::Reverse(*first));
        networks.into_values().max_by_key(by_count).map(|(_, since, id)| (id, since))
    }
}

impl Seat {
    /// Notes that the head of a request has arrived. A connection of the reserve becomes a regular one if
    /// there is room by now. Returns `None` if the connection was displaced and must close.
    pub fn begin(&self) -> Option<Standing> {
        if self.state.waiting().is_some_and(|since| self.state.change(since, BUSY)) {
            return Some(Standing::Regular);
        }
        let mut book = self.seats.book.lock();
        if book.regular.contains_key(&self.id) {
            return Some(Standing::Regular);
        }
        if !book.reserve.contains_key(&self.id) {
            return None;
        }
        if !book.make_room(self.seats.most) {
            return Some(Standing::Reserve);
        }
        let close = book.reserve.remove(&self.id)?;
        self.state.change(NOT_REGULAR, BUSY);
        let (network, state) = (self.network, self.state.clone());
        book.regular.insert(self.id, Regular { network, state, _close: close });
        Some(Standing::Regular)
    }

    /// Notes that the connection waits for the next request.
    pub fn wait(&self) {
        self.state.change(BUSY, self.seats.tick());
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut book = self.seats.book.lock();
        book.regular.remove(&self.id);
        book.reserve.remove(&self.id);
    }
}

fn displaced(which: &'static str) {
    counter!("guarantor_connections_displaced_total", "which" => which).increment(1);
}

/// The network of a peer: its address, or the /64 of an IPv6 address, because a host can have all of one.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    struct Open {
        seat: Arc<Seat>,
        standing: Standing,
        closed: oneshot::Receiver<()>,
    }

    impl Open {
        fn from(seats: &Arc<Seats>, peer: &str) -> Open {
            let (seat, standing, closed) = seats.open(peer.parse().unwrap());
            Open { seat, standing, closed }
        }

        fn is_displaced(&mut self) -> bool {
            self.closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        }
    }

    #[test]
    fn the_longest_wait_of_the_network_with_most_waits_gives_way() {
        let seats = Seats::new(4);
        let mut b = Open::from(&seats, B);
        let mut a: Vec<Open> = (0..3).map(|_| Open::from(&seats, A)).collect();
        assert_eq!(a[0].seat.begin(), Some(Standing::Regular));
        a[0].seat.wait();
        // The first of A has waited least now, so the second gives way, and then the third.
        let mut more: Vec<Open> = (0..2).map(|_| Open::from(&seats, A)).collect();
        let gone: Vec<bool> = a.iter_mut().map(Open::is_displaced).collect();
        assert_eq!(gone, [false, true, true]);
        assert!(!b.is_displaced() && more.iter_mut().all(|open| !open.is_displaced()));
        assert_eq!(a[1].seat.begin(), None, "a displaced connection serves nothing");
    }

    #[test]
    fn requests_in_progress_do_not_give_way_and_the_reserve_always_takes_one_more() {
        let seats = Seats::new(2);
        let mut busy: Vec<Open> = (0..2).map(|_| Open::from(&seats, A)).collect();
        assert!(busy.iter().all(|open| open.seat.begin() == Some(Standing::Regular)));
        let mut reserve: Vec<Open> = (0..RESERVE + 1).map(|_| Open::from(&seats, A)).collect();
        assert!(reserve.iter().all(|open| open.standing == Standing::Reserve));
        assert!(reserve[0].is_displaced() && !reserve[1].is_displaced());
        assert_eq!(reserve[1].seat.begin(), Some(Standing::Reserve));
        assert!(busy.iter_mut().all(|open| !open.is_displaced()));
        // A connection that ends, or that waits again, makes room for one of the reserve.
        busy.pop();
        assert_eq!(reserve[2].seat.begin(), Some(Standing::Regular));
        busy[0].seat.wait();
        assert_eq!(reserve[3].seat.begin(), Some(Standing::Regular));
        assert!(busy[0].is_displaced());
        assert_eq!(reserve[4].seat.begin(), Some(Standing::Reserve));
        drop((busy, reserve));
        let book = seats.book.lock();
        assert!(book.regular.is_empty() && book.reserve.is_empty());
    }

    #[test]
    fn whoever_is_faster_a_connection_is_displaced_or_has_a_request() {
        let seats = Seats::new(2);
        let serve = || {
            for _ in 0..2000 {
                let mut open = Open::from(&seats, A);
                match open.seat.begin() {
                    Some(Standing::Regular) => assert!(!open.is_displaced(), "it has a request"),
                    Some(Standing::Reserve) => {}
                    None => assert!(open.is_displaced(), "nobody told it to close"),
                }
                open.seat.wait();
                assert!(seats.book.lock().regular.len() <= 2);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(serve))));
        let book = seats.book.lock();
        assert!(book.regular.is_empty() && book.reserve.is_empty());
    }

    #[test]
    fn a_network_is_an_address_or_a_prefix() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network(A));
        assert_ne!(network(A), network(B));
    }
}
