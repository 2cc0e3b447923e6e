//! No partition has two owners, whatever is late or lost; and in the end each has one.

use proptest::prelude::*;
use vltava_client_core::group::{Assignor, GroupProtocol, GroupSettings};

use super::rebalances::settings;
use super::world::World;

fn kinds() -> [(bool, GroupSettings); 3] {
    let classic = settings(GroupProtocol::Classic);
    let cooperative = GroupSettings { assignors: vec![Assignor::CooperativeSticky], ..classic.clone() };
    [(false, classic), (false, cooperative), (true, settings(GroupProtocol::Consumer))]
}

/// Members come, go and die; the group moves; requests are late, and some break their connection.
fn live(kind: usize, seed: u64) {
    let (speaks_epochs, settings) = kinds()[kind].clone();
    let mut world = World::new(speaks_epochs, seed);
    world.delay_ms_max = world.chance.below(400);
    world.lost_one_in = [0, 20, 60][world.chance.below(3) as usize];
    let mut living = Vec::new();
    for _ in 0..25 {
        match world.chance.below(6) {
            0 | 1 if living.len() < 5 => {
                let topics: &[&str] = [&["t", "u"][..], &["t"], &["u"]][world.chance.below(3) as usize];
                let who = world.join(settings.clone(), topics);
                world.all[who].gives_back_after_ms = Some(world.chance.below(3_000));
                living.push(who);
            }
            2 if living.len() > 1 => {
                let who = living.swap_remove(world.chance.below(living.len() as u64) as usize);
                let now = world.now();
                world.all[who].membership.unsubscribe(now);
                world.all[who].owned.clear();
            }
            3 if living.len() > 1 => {
                let who = living.swap_remove(world.chance.below(living.len() as u64) as usize);
                world.kill(who);
            }
            4 => world.move_group(),
            _ => {}
        }
        for &who in &living {
            let upto = world.now_ms as i64;
            world.read(who, upto);
        }
        let rest = world.chance.below(8_000);
        world.run(rest);
    }
    world.lost_one_in = 0;
    let wanting = world.join(settings, &["t", "u"]);
    world.run(400_000);
    let mut owned: Vec<String> =
        world.all.iter().flat_map(|one| one.owned.iter().map(ToString::to_string)).collect();
    owned.sort();
    assert_eq!(owned, ["t-0", "t-1", "t-2", "t-3", "u-0", "u-1"], "member {wanting} wants all");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_partition_has_two_owners(kind in 0..3_usize, seed in any::<u64>()) {
        live(kind, seed);
    }
}
