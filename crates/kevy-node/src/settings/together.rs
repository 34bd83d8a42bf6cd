//! What must hold between several settings. A setting with a fault of its own is not judged again here.

use super::sources::Draft;

impl Draft {
    /// Judges the settings as a whole, once `threads` is known.
    pub(super) fn check_together(&mut self) {
        self.check_accept_shards();
        self.check_cluster_ports();
    }

    fn check_accept_shards(&mut self) {
        let threads = self.settings.server.threads;
        let names = ["accept-shards", "threads"];
        match self.settings.server.accept_shards {
            Some(accepting) if accepting > threads && !self.any_faulty(&names) => self.fault(
                self.origin_of(&names),
                format!("[server] accept_shards = {accepting} is more than the {threads} threads"),
                format!("give an integer from 1 to {threads}, or more threads"),
            ),
            Some(_) | None => {}
        }
    }

    fn check_cluster_ports(&mut self) {
        let names = ["cluster-port-base", "port", "threads", "cluster-enabled"];
        if !self.settings.cluster.enabled || self.any_faulty(&names) {
            return;
        }
        let (port, threads) = (self.settings.server.port, self.settings.server.threads);
        let base = self.settings.port_base();
        self.check_ports_exist("port_base", base, &names);
        if port > base && u32::from(port) <= u32::from(base) + u32::from(threads) {
            self.fault(
                self.origin_of(&names),
                format!(
                    "port {port} would be shard {}'s too, as [cluster] port_base is {base}",
                    port - base - 1
                ),
                format!(
                    "move port or port_base: the shards take {} to {}",
                    base + 1,
                    u32::from(base) + u32::from(threads)
                ),
            );
        }
        if let Some(announced) = self.settings.cluster.announce_port_base {
            self.check_ports_exist(
                "announce_port_base",
                announced,
                &["cluster-announce-port-base"],
            );
        }
    }

    /// The shards' ports end at `base + threads`, which must be a port.
    fn check_ports_exist(&mut self, key: &str, base: u16, names: &[&str]) {
        let threads = self.settings.server.threads;
        if base.checked_add(threads).is_none() {
            self.fault(
                self.origin_of(names),
                format!(
                    "[cluster] {key} = {base} puts the last of {threads} shards on port {}",
                    u32::from(base) + u32::from(threads)
                ),
                format!(
                    "give a base of at most {}, or fewer threads",
                    u16::MAX - threads
                ),
            );
        }
    }
}
