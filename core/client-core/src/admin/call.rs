//! One call: which of its items are asked, which are settled, and when to try again.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Now};
use wire::{EncodeError, Request};

use super::ask::{Ask, How, Name, Refusal, Response, Route};
use super::world::World;
use super::{AdminError, Asked, CallId, Cause};
use crate::link::{Answer, LinkError};
use crate::links::{Asking, Peer};

/// One request is about so many items at most: brokers refuse more than ten times as many.
const ITEMS_MAX: usize = 10_000;

/// For so long a broker may not have heard of a topic, a partition or a broker that there is.
const UNKNOWN_FOR_MAX: Duration = Duration::from_secs(2);

/// A call, whatever it asks.
pub(super) trait Running: fmt::Debug + Send {
    fn step(&mut self, world: &mut World, now: Now);
    fn on_answer(
        &mut self,
        peer: Peer,
        answer: Answer<'_, Asked>,
        world: &mut World,
        now: Now,
    ) -> Result<(), LinkError>;
    /// These items get no answer of the one who was asked.
    fn on_lost(&mut self, of: (Peer, &[usize]), cause: &Cause, world: &mut World, now: Now);
    /// A broker says nothing: questions that others can answer are theirs. Whether something else that it was asked
    /// is another's by now.
    fn leave(&mut self, silent: Peer, world: &World) -> bool;
    /// Wants to know anew who does what a broker was said to do.
    fn doubt(&self, silent: Peer, world: &mut World);
    /// The cluster was described, but for these topics. Whether it must be again.
    fn on_metadata(&mut self, refused: &BTreeMap<Arc<str>, ErrorCode>, world: &World, now: Now) -> bool;
    /// Nobody keeps these groups, for good.
    fn on_no_coordinator(&mut self, refused: &BTreeMap<Arc<str>, ErrorCode>, now: Now);
    /// The topics whose leaders it needs to know.
    fn topics<'a>(&'a self, into: &mut BTreeSet<&'a str>);
    fn deadline(&self, now: Now) -> Option<Duration>;
    fn is_done(&self) -> bool;
    /// Whether it is done since this was asked last.
    fn is_news(&mut self) -> bool;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

#[derive(Debug)]
pub(super) struct Call<A: Ask> {
    id: CallId,
    ask: A,
    items: Vec<Item<A>>,
    began: Duration,
    until: Duration,
    failures: u32,
    retry_at: Duration,
    /// How many items have no result.
    open: usize,
    is_told: bool,
}

#[derive(Debug)]
struct Item<A: Ask> {
    about: A::Item,
    state: State<A::Said>,
    /// What it failed for last.
    cause: Cause,
    /// It was asked, and what came of it is not known.
    is_lost: bool,
    /// Since when nobody knows what it is about.
    unknown_since: Option<Duration>,
}

#[derive(Debug)]
enum State<S> {
    Wanted,
    Asked(Peer),
    Done(Result<S, AdminError>),
}

impl<A: Ask> Call<A> {
    pub(super) fn new(id: CallId, ask: A, abouts: Vec<A::Item>, (now, until): (Now, Duration)) -> Self {
        let items = abouts.into_iter().map(|about| Item {
            about,
            state: State::Wanted,
            cause: Cause::NotReached,
            is_lost: false,
            unknown_since: None,
        });
        let items: Vec<Item<A>> = items.collect();
        let open = items.len();
        let (began, retry_at) = (now.elapsed, Duration::ZERO);
        let mut call = Self { id, ask, items, began, until, failures: 0, retry_at, open, is_told: false };
        call.refuse_what_nobody_has();
        call
    }

    /// What was named before, and partitions of topics that no cluster can have.
    fn refuse_what_nobody_has(&mut self) {
        let mut named = BTreeSet::new();
        let mut refused = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            let name = self.ask.name(&item.about);
            let what = || name.to_string();
            if !named.insert(name) {
                refused.push((place, AdminError::Twice { what: what() }));
            } else if let Route::Leader(topic, _) = self.ask.route(&item.about)
                && let Err(error) = base::TopicName::new(topic)
            {
                let (code, message) = (ErrorCode::InvalidTopicException, Some(error.to_string()));
                let what = base::excerpt(&what(), 300);
                refused.push((place, AdminError::Refused { what, code, message, may_have_been_done: false }));
            }
        }
        for (place, error) in refused {
            self.settle(place, Err(error));
        }
    }

