//! The names: directories as the page cache has them, and as the media has them.
//!
//! A create, a rename or a remove is a change to the names in one directory. It is durable when that
//! directory was synced; before that, a power cut keeps the first few changes, or any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path};

use super::contents::{Contents, PowerCut};
use crate::random::Random;

/// Which node; a number is never used twice.
pub(super) type NodeId = u32;

/// The directory everything lies in.
const ROOT: NodeId = 0;

/// All nodes and the names that lead to them.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    /// Changes to names that are not durable yet, oldest first.
    changes: Vec<Change>,
    node_next: NodeId,
}

#[derive(Debug)]
enum Node {
    File(Contents),
    Dir { cached: BTreeMap<String, NodeId>, media: BTreeMap<String, NodeId> },
}

type Place = (NodeId, String);

#[derive(Debug, Clone)]
enum Change {
    Link { at: Place, node: NodeId },
    Unlink { at: Place, node: NodeId },
    Rename { from: Place, to: Place, node: NodeId },
}

/// Why a path led nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathError {
    Missing,
    NotADirectory,
    IsADirectory,
}

impl PathError {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Missing => "no such file or directory",
            Self::NotADirectory => "not a directory",
            Self::IsADirectory => "is a directory",
        }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Node::Dir { cached: BTreeMap::new(), media: BTreeMap::new() };
        Self { nodes: BTreeMap::from([(ROOT, root)]), changes: Vec::new(), node_next: ROOT + 1 }
    }

    /// The file at a path.
    pub(super) fn file(&self, path: &Path) -> Result<NodeId, PathError> {
        let id = self.find(path)?;
        match self.nodes.get(&id) {
            Some(Node::File(_)) => Ok(id),
            _ => Err(PathError::IsADirectory),
        }
    }

    /// Makes an empty file; there must be nothing at the path.
    pub(super) fn create_file(&mut self, path: &Path) -> Result<NodeId, PathError> {
        let at = self.place(path)?;
        Ok(self.link(at, Node::File(Contents::default())))
    }

    /// Makes a directory and those above it.
    pub(super) fn create_dir(&mut self, path: &Path) -> Result<(), PathError> {
        let mut dir = ROOT;
        for name in names(path) {
            dir = match self.children(dir)?.get(name) {
                Some(&child) => child,
                None => {
                    let node = Node::Dir { cached: BTreeMap::new(), media: BTreeMap::new() };
                    self.link((dir, name.to_owned()), node)
                }
            };
        }
        self.children(dir).map(|_| ())
    }

    /// The names in a directory: whether each is a directory, and its length.
    pub(super) fn list(&self, path: &Path) -> Result<Vec<(String, bool, u64)>, PathError> {
        let dir = self.find(path)?;
        let entries = self.children(dir)?.iter();
        Ok(entries
            .map(|(name, id)| match self.nodes.get(id) {
                Some(Node::File(contents)) => (name.clone(), false, contents.cached().len() as u64),
                _ => (name.clone(), true, 0),
            })
            .collect())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), PathError> {
        let node = self.find(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        if from == to {
            return Ok(());
        }
        self.children_mut(from.0)?.remove(&from.1);
        self.children_mut(to.0)?.insert(to.1.clone(), node);
        self.changes.push(Change::Rename { from, to, node });
        Ok(())
    }

    /// Removes a name, of a file or of an emptied directory.
    pub(super) fn unlink(&mut self, path: &Path) -> Result<(), PathError> {
        let node = self.find(path)?;
        let at = self.place(path)?;
        self.children_mut(at.0)?.remove(&at.1);
        self.changes.push(Change::Unlink { at, node });
        Ok(())
    }

    /// Removes a name from the media, too.
    pub(super) fn lose(&mut self, path: &Path) -> Result<(), PathError> {
        self.unlink(path)?;
        let gone = self.changes.pop().into_iter().collect();
        self.commit(gone);
        Ok(())
    }

    /// Makes the names in one directory durable.
    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<(), PathError> {
        let dir = self.find(path)?;
        self.children(dir)?;
        let (here, elsewhere) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.touches(dir));
        self.changes = elsewhere;
        self.commit(here);
        Ok(())
    }

    pub(super) fn contents(&self, file: NodeId) -> Option<&Contents> {
        match self.nodes.get(&file) {
            Some(Node::File(contents)) => Some(contents),
            _ => None,
        }
    }

    pub(super) fn contents_mut(&mut self, file: NodeId) -> Option<&mut Contents> {
        match self.nodes.get_mut(&file) {
            Some(Node::File(contents)) => Some(contents),
            _ => None,
        }
    }

    /// What a power cut would certainly leave at a path; `None` if the name might be gone.
    pub(super) fn on_media(&self, path: &Path) -> Option<&[u8]> {
        let mut id = ROOT;
        for name in names(path) {
            match self.nodes.get(&id)? {
                Node::Dir { media, .. } => id = *media.get(name)?,
                Node::File(_) => return None,
            }
        }
        self.contents(id).map(Contents::on_media)
    }

    /// The names that a power cut would certainly leave in a directory.
    pub(super) fn names_on_media(&self, dir: &Path) -> Vec<String> {
        let mut id = ROOT;
        for name in names(dir) {
            match self.nodes.get(&id) {
                Some(Node::Dir { media, .. }) if media.contains_key(name) => id = media[name],
                _ => return Vec::new(),
            }
        }
        match self.nodes.get(&id) {
            Some(Node::Dir { media, .. }) => media.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Writeback nobody asked for, of bytes and of names.
    pub(super) fn write_back_some(&mut self, random: &mut Random) {
        for node in self.nodes.values_mut() {
            match node {
                Node::File(contents) if contents.is_dirty() => contents.write_back_some(random),
                Node::File(_) | Node::Dir { .. } => {}
            }
        }
        if !self.changes.is_empty() && random.chance(300) {
            let count = random.index(self.changes.len()) + 1;
            let oldest = self.changes.drain(..count).collect();
            self.commit(oldest);
        }
    }

    /// The power goes and comes back.
    pub(super) fn cut_power(&mut self, cut: PowerCut, random: &mut Random) {
        let changes = std::mem::take(&mut self.changes);
        let kept = kept_changes(changes, cut, random);
        self.commit(kept);
        for node in self.nodes.values_mut() {
            match node {
                Node::File(contents) => contents.cut_power(cut, random),
                Node::Dir { cached, media } => cached.clone_from(media),
            }
        }
        self.drop_unreachable();
    }

    /// Every path to a file, in order.
    pub(super) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.walk(ROOT, String::new(), &mut found);
        found
    }

    fn walk(&self, dir: NodeId, path: String, found: &mut Vec<String>) {
        let Ok(children) = self.children(dir) else { return };
        for (name, &id) in children {
            let path = format!("{path}/{name}");
            match self.nodes.get(&id) {
                Some(Node::File(_)) => found.push(path),
                Some(Node::Dir { .. }) => self.walk(id, path, found),
                None => {}
            }
        }
    }

    fn find(&self, path: &Path) -> Result<NodeId, PathError> {
        let mut id = ROOT;
        for name in names(path) {
            id = *self.children(id)?.get(name).ok_or(PathError::Missing)?;
        }
        Ok(id)
    }

    /// The directory a path lies in, which must be there, and the name in it.
    fn place(&self, path: &Path) -> Result<Place, PathError> {
        let name = path.file_name().and_then(OsStr::to_str).ok_or(PathError::IsADirectory)?;
        let dir = self.find(path.parent().unwrap_or(Path::new("/")))?;
        self.children(dir)?;
        Ok((dir, name.to_owned()))
    }

    fn children(&self, dir: NodeId) -> Result<&BTreeMap<String, NodeId>, PathError> {
        match self.nodes.get(&dir) {
            Some(Node::Dir { cached, .. }) => Ok(cached),
            Some(Node::File(_)) => Err(PathError::NotADirectory),
            None => Err(PathError::Missing),
        }
    }

    fn children_mut(&mut self, dir: NodeId) -> Result<&mut BTreeMap<String, NodeId>, PathError> {
        match self.nodes.get_mut(&dir) {
            Some(Node::Dir { cached, .. }) => Ok(cached),
            Some(Node::File(_)) => Err(PathError::NotADirectory),
            None => Err(PathError::Missing),
        }
    }

    fn link(&mut self, at: Place, node: Node) -> NodeId {
        let id = self.node_next;
        self.node_next += 1;
        self.nodes.insert(id, node);
        if let Some(Node::Dir { cached, .. }) = self.nodes.get_mut(&at.0) {
            cached.insert(at.1.clone(), id);
        }
        self.changes.push(Change::Link { at, node: id });
        id
    }

    /// Applies changes to the names on the media. A change whose ground was lost does nothing.
    fn commit(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Link { at, node } => self.media_link(at, node),
                Change::Unlink { at, node } => {
                    self.media_unlink(&at, node);
                }
                Change::Rename { from, to, node } => {
                    if self.media_unlink(&from, node) {
                        self.media_link(to, node);
                    }
                }
            }
        }
    }

    fn media_link(&mut self, (dir, name): Place, node: NodeId) {
        if let Some(Node::Dir { media, .. }) = self.nodes.get_mut(&dir) {
            media.insert(name, node);
        }
    }

    fn media_unlink(&mut self, (dir, name): &Place, node: NodeId) -> bool {
        let Some(Node::Dir { media, .. }) = self.nodes.get_mut(dir) else { return false };
        let there = media.get(name) == Some(&node);
        if there {
            media.remove(name);
        }
        there
    }

    fn drop_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut waiting = vec![ROOT];
        while let Some(id) = waiting.pop() {
            if let Ok(children) = self.children(id) {
                waiting.extend(children.values().copied().filter(|&child| reached.insert(child)));
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
    }
}

impl Change {
    fn touches(&self, dir: NodeId) -> bool {
        match self {
            Self::Link { at, .. } | Self::Unlink { at, .. } => at.0 == dir,
            Self::Rename { from, to, .. } => from.0 == dir || to.0 == dir,
        }
    }
}

/// A journal keeps the oldest changes; without one, any of them may be kept.
fn kept_changes(mut changes: Vec<Change>, cut: PowerCut, random: &mut Random) -> Vec<Change> {
    match cut.kept_per_thousand {
        0 => Vec::new(),
        1000.. => changes,
        _ if random.chance(500) => {
            changes.truncate(random.index(changes.len() + 1));
            changes
        }
        kept => {
            changes.retain(|_| random.chance(kept));
            changes
        }
    }
}

fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}
