//! Where a sandbox's packets may go, and what it did with that.

use ureq::http::Method;

use super::calls::sandbox;
use super::{Client, ClientError, EventReader, query};
use crate::api::{
    AnswerNetworkAsk, ChangeNetworkRules, NetworkAskList, NetworkEffect, NetworkLog, NetworkRequest,
    NetworkStatus,
};

impl Client {
    pub fn network(&self, id: &str) -> Result<NetworkStatus, ClientError> {
        self.get(&sandbox(id, "/network"))
    }

    /// Replaces the policy. What stays allowed goes on.
    pub fn set_network(&self, id: &str, body: &NetworkRequest) -> Result<NetworkStatus, ClientError> {
        self.ask(Method::PUT, &sandbox(id, "/network"), Some(body), &[])
    }

    /// Opens or closes something, perhaps for a while.
    pub fn change_network(
        &self,
        id: &str,
        effect: NetworkEffect,
        body: &ChangeNetworkRules,
    ) -> Result<NetworkStatus, ClientError> {
        let word = match effect {
            NetworkEffect::Allow => "allow",
            NetworkEffect::Deny => "deny",
        };
        self.post(&sandbox(id, &format!("/network/{word}")), body)
    }

    /// The sandbox's connections and attempts after an entry of this number.
    pub fn network_log(&self, id: &str, after: u64) -> Result<NetworkLog, ClientError> {
        let query = query(&[("after", Some(after.to_string())), ("limit", Some("1000".to_owned()))]);
        self.get(&sandbox(id, &format!("/network/log{query}")))
    }

    /// The same, then every new entry. Without a number, new ones only.
    pub fn follow_network_log(&self, id: &str, after: Option<u64>) -> Result<EventReader, ClientError> {
        let query = query(&[("after", after.map(|after| after.to_string()))]);
        self.follow(&sandbox(id, &format!("/network/log{query}")))
    }

    /// The targets that wait for somebody's answer.
    pub fn network_asks(&self, id: &str) -> Result<NetworkAskList, ClientError> {
        self.get(&sandbox(id, "/network/requests"))
    }

    pub fn answer_network_ask(
        &self,
        id: &str,
        number: u64,
        body: &AnswerNetworkAsk,
    ) -> Result<NetworkStatus, ClientError> {
        self.post(&sandbox(id, &format!("/network/requests/{number}")), body)
    }

    /// The smallest policy for what the sandbox has reached, as [`Client::set_network`] takes it.
    pub fn learned_network(&self, id: &str) -> Result<NetworkRequest, ClientError> {
        self.get(&sandbox(id, "/network/learned"))
    }
}