    pub(super) fn into_results(self) -> Vec<Result<A::Said, AdminError>> {
        let results = self.items.into_iter().map(|item| match item.state {
            State::Done(result) => result,
            State::Wanted | State::Asked(_) => Err(AdminError::Closed),
        });
        results.collect()
    }

    fn settle(&mut self, place: usize, result: Result<A::Said, AdminError>) {
        let item = &mut self.items[place];
        if !matches!(item.state, State::Done(_)) {
            item.state = State::Done(result);
            self.open -= 1;
        }
    }

    fn what(&self, place: usize) -> String {
        self.ask.name(&self.items[place].about).to_string()
    }

    /// Whether what an item asks for may have been done, now that its last word is an error.
    fn is_in_doubt(&self, place: usize) -> bool {
        let item = &self.items[place];
        self.ask.is_change() && (item.is_lost || matches!(item.state, State::Asked(_)))
    }

    fn time_out(&mut self, world: &World) {
        for place in 0..self.items.len() {
            let (what, may_have_been_done) = (self.what(place), self.is_in_doubt(place));
            let after = self.until.saturating_sub(self.began);
            let cause = match &self.items[place] {
                Item { state: State::Asked(_), .. } => Cause::NoAnswer,
                item => item.cause.clone(),
            };
            let is_net = matches!(cause, Cause::NotReached | Cause::NoAnswer | Cause::Unreadable);
            let since = world.trouble.iter().find(|(at, _)| is_net && *at >= self.began);
            let trouble = since.map(|(_, trouble)| trouble.clone());
            self.settle(place, Err(AdminError::TimedOut { what, after, cause, trouble, may_have_been_done }));
        }
    }

    /// What can be asked, by whom to ask.
    fn ready(&mut self, world: &mut World, now: Now) -> BTreeMap<Peer, Vec<usize>> {
        let mut ready: BTreeMap<Peer, Vec<usize>> = BTreeMap::new();
        // The next may be another, and they are to be asked together.
        let mut any = None;
        for (place, item) in self.items.iter_mut().enumerate() {
            if !matches!(item.state, State::Wanted) {
                continue;
            }
            let route = self.ask.route(&item.about);
            let found = match route {
                Route::Any => any.get_or_insert_with(|| world.find(route, now)).clone(),
                _ => world.find(route, now),
            };
            match found {
                Ok(peer) => ready.entry(peer).or_default().push(place),
                Err(Cause::NotReached) => {}
                Err(cause) => item.cause = cause,
            }
        }
        ready.retain(|&peer, _| world.links.want(peer, now, &mut world.net));
        ready
    }

    fn send(&mut self, peer: Peer, places: &[usize], world: &mut World, now: Now) {
        let api = <A::Request<'static> as Request<'static>>::KEY;
        let version = world.links.version(peer, api).unwrap_or(-1).min(self.ask.version_max());
        let sayable = |place: &&usize| version >= self.ask.version_min(&self.items[**place].about);
        let (sayable, unsayable): (Vec<_>, Vec<_>) = places.iter().partition::<Vec<_>, _>(sayable);
        for &place in unsayable {
            let what = self.what(place);
            self.settle(place, Err(AdminError::Unsupported { what, api }));
        }
        if sayable.is_empty() {
            return;
        }
        match self.try_send(peer, version, &sayable, world, now) {
            Ok(()) => {
                for place in sayable {
                    self.items[*place].state = State::Asked(peer);
                }
            }
            Err(LinkError::Encode(error)) if sayable.len() == 1 => self.unsayable(*sayable[0], error),
            // One of them cannot be said, and the others must not suffer from it.
            Err(LinkError::Encode(_)) => {
                sayable.into_iter().for_each(|place| self.send(peer, &[*place], world, now));
            }
            Err(_) => self.try_again(world, now),
        }
    }

    fn unsayable(&mut self, place: usize, error: EncodeError) {
        let what = base::excerpt(&self.what(place), 300);
        self.settle(place, Err(AdminError::Unsayable { what, error }));
    }

