//! The network of a run: a switch, and a namespace behind it for each broker and for the clients.
//!
//! ```text
//!        namespace …-sw                     198.18.0.0/24, which is for such tests and nowhere routed
//!   ┌───────── bridge ─────────┐
//!   b1      b2      b3 …       c  c0 c1 …   what may pass is said on the bridge, so that no broker's
//!   │.11    │.12    │.13       │.100 │.101  own namespace knows of it, nor a client's
//! ```
//!
//! **Invariant:** nothing of it can be seen from the machine's own network, nor the other way.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::panic;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command::{run, run_with};

/// Whoever has a cable to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A broker, by `node.id`.
    Node(i32),
    /// All clients. As a place to be in: those that need none of their own.
    Clients,
    /// A client with a cable of its own, by its number.
    Client(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(id) => write!(f, "b{id}"),
            Self::Clients => f.write_str("c"),
            Self::Client(number) => write!(f, "c{number}"),
        }
    }
}

/// As many as have an address beside the others.
pub const CLIENTS_MAX: u32 = 150;

impl Place {
    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Self::Node(id) => Ipv4Addr::new(198, 18, 0, 10 + id as u8),
            Self::Clients => Ipv4Addr::new(198, 18, 0, 100),
            Self::Client(number) => Ipv4Addr::new(198, 18, 0, 101 + number as u8),
        }
    }

    /// Its ports of the switch, as nftables match them.
    fn ports(self) -> String {
        match self {
            Self::Clients => "c*".to_owned(),
            Self::Node(_) | Self::Client(_) => self.to_string(),
        }
    }
}

/// What does not pass from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// From whom.
    pub from: Place,
    /// To whom.
    pub to: Place,
    /// How many of a hundred frames are lost.
    pub percent: u8,
}

/// Rules that were imposed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RulesId(u32);

/// The network. Dropped, it goes, with all processes in it.
#[derive(Debug)]
pub struct Net {
    prefix: String,
    places: Vec<Place>,
    rules: BTreeMap<RulesId, Vec<Rule>>,
    next: u32,
}

const TABLE: &str = "torture";
/// The cables that are cut: apart from what passes between others, so that each is cut by itself.
const CABLES: &str = "torture_cables";

impl Net {
    /// One for so many brokers, with names that begin so.
    pub fn new(prefix: &str, nodes: i32) -> Result<Self> {
        let places = (1..=nodes).map(Place::Node).chain([Place::Clients]).collect();
        let net = Self { prefix: prefix.to_owned(), places, rules: BTreeMap::new(), next: 0 };
        let switch = net.switch();
        run(&["ip", "netns", "add", &switch])?;
        run(&["ip", "-n", &switch, "link", "add", "br0", "type", "bridge", "stp_state", "0"])?;
        run(&["ip", "-n", &switch, "link", "set", "br0", "up"])?;
        for place in &net.places {
            net.plug_in(*place)?;
        }
        let text = format!(
            "table bridge {CABLES} {{\n set {SAYS} {{ type ifname; }}\n set {HEARS} {{ type ifname; }}\n \
             chain forward {{\n  type filter hook forward priority 1; policy accept;\n  \
             iifname @{SAYS} drop\n  oifname @{HEARS} drop\n }}\n}}\n"
        );
        run_with(&["ip", "netns", "exec", &net.switch(), "nft", "-f", "-"], &text)?;
        net.apply()?;
        Ok(net)
    }

    /// One more client, with a cable of its own.
    pub fn add_client(&mut self, number: u32) -> Result<Cable> {
        ensure!(number < CLIENTS_MAX, "{CLIENTS_MAX} clients at most have cables of their own");
        let place = Place::Client(number);
        self.places.push(place);
        self.plug_in(place)?;
        let (switch, namespace) = (self.switch(), self.namespace(place));
        Ok(Cable { switch, namespace, port: place.to_string() })
    }

