//! Which relation (table, index, file, volume) each page of a trace belongs to.
//!
//! Invariant: every dense page has exactly one relation, and every relation has a name.

/// A relation's number within its trace: `0 .. Relations::len()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(pub u16);

/// The relations of a trace's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// Dense page number → relation.
    of_page: Vec<u16>,
    names: Vec<String>,
}

impl Relations {
    /// Relations called `names`, with the relation of each dense page.
    ///
    /// # Panics
    /// If a page's relation has no name.
    pub fn new(of_page: Vec<u16>, names: Vec<String>) -> Self {
        assert!(
            of_page.iter().all(|&relation| usize::from(relation) < names.len()),
            "a page's relation is none of the {} that have names",
            names.len()
        );
        Self { of_page, names }
    }

    /// The relation of a dense page.
    ///
    /// # Panics
    /// If the trace has no such page.
    #[inline]
    pub fn of(&self, page: u32) -> RelationId {
        RelationId(self.of_page[page as usize])
    }

    /// The name of a relation.
    ///
    /// # Panics
    /// If there is no such relation.
    pub fn name(&self, relation: RelationId) -> &str {
        &self.names[usize::from(relation.0)]
    }

    /// All names, by relation.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of relations.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The relation of every dense page.
    pub fn of_pages(&self) -> &[u16] {
        &self.of_page
    }
}
