//! What a session costs.

use agent_client_protocol_schema::v1::UsageUpdate;
use serde_json::{Value, json};

/// What a session cost. Agents tell sums; a turn's part is the difference.
#[derive(Debug, Default)]
pub struct Cost {
    /// Whether the session is older than this run, so that its first sum says nothing about this run.
    pub is_resumed: bool,
    seen: Option<f64>,
    total: f64,
    turn: f64,
    context: Option<Value>,
}

impl Cost {
    /// What comes now is of a new turn.
    pub fn begin_turn(&mut self) {
        self.turn = 0.0;
    }

    /// The agent has told what it used until now.
    pub fn note(&mut self, usage: &UsageUpdate) {
        self.context = Some(json!({ "used": usage.used, "size": usage.size }));
        let Some(cost) = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd")) else {
            return;
        };
        let before = self.seen.replace(cost.amount);
        let spent = match before {
            None if self.is_resumed => 0.0,
            // A sum that shrinks has begun anew.
            Some(before) if before <= cost.amount => cost.amount - before,
            _ => cost.amount,
        };
        self.turn += spent;
        self.total += spent;
    }

    /// What was spent until now is not of this run.
    pub fn forget(&mut self) {
        (self.turn, self.total) = (0.0, 0.0);
    }

    /// Of this turn, and of this run, in dollars.
    pub fn usd(&self) -> (f64, f64) {
        (self.turn, self.total)
    }

    /// How full the context is, if the agent has told.
    pub fn context(&self) -> Option<Value> {
        self.context.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol_schema::v1;

    fn told(cost: &mut Cost, sum: f64, currency: &str) {
        cost.note(&UsageUpdate::new(1, 2).cost(v1::Cost::new(sum, currency)));
    }

    #[test]
    fn a_turn_costs_what_the_sum_has_grown_by() {
        let mut cost = Cost::default();
        told(&mut cost, 0.5, "USD");
        assert_eq!(cost.usd(), (0.5, 0.5));
        cost.begin_turn();
        told(&mut cost, 0.75, "usd");
        told(&mut cost, 9.0, "EUR");
        assert_eq!(cost.usd(), (0.25, 0.75));
        cost.begin_turn();
        told(&mut cost, 0.25, "USD");
        assert_eq!(cost.usd(), (0.25, 1.0), "a sum that shrinks has begun anew");
    }

    #[test]
    fn what_a_resumed_session_cost_before_is_not_counted() {
        let mut cost = Cost { is_resumed: true, ..Cost::default() };
        told(&mut cost, 5.0, "USD");
        assert_eq!(cost.usd(), (0.0, 0.0));
        told(&mut cost, 5.5, "USD");
        assert_eq!(cost.usd(), (0.5, 0.5));
    }
}
