//! However many tasks wait.
