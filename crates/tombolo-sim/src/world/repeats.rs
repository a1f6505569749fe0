//! Requests that carry an id: clients send some of them again, and ask what became of some.
//!
//! A client may have had its answer or lost it, before a crash or without one, and the request may
//! never have arrived: it remembers what it sent, not what became of it. So an id comes again while its
//! first request is under way, behind its answer, and in a later life. Not here: what is right then
//! (`workload/model.rs`).

use super::World;
use crate::faults::one_in;
use crate::oracle::{Rule, Violation};
use crate::workload::request::{Request, Work, request_id};

/// Requests of a client that it may send again.
const SENT_MAX: usize = 6;

impl World {
    /// One of a client's requests that it sends again, or asks about; in some worlds, now and then.
    pub(super) fn repeat(&mut self, client: usize) -> Option<Request> {
        if !self.swarm.kinds.ids || !one_in(&mut self.requests, 5) {
            return None;
        }
        let own = |request: &Request| request.client == client as i32;
        let of_client: Vec<usize> = (0..self.sent.len()).filter(|&n| own(&self.sent[n])).collect();
        let chosen = self.requests.below(of_client.len().max(1) as u64) as usize;
        let request = &mut self.sent[*of_client.get(chosen)?];
        if one_in(&mut self.requests, 2) {
            request.sent_before = request.sent_before.map(|times| times + 1);
            return Some(request.clone());
        }
        // Some have not been sent yet: no database has them.
        let ahead = if one_in(&mut self.requests, 4) { 1_000 } else { 0 };
        let work = Work::Outcome { client: request.client, number: request.number + ahead };
        self.numbers[client] += 1;
        let number = self.numbers[client];
        Some(Request { client: client as i32, number, work, sent_before: None })
    }

    /// Gives a request an id, in some worlds and then sometimes.
    pub(super) fn identify(&mut self, mut request: Request) -> Request {
        let may = self.swarm.kinds.ids && !request.work.only_reads();
        if !may || !one_in(&mut self.requests, 3) {
            return request;
        }
        request.sent_before = Some(0);
        let own = |sent: &Request| sent.client == request.client;
        if self.sent.iter().filter(|sent| own(sent)).count() == SENT_MAX
            && let Some(oldest) = self.sent.iter().position(own)
        {
            self.sent.remove(oldest);
        }
        self.sent.push(request.clone());
        request
    }

    /// Ids that were given and may come again.
    pub(super) fn ids(&self) -> Vec<u128> {
        let ids = self.sent.iter().map(|request| request_id(request.client, request.number));
        ids.collect()
    }

    /// Of a database that was just opened: it says truthfully what became of the requests with `ids`.
    pub(super) fn judge_outcomes(
        &self,
        ids: &[u128],
        reported: &[Option<bool>],
    ) -> Result<(), Violation> {
        for (&id, &reported) in ids.iter().zip(reported) {
            let expected = self.history.state().outcome_of(id);
            if reported != expected {
                let what = format!(
                    "after recovery the outcome of request {id:#x} is {reported:?} instead of {expected:?}"
                );
                return Err(Violation::new(Rule::RightAnswer, what));
            }
        }
        Ok(())
    }
}
