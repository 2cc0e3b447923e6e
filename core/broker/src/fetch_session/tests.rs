//! What a session remembers.

use super::*;

fn wanted(fetch_offset: i64) -> Wanted {
    Wanted {
        current_leader_epoch: -1,
        fetch_offset,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        bytes_max: 1 << 20,
    }
}

fn name(topic: &str) -> TopicKey {
    TopicKey::Name(TopicName::new(topic).unwrap())
}

fn fetch(id: i32, epoch: i32, topics: &[(&str, i64)], forgotten: &[&str]) -> FetchChange {
    FetchChange {
        session_id: id,
        session_epoch: epoch,
        partitions: topics.iter().map(|(t, at)| (name(t), 0, wanted(*at))).collect(),
        forgotten: forgotten.iter().map(|t| (name(t), 0)).collect(),
    }
}

/// Room for any sessions, which all get this id.
struct Room(Option<i32>);

impl FetchSessionRoom for Room {
    fn begin(&self, _: usize) -> Option<i32> {
        self.0
    }

    fn begin_of_node(&self) -> i32 {
        9
    }

    fn resize(&self, _: usize, _: usize) -> bool {
        true
    }

    fn end(&self, _: usize) {}
}

/// Room for so many partitions in all.
struct Narrow(Cell<usize>);

impl FetchSessionRoom for Narrow {
    fn begin(&self, partitions: usize) -> Option<i32> {
        self.resize(0, partitions).then_some(7)
    }

    fn begin_of_node(&self) -> i32 {
        9
    }

    fn resize(&self, before: usize, after: usize) -> bool {
        let left = (self.0.get() + before).checked_sub(after);
        left.inspect(|&left| self.0.set(left)).is_some()
    }

    fn end(&self, partitions: usize) {
        self.0.set(self.0.get() + partitions);
    }
}

fn order(scope: &FetchScope) -> Vec<(String, i64)> {
    let text = |key: &TopicKey| match key {
        TopicKey::Name(name) => name.to_string(),
        TopicKey::Id(id) => id.to_string(),
    };
    scope.partitions.iter().map(|p| (text(&p.topic), p.wanted.fetch_offset)).collect()
}

#[test]
fn a_session_reads_what_it_was_told_once_and_forgets_what_it_is_told_to_forget() {
    let mut sessions = FetchSessions::default();
    let first = sessions.begin(fetch(0, 0, &[("a", 1), ("b", 2)], &[]), &Room(Some(7))).unwrap();
    assert_eq!((first.session_id, first.incremental), (7, false));
    let next = sessions.begin(fetch(7, 1, &[("a", 5), ("c", 0)], &["b"]), &Room(None)).unwrap();
    assert!(next.incremental);
    assert_eq!(order(&next), [("a".into(), 5), ("c".into(), 0)]);
    let idle = sessions.begin(fetch(7, 2, &[], &[]), &Room(None)).unwrap();
    assert_eq!(order(&idle), order(&next), "an empty fetch still reads every partition of the session");
}

#[test]
fn what_does_not_fit_the_session_is_refused_with_kafkas_codes() {
    let mut sessions = FetchSessions::default();
    assert_eq!(
        sessions.begin(fetch(9, 3, &[], &[]), &Room(None)).unwrap_err(),
        ErrorCode::FetchSessionIdNotFound
    );
    sessions.begin(fetch(0, 0, &[("a", 0)], &[]), &Room(Some(7))).unwrap();
    assert_eq!(
        sessions.begin(fetch(7, 2, &[], &[]), &Room(None)).unwrap_err(),
        ErrorCode::InvalidFetchSessionEpoch
    );
    let by_id = FetchChange {
        session_id: 7,
        session_epoch: 1,
        partitions: vec![(TopicKey::Id(Uuid([1; 16])), 0, wanted(0))],
        forgotten: vec![],
    };
    assert_eq!(sessions.begin(by_id, &Room(None)).unwrap_err(), ErrorCode::FetchSessionTopicIdError);
    for epoch in [-2, i32::MIN, 9] {
        let wrong = sessions.begin(fetch(7, epoch, &[("b", 0)], &[]), &Room(None));
        assert_eq!(wrong.unwrap_err(), ErrorCode::InvalidFetchSessionEpoch, "{epoch}");
    }
    assert!(sessions.begin(fetch(7, 1, &[], &[]), &Room(None)).is_ok(), "a refused fetch changes nothing");
}

#[test]
fn epoch_minus_one_ends_the_session_and_a_full_house_gives_none() {
    let mut sessions = FetchSessions::default();
    sessions.begin(fetch(0, 0, &[("a", 0)], &[]), &Room(Some(7))).unwrap();
    let last = sessions.begin(fetch(7, -1, &[("a", 0)], &[]), &Room(Some(8))).unwrap();
    assert_eq!((last.session_id, sessions.live.is_some()), (0, false));
    let full = sessions.begin(fetch(0, 0, &[("a", 0)], &[]), &Room(None)).unwrap();
    assert_eq!((full.session_id, full.incremental), (0, false));
}