    fn try_send(
        &self,
        peer: Peer,
        version: i16,
        places: &[&usize],
        world: &mut World,
        now: Now,
    ) -> Result<(), LinkError> {
        let abouts: Vec<&A::Item> = places.iter().map(|&&place| &self.items[place].about).collect();
        let left = self.until.saturating_sub(now.elapsed).min(world.settings.links.request_timeout);
        let timeout_ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1);
        let request = self.ask.request(&abouts, &How { version, timeout_ms, cluster: &world.cluster });
        let about = Asked::Items(self.id, places.iter().map(|&&place| place).collect());
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        world.links.send((peer, now), &request, asking, &mut world.net)
    }

    /// A group may be kept by another by now than the one who was asked.
    fn note_coordinator(&self, (peer, place): (Peer, usize), code: ErrorCode, world: &mut World) {
        let has_moved = matches!(code, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable);
        if let (Route::Coordinator(group), true) = (self.ask.route(&self.items[place].about), has_moved)
            && world.coordinators.of(group).map(Peer::Broker) == Some(peer)
        {
            world.coordinators.lose(group);
        }
    }

    fn is_asked(&self, place: usize, of: Peer) -> bool {
        matches!(self.items[place].state, State::Asked(peer) if peer == of)
    }

    fn try_again(&mut self, world: &mut World, now: Now) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now.elapsed + world.settings.retry.after(self.failures, &mut world.chance);
    }

    /// A broker refuses an item. Whether it is asked again.
    fn on_refusal(&mut self, place: usize, refusal: Refusal, now: Now) -> bool {
        let Refusal { code, message } = refusal;
        let item = &mut self.items[place];
        let is_open = matches!(code, ErrorCode::RequestTimedOut | ErrorCode::UnknownServerError);
        item.is_lost |= is_open && matches!(item.state, State::Asked(_));
        item.state = State::Wanted;
        let is_unknown = matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId);
        let again = if is_unknown {
            matches!(self.ask.route(&item.about), Route::Leader(..)) && is_news_awaited(item, now)
        } else {
            code.is_retriable()
        };
        if again {
            item.cause = Cause::Refused(code, message);
        } else {
            let (what, may_have_been_done) = (self.what(place), self.is_in_doubt(place));
            self.settle(place, Err(AdminError::Refused { what, code, message, may_have_been_done }));
        }
        again
    }
}

/// Whether it may become known yet what an item is about.
fn is_news_awaited<A: Ask>(item: &mut Item<A>, now: Now) -> bool {
    let since = *item.unknown_since.get_or_insert(now.elapsed);
    now.elapsed < since + UNKNOWN_FOR_MAX
}

impl<A: Ask> Running for Call<A> {
    fn step(&mut self, world: &mut World, now: Now) {
        if self.until <= now.elapsed {
            return self.time_out(world);
        }
        if self.open == 0 || self.retry_at > now.elapsed {
            return;
        }
        for (peer, places) in self.ready(world, now) {
            for places in places.chunks(self.ask.items_max().min(ITEMS_MAX)) {
                self.send(peer, places, world, now);
            }
        }
    }

