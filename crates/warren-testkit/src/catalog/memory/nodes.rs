use std::collections::BTreeSet;

use warren_core::catalog::{CatalogError, ChangeNode, NetworkCatalog, NodeCatalog, PortCatalog};
use warren_core::network::Destination;
use warren_core::{NodeId, NodeRecord, Owner, PortRecord, PortSettings, SandboxId};

use super::MemoryCatalog;

impl NodeCatalog for MemoryCatalog {
    fn node(&self) -> &NodeId {
        &self.node
    }

    fn node_record(&self) -> Result<NodeRecord, CatalogError> {
        Ok(self.enter("node_record")?.nodes.get(&self.node).cloned().unwrap_or_default())
    }

    fn update_node(&self, change: &mut ChangeNode<'_>) -> Result<(), CatalogError> {
        let mut records = self.enter("update_node")?;
        let record = records.nodes.entry(self.node.clone()).or_default();
        change(&mut record.clone());
        change(record);
        Ok(())
    }
}

impl PortCatalog for MemoryCatalog {
    fn ports(&self) -> Result<Vec<PortRecord>, CatalogError> {
        let records = self.enter("ports")?;
        let record = |((sandbox, port), settings): (&(SandboxId, u16), &PortSettings)| PortRecord {
            sandbox: sandbox.clone(),
            port: *port,
            settings: settings.clone(),
        };
        Ok(records.ports.iter().map(record).collect())
    }

    fn set_port(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        port: u16,
        settings: &PortSettings,
    ) -> Result<(), CatalogError> {
        let mut records = self.enter("set_port")?;
        records.check_owner(owner, sandbox)?;
        let place = (sandbox.clone(), port);
        if *settings == PortSettings::default() {
            records.ports.remove(&place);
        } else {
            records.ports.insert(place, settings.clone());
        }
        Ok(())
    }
}

impl NetworkCatalog for MemoryCatalog {
    fn reached(&self, owner: &Owner, sandbox: &SandboxId) -> Result<BTreeSet<Destination>, CatalogError> {
        let records = self.enter("reached")?;
        let is_theirs = records.check_owner(owner, sandbox).is_ok();
        Ok(records.reached.get(sandbox).filter(|_| is_theirs).cloned().unwrap_or_default())
    }

    fn add_reached(
        &self,
        sandbox: &SandboxId,
        destinations: &BTreeSet<Destination>,
        most: u32,
    ) -> Result<(), CatalogError> {
        let mut records = self.enter("add_reached")?;
        records.check_known(sandbox)?;
        let known = records.reached.entry(sandbox.clone()).or_default();
        for destination in destinations {
            if known.len() < most as usize {
                known.insert(destination.clone());
            }
        }
        Ok(())
    }

    fn forget_reached(&self, sandbox: &SandboxId) -> Result<(), CatalogError> {
        self.enter("forget_reached")?.reached.remove(sandbox);
        Ok(())
    }
}
