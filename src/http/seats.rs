//! Which connections are open, and which of them gives way when there are too many.
//!
//! `most` connections are regular. Once all of them are open, the next one displaces a connection that is
//! waiting for the head of a request: of the network that has most of those, the one that has waited longest.
//! So heads that never arrive keep nobody out. If every regular connection has a request in progress, the
//! next one is one of the reserve, which serves health checks only. The reserve displaces its oldest
//! connection, whatever that does.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The most connections of the reserve.
const RESERVE: usize = 64;

/// The connections of a listener.
pub struct Seats {
    most: usize,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// Counts connections and their waits, so that a smaller number is an earlier one.
    clock: u64,
    regular: HashMap<u64, Regular>,
    /// By the order in which they were opened.
    reserve: BTreeMap<u64, Close>,
}

/// Dropping it tells the connection to close.
type Close = oneshot::Sender<()>;

struct Regular {
    network: IpAddr,
    /// Since when it has been waiting for the head of a request; `None` while a request is in progress.
    waiting: Option<u64>,
    _close: Close,
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
}

impl Seats {
    /// No connection is open yet.
    pub fn new(most: usize) -> Arc<Seats> {
        Arc::new(Seats { most, book: Mutex::default() })
    }

    /// Enters a new connection. It must close when the receiver returns.
    pub fn open(self: &Arc<Seats>, peer: IpAddr) -> (Arc<Seat>, Standing, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        let mut book = self.book.lock();
        let (id, network) = (book.tick(), network_of(peer));
        let standing = match book.make_room(self.most) {
            true => {
                book.regular.insert(id, Regular { network, waiting: Some(id), _close: close });
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
        (Arc::new(Seat { seats: self.clone(), id, network }), standing, closed)
    }
}

impl Book {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether there is room for a regular connection, after displacing one if there has to be.
    fn make_room(&mut self, most: usize) -> bool {
        if self.regular.len() < most {
            return true;
        }
        let Some(id) = self.longest_waiting() else { return false };
        self.regular.remove(&id);
        displaced("waiting");
        true
    }

    /// The connection that has waited longest for a head, of the network with most such connections.
    fn longest_waiting(&self) -> Option<u64> {
        let mut networks: HashMap<IpAddr, (usize, u64, u64)> = HashMap::new();
        for (id, connection) in &self.regular {
            let Some(since) = connection.waiting else { continue };
            let (count, first, first_id) = networks.entry(connection.network).or_insert((0, u64::MAX, *id));
            *count += 1;
            if since < *first {
                (*first, *first_id) = (since, *id);
            }
        }
        let by_count = |(count, first, _): &(usize, u64, u64)| (*count, std::cmp::Reverse(*first));
        networks.into_values().max_by_key(by_count).map(|(_, _, id)| id)
    }
}

impl Seat {
    /// Notes that the head of a request has arrived. A connection of the reserve becomes a regular one if
    /// there is room by now. Returns `None` if the connection was displaced and must close.
    pub fn begin(&self) -> Option<Standing> {
        let mut book = self.seats.book.lock();
        if let Some(connection) = book.regular.get_mut(&self.id) {
            connection.waiting = None;
            return Some(Standing::Regular);
        }
        if !book.reserve.contains_key(&self.id) {
            return None;
        }
        if !book.make_room(self.seats.most) {
            return Some(Standing::Reserve);
        }
        let close = book.reserve.remove(&self.id)?;
        book.regular.insert(self.id, Regular { network: self.network, waiting: None, _close: close });
        Some(Standing::Regular)
    }

    /// Notes that the connection waits for the next request.
    pub fn wait(&self) {
        let mut book = self.seats.book.lock();
        let now = book.tick();
        if let Some(connection) = book.regular.get_mut(&self.id) {
            connection.waiting = Some(now);
        }
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
    fn a_network_is_an_address_or_a_prefix() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network(A));
        assert_ne!(network(A), network(B));
    }
}
