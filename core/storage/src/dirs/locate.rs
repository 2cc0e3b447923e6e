//! Where the log of a partition is, when a node starts.
//!
//! The metadata says in which log directory each log was made, so that a log which is not there is
//! missed, and never made anew. A directory on the disk counts only if it has the topic's id in it: one
//! of another topic, or of nobody, is left alone, whatever its name. But where the log was assigned, one
//! that does not say whose it is has the records, as far as anybody knows: a copy elsewhere is older.
//!
//! | assigned to | found | decision |
//! | --- | --- | --- |
//! | a directory that is there | in it | open |
//! | a directory that is there | in it, but not whose it is | offline |
//! | a directory that is there | not in it, in another | open, and assign: somebody has moved it |
//! | a directory that is there | nowhere | offline |
//! | a directory that is not there | | offline |
//! | none yet | somewhere | open, and assign: a crash came in between |
//! | none yet | somewhere, but whose it is cannot be read | offline |
//! | none yet | nowhere | make |
//!
//! What could not be served when the node ran last is looked for as if it had been assigned nowhere, and so is what
//! was in a directory that is not there if others have it; but who finds nothing then must not make it anew, unless
//! others have it. Of a topic that is compacted neither is looked for if others have it, nor what is assigned nowhere
//! yet: it is made anew (ADR 0038).

use std::path::Path;

use base::{TopicId, Uuid};

/// Whose log lies in a directory that has a partition's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// That of the topic with this id.
    Topic(TopicId),
    /// The directory does not say: it has no `partition.metadata`.
    Nobodys,
    /// What it says cannot be read.
    Unreadable(String),
}

/// What is to be done with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Its log is in the directory at this place.
    Open(usize),
    /// It has no log.
    Make,
    /// It has one that cannot be served.
    Offline(Lost),
}

/// Why a log cannot be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The log directory is there and the log is not in it.
    Vanished {
        /// The log directory.
        at: usize,
    },
    /// The log directory is not there.
    NoDirectory(Uuid),
    /// It could not be served when the node ran last, and is in none of the directories.
    Nowhere,
    /// The log is there, but has no `partition.metadata` that would say whose it is.
    Unnamed {
        /// The log directory.
        at: usize,
    },
    /// Whose the log is cannot be told: its `partition.metadata` cannot be read.
    Unreadable {
        /// The log directory.
        at: usize,
        /// What is wrong.
        why: String,
    },
}

/// Says where the log of a partition of `topic` is. `dirs` are the ids of the directories that are there;
/// `named` is what lies under the partition's name, each with the place of its directory.
pub fn locate(assigned: Option<Uuid>, dirs: &[Uuid], topic: TopicId, named: &[(usize, Whose)]) -> Place {
    let home = match assigned {
        Some(id) => match dirs.iter().position(|dir| *dir == id) {
            Some(home) => Some(home),
            None => return Place::Offline(Lost::NoDirectory(id)),
        },
        None => None,
    };
    let at_home = named.iter().find(|(at, _)| home == Some(*at));
    match at_home {
        Some((at, Whose::Topic(id))) if *id == topic => return Place::Open(*at),
        Some((at, Whose::Nobodys)) => return Place::Offline(Lost::Unnamed { at: *at }),
        Some((at, Whose::Unreadable(why))) => return Place::Offline(Lost::unreadable(*at, why)),
        Some((_, Whose::Topic(_))) | None => {}
    }
    if let Some((at, _)) = named.iter().find(|(_, whose)| *whose == Whose::Topic(topic)) {
        return Place::Open(*at);
    }
    let unreadable = named.iter().find_map(|(at, whose)| match whose {
        Whose::Unreadable(why) => Some(Lost::unreadable(*at, why)),
        Whose::Topic(_) | Whose::Nobodys => None,
    });
    match (home, unreadable) {
        (_, Some(unreadable)) => Place::Offline(unreadable),
        (Some(at), None) => Place::Offline(Lost::Vanished { at }),
        (None, None) => Place::Make,
    }
}

impl Lost {
    fn unreadable(at: usize, why: &str) -> Self {
        Self::Unreadable { at, why: why.to_owned() }
    }

    /// The place of the log directory that it is about, if that is there.
    pub fn at(&self) -> Option<usize> {
        match self {
            Self::Vanished { at } | Self::Unnamed { at } | Self::Unreadable { at, .. } => Some(*at),
            Self::NoDirectory(_) | Self::Nowhere => None,
        }
    }

