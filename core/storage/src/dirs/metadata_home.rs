//! Which log directory has the metadata log, or gets it.
//!
//! A node that began a new metadata log because the old one is not mounted today would not know of any
//! topic, and give out ids that are in use. So it looks for the log in all of its directories, and each
//! directory says, in `meta.properties`, which one has it:
//!
//! | the log is in | the directories | decision |
//! | --- | --- | --- |
//! | one of them | | that one |
//! | several | | refuse: one of them is old |
//! | none | name one that is not there | refuse: it is not mounted, or not among `log.dirs` |
//! | none | name one that is there, no partition anywhere | that one: a crash ended the very first start |
//! | none | name one that is there, partitions | refuse: the log was removed |
//! | none | name none, some are new | refuse: the log may have been where one of the new ones is |
//! | none | name none, all new, or all used before by Apache Kafka | the first |

use std::path::{Path, PathBuf};

use base::Uuid;

use super::MetaProperties;

/// What is known of a log directory before it is opened.
#[derive(Debug)]
pub struct Root<'a> {
    /// As the settings name it.
    pub path: &'a Path,
    /// `None` if it was never used.
    pub properties: Option<MetaProperties>,
    /// Whether the metadata log is in it.
    pub has_log: bool,
    /// Whether there are logs of partitions in it.
    pub has_partitions: bool,
}

/// Why it cannot be told where the metadata is, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// Several directories have a metadata log.
    #[error(
        "there is a metadata log in {first} and in {second}; one of them is old: find out which, and move its \
         __cluster_metadata-0 away", first = first.display(), second = second.display()
    )]
    Several {
        /// One.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
    /// A directory says that the metadata is in one that is not there.
    #[error(
        "{path} says that the metadata of this node is in the log directory with the id {id}, which is not there; \
         mount it, or name it in log.dirs. If it is lost for good, and the rest of the cluster has what is here: give \
         this node empty log directories, and it is filled by the others", path = path.display()
    )]
    Missing {
        /// The directory that says so.
        path: PathBuf,
        /// The one that is not there.
        id: Uuid,
    },
    /// The directory that had the metadata log has it no more.
    #[error(
        "the metadata log in {path} is gone, and with it what is known of the partitions that are there; put \
         __cluster_metadata-0 back from a backup", path = path.display()
    )]
    Gone {
        /// The directory.
        path: PathBuf,
    },
    /// Some directories were used before, and none of them has the metadata.
    #[error(
        "there is no metadata log, though {used} was used before, and {new} is new: perhaps a disk is not \
         mounted. Mount it; or, to take over directories of Apache Kafka, name only those in log.dirs",
        used = used.display(), new = new.display()
    )]
    Lost {
        /// One that was used before.
        used: PathBuf,
        /// One that is new.
        new: PathBuf,
    },
}

