//! Errors of networks, with the key of the user's configuration, also of another node's.

use super::channel::ChannelConfig;
use super::declaration::{Declaration, UsersKey, plain};
use super::paths::PathUse;
use det_post_types::{Error, ErrorKind};

impl ChannelConfig {
    /// An error of a network of this channel, with the channel and the key of the network's file; others
    /// as they are.
    pub(crate) fn name_network(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Model {
            return error;
        }
        let files = || self.declared.iter().filter(|of| of.path_use == PathUse::Read);
        let said = error.to_string();
        let is_named = |of: &&Declaration| {
            let path = of.value.as_ref().map(plain).filter(|path| !path.is_empty());
            path.is_some_and(|path| said.contains(&path))
        };
        let is_model = |of: &&Declaration| of.name.ends_with(".model_path");
        let key = files().find(is_named).or_else(|| files().find(is_model));
        error.within(&key.map_or_else(|| self.name.clone(), Declaration::as_given))
    }

    /// The parameters whose values come from keys of another node: names and keys.
    pub(crate) fn users_keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.declared.iter().filter_map(|of| Some((&*of.name, of.users_key.0.as_deref()?)))
    }

    /// Names the key of another node that the value of a parameter comes from.
    pub(crate) fn name_users_key(&mut self, name: &str, key: &str) {
        let found = self.declared.iter_mut().find(|of| of.name == name);
        found.into_iter().for_each(|of| of.users_key = UsersKey(Some(key.to_owned())));
    }
}
