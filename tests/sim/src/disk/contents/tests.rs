use super::*;

const KEEP_NONE: PowerCut = PowerCut { kept_per_thousand: 0, torn: false, rubbish: false };
const KEEP_ALL: PowerCut = PowerCut { kept_per_thousand: 1000, torn: false, rubbish: false };
const KEEP_SOME: PowerCut = PowerCut { kept_per_thousand: 500, torn: true, rubbish: false };

fn random() -> Random {
    Random::stream(1, "contents")
}

fn durable(bytes: &[u8]) -> Contents {
    let mut file = Contents::default();
    file.write(0, bytes);
    file.sync();
    file
}

#[test]
fn what_is_not_behind_a_barrier_may_go() {
    let mut file = Contents::default();
    file.write(0, b"one");
    file.sync();
    file.write(3, b"two");
    assert_eq!(file.cached(), b"onetwo");
    assert_eq!(file.on_media(), b"one");
    file.cut_power(KEEP_NONE, &mut random());
    assert_eq!(file.cached(), b"one");
    assert!(!file.is_dirty());
}

#[test]
fn and_may_stay() {
    let mut file = Contents::default();
    file.write(0, b"one");
    file.cut_power(KEEP_ALL, &mut random());
    assert_eq!(file.cached(), b"one");
}

#[test]
fn sectors_go_one_by_one_and_out_of_order() {
    let (mut torn, mut hole) = (false, false);
    let mut random = random();
    for _ in 0..200 {
        let mut file = Contents::default();
        file.write(0, &[b'a'; SECTOR_BYTES * 4]);
        file.cut_power(KEEP_SOME, &mut random);
        let kept: Vec<bool> = file.cached().chunks(SECTOR_BYTES).map(|s| s[0] == b'a').collect();
        torn |= kept.starts_with(&[true, false]);
        hole |= kept.starts_with(&[false, true]);
        for sector in file.cached().chunks(SECTOR_BYTES) {
            assert!(sector.iter().all(|&b| b == sector[0]), "a sector is written whole");
        }
    }
    assert!(torn && hole);
}

#[test]
fn untorn_pages_go_whole() {
    let mut random = random();
    let cut = PowerCut { torn: false, ..KEEP_SOME };
    for _ in 0..50 {
        let mut file = durable(&[b'o'; PAGE_BYTES * 2]);
        file.write(0, &[b'n'; PAGE_BYTES * 2]);
        file.cut_power(cut, &mut random);
        for page in file.cached().chunks(PAGE_BYTES) {
            assert!(page.iter().all(|&b| b == page[0]));
        }
    }
}

#[test]
fn a_length_may_come_back_without_its_bytes() {
    let mut random = random();
    let found = (0..200).any(|_| {
        let mut file = Contents::default();
        file.write(0, &[b'a'; SECTOR_BYTES]);
        file.cut_power(KEEP_SOME, &mut random);
        file.cached() == [0; SECTOR_BYTES]
    });
    assert!(found);
}

#[test]
fn rubbish_in_place_of_zeroes() {
    let mut random = random();
    let cut = PowerCut { rubbish: true, ..KEEP_SOME };
    let found = (0..200).any(|_| {
        let mut file = Contents::default();
        file.write(0, &[b'a'; SECTOR_BYTES]);
        file.cut_power(cut, &mut random);
        file.cached().len() == SECTOR_BYTES && file.cached()[..8] != [b'a'; 8] && file.cached()[..8] != [0; 8]
    });
    assert!(found);
}

#[test]
fn a_cut_that_was_not_synced_may_be_undone() {
    let mut file = durable(b"0123456789");
    file.set_len(4);
    file.cut_power(KEEP_NONE, &mut random());
    assert_eq!(file.cached(), b"0123456789");
    file.set_len(4);
    file.sync();
    file.cut_power(KEEP_NONE, &mut random());
    assert_eq!(file.cached(), b"0123");
}

#[test]
fn bytes_behind_a_synced_cut_never_come_back() {
    let mut file = durable(b"0123456789");
    file.set_len(4);
    file.sync();
    file.write(8, b"x");
    file.sync();
    assert_eq!(file.on_media(), b"0123\0\0\0\0x");
}

#[test]
fn a_cut_and_regrowth_in_one_barrier_is_what_was_written() {
    let mut file = durable(&[b'o'; SECTOR_BYTES * 3]);
    file.set_len(10);
    file.write(10, b"new");
    file.write(SECTOR_BYTES + 5, b"tail");
    let expected = file.cached().to_vec();
    file.sync();
    assert_eq!(file.on_media(), expected);
    file.cut_power(KEEP_NONE, &mut random());
    assert_eq!(file.cached(), expected);
}

#[test]
fn writeback_never_changes_what_is_read_and_a_barrier_completes_it() {
    let mut random = random();
    let mut file = Contents::default();
    let mut expected = Vec::new();
    for step in 0..400_usize {
        match random.index(4) {
            0 => {
                let len = random.index(expected.len() + 1);
                file.set_len(len);
                expected.truncate(len);
            }
            1 => file.write_back_some(&mut random),
            _ => {
                let bytes = vec![step as u8; random.index(900)];
                file.write(expected.len(), &bytes);
                expected.extend(bytes);
            }
        }
        assert_eq!(file.cached(), expected);
        if random.chance(100) {
            file.sync();
            assert_eq!(file.on_media(), expected);
            file.cut_power(KEEP_SOME, &mut random);
            assert_eq!(file.cached(), expected);
        }
    }
}

#[test]
fn a_failed_barrier_makes_the_next_one_lie() {
    let mut random = random();
    let lied = (0..100).any(|_| {
        let mut file = Contents::default();
        file.write(0, &[b'a'; SECTOR_BYTES * 4]);
        file.fail_sync(&mut random);
        file.sync();
        file.cut_power(KEEP_NONE, &mut random);
        file.cached() != [b'a'; SECTOR_BYTES * 4]
    });
    assert!(lied);
}

#[test]
fn a_lost_or_misdirected_sector_is_not_seen_before_the_power_cut() {
    let mut random = random();
    for misdirected in [false, true] {
        let mut file = Contents::default();
        let bytes: Vec<u8> = (0..SECTOR_BYTES * 4).map(|n| (n / SECTOR_BYTES) as u8 + 1).collect();
        file.write(0, &bytes);
        let damaged = match misdirected {
            false => file.sync_but_one(&mut random),
            true => file.sync_misdirected(&mut random),
        };
        assert!(damaged.is_some());
        assert_eq!(file.cached(), bytes);
        file.cut_power(KEEP_NONE, &mut random);
        assert_ne!(file.cached(), bytes);
    }
}

#[test]
fn rot_is_read_and_stays() {
    let mut file = durable(b"abc");
    file.rot(1, 0x20);
    assert_eq!(file.cached(), b"aBc");
    file.cut_power(KEEP_NONE, &mut random());
    assert_eq!(file.cached(), b"aBc");
}