    fn plug_in(&self, place: Place) -> Result<()> {
        let (switch, inside, port) = (self.switch(), self.namespace(place), place.to_string());
        run(&["ip", "netns", "add", &inside])?;
        let pair = ["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &inside];
        run(&[&["ip", "-n", &switch], &pair[..]].concat())?;
        run(&["ip", "-n", &switch, "link", "set", &port, "master", "br0", "up"])?;
        let address = format!("{}/24", place.address());
        run(&["ip", "-n", &inside, "addr", "add", &address, "dev", "eth0"])?;
        run(&["ip", "-n", &inside, "link", "set", "eth0", "up"])?;
        run(&["ip", "-n", &inside, "link", "set", "lo", "up"])?;
        Ok(())
    }

    fn switch(&self) -> String {
        format!("{}-sw", self.prefix)
    }

    /// The name of a namespace.
    pub fn namespace(&self, place: Place) -> String {
        format!("{}-{place}", self.prefix)
    }

    /// Moves this thread, and what it starts from now on, into a place.
    pub fn enter(&self, place: Place) -> Result<()> {
        enter(&self.namespace(place))
    }

    /// Does something in a place: what it connects and starts is there.
    pub fn within<T: Send>(&self, place: Place, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        // A thread of its own: a namespace is a thread's, and this one stays where it is.
        thread::scope(|scope| {
            let done = scope.spawn(|| self.enter(place).and_then(|()| act())).join();
            done.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
        })
    }

    /// Keeps frames from passing, until [`Net::lift`].
    pub fn impose(&mut self, rules: Vec<Rule>) -> Result<RulesId> {
        let id = RulesId(self.next);
        self.next += 1;
        self.rules.insert(id, rules);
        self.apply()?;
        Ok(id)
    }

    /// Lets them pass again, as far as no other rules are in the way.
    pub fn lift(&mut self, id: RulesId) -> Result<()> {
        if self.rules.remove(&id).is_some() {
            self.apply()?;
        }
        Ok(())
    }

    /// Lets everything pass.
    pub fn lift_all(&mut self) -> Result<()> {
        self.rules.clear();
        self.apply()
    }

    /// All rules at once: one transaction of nftables.
    fn apply(&self) -> Result<()> {
        let mut text = format!(
            "add table bridge {TABLE}\ndelete table bridge {TABLE}\ntable bridge {TABLE} {{\n chain forward {{\n  \
             type filter hook forward priority 0; policy accept;\n"
        );
        for Rule { from, to, percent } in self.rules.values().flatten() {
            let chance =
                if *percent < 100 { format!(" numgen random mod 100 < {percent}") } else { String::new() };
            let (from, to) = (from.ports(), to.ports());
            text += &format!("  iifname \"{from}\" oifname \"{to}\"{chance} drop\n");
        }
        text += " }\n}\n";
        run_with(&["ip", "netns", "exec", &self.switch(), "nft", "-f", "-"], &text).map(drop)
    }

    /// Kills the TCP connections that a broker has with others, from its own side.
    pub fn kill_connections(&self, node: i32) -> Result<()> {
        let inside = self.namespace(Place::Node(node));
        run(&["ss", "-N", &inside, "-K", "-t", "state", "established"]).map(drop)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let names = self.places.iter().map(|place| self.namespace(*place)).chain([self.switch()]);
        for name in names {
            // Nobody is left to hear of an error; what stays, the next run clears away.
            let _ = run(&["ip", "netns", "del", &name]);
        }
    }
}

/// Which way nothing passes along a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nobody hears who is at its end.
    Out,
    /// Who is at its end hears nobody.
    In,
    /// Neither.
    Both,
}

impl Way {
    const fn sets(self) -> &'static [&'static str] {
        match self {
            Self::Out => &[SAYS],
            Self::In => &[HEARS],
            Self::Both => &[SAYS, HEARS],
        }
    }
}

/// Ports that nothing comes from.
const SAYS: &str = "says_nothing";
/// Ports that nothing goes to.
const HEARS: &str = "hears_nothing";

/// The cable of one client, which can be cut whatever is done to the others.
#[derive(Clone, Debug)]
pub struct Cable {
    switch: String,
    namespace: String,
    port: String,
}

