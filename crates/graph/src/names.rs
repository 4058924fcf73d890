//! Unique names from a stack of scopes.

use std::collections::HashMap;

/// The current scope, and the names that are taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// `/model/layers.3`, empty at the root.
    scope: String,
    /// How often each name was asked for.
    taken: HashMap<String, u32>,
}

impl Names {
    /// Enters `name` and returns what [`Names::leave`] needs.
    pub(crate) fn enter(&mut self, name: &str) -> usize {
        let outer = self.scope.len();
        self.scope.push('/');
        self.scope.push_str(name);
        outer
    }

    pub(crate) fn leave(&mut self, outer: usize) {
        self.scope.truncate(outer);
    }

    /// Replaces the whole scope and returns the one before.
    pub(crate) fn switch(&mut self, scope: String) -> String {
        std::mem::replace(&mut self.scope, scope)
    }

    /// `/model/layers.3`, or `/` at the root.
    pub(crate) fn scope(&self) -> &str {
        if self.scope.is_empty() { "/" } else { &self.scope }
    }

    /// `/model/layers.3/Add`, with `_1`, `_2`, … where that is taken.
    pub(crate) fn node(&mut self, op: &str) -> String {
        let base = format!("{}/{op}", self.scope);
        let mut name = base.clone();
        let mut number = self.taken.get(&base).copied().unwrap_or(0);
        while self.taken.contains_key(&name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.taken.insert(base, number);
        self.taken.entry(name.clone()).or_insert(0);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_operators_are_numbered_within_their_scope() {
        let mut names = Names::default();
        assert_eq!(names.scope(), "/");
        assert_eq!(names.node("Add"), "/Add");
        let outer = names.enter("layers.0");
        assert_eq!(names.node("Add"), "/layers.0/Add");
        assert_eq!(names.node("Add"), "/layers.0/Add_1");
        assert_eq!(names.node("Add_1"), "/layers.0/Add_1_1");
        assert_eq!(names.node("Add"), "/layers.0/Add_2");
        names.leave(outer);
        assert_eq!(names.node("Add"), "/Add_1");
    }
}