    fn on_answer(
        &mut self,
        peer: Peer,
        answer: Answer<'_, Asked>,
        world: &mut World,
        now: Now,
    ) -> Result<(), LinkError> {
        let (about, said) = answer.read::<Response<'_, A>>();
        let Asked::Items(_, places) = about else { return Ok(()) };
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                self.on_lost((peer, &places), &Cause::Unreadable, world, now);
                return Err(error);
            }
        };
        let by_name: BTreeMap<Name<'_>, usize> =
            places.iter().map(|&place| (self.ask.name(&self.items[place].about), place)).collect();
        let mut results = Vec::new();
        let throttle_ms = self.ask.read(&said, &mut |name, result| match (name, result) {
            (Name::All, Err(refusal)) => {
                results.extend(places.iter().map(|&place| (place, Err::<A::Said, _>(refusal.clone()))));
            }
            (Name::All, said) => results.extend(places.first().map(|&place| (place, said))),
            (name, result) => results.extend(by_name.get(&name).map(|&place| (place, result))),
        });
        world.links.throttle(peer, now, throttle_ms);
        let mut is_again = false;
        for (place, result) in results {
            // What is said of it twice counts the first time. Who was left, since it took so long, may answer first.
            let is_answer = !self.ask.is_change() && result.is_ok();
            if !self.is_asked(place, peer) && !is_answer {
                continue;
            }
            match result {
                Ok(said) => self.settle(place, Ok(said)),
                Err(refusal) => {
                    self.note_coordinator((peer, place), refusal.code, world);
                    is_again |= self.on_refusal(place, refusal, now);
                }
            }
        }
        for place in places {
            if self.is_asked(place, peer) {
                let (what, may_have_been_done) = (self.what(place), self.ask.is_change());
                self.settle(place, Err(AdminError::Missing { what, may_have_been_done }));
            }
        }
        if is_again {
            // Whoever was asked may not be the one to ask.
            world.metadata.is_wanted = true;
            self.try_again(world, now);
        }
        Ok(())
    }

    fn on_lost(&mut self, (peer, places): (Peer, &[usize]), cause: &Cause, world: &mut World, now: Now) {
        for &place in places {
            if self.is_asked(place, peer) {
                let item = &mut self.items[place];
                item.state = State::Wanted;
                item.is_lost = true;
                item.cause = cause.clone();
            }
            self.note_coordinator((peer, place), ErrorCode::NotCoordinator, world);
        }
        self.try_again(world, now);
    }

    fn leave(&mut self, silent: Peer, world: &World) -> bool {
        let mut is_replaced = false;
        for place in 0..self.items.len() {
            if !self.is_asked(place, silent) {
                continue;
            }
            let route = self.ask.route(&self.items[place].about);
            let is_others = world.known(route).is_some_and(|id| Peer::Broker(id) != silent);
            match route {
                Route::Leader(..) | Route::Coordinator(_) => is_replaced |= is_others,
                // Who takes commands is any broker, or to some clusters each time another: what was sent stays sent.
                Route::Any | Route::Controller if self.ask.is_change() => {}
                Route::Controller if !is_others => {}
                Route::Any | Route::Controller => {
                    let item = &mut self.items[place];
                    (item.state, item.cause) = (State::Wanted, Cause::NoAnswer);
                }
                Route::Broker(_) => {}
            }
        }
        is_replaced
    }

    fn doubt(&self, silent: Peer, world: &mut World) {
        for item in self.items.iter().filter(|item| !matches!(item.state, State::Done(_))) {
            let route = self.ask.route(&item.about);
            if world.known(route).map(Peer::Broker) != Some(silent) {
                continue;
            }
            match route {
                Route::Coordinator(group) => world.coordinators.want(group),
                Route::Leader(..) | Route::Controller => world.metadata.is_wanted = true,
                Route::Any | Route::Broker(_) => {}
            }
        }
    }

    fn on_no_coordinator(&mut self, refused: &BTreeMap<Arc<str>, ErrorCode>, now: Now) {
        for place in 0..self.items.len() {
            let item = &self.items[place];
            let Route::Coordinator(group) = self.ask.route(&item.about) else { continue };
            let code = refused.get(group).filter(|_| matches!(item.state, State::Wanted)).copied();
            if let Some(code) = code {
                // Nobody was asked to do anything: what says no is a question that we put first.
                self.on_refusal(place, Refusal { code, message: None }, now);
            }
        }
    }

    fn on_metadata(&mut self, refused: &BTreeMap<Arc<str>, ErrorCode>, world: &World, now: Now) -> bool {
        let mut is_incomplete = false;
        for place in 0..self.items.len() {
            let item = &mut self.items[place];
            if !matches!(item.state, State::Wanted) {
                continue;
            }
            let route = self.ask.route(&item.about);
            let code = match route {
                Route::Leader(topic, index) => refused.get(topic).copied().or_else(|| {
                    let known = world.cluster.topic(topic)?.partitions.len();
                    let is_there = usize::try_from(index.0).is_ok_and(|index| index < known);
                    (!is_there).then_some(ErrorCode::UnknownTopicOrPartition)
                }),
                _ => None,
            };
            let is_found = code.is_none() && world.is_found(route);
            let is_broker = matches!(route, Route::Broker(_));
            if let Some(code) = code {
                // Nobody was asked to do anything: what says no is a question that we put first.
                self.on_refusal(place, Refusal { code, message: None }, now);
            } else if is_broker && !is_found && !is_news_awaited(item, now) {
                let what = self.what(place);
                self.settle(place, Err(AdminError::NoSuchBroker { what }));
            }
            is_incomplete |= !is_found && matches!(self.items[place].state, State::Wanted);
        }
        is_incomplete
    }

    fn topics<'a>(&'a self, into: &mut BTreeSet<&'a str>) {
        let open = self.items.iter().filter(|item| !matches!(item.state, State::Done(_)));
        into.extend(open.filter_map(|item| match self.ask.route(&item.about) {
            Route::Leader(topic, _) => Some(topic),
            Route::Any | Route::Controller | Route::Broker(_) | Route::Coordinator(_) => None,
        }));
    }

    fn deadline(&self, now: Now) -> Option<Duration> {
        if self.open == 0 {
            return None;
        }
        Some(if self.retry_at > now.elapsed { self.retry_at.min(self.until) } else { self.until })
    }

    fn is_done(&self) -> bool {
        self.open == 0
    }

    fn is_news(&mut self) -> bool {
        let is_news = self.open == 0 && !self.is_told;
        self.is_told |= is_news;
        is_news
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