#[test]
fn what_a_session_takes_it_gives_back() {
    let room = Narrow(Cell::new(3));
    let (mut one, mut other) = (FetchSessions::default(), FetchSessions::default());
    let two = [("a", 0), ("b", 0)];
    assert_eq!(one.begin(fetch(0, 0, &two, &[]), &room).unwrap().session_id, 7);
    assert_eq!(other.begin(fetch(0, 0, &two, &[]), &room).unwrap().session_id, 0, "no room");
    one.begin(fetch(7, 1, &[("c", 0)], &["a"]), &room).unwrap();
    assert_eq!(room.0.get(), 1, "as many as before");
    one.begin(fetch(7, 2, &[("d", 0)], &[]), &room).unwrap();
    assert_eq!(room.0.get(), 0);
    let over = one.begin(fetch(7, 3, &[("e", 0)], &[]), &room).unwrap();
    assert_eq!(
        (over.session_id, over.incremental, over.partitions.len()),
        (0, false, 4),
        "it reads all the same"
    );
    assert_eq!(room.0.get(), 3, "and has no session any more");
    for _ in 0..2 {
        other.begin(fetch(0, 0, &two, &[]), &room).unwrap();
        assert_eq!(room.0.get(), 1, "a new session takes the place of the old one");
    }
    other.end(&room);
    room.0.set(0);
    let mut node = FetchSessions::of_node();
    assert_eq!(node.begin(fetch(0, 0, &two, &[]), &room).unwrap().session_id, 9);
    assert_eq!(node.begin(fetch(9, 1, &[("c", 0)], &[]), &room).unwrap().partitions.len(), 3);
    node.end(&room);
    assert_eq!(room.0.get(), 0);
}

#[test]
fn a_partition_named_twice_is_read_once_and_forgotten_whole() {
    let mut sessions = FetchSessions::default();
    let twice = [("a", 1), ("b", 2), ("a", 3)];
    let first = sessions.begin(fetch(0, 0, &twice, &[]), &Room(Some(7))).unwrap();
    assert_eq!(order(&first), [("a".into(), 3), ("b".into(), 2)]);
    let next = sessions.begin(fetch(7, 1, &[("c", 1), ("c", 2)], &["a", "a"]), &Room(None)).unwrap();
    assert_eq!(order(&next), [("b".into(), 2), ("c".into(), 2)]);
    let without = sessions.begin(fetch(0, -1, &twice, &[]), &Room(None)).unwrap();
    assert_eq!((without.session_id, without.partitions.len()), (0, 2));
}

#[test]
fn partitions_are_read_in_the_order_they_were_named_first() {
    let mut sessions = FetchSessions::default();
    let first = sessions.begin(fetch(0, 0, &[("c", 1), ("a", 2), ("b", 3)], &[]), &Room(Some(7))).unwrap();
    assert_eq!(order(&first), [("c".into(), 1), ("a".into(), 2), ("b".into(), 3)]);
    let more = [("e", 1), ("a", 5), ("d", 1), ("e", 2)];
    let next = sessions.begin(fetch(7, 1, &more, &["c", "d", "x"]), &Room(None)).unwrap();
    assert_eq!(order(&next), [("a".into(), 5), ("b".into(), 3), ("e".into(), 2)]);
}

#[test]
fn the_epoch_wraps_to_one() {
    let mut sessions = FetchSessions::default();
    sessions.begin(fetch(0, 0, &[("a", 0)], &[]), &Room(Some(7))).unwrap();
    sessions.live.as_mut().unwrap().epoch_next = i32::MAX;
    sessions.begin(fetch(7, i32::MAX, &[], &[]), &Room(None)).unwrap();
    assert!(sessions.begin(fetch(7, 1, &[], &[]), &Room(None)).is_ok());
}

#[test]
fn a_partition_that_gave_records_waits_its_turn() {
    let mut sessions = FetchSessions::default();
    sessions.begin(fetch(0, 0, &[("a", 0), ("b", 0), ("c", 0)], &[]), &Room(Some(7))).unwrap();
    let told = Told { high_watermark: 9, last_stable_offset: 9, log_start_offset: 0 };
    sessions.answered(7, &[(name("a"), 0, Some(told), true), (name("b"), 0, Some(told), false)]);
    let next = sessions.begin(fetch(7, 1, &[], &[]), &Room(None)).unwrap();
    assert_eq!(order(&next).iter().map(|(t, _)| t.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
    assert_eq!(next.partitions[2].told, Some(told));
    assert_eq!(next.partitions[1].told, None);
    // Who was sent to cut its log has taken nothing in, nor has who follows another leadership by now.
    sessions.answered(7, &[(name("a"), 0, None, false)]);
    let mut of_next = fetch(7, 2, &[("b", 0)], &[]);
    of_next.partitions[0].2.current_leader_epoch += 1;
    let next = sessions.begin(of_next, &Room(None)).unwrap();
    assert!(next.partitions.iter().all(|partition| partition.told.is_none()));
}