impl Cable {
    /// Moves this thread, and what it starts from now on, to its end.
    pub fn enter(&self) -> Result<()> {
        enter(&self.namespace)
    }

    /// Cuts it: frames are lost on the way, and nobody is told.
    pub fn cut(&self, way: Way) -> Result<()> {
        self.change(way.sets(), &["add"])
    }

    /// Mends it, whatever was cut.
    pub fn mend(&self) -> Result<()> {
        // What is not there cannot be deleted.
        self.change(Way::Both.sets(), &["add", "delete"])
    }

    fn change(&self, sets: &[&str], verbs: &[&str]) -> Result<()> {
        let mut text = String::new();
        for (set, verb) in sets.iter().flat_map(|set| verbs.iter().map(move |verb| (set, verb))) {
            text += &format!("{verb} element bridge {CABLES} {set} {{ \"{}\" }}\n", self.port);
        }
        run_with(&["ip", "netns", "exec", &self.switch, "nft", "-f", "-"], &text).map(drop)
    }
}

fn enter(namespace: &str) -> Result<()> {
    let file = File::open(format!("/run/netns/{namespace}")).with_context(|| namespace.to_owned())?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| namespace.to_owned())
}

/// Nothing passes between two, in neither direction.
pub fn between(a: Place, b: Place) -> [Rule; 2] {
    [Rule { from: a, to: b, percent: 100 }, Rule { from: b, to: a, percent: 100 }]
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::lab::Lab;
    use crate::machine;

    #[test]
    fn what_is_cut_does_not_pass_and_the_rest_does() -> Result<()> {
        if let Some(why) = machine::unavailable() {
            eprintln!("skipped: {why}");
            return Ok(());
        }
        let lab = Lab::new()?;
        let mut net = Net::new(lab.id(), 2)?;
        let address = SocketAddr::from((Place::Node(1).address(), 9092));
        let _listener = net.within(Place::Node(1), || Ok(TcpListener::bind(address)?))?;
        // What is cut costs the whole patience; what is not costs none, unless the machine is busy.
        const SHORT: Duration = Duration::from_millis(300);
        const LONG: Duration = Duration::from_secs(10);
        let connect = |net: &Net, from, patience| {
            let connect = || Ok(TcpStream::connect_timeout(&address, patience));
            net.within(from, connect)
        };
        assert!(connect(&net, Place::Node(2), LONG)?.is_ok());
        // One way is enough.
        let rule = Rule { from: Place::Node(1), to: Place::Node(2), percent: 100 };
        let id = net.impose(vec![rule])?;
        let cut = connect(&net, Place::Node(2), SHORT)?.map_err(|error| error.kind());
        assert_eq!(cut.err(), Some(ErrorKind::TimedOut));
        assert!(connect(&net, Place::Clients, LONG)?.is_ok());
        net.lift(id)?;
        assert!(connect(&net, Place::Node(2), LONG)?.is_ok());

        let cables = [net.add_client(0)?, net.add_client(1)?];
        let check = |net: &Net, passes: [bool; 3], what: &str| {
            let of = [Place::Client(0), Place::Client(1), Place::Clients];
            for (from, passes) in of.into_iter().zip(passes) {
                let connected = connect(net, from, if passes { LONG } else { SHORT });
                assert_eq!(connected.is_ok_and(|connected| connected.is_ok()), passes, "{what}: {from:?}");
            }
        };
        // Who has never heard of another asks for its address first, and asks again a second later.
        check(&net, [true; 3], "all is well");
        for way in [Way::Out, Way::In, Way::Both] {
            cables[0].cut(way)?;
            check(&net, [false, true, true], &format!("{way:?} is cut"));
            cables[0].mend()?;
            cables[0].mend()?;
            check(&net, [true; 3], &format!("{way:?} is mended"));
        }
        // All clients are those, too.
        net.impose(between(Place::Node(1), Place::Clients).to_vec())?;
        check(&net, [false; 3], "all clients are cut off");
        assert!(connect(&net, Place::Node(2), LONG)?.is_ok());
        Ok(())
    }
}
