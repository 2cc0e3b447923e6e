//! The members that speak over a connection: whom it concerns when that is closed.

/// Clients have a connection for each member; of somebody who speaks for more, the last ones are known.
const MEMBERS_MAX: usize = 8;

/// Longer ids are not kept; their members keep their sessions as they are.
const BYTES_MAX: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Speakers(Vec<Speaker>);

#[derive(Debug)]
struct Speaker {
    group: Box<str>,
    member: Box<str>,
}

impl Speakers {
    /// A member of a group speaks.
    pub(crate) fn note(&mut self, group: &str, member: &str) {
        let is_known = self.0.iter().any(|it| *it.group == *group && *it.member == *member);
        if is_known || group.len() + member.len() > BYTES_MAX {
            return;
        }
        if self.0.len() == MEMBERS_MAX {
            self.0.remove(0);
        }
        self.0.push(Speaker { group: group.into(), member: member.into() });
    }

    /// Group and id of each, the newest last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|it| (&*it.group, &*it.member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_none_that_is_too_long() {
        let mut speakers = Speakers::default();
        let names: Vec<String> = (0..2 * MEMBERS_MAX).map(|number| format!("m{number}")).collect();
        for name in &names {
            speakers.note("g", name);
            speakers.note("g", name);
        }
        speakers.note("g", &"m".repeat(BYTES_MAX));
        let known: Vec<_> = speakers.iter().map(|(_, member)| member).collect();
        assert_eq!(known, names[MEMBERS_MAX..].iter().collect::<Vec<_>>());
    }
}