    /// Whether nothing was found that could be the log.
    pub fn is_nowhere(&self) -> bool {
        match self {
            Self::Vanished { .. } | Self::NoDirectory(_) | Self::Nowhere => true,
            Self::Unnamed { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// What a person should know and do. `path` names the log directory, as far as that is known; `has_others` is
    /// whether other brokers have replicas, too.
    pub fn advice(&self, path: Option<&Path>, has_others: bool) -> String {
        let said = self.advice_alone(path);
        match has_others && self.is_nowhere() {
            true => format!("{said}; or have another broker lead it, which fills this replica anew"),
            false => said,
        }
    }

    fn advice_alone(&self, path: Option<&Path>) -> String {
        let path =
            path.map_or_else(|| "whose path is not known".to_owned(), |path| path.display().to_string());
        match self {
            Self::Vanished { .. } => format!(
                "its log was in {path} and is not there any more; put it back, or delete the topic to give its \
                 records up"
            ),
            Self::NoDirectory(id) => format!(
                "its log is in the log directory {id} ({path}), which is not there; mount it, name it in \
                 log.dirs and start again, or delete the topic to give its records up"
            ),
            Self::Nowhere => {
                "its log could not be served before and is in none of log.dirs; put it back, or delete the \
                              topic to give its records up"
                    .to_owned()
            }
            Self::Unnamed { .. } => format!(
                "the log of its name in {path} has no partition.metadata, so it is not known whose it is; its records \
                 are untouched: put the file back from a backup, or from another partition of the topic, which has \
                 the same, and start again"
            ),
            Self::Unreadable { why, .. } => format!(
                "partition.metadata of the log in {path} cannot be read, so it is not known whose it is: {why}; \
                 put the file back from a backup, or from another partition of the topic, which has the same, and \
                 start again"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its name, where the log is assigned, what is found, and what is to be done.
    type Case<'a> = (&'a str, Option<Uuid>, &'a [(usize, &'a Whose)], Place);

    #[test]
    fn every_case_of_the_table() {
        let dirs = [Uuid([1; 16]), Uuid([2; 16])];
        let (here, other, gone) = (Some(dirs[0]), Some(dirs[1]), Uuid([9; 16]));
        let topic = TopicId(Uuid([7; 16]));
        let (its, anothers) = (Whose::Topic(topic), Whose::Topic(TopicId(Uuid([8; 16]))));
        let (nobodys, bad) = (Whose::Nobodys, Whose::Unreadable("damaged".to_owned()));
        let offline = Place::Offline;
        let vanished = || offline(Lost::Vanished { at: 0 });
        let unreadable = |at| offline(Lost::unreadable(at, "damaged"));
        let cases: &[Case<'_>] = &[
            ("where it was", here, &[(0, &its)], Place::Open(0)),
            ("never the copy", here, &[(0, &its), (1, &its)], Place::Open(0)),
            ("whatever the order", other, &[(0, &its), (1, &its)], Place::Open(1)),
            ("moved", here, &[(1, &its)], Place::Open(1)),
            ("moved, and another's put there", here, &[(0, &anothers), (1, &its)], Place::Open(1)),
            ("bad, and an old copy", here, &[(0, &bad), (1, &its)], unreadable(0)),
            ("unnamed, and an old copy", here, &[(0, &nobodys), (1, &its)], offline(Lost::Unnamed { at: 0 })),
            ("fine, and a bad copy", here, &[(0, &its), (1, &bad)], Place::Open(0)),
            ("bad", here, &[(0, &bad)], unreadable(0)),
            ("unnamed", here, &[(0, &nobodys)], offline(Lost::Unnamed { at: 0 })),
            ("moved and bad", here, &[(1, &bad)], unreadable(1)),
            ("gone", here, &[], vanished()),
            ("gone, and nobody's elsewhere", here, &[(1, &nobodys)], vanished()),
            ("gone, and another's there", here, &[(0, &anothers)], vanished()),
            ("no directory", Some(gone), &[], offline(Lost::NoDirectory(gone))),
            ("no directory, and a copy", Some(gone), &[(0, &its)], offline(Lost::NoDirectory(gone))),
            ("made, and a crash", None, &[(1, &its)], Place::Open(1)),
            ("new", None, &[], Place::Make),
            ("new, and strays", None, &[(0, &nobodys), (1, &anothers)], Place::Make),
            ("new, perhaps", None, &[(0, &bad)], unreadable(0)),
        ];
        for (name, assigned, named, expected) in cases {
            let named: Vec<_> = named.iter().map(|(at, whose)| (*at, (*whose).clone())).collect();
            assert_eq!(locate(*assigned, &dirs, topic, &named), *expected, "{name}");
        }
    }
}