/// The place of the directory that has the metadata log, or gets it.
pub fn choose(roots: &[Root<'_>]) -> Result<usize, HomeError> {
    let mut homes = (0..roots.len()).filter(|&place| roots[place].has_log);
    if let Some(home) = homes.next() {
        return match homes.next() {
            None => Ok(home),
            Some(other) => Err(HomeError::Several {
                first: roots[home].path.to_owned(),
                second: roots[other].path.to_owned(),
            }),
        };
    }
    let named = roots.iter().find_map(|root| {
        let id = root.properties.as_ref()?.metadata_directory;
        (!id.is_zero()).then_some((root, id))
    });
    if let Some((root, id)) = named {
        let is_it = |root: &Root<'_>| root.properties.as_ref().is_some_and(|known| known.directory_id == id);
        return match roots.iter().position(is_it) {
            None => Err(HomeError::Missing { path: root.path.to_owned(), id }),
            Some(home) if roots.iter().any(|root| root.has_partitions) => {
                Err(HomeError::Gone { path: roots[home].path.to_owned() })
            }
            Some(home) => Ok(home),
        };
    }
    let used = roots.iter().find(|root| root.properties.is_some());
    let new = roots.iter().find(|root| root.properties.is_none());
    match (used, new) {
        (Some(used), Some(new)) => {
            Err(HomeError::Lost { used: used.path.to_owned(), new: new.path.to_owned() })
        }
        _ => Ok(0),
    }
}

/// Whether the one that was chosen has the metadata whatever is in directories that cannot be looked at: it has a
/// log, and nobody says that it is elsewhere.
pub fn is_sure(roots: &[Root<'_>], home: usize) -> bool {
    let id_of = |root: &Root<'_>| root.properties.as_ref().map(|known| known.directory_id);
    let Some(home) = roots.get(home).filter(|home| home.has_log) else { return false };
    let named = roots.iter().filter_map(|root| Some(root.properties.as_ref()?.metadata_directory));
    named.filter(|id| !id.is_zero()).all(|id| id_of(home) == Some(id))
}

#[cfg(test)]
mod tests {
    use base::BrokerId;

    use super::*;

    fn root(path: &str) -> Root<'_> {
        Root { path: Path::new(path), properties: None, has_log: false, has_partitions: false }
    }

    fn used(path: &str, id: u8, home: u8) -> Root<'_> {
        let properties = MetaProperties {
            cluster_id: "c".to_owned(),
            node_id: BrokerId(1),
            directory_id: Uuid([id; 16]),
            metadata_directory: Uuid([home; 16]),
            joins: false,
        };
        Root { properties: Some(properties), ..root(path) }
    }

    #[test]
    fn the_metadata_is_where_its_log_is_whatever_the_order() {
        let home = || Root { has_log: true, ..used("b", 2, 2) };
        assert_eq!(choose(&[used("a", 1, 2), home()]), Ok(1));
        assert_eq!(choose(&[home(), used("a", 1, 2)]), Ok(0));
        assert_eq!(choose(&[root("new"), home()]), Ok(1), "a disk was added");
        let two = [home(), Root { has_log: true, ..used("c", 3, 3) }];
        assert!(matches!(choose(&two), Err(HomeError::Several { .. })));
    }

    #[test]
    fn what_cannot_be_looked_at_has_the_metadata_unless_all_others_agree_that_it_is_elsewhere() {
        let home = || Root { has_log: true, ..used("b", 2, 2) };
        assert!(is_sure(&[used("a", 1, 2), home()], 1));
        assert!(
            is_sure(&[root("new"), Root { has_log: true, ..used("b", 2, 0) }], 1),
            "a crash ended the first start"
        );
        assert!(!is_sure(&[used("a", 1, 3), home()], 1), "it is old");
        assert!(!is_sure(&[used("a", 1, 1), root("b")], 0), "the log may be where nobody can look");
        assert!(!is_sure(&[], 0));
    }

    #[test]
    fn a_new_log_is_begun_only_where_there_cannot_be_an_old_one() {
        assert_eq!(choose(&[root("a"), root("b")]), Ok(0));
        assert_eq!(choose(&[used("a", 1, 1), root("b")]), Ok(0), "a crash ended the first start");
        assert_eq!(choose(&[root("a"), used("b", 2, 2)]), Ok(1), "and the order was changed since");
        let kafkas = || Root { has_partitions: true, ..used("k", 1, 0) };
        assert_eq!(choose(&[kafkas()]), Ok(0));
        assert!(matches!(choose(&[root("a"), kafkas()]), Err(HomeError::Lost { .. })));
        assert!(matches!(choose(&[root("a"), used("b", 2, 1)]), Err(HomeError::Missing { .. })));
        assert!(matches!(choose(&[used("b", 2, 1)]), Err(HomeError::Missing { .. })));
        let robbed = [used("a", 1, 1), Root { has_partitions: true, ..used("b", 2, 1) }];
        assert!(matches!(choose(&robbed), Err(HomeError::Gone { .. })));
    }
}
