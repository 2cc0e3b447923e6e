//! Where the log of a partition is, when a node starts.
//!
//! The metadata says in which log directory each log was made, so that a log which is not there is
//! missed, and never made anew. A directory on the disk counts only if it has the topic's id in it: one
//! of another topic, or of nobody, is left alone, whatever its name.
//!
//! | assigned to | found | decision |
//! | --- | --- | --- |
//! | a directory that is there | in it | open |
//! | a directory that is there | in another | open, and assign: somebody has moved it |
//! | a directory that is there | nowhere | offline |
//! | a directory that is not there | | offline |
//! | none yet | somewhere | open, and assign: a crash came in between |
//! | none yet | nowhere | make |

use std::path::Path;

use base::Uuid;

/// A directory with the partition's name whose `partition.metadata` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// In which log directory, by its place.
    pub(crate) at: usize,
    /// What is wrong.
    pub(crate) why: String,
}

/// What is to be done with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its log is in the directory at this place.
    Open(usize),
    /// It has no log.
    Make,
    /// It has one that cannot be served.
    Offline(Lost),
}

/// Why a log cannot be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The log directory is there and the log is not in it.
    Vanished {
        /// The log directory.
        at: usize,
    },
    /// The log directory is not there.
    NoDirectory(Uuid),
    /// Whose the log is cannot be told.
    Unreadable(Unreadable),
}

/// Says where the log is. `dirs` are the ids of the directories that are there, `found` the places of
/// those that have the partition with the right id of its topic.
pub(crate) fn locate(
    assigned: Option<Uuid>,
    dirs: &[Uuid],
    found: &[usize],
    unreadable: Option<&Unreadable>,
) -> Place {
    let home = match assigned {
        Some(id) => match dirs.iter().position(|dir| *dir == id) {
            Some(home) => Some(home),
            None => return Place::Offline(Lost::NoDirectory(id)),
        },
        None => None,
    };
    if let Some(place) = home.filter(|home| found.contains(home)).or(found.first().copied()) {
        return Place::Open(place);
    }
    match (home, unreadable) {
        (_, Some(unreadable)) => Place::Offline(Lost::Unreadable(unreadable.clone())),
        (Some(at), None) => Place::Offline(Lost::Vanished { at }),
        (None, None) => Place::Make,
    }
}

impl Lost {
    /// What a person should know and do. `path` names the directory, as far as that is known.
    pub(crate) fn advice(&self, path: Option<&Path>) -> String {
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
            Self::Unreadable(Unreadable { why, .. }) => format!(
                "partition.metadata of the log in {path} cannot be read, so it is not known whose it is: {why}; \
                 put the file back from a backup"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_the_table() {
        let dirs = [Uuid([1; 16]), Uuid([2; 16])];
        let (here, other, gone) = (Some(dirs[0]), Some(dirs[1]), Uuid([9; 16]));
        let bad = Unreadable { at: 0, why: "damaged".to_owned() };
        assert_eq!(locate(here, &dirs, &[0], None), Place::Open(0));
        assert_eq!(locate(here, &dirs, &[0, 1], None), Place::Open(0), "never the copy");
        assert_eq!(locate(other, &dirs, &[0, 1], None), Place::Open(1), "whatever the order");
        assert_eq!(locate(here, &dirs, &[1], None), Place::Open(1));
        assert_eq!(locate(here, &dirs, &[1], Some(&bad)), Place::Open(1));
        assert_eq!(locate(here, &dirs, &[], None), Place::Offline(Lost::Vanished { at: 0 }));
        assert_eq!(locate(here, &dirs, &[], Some(&bad)), Place::Offline(Lost::Unreadable(bad.clone())));
        assert_eq!(locate(Some(gone), &dirs, &[], None), Place::Offline(Lost::NoDirectory(gone)));
        assert_eq!(locate(Some(gone), &dirs, &[0], None), Place::Offline(Lost::NoDirectory(gone)));
        assert_eq!(locate(None, &dirs, &[1], None), Place::Open(1));
        assert_eq!(locate(None, &dirs, &[], None), Place::Make);
        assert_eq!(locate(None, &dirs, &[], Some(&bad)), Place::Offline(Lost::Unreadable(bad)));
    }
}
